"""What is kept of the objects that tell what pods are recommended, and what room there is."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec

from webhook.clients.informer import Resource
from webhook.errors import QuantityError
from webhook.mapping.homes import GPU_RESOURCE
from webhook.model.quantity import parse_quantity
from webhook.model.rightsizing.controls import (
    NO_CONTROLS,
    PAUSE_UNTIL,
    SKIP_CONTAINERS,
    Controls,
)
from webhook.model.rightsizing.injections import GpuLimit, GpuRoom, Injection, injection_of
from webhook.model.rightsizing.recommendations import API_VERSION, PLURAL, read_recommendation
from webhook.store.object_metadata import Metadata, OwnerRef, controller_of

log = logging.getLogger("gatewright.recommendations")

RECOMMENDATIONS = Resource(
    f"{PLURAL}.policy.gatewright.io", f"/apis/{API_VERSION}/{PLURAL}", optional=True
)
REPLICA_SETS = Resource("replicasets.apps", "/apis/apps/v1/replicasets", metadata_only=True)
JOBS = Resource("jobs.batch", "/apis/batch/v1/jobs", metadata_only=True)
QUOTAS = Resource("resourcequotas", "/api/v1/resourcequotas")
LIMIT_RANGES = Resource("limitranges", "/api/v1/limitranges")

# The keys under which a quota counts whole GPUs.
_QUOTA_KEYS = (f"requests.{GPU_RESOURCE}", f"limits.{GPU_RESOURCE}")
_LIMIT_TYPES = ("Container", "Pod")

NO_ROOM_GIVEN = GpuRoom()


@dataclass(frozen=True, slots=True)
class SeenRecommendation:
    """One recommendation, as an injection; None where it is for nobody."""

    name: str
    resource_version: str
    injection: Injection | None

    @property
    def change_key(self) -> object:
        return self.injection


@dataclass(frozen=True, slots=True)
class SeenOwner:
    """
    Of a ReplicaSet or Job its own owner, and by which annotations its pods are left alone. One that
    *is_ending* is being deleted.
    """

    name: str
    resource_version: str
    uid: str
    owner: OwnerRef | None
    controls: Controls
    is_ending: bool = False

    @property
    def change_key(self) -> object:
        return self.uid, self.owner, self.controls, self.is_ending


@dataclass(frozen=True, slots=True)
class SeenRoom:
    """What one quota or LimitRange leaves."""

    name: str
    resource_version: str
    room: GpuRoom

    @property
    def change_key(self) -> object:
        return self.room


# --- reading objects ---


class _Owner(msgspec.Struct):
    metadata: Metadata


class _QuotaStatus(msgspec.Struct):
    hard: dict[str, Any] | None = None
    used: dict[str, Any] | None = None


class _Quota(msgspec.Struct):
    metadata: Metadata
    spec: _QuotaStatus | None = None
    status: _QuotaStatus | None = None


class _LimitItem(msgspec.Struct):
    type: str = ""
    min: dict[str, Any] | None = None
    max: dict[str, Any] | None = None
    default: dict[str, Any] | None = None
    default_request: dict[str, Any] | None = msgspec.field(default=None, name="defaultRequest")


class _LimitRangeSpec(msgspec.Struct):
    limits: list[_LimitItem] | None = None


class _LimitRange(msgspec.Struct):
    metadata: Metadata
    spec: _LimitRangeSpec | None = None


class _RecommendationStatus(msgspec.Struct):
    selected: Any = None


class _Recommendation(msgspec.Struct):
    metadata: Metadata
    spec: Any = None
    status: _RecommendationStatus | None = None


_OWNER = msgspec.json.Decoder(_Owner)
_QUOTA = msgspec.json.Decoder(_Quota)
_LIMIT_RANGE = msgspec.json.Decoder(_LimitRange)
_RECOMMENDATION = msgspec.json.Decoder(_Recommendation)


def decode_recommendation(raw: bytes) -> SeenRecommendation:
    read = _RECOMMENDATION.decode(raw)
    metadata = read.metadata
    # The rest of the status is for people, and long.
    selected = None if read.status is None else read.status.selected
    manifest = {
        "metadata": {"namespace": metadata.namespace},
        "spec": read.spec,
        "status": {} if selected is None else {"selected": selected},
    }
    injection = None
    try:
        found = read_recommendation(manifest)
        injection = injection_of(found)
        unread: Sequence[Exception] = found.unread
    except ExceptionGroup as group:
        unread = group.exceptions
    if unread:
        # Somebody else wrote into it. Nobody's pods wait for that one.
        log.warning(
            "a recommendation can't be read",
            extra={"recommendation": metadata.key, "problem": str(unread[0])[:300]},
        )
    return SeenRecommendation(metadata.key, metadata.resource_version, injection)


def decode_owner(raw: bytes) -> SeenOwner:
    metadata = _OWNER.decode(raw).metadata
    annotations = metadata.annotations or {}
    is_controlled = PAUSE_UNTIL in annotations or SKIP_CONTAINERS in annotations
    controls = Controls.of(annotations) if is_controlled else NO_CONTROLS
    owner = controller_of(metadata.owners)
    return SeenOwner(
        metadata.key,
        metadata.resource_version,
        metadata.uid,
        owner,
        controls,
        metadata.deleted is not None,
    )


def decode_quota(raw: bytes) -> SeenRoom:
    """
    What a quota leaves. One for some of the namespace's pods only counts for all: that a pod gets
    less than it could is better than that it isn't made.
    """
    read = _QUOTA.decode(raw)
    # Before it was counted for the first time, a quota has no status.
    hard = (read.status and read.status.hard) or (read.spec and read.spec.hard) or {}
    used = (read.status and read.status.used) or {}
    free = [
        most - (_amount(used.get(key)) or 0)
        for key in _QUOTA_KEYS
        if (most := _amount(hard.get(key))) is not None
    ]
    room = GpuRoom(min(free)) if free else NO_ROOM_GIVEN
    return SeenRoom(read.metadata.key, read.metadata.resource_version, room)


def decode_limits(raw: bytes) -> SeenRoom:
    read = _LIMIT_RANGE.decode(raw)
    limits = tuple(
        [
            GpuLimit(item.type, _of(item.min), _of(item.max))
            for item in (read.spec.limits if read.spec else None) or ()
            if item.type in _LIMIT_TYPES
            and any(
                _of(part) is not None
                for part in (item.min, item.max, item.default, item.default_request)
            )
        ]
    )
    room = GpuRoom(limits=limits) if limits else NO_ROOM_GIVEN
    return SeenRoom(read.metadata.key, read.metadata.resource_version, room)


def gather_rooms(found: Iterable[SeenRoom]) -> Mapping[str, GpuRoom]:
    """What the quotas and LimitRanges of a namespace leave together, by its name."""
    rooms: dict[str, GpuRoom] = {}
    for seen in found:
        if seen.room != NO_ROOM_GIVEN:
            namespace = seen.name.partition("/")[0]
            rooms[namespace] = _together(rooms.get(namespace, NO_ROOM_GIVEN), seen.room)
    return rooms


def _together(one: GpuRoom, other: GpuRoom) -> GpuRoom:
    free = [room.free for room in (one, other) if room.free is not None]
    return GpuRoom(min(free, default=None), (*one.limits, *other.limits))


def _of(amounts: Mapping[str, Any] | None) -> Fraction | None:
    return _amount((amounts or {}).get(GPU_RESOURCE))


def _amount(value: Any) -> Fraction | None:
    try:
        return None if value is None else parse_quantity(value)
    except QuantityError:
        return None
