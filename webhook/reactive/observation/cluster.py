"""What a round looks at: the cluster as it was known at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.catalog.pod_makers import PodMaker
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
from webhook.model.rightsizing.workload_types import is_short, type_of
from webhook.reactive.observation.documents import SeenReactive, StoredRecommendation
from webhook.reactive.observation.kinds import SeenWorkload
from webhook.reactive.observation.pods import SeenPod
from webhook.store.gpu_objects import NO_ROOM_GIVEN, SeenOwner
from webhook.store.object_metadata import OwnerRef

_MADE_BY_OTHERS = ("Job", "ReplicaSet.apps")
_NO_WORKLOADS: Mapping[str, SeenWorkload] = {}


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    Nothing in it changes any more; the next round takes the next one.

    *workloads* are by the type of their kind, as `scope.workloadTypes` names it, then like pods,
    replica sets and recommendations by their key `namespace/name`; of kinds that no policy needs
    there are none. *unknown_kinds* says of some other types why nothing is known of them (yet):
    about their workloads nothing can be said at all. *makers* say of types beyond the nine what
    becomes of an evicted pod.
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
    makers: Mapping[str, PodMaker] = field(default_factory=dict)

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

    def workload(self, type_: str, namespace: str, name: str) -> SeenWorkload | None:
        return self.workloads.get(type_, _NO_WORKLOADS).get(f"{namespace}/{name}")

    def maker_of(self, workload: SeenWorkload) -> PodMaker | None:
        """What becomes of its pods; None for the nine kinds."""
        return None if is_short(workload.type) else self.makers.get(workload.type, PodMaker())

    def owner_of(self, pod: SeenPod) -> SeenWorkload | None:
        """
        The workload that *pod* is of; None if it is of none that is known.

        A reference counts where the very object that it means is there, by its uid: anybody may
        write a name into a pod. A ReplicaSet that a Deployment or another of the nine kinds keeps
        is never a workload itself. Neither is a Job that one of them has made, for whatever
        policy: it will not be made again.
        """
        owner = pod.owner
        if owner is None:
            return None
        namespace = pod.namespace
        if (owner.group, owner.kind) == ("apps", "ReplicaSet"):
            replica_set = self.replica_sets.get(f"{namespace}/{owner.name}")
            if replica_set is None or replica_set.uid != owner.uid:
                return None
            above = replica_set.owner
            if above is not None:
                found = self._owner(namespace, above)
                if found is not None or _is_short(above):
                    return found
        found = self._owner(namespace, owner)
        if found is not None and is_made_by_another(found):
            assert found.owner is not None
            return self._owner(namespace, found.owner)
        return found

    def _owner(self, namespace: str, owner: OwnerRef) -> SeenWorkload | None:
        found = self.workload(type_of(owner.group, owner.kind), namespace, owner.name)
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
    """Whether it is a Job or ReplicaSet that a workload of the nine kinds makes anew each time."""
    owner = workload.owner
    return workload.type in _MADE_BY_OTHERS and owner is not None and _is_short(owner)


def _is_short(owner: OwnerRef) -> bool:
    return is_short(type_of(owner.group, owner.kind))


def _order(key: DocumentKey) -> tuple[str, str, str]:
    return key.kind, key.namespace, key.name
