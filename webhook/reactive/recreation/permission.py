"""
May a pod be evicted now, so that the next one is given what is recommended?

Pure. What the webhook would write into a pod decides whether it is due: where that is nothing, it
has what it should. So whatever is rounded, skipped or not allowed is so in both places, and no pod
is evicted to come back as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from webhook.catalog.pod_makers import PodMaker
from webhook.model.rightsizing.controls import NO_CONTROLS, Controls
from webhook.model.rightsizing.durations import format_duration
from webhook.model.rightsizing.injections import GpuRoom, Injection, injection_of
from webhook.model.rightsizing.policies import Mode, Strategy
from webhook.model.rightsizing.recommendations import Eviction, GpuRecommendation
from webhook.model.rightsizing.times import format_time, time_after
from webhook.reactive.decisions.amounts import sum_of
from webhook.reactive.decisions.texts import name_pods
from webhook.reactive.observation.kinds import SeenWorkload
from webhook.reactive.observation.pods import SeenPod
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.recreation.holds import (
    Surroundings,
    passing_holds,
    refusal_of,
    retry_after_of,
    standing_holds,
)
from webhook.reactive.recreation.step import objection, step_of
from webhook.store.gpu_objects import NO_ROOM_GIVEN

# These make the next pod when the old one is gone, and its quota is free again. All others make it
# while the old one ends.
_ONE_AFTER_THE_OTHER = frozenset({"StatefulSet", "DaemonSet", "StrimziPodSet"})

# A new pod that was not given its amount: the webhook was away, or a policy forbids it. Each time
# it is tried again, twice as long is waited, up to a day.
_FIRST_WAIT = timedelta(minutes=10)
_LONGEST_WAIT = timedelta(days=1)
_MAX_DOUBLINGS = 8
# Should clocks differ so much that new pods look old: so many evictions of each pod at most.
_MAX_ROUNDS_OF_PODS = 3


@dataclass(frozen=True, slots=True)
class Recreation:
    """
    The *pod* that may be evicted now, or the *reasons* why none is. Neither: nobody is due.

    Both: the last try was refused. *retry_after* is when to look again where only something that
    passes by itself holds it up: a pod that is not ready, a budget, ...
    """

    pod: SeenPod | None = None
    reasons: tuple[str, ...] = ()
    # A pod that was made after what is selected, and should have had it, was not given it.
    is_miss: bool = False
    retry_after: timedelta | None = None


def may_evict(
    observed: ObservedWorkload,
    recommendation: GpuRecommendation,
    around: Surroundings,
    now: datetime,
) -> Recreation:
    """
    The one pod of *observed* that may be evicted at *now* for what *recommendation* selects.

    A pod without a controller owner is in no `ObservedWorkload`: nobody would make it again.
    """
    injection = injection_of(recommendation)
    if injection is None:
        return Recreation(reasons=tuple(_inactive(recommendation)))
    if around.room is None:
        return Recreation(reasons=("the quotas and LimitRanges of its namespace are not known",))
    due, obstacles = _due(observed, recommendation, injection, around, now)
    if not due:
        return Recreation(reasons=obstacles)
    eviction = recommendation.status.eviction
    holds = list(standing_holds(observed.workload, eviction, around, now))
    passing = list(passing_holds(observed, eviction, around.strategies, now))
    if holds or passing:
        again = None if holds else retry_after_of(around.strategies)
        return Recreation(reasons=(*holds, *passing, *obstacles), retry_after=again)
    reasons: list[str] = []
    waits: list[timedelta] = []
    missed = _missed_last(observed, due, eviction)
    for pod in due:
        # After a miss each further eviction is another try, whichever pod it is of.
        miss = missed or (pod if _is_miss(pod, eviction, len(due)) else None)
        is_miss = miss is not None
        reason = (
            around.last.get(pod.name, "")
            or _role(pod, around.maker)
            or _unready(pod, around.strategies, now)
            or (_too_soon(miss, eviction, now) if miss and eviction is not None else "")
        )
        if not reason:
            refused = (refusal_of(eviction),) if eviction is not None and eviction.problem else ()
            return Recreation(pod, refused, is_miss)
        reasons.append(reason)
        waits += _ready_in(pod, around.strategies, now)
    again = min(waits, default=None)
    return Recreation(reasons=(*_shorten(reasons), *obstacles), retry_after=again)


def noted(
    recreation: Recreation,
    before: Eviction | None,
    pods: int,
    now: datetime,
    amounts: Mapping[str, Decimal],
) -> Eviction:
    """
    What is remembered of the eviction of the pod in *recreation*; written before it.

    *amounts* are what is to be written.
    """
    assert recreation.pod is not None
    pod = recreation.pod
    counts = before or Eviction(pod.pod_name, pod.uid, now, now)
    return replace(
        counts,
        pod=pod.pod_name,
        uid=pod.uid,
        at=now,
        pods=pods,
        count=counts.count + 1,
        misses=counts.misses + recreation.is_miss,
        problem="",
        retried=True,
        amounts=amounts,
    )


# --- which pods are due ---


def _inactive(recommendation: GpuRecommendation) -> Iterator[str]:
    selected = recommendation.status.selected
    if selected is None or not selected.amounts:
        return
    if selected.mode is Mode.RECOMMEND:
        yield "the policy only recommends"
    if not selected.automation_enabled:
        yield "automation is switched off by the GlobalConfiguration"


def _due(
    observed: ObservedWorkload,
    recommendation: GpuRecommendation,
    injection: Injection,
    around: Surroundings,
    now: datetime,
) -> tuple[list[SeenPod], tuple[str, ...]]:
    """
    Pods into which the webhook would write something, and why it wouldn't into others.

    Nor is one due whose successor would not be given the same, or would want more at once.
    """
    workload = observed.workload
    due = []
    obstacles: dict[str, list[str]] = {}
    # Pods of a workload are alike, but for a few while it changes.
    found: dict[tuple[int, Controls], tuple[bool, str]] = {}
    for pod in observed.pods:
        if not pod.is_evidence:
            continue
        between = around.between.get(pod.name, NO_CONTROLS)
        alike = (id(pod.shape), between)
        if alike not in found:
            controls = (workload.template_controls, between, workload.controls, around.namespace)
            room = _room_for(pod, workload, around.room or NO_ROOM_GIVEN)
            own = replace(injection, controls=controls, room=room, now=now)
            step = step_of(pod, own, has_template=workload.rollout is not None)
            reason = step.reason
            if step.is_due:
                reason = objection(observed, recommendation, pod, step)
            found[alike] = step.is_due and not reason, reason
        is_due, reason = found[alike]
        if is_due:
            due.append(pod)
        elif reason:
            obstacles.setdefault(reason, []).append(pod.pod_name)
    return due, tuple([f"{name_pods(names)}: {reason}" for reason, names in obstacles.items()])


def _room_for(pod: SeenPod, workload: SeenWorkload, room: GpuRoom) -> GpuRoom:
    """What the namespace leaves to the pod that comes after *pod*."""
    if room.free is None or workload.type not in _ONE_AFTER_THE_OTHER:
        return room
    has = sum_of([amount for amount in pod.allocation.amounts.values() if amount is not None])
    return replace(room, free=room.free + Fraction(has))


# --- what holds one pod ---


def _ready_in(pod: SeenPod, strategies: Sequence[Strategy], now: datetime) -> list[timedelta]:
    """When to look again at *pod*, if it is not ready for long enough."""
    if pod.ready_since is None:
        return [retry_after_of(strategies)]
    left = pod.ready_since + _min_ready(strategies) - now
    return [left] if left > timedelta(0) else []


def _role(pod: SeenPod, maker: PodMaker | None) -> str:
    """Why *pod*, of this role, would not be made again as if nothing had been."""
    labels = pod.manifest["metadata"].get("labels", {})
    if maker is None or maker.labels.items() <= labels.items():
        return ""
    return f"pod {pod.pod_name} is not evicted: {maker.reason}"


def _unready(pod: SeenPod, strategies: Iterable[Strategy], now: datetime) -> str:
    needed = _min_ready(strategies)
    if pod.ready_since is None:
        return f"pod {pod.pod_name} is not ready"
    if now - pod.ready_since < needed:
        return f"pod {pod.pod_name} is not ready for {format_duration(needed)} yet"
    return ""


def _min_ready(strategies: Iterable[Strategy]) -> timedelta:
    return max([strategy.safety.min_ready for strategy in strategies], default=timedelta(0))


def _missed_last(
    observed: ObservedWorkload, due: Sequence[SeenPod], eviction: Eviction | None
) -> SeenPod | None:
    """
    The newest pod of *observed*, if it was made after what is selected and is *due* all the same.

    Where probes are mutated and pods are not, its predecessors would all be evicted for nothing.
    """
    if eviction is None:
        return None
    made = [pod for pod in observed.pods if pod.is_evidence and _is_new(pod, eviction)]
    newest = max(made, key=lambda pod: (pod.started or eviction.since, pod.name), default=None)
    return newest if newest in due else None


def _is_new(pod: SeenPod, eviction: Eviction) -> bool:
    return pod.started is not None and pod.started > eviction.since


def _is_miss(pod: SeenPod, eviction: Eviction | None, due: int) -> bool:
    """Whether *pod* was made after what is selected, and should have had it."""
    if eviction is None:
        return False
    return _is_new(pod, eviction) or eviction.count >= _MAX_ROUNDS_OF_PODS * max(eviction.pods, due)


def _too_soon(pod: SeenPod, eviction: Eviction, now: datetime) -> str:
    wait = min(_FIRST_WAIT * 2 ** min(eviction.misses, _MAX_DOUBLINGS), _LONGEST_WAIT)
    tried = eviction.at
    # A time of the future is that of another clock; it does not count from there.
    if timedelta(0) <= now - tried < wait:
        return (
            f"pod {pod.pod_name} was made after the last eviction and not given what is"
            f" recommended; it is tried again after {format_time(time_after(tried, wait))}"
        )
    return ""


def _shorten(reasons: Sequence[str]) -> Sequence[str]:
    return [reasons[0], f"and so for {len(reasons) - 1} more"] if len(reasons) > 1 else reasons
