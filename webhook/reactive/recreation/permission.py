"""
May a pod be evicted now, so that the next one is given what is recommended?

Pure. What the webhook would write into a pod decides whether it is due: where that is nothing, it
has what it should. So whatever is rounded, skipped or not allowed is so in both places, and no pod
is evicted to come back as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from webhook.model.rightsizing.controls import NO_CONTROLS, Controls
from webhook.model.rightsizing.durations import format_duration
from webhook.model.rightsizing.injections import GpuRoom, Injection, injection_of
from webhook.model.rightsizing.policies import Mode, Strategy
from webhook.model.rightsizing.recommendations import Eviction, GpuRecommendation
from webhook.model.rightsizing.times import format_time, time_after
from webhook.policy.gpu.injection import GpuPlan, plan_injection
from webhook.reactive.decisions.amounts import format_gpus, sum_of
from webhook.reactive.decisions.texts import name_pods
from webhook.reactive.observation.kinds import SeenWorkload
from webhook.reactive.observation.pods import SeenPod
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.recreation.next_pod import amounts_after, as_written
from webhook.reactive.recreation.schedule import is_open, next_open
from webhook.store.gpu_objects import NO_ROOM_GIVEN

# To a Job, an evicted pod is one that failed; it makes another as often as its backoffLimit says.
# What an AnalysisRun measures would be over: it makes none.
_JOBS = frozenset({"Job", "CronJob"})
_NOT_RECREATED = frozenset({"AnalysisRun"})

# These make the next pod when the old one is gone, and its quota is free again. All others make it
# while the old one ends.
_ONE_AFTER_THE_OTHER = frozenset({"StatefulSet", "DaemonSet", "StrimziPodSet"})

# An eviction that was asked for is at work after that; or whoever asked was cut off.
_UNDER_WAY = timedelta(minutes=1)
# How long the next pod of a workload may take whose number of pods is not known.
_REPLACED = timedelta(minutes=15)
# A new pod that was not given its amount: the webhook was away, or a policy forbids it. Each time
# it is tried again, twice as long is waited, up to a day.
_FIRST_WAIT = timedelta(minutes=10)
_LONGEST_WAIT = timedelta(days=1)
_MAX_DOUBLINGS = 8
# Should clocks differ so much that new pods look old: so many evictions of each pod at most.
_MAX_ROUNDS_OF_PODS = 3

_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Surroundings:
    """
    What is around a workload.

    *strategies* are those that its selected amounts come by. *obstacle* is what keeps every pod
    where it is (no webhook that answers, ...). *between* are the controls of the ReplicaSet or Job
    of a pod, by its name; *room* is None while it isn't known. *resizer* is the autoscaler that
    goes by its GPUs, ``""`` for none.
    """

    strategies: tuple[Strategy, ...] = ()
    obstacle: str = ""
    namespace: Controls = NO_CONTROLS
    between: Mapping[str, Controls] = field(default_factory=dict)
    room: GpuRoom | None = NO_ROOM_GIVEN
    resizer: str = ""


@dataclass(frozen=True, slots=True)
class Recreation:
    """
    The *pod* that may be evicted now, or the *reasons* why none is. Neither: nobody is due.

    Both: the last try was refused.
    """

    pod: SeenPod | None = None
    reasons: tuple[str, ...] = ()
    # That pod was made after what is selected, and should have had it.
    is_miss: bool = False


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
    holds = [
        *_holds(observed.workload, around, now),
        *_unsettled(observed, eviction, now),
        *_unavailable(observed, around.strategies),
    ]
    if holds:
        return Recreation(reasons=(*holds, *obstacles))
    reasons: list[str] = []
    for pod in due:
        is_miss = _is_miss(pod, eviction, len(due))
        reason = _unready(pod, around.strategies, now) or (
            _too_soon(pod, eviction, now) if is_miss and eviction is not None else ""
        )
        if not reason:
            refused = (_refusal(eviction),) if eviction is not None and eviction.problem else ()
            return Recreation(pod, refused, is_miss)
        reasons.append(reason)
    return Recreation(reasons=(*_shorten(reasons), *obstacles))


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


def _refusal(eviction: Eviction) -> str:
    return f"pod {eviction.pod} was not evicted: {eviction.problem}"


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
            plan = plan_injection(pod.manifest, own)
            reason = plan.reason
            if plan.changes:
                has_template = workload.rollout is not None
                reason = _pointless(pod, plan, own, has_template=has_template) or _again(
                    observed, recommendation, pod, plan
                )
            found[alike] = bool(plan.changes) and not reason, reason
        is_due, reason = found[alike]
        if is_due:
            due.append(pod)
        elif reason:
            obstacles.setdefault(reason, []).append(pod.pod_name)
    return due, tuple([f"{name_pods(names)}: {reason}" for reason, names in obstacles.items()])


def _pointless(pod: SeenPod, plan: GpuPlan, injection: Injection, *, has_template: bool) -> str:
    """Why the successor of *pod* would not have what *plan* makes of it; ``""`` if it would."""
    manifest = as_written(pod.manifest, has_template=has_template)
    if manifest is pod.manifest:
        return ""
    theirs = plan_injection(manifest, injection)
    allocation = pod.allocation
    written = {name: allocation.own(name) for name in allocation.amounts}
    if amounts_after(theirs, manifest, written) == amounts_after(
        plan, pod.manifest, allocation.amounts
    ):
        return ""
    reason = theirs.reason or "it would be made with another amount"
    return f"the next pod would not be given what is recommended: {reason}"


def _again(
    observed: ObservedWorkload, recommendation: GpuRecommendation, pod: SeenPod, plan: GpuPlan
) -> str:
    """Why what *plan* takes away would be asked for again at once; ``""`` if it would not."""
    now = {name: Fraction(amount or 0) for name, amount in pod.allocation.amounts.items()}
    after = amounts_after(plan, pod.manifest, pod.allocation.amounts)
    if sum(after.values()) >= sum(now.values()):
        return ""
    status = recommendation.status
    for policy in observed.policies:
        state = status.state_of(policy.key)
        if state is None or not state.recommendation:
            continue
        total = sum([after.get(name, Fraction(0)) for name in state.recommendation])
        for signal, seen in state.signals.items():
            evaluation = seen.upsize or seen.scale_back
            usage = None if evaluation is None else evaluation.usage
            percent = policy.signals[signal].upsize.threshold_percent
            if usage is not None and Fraction(usage) * _PERCENT > total * percent:
                return (
                    f"{signal} uses {format_gpus(usage)}, above {percent} % of what it would have:"
                    " more would be asked for again"
                )
    return ""


def _room_for(pod: SeenPod, workload: SeenWorkload, room: GpuRoom) -> GpuRoom:
    """What the namespace leaves to the pod that comes after *pod*."""
    if room.free is None or workload.kind not in _ONE_AFTER_THE_OTHER:
        return room
    has = sum_of([amount for amount in pod.allocation.amounts.values() if amount is not None])
    return replace(room, free=room.free + Fraction(has))


# --- what holds the whole workload ---


def _holds(workload: SeenWorkload, around: Surroundings, now: datetime) -> Iterator[str]:
    if around.obstacle:
        yield around.obstacle
    if workload.kind in _NOT_RECREATED:
        yield f"pods of {workload.kind} are not made again"
    for strategy in around.strategies:
        if not strategy.eviction:
            yield f"{strategy.key} does not enable podEviction"
        if workload.kind in _JOBS and not strategy.evicts_jobs:
            yield f"{strategy.key} does not let pods of Jobs be evicted"
        if around.resizer and _minds(strategy, around.resizer):
            yield f"{around.resizer} goes by its GPUs"
        if not is_open(strategy, now):
            opens = next_open(strategy, now)
            until = f"before {format_time(opens)}" if opens else "at any time"
            yield f"{strategy.key} does not let pods be recreated {until}"


def _minds(strategy: Strategy, resizer: str) -> bool:
    is_vertical = resizer.startswith("VerticalPodAutoscaler")
    return strategy.safety.vpa if is_vertical else strategy.safety.hpa


def _unsettled(
    observed: ObservedWorkload, eviction: Eviction | None, now: datetime
) -> Iterator[str]:
    """Whether the pod that was evicted last is replaced, and the new one ready."""
    ending = [pod.pod_name for pod in observed.pods if pod.is_terminating]
    if ending:
        yield f"{name_pods(ending)} is being deleted"
    if eviction is None:
        return
    age = now - eviction.at
    if eviction.problem and not eviction.retried:
        yield f"{_refusal(eviction)}; the strategy does not let it be tried again"
    is_there = any(pod.uid == eviction.uid for pod in observed.pods)
    if is_there and not eviction.problem:
        if timedelta(0) <= age < _UNDER_WAY:
            yield f"pod {eviction.pod} was evicted a moment ago"
        return
    present = [pod for pod in observed.pods if pod.is_evidence]
    unready = [pod.pod_name for pod in present if pod.ready_since is None]
    if unready:
        # Also where the last eviction was refused: the one before it may not be.
        after = "a refused eviction" if eviction.problem else f"the eviction of pod {eviction.pod}"
        yield f"{name_pods(unready)} is not ready, after {after}"
    if eviction.problem:
        return
    rollout = observed.workload.rollout
    wanted = eviction.pods if rollout is None else min(eviction.pods, rollout.replicas)
    # Of others than these it isn't known whether they still want as many pods.
    is_awaited = rollout is not None or age < _REPLACED
    if len(present) < wanted and is_awaited:
        yield f"pod {eviction.pod} was evicted and is not replaced yet"


def _unavailable(observed: ObservedWorkload, strategies: Iterable[Strategy]) -> Iterator[str]:
    """
    What the workload itself and the strategies say about pods that are away.

    Only a pod that is ready is ever evicted, so that each eviction makes one more of them.
    """
    workload = observed.workload
    present = [pod for pod in observed.pods if pod.is_evidence]
    ready = [pod for pod in present if pod.ready_since is not None]
    rollout = workload.rollout
    wanted = len(present) if rollout is None else max(rollout.replicas, len(present))
    away = wanted - len(ready)
    safety = [strategy.safety for strategy in strategies]
    if away and any(each.owner_pods_ready for each in safety):
        yield f"{away} of its {wanted} pods are not ready"
    if not any(each.respect_max_unavailable for each in safety):
        return
    if rollout is not None:
        allowed = rollout.unavailable_allowed
        if allowed is not None and away + 1 > allowed:
            yield f"{away} of its {wanted} pods are not ready, and maxUnavailable is {allowed}"
    elif away and workload.kind not in _JOBS:
        # Nobody knows how many the others can do without.
        yield f"{away} of its {wanted} pods are not ready, and {workload.kind} gives no number"


# --- what holds one pod ---


def _unready(pod: SeenPod, strategies: Iterable[Strategy], now: datetime) -> str:
    needed = max([strategy.safety.min_ready for strategy in strategies], default=timedelta(0))
    if pod.ready_since is None:
        return f"pod {pod.pod_name} is not ready"
    if now - pod.ready_since < needed:
        return f"pod {pod.pod_name} is not ready for {format_duration(needed)} yet"
    return ""


def _is_miss(pod: SeenPod, eviction: Eviction | None, due: int) -> bool:
    """Whether *pod* was made after what is selected, and should have had it."""
    if eviction is None:
        return False
    is_new = pod.started is not None and pod.started > eviction.since
    return is_new or eviction.count >= _MAX_ROUNDS_OF_PODS * max(eviction.pods, due)


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
