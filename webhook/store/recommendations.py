"""
What is recommended to the workload of a pod, found without asking anybody.

Watched are the recommendations themselves, and what stands between a pod and its workload, as far
as a pod does not tell: ReplicaSets and Jobs, of which only the metadata is sent. A quota or a
LimitRange tells what the namespace leaves. None of it is followed before there is a first
recommendation.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from webhook.clients.informer import Informer, Timing
from webhook.clients.kube import KubeClient
from webhook.model.rightsizing.controls import NO_CONTROLS, Controls
from webhook.model.rightsizing.injections import GpuRoom, Injection
from webhook.model.rightsizing.recommendations import recommendation_name
from webhook.store.gpu_objects import (
    JOBS,
    LIMIT_RANGES,
    NO_ROOM_GIVEN,
    QUOTAS,
    RECOMMENDATIONS,
    REPLICA_SETS,
    SeenOwner,
    SeenRecommendation,
    SeenRoom,
    decode_limits,
    decode_owner,
    decode_quota,
    decode_recommendation,
    gather_rooms,
)
from webhook.store.object_metadata import OwnerRef, Reference, controller_of
from webhook.telemetry.metrics import Metrics

# What a Deployment, or Argo's Rollout, puts at the end of its ReplicaSets' names.
_HASH_LABELS: Mapping[str, tuple[str, str]] = {
    "pod-template-hash": ("apps/v1", "Deployment"),
    "rollouts-pod-template-hash": ("argoproj.io/v1alpha1", "Rollout"),
}
# A CronJob names a Job by the minute for which it is.
_JOB_OF_CRON_JOB = re.compile(r"(.+)-[0-9]+", re.ASCII)


class RecommendationStore:
    """
    The recommendations of a cluster, with what is needed to find the one of a pod.

    *controls_of* gives the annotations of a namespace. While something is not known yet, nothing
    is found.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        metrics: Metrics,
        controls_of: Callable[[str], Controls] = lambda _: NO_CONTROLS,
        timing: Timing | None = None,
    ) -> None:
        self._controls_of = controls_of
        self._wanted = asyncio.Event()
        self._recommendations: Informer[SeenRecommendation] = Informer(
            client,
            RECOMMENDATIONS,
            decode_recommendation,
            metrics=metrics,
            on_change=self._changed,
            timing=timing,
        )
        self._replica_sets, self._jobs = [
            Informer[SeenOwner](client, resource, decode_owner, metrics=metrics, timing=timing)
            for resource in (REPLICA_SETS, JOBS)
        ]
        self._quotas, self._limit_ranges = [
            Informer[SeenRoom](
                client,
                resource,
                decode,
                metrics=metrics,
                on_change=self._rooms_changed,
                timing=timing,
            )
            for resource, decode in ((QUOTAS, decode_quota), (LIMIT_RANGES, decode_limits))
        ]
        # By namespace; None: to be gathered anew.
        self._rooms: Mapping[str, GpuRoom] | None = None

    # -- following --------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recommendations.run(), name="watch recommendations")
            await self._wanted.wait()
            for informer in self._others:
                group.create_task(informer.run(), name=f"watch {informer.resource.name}")

    async def settled(self) -> None:
        """Return when all that is needed now was read once."""
        await self._recommendations.synced.wait()
        if self._wanted.is_set():
            for informer in self._others:
                await informer.synced.wait()

    @property
    def _others(self) -> Sequence[Informer[Any]]:
        return (self._replica_sets, self._jobs, self._quotas, self._limit_ranges)

    def _changed(self) -> None:
        if self._recommendations.objects:
            self._wanted.set()

    def _rooms_changed(self) -> None:
        self._rooms = None

    # -- finding ----------------------------------------------------------------------------

    def find(self, namespace: str, metadata: Mapping[str, Any], now: datetime) -> Injection | None:
        """
        What a pod with this *metadata* is to be given, if it is made in *namespace* *now*.

        Its controller owner tells whose it is; anybody may write that into a pod. What is gained
        by it is the amount that a workload of the same namespace gets.
        """
        if not self._recommendations.objects:
            return None
        if not all(informer.synced.is_set() for informer in self._others):
            return None
        owner = _owner_in(metadata)
        if owner is None:
            return None
        for workload, controls in self._workloads(namespace, owner, metadata.get("labels")):
            injection = self._injection(namespace, workload)
            if injection is not None:
                return replace(
                    injection,
                    controls=(*controls, *injection.controls, self._controls_of(namespace)),
                    room=self._room(namespace),
                    now=now,
                )
        return None

    def _workloads(
        self, namespace: str, owner: OwnerRef, labels: Any
    ) -> Iterator[tuple[OwnerRef, tuple[Controls, ...]]]:
        """Whose a pod of *owner* may be, with the controls of what is between them."""
        between = {
            ("apps", "ReplicaSet"): self._replica_sets,
            ("batch", "Job"): self._jobs,
        }.get((owner.group, owner.kind))
        seen = None if between is None else between.objects.get(f"{namespace}/{owner.name}")
        if seen is not None and seen.uid == owner.uid:
            if seen.owner is not None:
                yield seen.owner, (seen.controls,)
            yield owner, (seen.controls,)
            return
        yield owner, ()
        if between is None:
            return
        # It was made a moment ago, and its pod got here before it.
        if owner.kind == "Job":
            made = _JOB_OF_CRON_JOB.fullmatch(owner.name)
            if made is not None:
                yield OwnerRef("batch/v1", "CronJob", made[1]), ()
            return
        for label, (api_version, kind) in _HASH_LABELS.items():
            text = labels.get(label) if isinstance(labels, dict) else None
            if isinstance(text, str) and text and owner.name.endswith(f"-{text}"):
                yield OwnerRef(api_version, kind, owner.name[: -len(text) - 1]), ()

    def _injection(self, namespace: str, workload: OwnerRef) -> Injection | None:
        key = f"{namespace}/{recommendation_name(workload.kind, workload.name)}"
        seen = self._recommendations.objects.get(key)
        injection = None if seen is None else seen.injection
        if injection is None:
            return None
        known = injection.workload
        found = OwnerRef(known.api_version, known.kind, known.name, known.uid)
        if (found.group, found.kind, found.name) != (workload.group, workload.kind, workload.name):
            return None
        # A workload that was made anew under the old name begins anew.
        if found.uid and workload.uid and found.uid != workload.uid:
            return None
        return injection

    def _room(self, namespace: str) -> GpuRoom:
        if self._rooms is None:
            found = (self._quotas.objects.values(), self._limit_ranges.objects.values())
            self._rooms = gather_rooms(chain.from_iterable(found))
        return self._rooms.get(namespace, NO_ROOM_GIVEN)


def _owner_in(metadata: Mapping[str, Any]) -> OwnerRef | None:
    """The controller owner that the metadata of an object names, as received."""
    try:
        owners = msgspec.convert(metadata.get("ownerReferences"), list[Reference] | None)
    except msgspec.ValidationError:
        return None
    return controller_of(owners)
