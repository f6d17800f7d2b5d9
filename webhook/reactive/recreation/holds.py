"""
What keeps all pods of a workload where they are: until somebody changes something, or until it
passes by itself. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from webhook.catalog.pod_makers import PodMaker
from webhook.model.rightsizing.controls import NO_CONTROLS, Controls
from webhook.model.rightsizing.injections import GpuRoom
from webhook.model.rightsizing.policies import SafetyChecks, Strategy
from webhook.model.rightsizing.recommendations import Eviction
from webhook.model.rightsizing.times import format_time, time_after
from webhook.model.rightsizing.workload_types import type_of
from webhook.reactive.decisions.texts import name_pods
from webhook.reactive.observation.kinds import SeenWorkload
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.recreation.schedule import is_open, next_open
from webhook.store.gpu_objects import NO_ROOM_GIVEN

# To a Job, an evicted pod is one that failed; it makes another as often as its backoffLimit says.
# What an AnalysisRun measures would be over: it makes none.
_JOBS = frozenset({"Job", "CronJob"})
_NOT_RECREATED = frozenset({"AnalysisRun"})

# An eviction that was asked for is at work after that; or whoever asked was cut off.
_UNDER_WAY = timedelta(minutes=1)
# How long the next pod of a workload may take whose number of pods is not known.
_REPLACED = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """
    What is around a workload.

    *strategies* are those that its selected amounts come by. *obstacle* is what keeps every pod
    where it is (no webhook that answers, ...). *between* are the controls of the ReplicaSet or Job
    of a pod, by its name, and *last* says of pods there that nobody makes them again, and why not;
    *room* is None while it isn't known. *resizer* is the autoscaler that goes by its GPUs, ``""``
    for none. *maker* tells of a kind beyond the nine whether it makes an evicted pod again; None
    for the nine.
    """

    strategies: tuple[Strategy, ...] = ()
    obstacle: str = ""
    namespace: Controls = NO_CONTROLS
    between: Mapping[str, Controls] = field(default_factory=dict)
    last: Mapping[str, str] = field(default_factory=dict)
    room: GpuRoom | None = NO_ROOM_GIVEN
    resizer: str = ""
    maker: PodMaker | None = None


def refusal_of(eviction: Eviction) -> str:
    """That the last eviction was refused, and why."""
    return f"pod {eviction.pod} was not evicted: {eviction.problem}"


# --- until somebody changes something ---


def standing_holds(
    workload: SeenWorkload, eviction: Eviction | None, around: Surroundings, now: datetime
) -> Iterator[str]:
    if around.obstacle:
        yield around.obstacle
    if eviction is not None and eviction.problem and not eviction.retried:
        yield f"{refusal_of(eviction)}; the strategy does not let it be tried again"
    if workload.is_ending:
        yield f"{workload.kind} {workload.workload_name} is being deleted"
    if workload.type in _NOT_RECREATED:
        yield f"pods of {workload.type} are not made again"
    maker = around.maker
    if maker is not None and not maker.recreates:
        reason = maker.reason or f"nobody told that {workload.type} makes an evicted pod again"
        yield f"nothing is evicted of it: {reason}"
    is_job = _is_job(workload, maker)
    for strategy in around.strategies:
        if not strategy.eviction:
            yield f"{strategy.key} does not enable podEviction"
        if is_job and not strategy.evicts_jobs:
            yield f"{strategy.key} does not let pods of Jobs be evicted"
        if around.resizer and _minds(strategy, around.resizer):
            yield f"{around.resizer} goes by its GPUs"
        if not is_open(strategy, now):
            opens = next_open(strategy, now)
            until = f"before {format_time(opens)}" if opens else "at any time"
            yield f"{strategy.key} does not let pods be recreated {until}"


def _is_job(workload: SeenWorkload, maker: PodMaker | None) -> bool:
    """Whether to it, or to whoever made it, an evicted pod is a failure."""
    owner = workload.owner
    if maker is None or owner is None:
        return workload.type in _JOBS
    return type_of(owner.group, owner.kind) in maker.jobs


def _minds(strategy: Strategy, resizer: str) -> bool:
    is_vertical = resizer.startswith("VerticalPodAutoscaler")
    return strategy.safety.vpa if is_vertical else strategy.safety.hpa


# --- until it passes ---


def passing_holds(
    observed: ObservedWorkload,
    eviction: Eviction | None,
    strategies: Iterable[Strategy],
    now: datetime,
) -> Iterator[str]:
    """What only takes time: `retry_after_of` says how long, before it is looked at again."""
    strategies = tuple(strategies)
    yield from _refused_lately(eviction, strategies, now)
    yield from _unsettled(observed, eviction, now)
    yield from _unavailable(observed, strategies)


def retry_after_of(strategies: Iterable[Strategy]) -> timedelta:
    """When what was held up is looked at again: of several strategies the most patient one."""
    waits = [strategy.safety.retry_interval for strategy in strategies]
    return max(waits, default=SafetyChecks().retry_interval)


def _refused_lately(
    eviction: Eviction | None, strategies: Iterable[Strategy], now: datetime
) -> Iterator[str]:
    """Whether the last eviction was refused, and it is too soon to ask again."""
    if eviction is None or not eviction.problem or not eviction.retried:
        return
    wait = retry_after_of(strategies)
    # A time of the future is that of another clock; it does not count from there.
    if timedelta(0) <= now - eviction.at < wait:
        again = format_time(time_after(eviction.at, wait))
        yield f"{refusal_of(eviction)}; it is tried again after {again}"


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
    is_awaited = rollout is not None or timedelta(0) <= age < _REPLACED
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
    allowed = None if rollout is None else rollout.unavailable_allowed
    if allowed is not None:
        if away + 1 > allowed:
            yield f"{away} of its {wanted} pods are not ready, and maxUnavailable is {allowed}"
    elif away and workload.type not in _JOBS:
        # Nobody knows how many it can do without: by its kind, or as updates don't roll.
        yield f"{away} of its {wanted} pods are not ready, and {workload.type} gives no number"
