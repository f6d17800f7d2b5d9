"""
`GpuRecommendation`: what was found out about one workload, and what its pods are to be given.

The reconciler alone writes it; the webhook and people read it. `spec` names the workload and never
changes, everything else is `status`. Amounts are decimals in whole GPUs, and in the object text
with at most six places; durations are Go's, times RFC 3339.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any

from pydantic import ConfigDict, PlainSerializer, PlainValidator, TypeAdapter
from pydantic.alias_generators import to_camel

from webhook.errors import SpecError
from webhook.model.kinds import POLICY_GROUP, VERSION
from webhook.model.rightsizing.amounts import format_amount, read_amount
from webhook.model.rightsizing.durations import format_duration, read_duration
from webhook.model.rightsizing.partial import Location, read_all, read_parts
from webhook.model.rightsizing.policies import Direction, DocumentKey, Mode, Scheduler, Signal
from webhook.model.rightsizing.times import format_time, read_time

API_VERSION = f"{POLICY_GROUP}/{VERSION}"
KIND = "GpuRecommendation"
PLURAL = "gpurecommendations"

# Kubernetes: "Object Names and IDs", DNS subdomain names.
NAME_MAX_CHARS = 253
# A column of `kubectl get`: longer ones push the rest off the screen.
WHY_MAX_CHARS = 120
# So many of the pods without samples are named: with ten thousand pods, all of them would be more
# than etcd takes of one object.
MISSING_LISTED = 10
# Each workload of a round is looked up under its name several times.
_REMEMBERED = 8192


class Change(StrEnum):
    """What an evaluation came to."""

    UPSIZE = "upsize"
    SCALE_BACK = "scaleBack"
    # The recommendation of before stays.
    KEPT = "kept"
    # There is no recommendation.
    NONE = "none"


# --- texts of the object ---


def _or_read(read: Callable[[Any], Any], known: type) -> PlainValidator:
    """What is there already is taken as it is; nothing else looks at it again."""
    return PlainValidator(lambda value: value if isinstance(value, known) else read(value))


Amount = Annotated[Decimal, _or_read(read_amount, Decimal), PlainSerializer(format_amount)]
Duration = Annotated[
    timedelta, _or_read(read_duration, timedelta), PlainSerializer(format_duration)
]
Time = Annotated[datetime, _or_read(read_time, datetime), PlainSerializer(format_time)]


# --- the object ---


class _Wire:
    """In the object, names are in camelCase; what a later version added is left out."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(alias_generator=to_camel, populate_by_name=False)


@dataclass(frozen=True, slots=True)
class WorkloadRef(_Wire):
    """The workload: `spec.workloadRef`. Its namespace is that of the recommendation."""

    api_version: str
    kind: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class BaselineAmount(_Wire):
    """What a container had before its first upsize; *origin* says where that was seen."""

    amount: Amount
    since: Time
    origin: str = ""


@dataclass(frozen=True, slots=True)
class SignalEvaluation(_Wire):
    """
    One signal looked at over one of its windows.

    *usage* and *allocation* are those of *pod*, the hottest one that counts; None where no pod
    had samples. *candidate* is the total that this asks for, None if it asks for nothing.
    *missing* names the first pods that had no samples, *missing_count* is how many there were.
    """

    threshold_percent: int
    window: Duration
    usage: Amount | None = None
    allocation: Amount | None = None
    pod: str = ""
    candidate: Amount | None = None
    missing: tuple[str, ...] = ()
    missing_count: int = 0


@dataclass(frozen=True, slots=True)
class SignalState(_Wire):
    """One signal, looked at in both directions; *wants* is what it asked for."""

    wants: Direction | None = None
    upsize: SignalEvaluation | None = None
    scale_back: SignalEvaluation | None = None


@dataclass(frozen=True, slots=True)
class PolicyState(_Wire):
    """
    What one policy made of the workload.

    *baseline*, *current* (of the pod that was looked at) and *recommendation* are by container.
    The recommendation is before the bounds of a strategy and empty if there is none; *total* is
    its sum. *driver* is None for a recommendation whose signal is not known. *reasons* say why
    nothing more came of it.
    """

    policy: DocumentKey
    generation: int = 0
    baseline: Mapping[str, BaselineAmount] = field(default_factory=dict)
    current: Mapping[str, Amount] = field(default_factory=dict)
    recommendation: Mapping[str, Amount] = field(default_factory=dict)
    total: Amount | None = None
    driver: Signal | None = None
    change: Change = Change.NONE
    signals: Mapping[Signal, SignalState] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    evaluated_at: Time | None = None


@dataclass(frozen=True, slots=True)
class Selected(_Wire):
    """
    What counts for pods of the workload, and all that the webhook must know to write it.

    *amounts* are by container, exact, within the strategy's bounds and before they are rounded
    for writing; *ceilings* are those of the strategy, which count after that as well. *baselines*
    are what they were computed from: a pod that comes with another amount is its owner's.
    *policies* says for each whose they are, where that is not *policy*. The rest are facts of
    *strategy* and of the GlobalConfiguration at that time. With mode Recommend, or while automation
    is off, nothing is written. *pause_until* and *skip_containers* are the annotations of the
    workload itself, as written: the webhook sees only those of the pod and of what is between.
    """

    policy: DocumentKey
    strategy: DocumentKey
    amounts: Mapping[str, Amount] = field(default_factory=dict)
    ceilings: Mapping[str, Amount] = field(default_factory=dict)
    baselines: Mapping[str, Amount] = field(default_factory=dict)
    policies: Mapping[str, DocumentKey] = field(default_factory=dict)
    mode: Mode = Mode.ENFORCE
    automation_enabled: bool = True
    scheduler: Scheduler = Scheduler.NONE
    upsize: bool = False
    downsize: bool = False
    set_from_unspecified: bool = False
    queue: str = ""
    set_queue_when_specified: bool = False
    scheduler_name: str = "kai-scheduler"
    respects_pause: bool = True
    respects_quota: bool = True
    pause_until: str | None = None
    skip_containers: str | None = None

    @property
    def total(self) -> Decimal | None:
        return _sum(self.amounts)


@dataclass(frozen=True, slots=True)
class Eviction(_Wire):
    """
    The evictions for what is selected now. The last one was asked for *at* that time, of *pod*
    with *uid*, out of so many *pods*.

    Pods that are made after *since* are to have what is selected. *count* is of the evictions
    since then, *misses* of those that were for pods made after it, which had not been given it.
    *problem* is why the last one was refused, empty if it was not; *retried* is whether it is asked
    for again then. *amounts* are what was to be written, by container, after rounding.
    """

    pod: str
    uid: str
    at: Time
    since: Time
    pods: int = 0
    count: int = 0
    misses: int = 0
    problem: str = ""
    retried: bool = True
    amounts: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatusCondition(_Wire):
    """As metav1.Condition; *status* is True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition_time: Time | None = None


@dataclass(frozen=True, slots=True)
class RecommendationStatus(_Wire):
    """
    All that was found out. *policies* are all that concern the workload, the first first.

    *written* are amounts that pods were given, by container, the last one last, after rounding: a
    pod that has one of them did not get it from its owner, whatever became of the note on it.
    """

    evaluated_at: Time | None = None
    policies: tuple[PolicyState, ...] = ()
    selected: Selected | None = None
    # Why nothing happens to the pods although something is selected, or why nothing is.
    reasons: tuple[str, ...] = ()
    conditions: tuple[StatusCondition, ...] = ()
    # None while no pod was evicted.
    eviction: Eviction | None = None
    written: Mapping[str, tuple[Amount, ...]] = field(default_factory=dict)

    def state_of(self, policy: DocumentKey) -> PolicyState | None:
        return next((state for state in self.policies if state.policy == policy), None)


@dataclass(frozen=True, slots=True)
class GpuRecommendation:
    """
    One object. *uid* and *resource_version* are empty for one that is not stored yet.

    *unread* is what of its status couldn't be read, and counts as not there. *other_name* is its
    name where that is not the one for its workload: somebody else made it.
    """

    namespace: str
    workload: WorkloadRef
    status: RecommendationStatus = RecommendationStatus()
    uid: str = ""
    resource_version: str = ""
    unread: tuple[SpecError, ...] = ()
    other_name: str = ""

    @property
    def name(self) -> str:
        return self.other_name or recommendation_name(self.workload.kind, self.workload.name)


@lru_cache(maxsize=_REMEMBERED)
def recommendation_name(kind: str, name: str) -> str:
    """
    The name of the recommendation of a workload: `<kind>.<name>` in lower case.

    One that would be too long for an object ends with a hash instead.
    """
    whole = f"{kind}.{name}".lower()
    if len(whole) <= NAME_MAX_CHARS:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:10]
    return f"{whole[: NAME_MAX_CHARS - len(digest) - 1].rstrip('.-')}-{digest}"


# --- to JSON and back ---

_STATUS: TypeAdapter[RecommendationStatus] = TypeAdapter(RecommendationStatus)
_WORKLOAD: TypeAdapter[WorkloadRef] = TypeAdapter(WorkloadRef)


def write_recommendation(recommendation: GpuRecommendation) -> dict[str, Any]:
    """The whole manifest: that of `write_empty`, and the status."""
    status = write_status(recommendation.workload, recommendation.status)
    return {**write_empty(recommendation), "status": status}


def write_empty(recommendation: GpuRecommendation) -> dict[str, Any]:
    """
    The manifest without the status, owned by the workload if its uid is known.

    The API server takes the status through its subresource only.
    """
    workload = recommendation.workload
    metadata: dict[str, Any] = {
        "name": recommendation.name,
        "namespace": recommendation.namespace,
    }
    if recommendation.resource_version:
        metadata["resourceVersion"] = recommendation.resource_version
    if recommendation.uid:
        metadata["uid"] = recommendation.uid
    if workload.uid:
        metadata["ownerReferences"] = [
            {
                "apiVersion": workload.api_version,
                "kind": workload.kind,
                "name": workload.name,
                "uid": workload.uid,
            }
        ]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": {"workloadRef": _WORKLOAD.dump_python(workload, mode="json", by_alias=True)},
    }


def write_status(workload: WorkloadRef, status: RecommendationStatus) -> dict[str, Any]:
    """The JSON of *status*, with the summary that the columns of `kubectl get` show."""
    written: dict[str, Any] = _STATUS.dump_python(
        status, mode="json", by_alias=True, exclude_none=True
    )
    return {"summary": _summary(workload, status), **written}


def read_recommendation(manifest: Mapping[str, Any]) -> GpuRecommendation:
    """
    What an object says; one without a status has found out nothing yet.

    Of a status that somebody spoilt, what can be read counts, and `unread` tells the rest.

    Raises:
        ExceptionGroup: of SpecError, one for each problem, with its path: *manifest* doesn't say
            of which workload it is.
    """
    metadata = _object(manifest.get("metadata"))
    spec = _object(manifest.get("spec"))
    problems: list[SpecError] = []
    unread: list[SpecError] = []
    reference = _object(spec.get("workloadRef"))
    workload = read_all(_WORKLOAD, reference, "spec.workloadRef", problems)
    found = _object(manifest.get("status"))
    status = read_parts(_STATUS, found, "status", unread, part_of=_part_of)
    if workload is None:
        raise ExceptionGroup("the recommendation can't be read", [*problems, *unread])
    name = str(metadata.get("name", ""))
    return GpuRecommendation(
        namespace=str(metadata.get("namespace", "")),
        workload=workload,
        status=status,
        uid=str(metadata.get("uid", "")),
        resource_version=str(metadata.get("resourceVersion", "")),
        unread=tuple(unread),
        other_name=name if name != recommendation_name(workload.kind, workload.name) else "",
    )


def _part_of(location: Location) -> Location:
    """
    What goes with a problem: what half of it would say wrongly.

    Half of `selected` could be a pause that isn't kept, and half of the amounts of a recommendation
    another total. Of policies, baselines and signals each one stands for itself.
    """
    match location:
        case ("policies", int(), "baseline" | "signals", _, *_):
            return location[:4]
        case ("policies", int(), "policy", *_) | ("policies" | "conditions", int()):
            return location[:2]
        case ("policies", int(), _, *_):
            return location[:3]
        case ("conditions", int(), *_):
            return location[:2]
        case _:
            return location[:1]


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _summary(workload: WorkloadRef, status: RecommendationStatus) -> dict[str, str]:
    """What and why, in a few words each; what is not known is left out."""
    selected = status.selected
    state = status.state_of(selected.policy) if selected is not None else None
    if state is None and status.policies:
        state = status.policies[0]
    told = {
        "workload": str(workload),
        "gpus": _text(_sum(state.current)) if state is not None else "",
        "recommended": _text(selected.total if selected is not None else None),
        "driver": (state.driver or "") if state is not None else "",
        "change": state.change if state is not None else "",
        "why": _why(status, state),
        "policy": str(state.policy) if state is not None else "",
        "mode": selected.mode if selected is not None else "",
    }
    return {key: str(text) for key, text in told.items() if text}


def _why(status: RecommendationStatus, state: PolicyState | None) -> str:
    reasons = (*status.reasons, *(state.reasons if state is not None else ()))
    text = reasons[0] if reasons else ""
    return text if len(text) <= WHY_MAX_CHARS else f"{text[: WHY_MAX_CHARS - 1]}…"


def _sum(amounts: Mapping[str, Decimal]) -> Decimal | None:
    """Of the amounts as they are written, so that it is the same after they were read."""
    written = [Decimal(format_amount(amount)) for amount in amounts.values()]
    return sum(written, start=Decimal()) if written else None


def _text(amount: Decimal | None) -> str:
    return "" if amount is None else format_amount(amount)
