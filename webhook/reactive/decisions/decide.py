"""
What a GPU reactive policy recommends for one workload, and why.

Pure arithmetic: the same policy, state, pods, samples and time give the same answer. The steps:

1. containers and pods that count: in scope, with a GPU, old enough;
2. each signal by itself: does it ask for more or let go of something (`signals.py`);
3. the higher total of the two, whether it may replace what was recommended before, and its
   shares for the containers of the pod that it was computed for (`verdict.py`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from webhook.model.rightsizing.durations import format_duration
from webhook.model.rightsizing.policies import Direction, ReactivePolicy, Signal
from webhook.model.rightsizing.recommendations import Change
from webhook.reactive.decisions.amounts import sum_of
from webhook.reactive.decisions.signals import assess
from webhook.reactive.decisions.states import (
    Evaluation,
    ObservedPod,
    Readings,
    Recommendation,
    SignalReport,
    WorkloadState,
)
from webhook.reactive.decisions.texts import name_pods
from webhook.reactive.decisions.usage import IncludedPod
from webhook.reactive.decisions.verdict import keep, settle

_NOTHING = Decimal(0)


def decide(
    policy: ReactivePolicy,
    state: WorkloadState,
    pods: Sequence[ObservedPod],
    readings: Readings,
    now: datetime,
) -> Evaluation:
    """
    Evaluate *policy* for the workload that *pods* belong to.

    Where a signal could not be asked, everything stays as it is. Where samples are missing, the
    source's rules decide: the previous recommendation stays while a pod differs from its
    baseline, and is withdrawn otherwise.
    """
    state = narrow(state, policy)
    unasked = [
        f"{signal} ({direction})"
        for signal in Signal
        for direction in Direction
        if not readings.is_asked(signal, direction)
    ]
    if unasked:
        reason = f"not evaluated: Prometheus did not answer for {', '.join(unasked)}"
        change = Change.NONE if state.previous is None else Change.KEPT
        silent = {signal: SignalReport() for signal in Signal}
        return Evaluation(
            state.baseline, state.previous, change, silent, (reason,), evaluated=False
        )

    included = included_pods(policy, pods)
    young = {pod.name for pod in pods if _too_young(policy, pod, now)}
    eligible = [pod for pod in included if pod.name not in young]
    findings = {signal: assess(signal, policy, eligible, readings, state) for signal in Signal}
    if pods:
        verdict = settle(findings, state, included, now, is_measured=bool(eligible))
    else:
        # As between an eviction and the next pod: that must not lose what the next pod is to get.
        verdict = keep(state, "there is no pod to look at")
    reasons = [
        *_uncounted(policy, pods, included, young),
        *[reason for finding in findings.values() for reason in finding.reasons],
        *verdict.reasons,
    ]
    return Evaluation(
        baseline=verdict.baseline,
        recommendation=verdict.recommendation,
        change=verdict.change,
        signals={signal: finding.report for signal, finding in findings.items()},
        reasons=tuple(reasons),
    )


# --- which containers and pods count ---


def narrow(state: WorkloadState, policy: ReactivePolicy) -> WorkloadState:
    """Forget containers that are no longer in scope."""
    names = policy.scope.containers
    if not names:
        return state
    baseline = {name: base for name, base in state.baseline.items() if name in names}
    previous = state.previous
    if previous is not None:
        kept = {name: amount for name, amount in previous.containers.items() if name in names}
        previous = Recommendation(kept, previous.driver) if kept else None
    return WorkloadState(baseline, previous)


def included_pods(policy: ReactivePolicy, pods: Iterable[ObservedPod]) -> list[IncludedPod]:
    """The pods that have a container which is in scope and has a GPU, by name."""
    names = policy.scope.containers
    included = []
    for pod in sorted(pods, key=lambda pod: pod.name):
        amounts = {
            name: amount
            for name, amount in pod.allocations.items()
            if amount is not None and (not names or name in names)
        }
        if amounts:
            own = {n: amount or _NOTHING for n, amount in pod.own.items() if n in amounts}
            total = sum_of(amounts.values())
            included.append(IncludedPod(pod.name, amounts, total, own, pod.devices))
    return included


def _too_young(policy: ReactivePolicy, pod: ObservedPod, now: datetime) -> bool:
    """Whether its samples don't count yet. A pod without a start time, or of the future, is."""
    return pod.started is None or now - pod.started < _min_age(policy, pod)


def _min_age(policy: ReactivePolicy, pod: ObservedPod) -> timedelta:
    """
    How old *pod* must be to be measured.

    The window of an upsize must not reach back to a predecessor of the same name, which had less:
    its share of that would be taken for one of what the pod has now. In a scale-back the highest
    value counts, so that a predecessor only holds it.
    """
    if not pod.keeps_name:
        return policy.min_pod_age
    windows = [each.by(Direction.UPSIZE).window for each in policy.signals.values()]
    return max(policy.min_pod_age, *windows)


def _uncounted(
    policy: ReactivePolicy,
    pods: Sequence[ObservedPod],
    included: Sequence[IncludedPod],
    young: Container[str],
) -> Iterator[str]:
    """Why nothing is known of some pods, each group of them in one sentence."""
    unstarted = sorted(pod.name for pod in pods if pod.started is None)
    fresh: dict[timedelta, list[str]] = {}
    for pod in pods:
        if pod.started is not None and pod.name in young:
            fresh.setdefault(_min_age(policy, pod), []).append(pod.name)
    counted = {pod.name for pod in included}
    without = sorted(pod.name for pod in pods if pod.name not in counted)
    if unstarted:
        yield f"not measured, as it has no start time: {name_pods(unstarted)}"
    for age, names in sorted(fresh.items()):
        text = f"not measured, as it is younger than {format_duration(age)}"
        yield f"{text}: {name_pods(sorted(names))}"
    if without:
        yield f"left out, as no container in scope has a GPU: {name_pods(without)}"
