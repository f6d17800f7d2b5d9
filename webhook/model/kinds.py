"""Kinds of objects, and the names that policies give to the native ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from webhook.model.names import did_you_mean, nearest

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


def differs_in_case(one: GroupVersionKind, other: GroupVersionKind) -> bool:
    """Whether two kinds of one group and version have one name but for case, and are two."""
    return (
        one != other
        and (one.group, one.version) == (other.group, other.version)
        and one.kind.lower() == other.kind.lower()
    )


# Groups of this form are the Kubernetes project's own: the API server takes a CRD of them only with
# its approval ("api-approved.kubernetes.io"), and none of a group without a dot.
_KUBERNETES_DOMAINS = ("k8s.io", "kubernetes.io")
# What is a workload among these, whatever else they hold now or later.
_KUBERNETES_WORKLOADS = {
    "": frozenset({"Pod", "PodTemplate", "ReplicationController"}),
    "apps": frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    "batch": frozenset({"CronJob", "Job"}),
    # An operator's, older than the rule.
    "sparkoperator.k8s.io": frozenset({"ScheduledSparkApplication", "SparkApplication"}),
}


def why_never_registered(kind: GroupVersionKind) -> str:
    """
    Why the API server is never told to ask us about *kind*, as what follows a "because"; ``""``
    where it may be told to.

    Our own failure must not keep a cluster from starting or healing. Of what is Kubernetes' own
    only workloads are let in, by name: the rest (roles, service accounts, leases, priority classes,
    nodes, ...) the control plane writes as it starts and for everybody, and waits for.

    Whatever judges what a cluster holds (`admission.existing.kinds_to_judge`) leaves out the same:
    a report of what no admission looks at would be of no use.
    """
    if kind.group == POLICY_GROUP:
        return "documents of Gatewright have an entry of their own"
    if not _is_kubernetes_own(kind.group) or kind.kind in _KUBERNETES_WORKLOADS.get(kind.group, ()):
        return ""
    return (
        "of Kubernetes' own kinds only workloads are: the others are written by the control plane,"
        " which has to start while no Gatewright answers"
    )


def _is_kubernetes_own(group: str) -> bool:
    if "." not in group:
        return True
    return any(group == known or group.endswith(f".{known}") for known in _KUBERNETES_DOMAINS)


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


def kinds_named(text: str, known: Iterable[GroupVersionKind]) -> list[str]:
    """How the *known* kinds of the name *text*, in any case, are written: `batch/v1/Job`."""
    return sorted(
        [NATIVE_TYPE_OF.get(kind, str(kind)) for kind in known if kind.kind.lower() == text.lower()]
    )


def unmapped_hint(kind: GroupVersionKind, mapped: Iterable[GroupVersionKind]) -> str:
    """
    The end of a message that *kind* has no mapping: which of the *mapped* kinds may be meant.

    Names of other groups that merely look like it are not proposed: there are dozens of kinds.
    """
    known = list(mapped)
    named = kinds_named(kind.kind, known)
    if named:
        return f"; there is one for {', '.join(named)}"
    siblings = {other.kind: other for other in known if other.group == kind.group}
    near = nearest(kind.kind, siblings)
    if near is not None:
        return f'; did you mean "{NATIVE_TYPE_OF.get(siblings[near], str(siblings[near]))}"?'
    return "; a SpecMapping of yours can say where its parts are"


def type_hint(text: str, known: Iterable[GroupVersionKind]) -> str:
    """The end of a message that *text* names no workload type: a native one, or a *known* kind."""
    named = kinds_named(text, known)
    if named:
        quoted = [f'"{name}"' for name in named]
        return f"; did you mean {' or '.join(quoted)}?"
    return did_you_mean(text, NATIVE_KINDS)
