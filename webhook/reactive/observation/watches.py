"""
What the reconciler follows in a cluster.

The documents and the recommendations always; pods and workloads once there is a policy, and of the
kinds of workloads those that a policy names. Mappings are followed once a policy names a kind that
only they know. A kind that we may not read keeps nothing else from being looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeVar

import msgspec

from webhook.clients.discovery import Discovery, ServedResource
from webhook.clients.informer import Informer, Resource, Seen, Timing
from webhook.clients.kube import KubeClient
from webhook.errors import NotReadyError
from webhook.model.rightsizing.controls import NO_CONTROLS, PAUSE_UNTIL, Controls
from webhook.model.rightsizing.injections import GpuRoom
from webhook.model.rightsizing.policies import ReactivePolicy
from webhook.model.rightsizing.workload_types import is_short
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.documents import (
    PLURALS,
    SeenReactive,
    StoredRecommendation,
    decode_document,
    decode_recommendation,
    document_resource,
)
from webhook.reactive.observation.kinds import (
    WORKLOAD_KINDS,
    SeenWorkload,
    WorkloadKind,
    decode_workload,
)
from webhook.reactive.observation.mapped import (
    MAPPINGS,
    MappedKind,
    SeenMapping,
    decode_mapping,
    mapped_kinds,
)
from webhook.reactive.observation.pods import PODS, SeenPod, decode_pod
from webhook.reactive.observation.resizers import (
    HORIZONTAL,
    VERTICAL,
    SeenResizer,
    decode_horizontal,
    decode_vertical,
)
from webhook.store.gpu_objects import (
    LIMIT_RANGES,
    QUOTAS,
    RECOMMENDATIONS,
    REPLICA_SETS,
    SeenOwner,
    SeenRoom,
    decode_limits,
    decode_owner,
    decode_quota,
    gather_rooms,
)
from webhook.store.object_metadata import Metadata
from webhook.store.served import LOOK_PERIOD_S, ServedGroups
from webhook.telemetry.metrics import Metrics

NAMESPACES = Resource("namespaces", "/api/v1/namespaces", metadata_only=True)

# Who makes a Job, as a Job of theirs is not looked at by itself.
_MAKERS_OF_JOBS = ("CronJob", "AnalysisRun")

# How long the first round waits for kinds that may be out of our reach.
_PATIENCE_S = 10.0

SeenT = TypeVar("SeenT", bound=Seen)


class SeenNamespace(msgspec.Struct, frozen=True, gc=False):
    """Of a Namespace by which annotation its pods are paused."""

    name: str
    resource_version: str
    controls: Controls

    @property
    def change_key(self) -> object:
        return self.controls


class Watches:
    """
    Follows a cluster for the reconciler. `take` gives what is known.

    *policies_changed* is set whenever a document says something else than before, or there is one
    more or less; whoever waits for it clears it. Statuses don't count.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        metrics: Metrics,
        timing: Timing | None = None,
        look_period_s: float = LOOK_PERIOD_S,
    ) -> None:
        """*look_period_s* is after how long it is asked again what kinds are served as."""
        self.policies_changed = asyncio.Event()
        self._client = client
        self._metrics = metrics
        self._timing = timing
        self._documents: dict[str, Informer[SeenReactive]] = {
            kind: self._informer(
                document_resource(kind), partial(self._decode_document, kind=kind), self._changed
            )
            for kind in PLURALS
        }
        # Baselines are in there: that they are gone for a moment is not believed either.
        self._recommendations: Informer[StoredRecommendation] = self._informer(
            replace(RECOMMENDATIONS, optional=False), decode_recommendation
        )
        self._pods: Informer[SeenPod] = self._informer(PODS, decode_pod)
        self._namespaces: Informer[SeenNamespace] = self._informer(NAMESPACES, _decode_namespace)
        self._replica_sets: Informer[SeenOwner] = self._informer(REPLICA_SETS, decode_owner)
        self._rooms: Sequence[Informer[SeenRoom]] = [
            self._informer(QUOTAS, decode_quota),
            self._informer(LIMIT_RANGES, decode_limits),
        ]
        self._resizers: Sequence[Informer[SeenResizer]] = [
            self._informer(HORIZONTAL, decode_horizontal),
            self._informer(VERTICAL, decode_vertical),
        ]
        self._mappings: Informer[SeenMapping] = self._informer(
            MAPPINGS, decode_mapping, self._mappings_changed
        )
        # Of kinds whose plural no mapping tells.
        self._served: ServedGroups[Mapping[str, ServedResource]] = ServedGroups(
            Discovery(client).resources_of, self._unlooked, self._changed, period_s=look_period_s
        )
        # By type; None: to be gathered anew.
        self._mapped: Mapping[str, MappedKind] | None = None
        # Of kinds that some policy named since we began.
        self._kinds: dict[WorkloadKind, Sequence[Informer[SeenWorkload]]] = {}
        # Told when more may be needed.
        self._news = asyncio.Event()

    # -- following --------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Follow the cluster until cancelled."""
        begun: set[Informer[Any]] = set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._served.run(), name="look what is served")
            while True:
                await self._served.complete()
                for informer in self._needed():
                    if informer not in begun:
                        begun.add(informer)
                        group.create_task(informer.run(), name=f"watch {informer.resource.name}")
                await self._news.wait()
                self._news.clear()

    @property
    def obstacle(self) -> str:
        """What is waited for before there is anything to look at; empty once it was seen."""
        waiting = [informer.obstacle for informer in self._required() if informer.obstacle]
        return f"waiting for the cluster: {'; '.join(waiting)}" if waiting else ""

    async def settled(self, patience_s: float = _PATIENCE_S) -> None:
        """
        Return when everything needed was read once.

        What others can go on without is waited for no longer than *patience_s*.
        """
        while self.obstacle:
            for informer in self._required():
                await informer.synced.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                for informer in self._needed():
                    await informer.synced.wait()

    def take(self) -> Cluster:
        """
        What is known now, to keep.

        Raises:
            NotReadyError: it is not enough yet.
        """
        obstacle = self.obstacle
        if obstacle:
            raise NotReadyError(obstacle)
        kinds = self._wanted_kinds()
        unknown = {
            type_: obstacle for type_ in sorted(kinds) if (obstacle := self._obstacle_of(type_))
        }
        mapped = self._mapped_kinds()
        return Cluster(
            documents={seen.key: seen for seen in self._seen_documents()},
            recommendations=dict(self._recommendations.objects),
            workloads={
                type_: {
                    key: seen
                    for informer in self._informers_of(type_)
                    for key, seen in informer.objects.items()
                }
                for type_ in sorted(kinds - unknown.keys())
            },
            makers={type_: mapped[type_].maker for type_ in sorted(kinds & mapped.keys())},
            replica_sets=dict(self._replica_sets.objects),
            pods=dict(self._pods.objects),
            namespaces={
                name: seen.controls
                for name, seen in self._namespaces.objects.items()
                if seen.controls != NO_CONTROLS
            },
            rooms=self._known_rooms(),
            resizers={
                (seen.namespace, seen.target_kind, seen.target): str(seen)
                for informer in self._resizers
                for seen in informer.objects.values()
                if seen.target
            },
            unknown_kinds=unknown,
        )

    # -- what is needed ---------------------------------------------------------------------

    def _required(self) -> Iterator[Informer[Any]]:
        """Without these nothing can be said of any workload."""
        yield from self._documents.values()
        yield self._recommendations
        if self._wanted_kinds():
            yield from (self._pods, self._namespaces, self._replica_sets)

    def _needed(self) -> Iterator[Informer[Any]]:
        yield from self._required()
        kinds = self._wanted_kinds()
        if not all(is_short(type_) for type_ in kinds):
            yield self._mappings
        for type_ in sorted(kinds):
            yield from self._informers_of(type_)
        if kinds:
            yield from self._rooms
            yield from self._resizers

    def _wanted_kinds(self) -> frozenset[str]:
        """The types that policies name, and those that are needed to tell whose pods are."""
        kinds = {
            type_
            for seen in self._seen_documents()
            if isinstance(seen.document, ReactivePolicy)
            for type_ in seen.document.scope.workload_types
        }
        if "Job" in kinds or kinds.intersection(_MAKERS_OF_JOBS):
            kinds |= {"Job", *_MAKERS_OF_JOBS}
        return frozenset(kinds)

    def _kind_of(self, type_: str) -> WorkloadKind | None:
        """Where the objects of a type are; None where that is not known."""
        if is_short(type_):
            return WORKLOAD_KINDS[type_]
        mapped = self._mapped_kinds().get(type_)
        return None if mapped is None else mapped.served(self._served.known)

    def _informers_of(self, type_: str) -> Sequence[Informer[SeenWorkload]]:
        kind = self._kind_of(type_)
        if kind is None:
            return ()
        if kind not in self._kinds:
            self._kinds[kind] = [
                self._informer(resource, partial(decode_workload, kind=kind, version=version))
                for version, resource in zip(kind.versions, kind.resources, strict=True)
            ]
        return self._kinds[kind]

    def _obstacle_of(self, type_: str) -> str:
        """Why nothing is known of the workloads of a type; ``""`` if it is."""
        if self._kind_of(type_) is None:
            if self._mappings.obstacle:
                return self._mappings.obstacle
            if type_ not in self._mapped_kinds():
                return f"no mapping covers {type_}"
            return f"the API server does not serve {type_}"
        informers = self._informers_of(type_)
        return "; ".join([informer.obstacle for informer in informers if informer.obstacle])

    # -- mappings ---------------------------------------------------------------------------

    def _mapped_kinds(self) -> Mapping[str, MappedKind]:
        if self._mapped is None:
            self._mapped = mapped_kinds(self._mappings.objects.values())
        return self._mapped

    def _mappings_changed(self) -> None:
        self._mapped = None
        self._changed()

    def _unlooked(self) -> frozenset[str]:
        mapped = self._mapped_kinds()
        wanted = [mapped[type_] for type_ in self._wanted_kinds() if type_ in mapped]
        return frozenset([version for kind in wanted for version in kind.unlooked()])

    def _known_rooms(self) -> Mapping[str, GpuRoom] | None:
        if not all(informer.synced.is_set() for informer in self._rooms):
            return None
        return gather_rooms(seen for informer in self._rooms for seen in informer.objects.values())

    # -- documents --------------------------------------------------------------------------

    def _seen_documents(self) -> Iterator[SeenReactive]:
        for informer in self._documents.values():
            yield from informer.objects.values()

    def _changed(self) -> None:
        self.policies_changed.set()
        self._news.set()

    def _decode_document(self, raw: bytes, kind: str) -> SeenReactive:
        """As it is now; one that can't be read says what it said before."""
        seen = decode_document(raw, kind)
        before = self._documents[kind].objects.get(seen.name)
        if seen.problem and before is not None and before.uid == seen.uid:
            return msgspec.structs.replace(seen, document=before.document)
        return seen

    def _informer(
        self,
        resource: Resource,
        decode: Callable[[bytes], SeenT],
        on_change: Callable[[], None] = lambda: None,
    ) -> Informer[SeenT]:
        return Informer(
            self._client,
            resource,
            decode,
            metrics=self._metrics,
            on_change=on_change,
            timing=self._timing,
        )


def _decode_namespace(raw: bytes) -> SeenNamespace:
    metadata = _NAMESPACE.decode(raw).metadata
    paused = (metadata.annotations or {}).get(PAUSE_UNTIL)
    controls = NO_CONTROLS if paused is None else Controls(pause_until=paused)
    return SeenNamespace(metadata.name, metadata.resource_version, controls)


class _Namespace(msgspec.Struct, gc=False):
    metadata: Metadata


_NAMESPACE = msgspec.json.Decoder(_Namespace)
