"""What a round looks at: the cluster as it was known at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.model.rightsizing.controls import NO_CONTROLS, Controls
from webhook.model.rightsizing.injections import GpuRoom
from webhook.model.rightsizing.policies import (
    DEFAULT_PRIORITIES,
    DocumentKey,
    GlobalSettings,
    Precedence,
    ReactivePolicy,
    Strategy,
)
from webhook.reactive.observation.documents import SeenReactive, StoredRecommendation
from webhook.reactive.observation.kinds import WORKLOAD_KINDS, SeenWorkload
from webhook.reactive.observation.pods import SeenPod
from webhook.store.gpu_objects import NO_ROOM_GIVEN, SeenOwner
from webhook.store.object_metadata import OwnerRef

_NO_WORKLOADS: Mapping[str, SeenWorkload] = {}


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    Nothing in it changes any more; the next round takes the next one.

    *workloads* are by kind, then like pods, replica sets and recommendations by their key
    `namespace/name`; of kinds that no policy needs there are none. *unknown_kinds* says of some
    others why nothing is known of them (yet): about their workloads nothing can be said at all.
    *rooms* is None while not all quotas and LimitRanges are known. *resizers* are those that go by
    GPUs, by the namespace, kind and name of their workload.
    """

    documents: Mapping[DocumentKey, SeenReactive] = field(default_factory=dict)
    recommendations: Mapping[str, StoredRecommendation] = field(default_factory=dict)
    workloads: Mapping[str, Mapping[str, SeenWorkload]] = field(default_factory=dict)
    replica_sets: Mapping[str, SeenOwner] = field(default_factory=dict)
    pods: Mapping[str, SeenPod] = field(default_factory=dict)
    namespaces: Mapping[str, Controls] = field(default_factory=dict)
    rooms: Mapping[str, GpuRoom] | None = None
    resizers: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    unknown_kinds: Mapping[str, str] = field(default_factory=dict)

    # -- documents --------------------------------------------------------------------------

    @property
    def policies(self) -> tuple[ReactivePolicy, ...]:
        """All that can be read, by kind, namespace and name."""
        found = [each for each in self._said() if isinstance(each, ReactivePolicy)]
        return tuple(sorted(found, key=lambda policy: _order(policy.key)))

    @property
    def strategies(self) -> Mapping[DocumentKey, Strategy]:
        return {each.key: each for each in self._said() if isinstance(each, Strategy)}

    @property
    def settings(self) -> GlobalSettings:
        """Those of the GlobalConfiguration, or the defaults without one."""
        found = [each for each in self._said() if isinstance(each, GlobalSettings)]
        return found[0] if found else GlobalSettings()

    @property
    def precedence(self) -> Precedence:
        """That of the PolicyEvaluation, or the default without one."""
        for seen in self.documents.values():
            if seen.key.kind == "PolicyEvaluation" and isinstance(seen.document, Mapping):
                return seen.document
        return DEFAULT_PRIORITIES

    @property
    def unreadable(self) -> frozenset[DocumentKey]:
        """Documents of which nothing is known but that they are there."""
        return frozenset([key for key, seen in self.documents.items() if seen.document is None])

    def _said(self) -> Iterator[Any]:
        return (seen.document for seen in self.documents.values())

    # -- workloads --------------------------------------------------------------------------

    def workload(self, kind: str, namespace: str, name: str) -> SeenWorkload | None:
        return self.workloads.get(kind, _NO_WORKLOADS).get(f"{namespace}/{name}")

    def owner_of(self, pod: SeenPod) -> SeenWorkload | None:
        """
        The workload that *pod* is of; None if it is of none that is known.

        A reference counts where the very object that it means is there, by its uid: anybody may
        write a name into a pod. A ReplicaSet is never a workload itself. Neither is a Job that a
        CronJob or another supported kind has made, for whatever policy: it will not be made again.
        """
        owner = pod.owner
        if owner is None:
            return None
        namespace = pod.namespace
        if (owner.group, owner.kind) == ("apps", "ReplicaSet"):
            replica_set = self.replica_sets.get(f"{namespace}/{owner.name}")
            if replica_set is None or replica_set.uid != owner.uid or replica_set.owner is None:
                return None
            owner = replica_set.owner
        found = self._owner(namespace, owner)
        if found is not None and is_made_by_another(found):
            assert found.owner is not None
            return self._owner(namespace, found.owner)
        return found

    def _owner(self, namespace: str, owner: OwnerRef) -> SeenWorkload | None:
        if not _is_supported(owner):
            return None
        found = self.workload(owner.kind, namespace, owner.name)
        return found if found is not None and found.uid == owner.uid else None

    # -- around them ------------------------------------------------------------------------

    def controls_of(self, namespace: str) -> Controls:
        """By which annotation the pods of *namespace* are paused."""
        return self.namespaces.get(namespace, NO_CONTROLS)

    def room_of(self, namespace: str) -> GpuRoom | None:
        """What *namespace* leaves to one more pod; None while that isn't known."""
        return None if self.rooms is None else self.rooms.get(namespace, NO_ROOM_GIVEN)

    def resizer_of(self, workload: SeenWorkload) -> str:
        """The autoscaler that goes by the GPUs of *workload*; ``""`` if none does."""
        key = (workload.namespace, workload.kind, workload.workload_name)
        return self.resizers.get(key, "")


def is_made_by_another(workload: SeenWorkload) -> bool:
    """Whether it is a Job that a workload of a supported kind makes anew each time."""
    owner = workload.owner
    return workload.kind == "Job" and owner is not None and _is_supported(owner)


def _is_supported(owner: OwnerRef) -> bool:
    kind = WORKLOAD_KINDS.get(owner.kind)
    return kind is not None and kind.group == owner.group


def _order(key: DocumentKey) -> tuple[str, str, str]:
    return key.kind, key.namespace, key.name
