"""Kinds of objects, and the names that policies give to the native ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

POLICY_GROUP = "policy.gatewright.io"
WORKLOAD_GROUP = "workload.gatewright.io"
VERSION = "v1alpha1"


@dataclass(frozen=True, slots=True, order=True)
class GroupVersionKind:
    """A kind as Kubernetes names it. The group of core kinds is ``""``."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """The kind that *document* names by apiVersion and kind; missing parts are ``""``."""
        api_version = document.get("apiVersion")
        kind = document.get("kind")
        group, _, version = (api_version if isinstance(api_version, str) else "").rpartition("/")
        return cls(group, version, kind if isinstance(kind, str) else "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read `group/version/Kind`, or `v1/Pod` for the core group.

        Raises:
            ValueError: *text* has another shape.
        """
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise ValueError(f"{text!r} is not group/version/Kind (v1/Pod for the core group)")
        return cls("/".join(parts[:-2]), parts[-2], parts[-1])

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"


# Names of native workload types in policies (`spec.workloadType`), and their kinds.
NATIVE_KINDS = {
    "workspace": GroupVersionKind(WORKLOAD_GROUP, VERSION, "Workspace"),
    "training": GroupVersionKind(WORKLOAD_GROUP, VERSION, "Training"),
    "distributed": GroupVersionKind(WORKLOAD_GROUP, VERSION, "DistributedTraining"),
    "inference": GroupVersionKind(WORKLOAD_GROUP, VERSION, "Inference"),
    "distributedInference": GroupVersionKind(WORKLOAD_GROUP, VERSION, "DistributedInference"),
    "nimService": GroupVersionKind(WORKLOAD_GROUP, VERSION, "NIMService"),
}
NATIVE_TYPE_OF = {kind: name for name, kind in NATIVE_KINDS.items()}
