"""
From what is stored of a workload and what was measured to what is to be stored.

Pure. Everything that the next evaluation needs is in the result: nothing is remembered elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from webhook.errors import PrometheusError
from webhook.model.rightsizing import recommendations as stored
from webhook.model.rightsizing.policies import (
    Direction,
    DocumentKey,
    GlobalSettings,
    Mode,
    Precedence,
    ReactivePolicy,
    SignalSettings,
    Strategy,
)
from webhook.model.rightsizing.recommendations import (
    BaselineAmount,
    GpuRecommendation,
    PolicyState,
    RecommendationStatus,
    Selected,
    SignalEvaluation,
    SignalState,
    StatusCondition,
)
from webhook.reactive.decisions.amounts import sum_of
from webhook.reactive.decisions.bounding import bound
from webhook.reactive.decisions.choose import Opinion, Selection, Target, contributors, select
from webhook.reactive.decisions.decide import decide, included_pods
from webhook.reactive.decisions.states import (
    Baseline,
    Evaluation,
    ObservedPod,
    Readings,
    Recommendation,
    SignalReport,
    WorkloadState,
)
from webhook.reactive.observation.observe import ObservedWorkload

_NOTHING_STORED = RecommendationStatus()


class Samples(Protocol):
    """What Prometheus said about the namespace of a workload."""

    def readings(self, policy: ReactivePolicy) -> Readings: ...

    def fault(self, policy: ReactivePolicy) -> PrometheusError | None: ...

    def reasons(self, policy: ReactivePolicy, pods: Iterable[str]) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for all workloads of a round. *strategies* are all that can be read."""

    strategies: Mapping[DocumentKey, Strategy]
    settings: GlobalSettings
    precedence: Precedence


@dataclass(frozen=True, slots=True)
class Judgement:
    """
    What is to be stored of a workload, and what each policy that was asked said.

    *strategies* are those of the selected amounts.
    """

    status: RecommendationStatus
    opinions: tuple[Opinion, ...]
    strategies: tuple[Strategy, ...] = ()


def judge(
    observed: ObservedWorkload,
    before: GpuRecommendation | None,
    samples: Samples,
    rules: Rules,
    now: datetime,
) -> Judgement:
    """
    Evaluate the policies that concern *observed*, and choose.

    Policies that concern it no longer are forgotten. The baseline of a container is the workload's:
    a policy that takes over from another one goes on with it, or it would take for the baseline
    what the other one had raised.
    """
    known = _NOTHING_STORED if before is None else before.status
    multi = rules.settings.multi_policy
    ranked = contributors(observed.policies, rules.precedence, multi_policy=True)
    asked = {
        policy.key
        for policy in contributors(observed.policies, rules.precedence, multi_policy=multi)
    }
    pods = observed.evidence
    opinions: list[Opinion] = []
    states: list[PolicyState] = []
    for policy in ranked:
        own = known.state_of(policy.key) or PolicyState(policy.key)
        if policy.key in asked:
            state = _remembered(own, known)
            evaluation = decide(policy, state, pods, samples.readings(policy), now)
            opinions.append((policy, evaluation))
            said = samples.reasons(policy, [pod.name for pod in pods])
            states.append(_state(policy, own, evaluation, pods, said, observed.reasons, now))
        else:
            states.append(_passed_over(policy, own))
    # Those that only recommend, beside others that act.
    listed = {policy.key for policy in ranked}
    states += [
        _passed_over(policy, known.state_of(policy.key) or PolicyState(policy.key))
        for policy in observed.policies
        if policy.key not in listed
    ]
    selection = select(opinions, rules.precedence, multi_policy=multi)
    chosen = _choose(observed, selection, rules, states)
    status = RecommendationStatus(
        evaluated_at=now,
        policies=tuple(states),
        selected=chosen.selected,
        reasons=(*selection.reasons, *chosen.reasons),
        eviction=_eviction(known, chosen.selected, now),
        conditions=tuple(_conditions(known, samples if pods else None, opinions, now)),
    )
    return Judgement(status, tuple(opinions), chosen.strategies)


# --- what a policy remembers ---


def _remembered(own: PolicyState, known: RecommendationStatus) -> WorkloadState:
    baseline: dict[str, Baseline] = {}
    for state in (own, *known.policies):
        for name, base in state.baseline.items():
            baseline.setdefault(name, Baseline(base.amount, base.since, base.origin))
    previous = Recommendation(own.recommendation, own.driver) if own.recommendation else None
    return WorkloadState(baseline, previous)


def _state(
    policy: ReactivePolicy,
    before: PolicyState,
    evaluation: Evaluation,
    pods: Sequence[ObservedPod],
    said: tuple[str, ...],
    left_out: tuple[str, ...],
    now: datetime,
) -> PolicyState:
    recommendation = evaluation.recommendation
    amounts = {} if recommendation is None else dict(recommendation.containers)
    if evaluation.evaluated:
        signals = {
            signal: _signal(policy.signals[signal], report)
            for signal, report in evaluation.signals.items()
        }
        current = _current(policy, evaluation, pods)
    else:
        signals, current = dict(before.signals), dict(before.current)
    return PolicyState(
        policy=policy.key,
        generation=policy.generation,
        baseline={
            name: BaselineAmount(base.amount, base.since, base.origin)
            for name, base in evaluation.baseline.items()
        },
        current=current,
        recommendation=amounts,
        total=sum_of(amounts.values()) if amounts else None,
        driver=None if recommendation is None else recommendation.driver,
        change=stored.Change(evaluation.change.value),
        signals=signals,
        reasons=(*said, *left_out, *evaluation.reasons),
        evaluated_at=now if evaluation.evaluated else before.evaluated_at,
    )


def _signal(settings: SignalSettings, report: SignalReport) -> SignalState:
    is_upsize = report.direction is Direction.UPSIZE
    back = settings.scale_back
    shown = settings.upsize if is_upsize else back
    evaluation = SignalEvaluation(
        threshold_percent=shown.threshold_percent,
        window=settings.upsize.window if is_upsize else back.window,
        usage=report.usage,
        allocation=report.allocation,
        pod=report.pod or "",
        candidate=report.candidate,
        missing=report.missing,
    )
    return SignalState(
        wants=report.wants,
        upsize=evaluation if is_upsize else None,
        scale_back=None if is_upsize else evaluation,
    )


def _current(
    policy: ReactivePolicy, evaluation: Evaluation, pods: Sequence[ObservedPod]
) -> Mapping[str, Decimal]:
    """What the pod has that was looked at, else the largest one."""
    included = {pod.name: pod for pod in included_pods(policy, pods)}
    hottest = [report.pod for report in evaluation.signals.values() if report.pod in included]
    if hottest:
        return dict(included[hottest[0] or ""].allocations)
    largest = max(included.values(), key=lambda pod: pod.allocation, default=None)
    return {} if largest is None else dict(largest.allocations)


def _passed_over(policy: ReactivePolicy, before: PolicyState) -> PolicyState:
    """It keeps its baseline, in case that its turn comes, and recommends nothing."""
    return PolicyState(
        policy=policy.key,
        generation=policy.generation,
        baseline=before.baseline,
        change=stored.Change.NONE,
        reasons=("not evaluated: another policy comes first for this workload",),
    )


# --- what counts ---


@dataclass(frozen=True, slots=True)
class _Chosen:
    selected: Selected | None = None
    strategies: tuple[Strategy, ...] = ()
    reasons: tuple[str, ...] = ()


def _choose(
    observed: ObservedWorkload,
    selection: Selection,
    rules: Rules,
    states: Sequence[PolicyState],
) -> _Chosen:
    if selection.leader is None or not selection.targets:
        return _Chosen()
    policy = _first_of(selection)
    current = {name: amount for state in reversed(states) for name, amount in state.current.items()}
    strategy = rules.strategies.get(policy.strategy)
    is_there = strategy is not None
    strategy = strategy or Strategy(policy.strategy)
    used: list[Strategy] = []
    amounts: dict[str, Decimal] = {}
    reasons = [] if is_there else [f"{policy.strategy} is not there, or can't be read"]
    for name, target in selection.targets.items():
        own = rules.strategies.get(target.policy.strategy) or Strategy(target.policy.strategy)
        if not _agree(own, strategy):
            reasons.append(
                f"container {name}: {own.key} of {target.policy.key} writes GPUs in another way"
                f" than {strategy.key}"
            )
            continue
        bounded = bound({name: target.amount}, {name: current.get(name)}, own)
        amounts[name] = bounded.amounts[name]
        reasons += [f"container {name}: {text}" for text in bounded.reasons.get(name, ())]
        if own not in used:
            used.append(own)
    acts = selection.acts and all(each.key in rules.strategies for each in used)
    workload, settings = observed.workload, rules.settings
    selected = Selected(
        policy=policy.key,
        strategy=strategy.key,
        amounts=amounts,
        policies=_whose(selection.targets, amounts, policy),
        mode=Mode.ENFORCE if acts else Mode.RECOMMEND,
        automation_enabled=settings.automation_enabled,
        scheduler=strategy.scheduler,
        # Of several strategies the strictest: a pod is recreated whole.
        upsize=all(each.upsize for each in used),
        downsize=all(each.downsize for each in used),
        set_from_unspecified=all(each.set_from_unspecified for each in used),
        queue=strategy.queue,
        set_queue_when_specified=strategy.set_queue_when_specified,
        scheduler_name=settings.scheduler_name,
        respects_pause=any(each.safety.pause_until for each in used),
        respects_quota=any(each.safety.resource_quota for each in used),
        pause_until=workload.controls.pause_until,
        skip_containers=workload.controls.skip_containers,
    )
    return _Chosen(selected, tuple(used), tuple(reasons))


def _first_of(selection: Selection) -> ReactivePolicy:
    """The first in rank of those whose amounts count."""
    assert selection.leader is not None
    policies = [target.policy for target in selection.targets.values()]
    leader = selection.leader[0]
    return leader if leader in policies else policies[0]


def _agree(one: Strategy, other: Strategy) -> bool:
    """Whether one pod can be written by both."""
    return (one.scheduler, one.queue, one.set_queue_when_specified) == (
        other.scheduler,
        other.queue,
        other.set_queue_when_specified,
    )


def _whose(
    targets: Mapping[str, Target], amounts: Iterable[str], policy: ReactivePolicy
) -> Mapping[str, DocumentKey]:
    return {
        name: targets[name].policy.key for name in amounts if targets[name].policy.key != policy.key
    }


def _eviction(
    known: RecommendationStatus, selected: Selected | None, now: datetime
) -> stored.Eviction | None:
    """What is known of evictions; when something else is selected, they are counted anew."""
    before = known.eviction
    if before is None or selected == known.selected:
        return before
    return replace(before, since=now, count=0, misses=0, problem="", retried=True)


# --- conditions ---


def _conditions(
    known: RecommendationStatus,
    samples: Samples | None,
    opinions: Sequence[Opinion],
    now: datetime,
) -> Iterator[StatusCondition]:
    """*samples* are None where nothing was asked."""
    reachable = StatusCondition("PrometheusReachable", "Unknown", "NothingToAsk")
    faults = []
    if samples is not None:
        reachable = StatusCondition("PrometheusReachable", "True", "Answered")
        faults = [fault for policy, _ in opinions if (fault := samples.fault(policy))]
    if faults:
        reachable = StatusCondition(
            "PrometheusReachable", "False", faults[0].fault.value, faults[0].message
        )
    ready = StatusCondition("Ready", "True", "Evaluated")
    if any(not evaluation.evaluated for _, evaluation in opinions):
        ready = StatusCondition(
            "Ready", "False", "NotEvaluated", "Prometheus did not answer; everything stays"
        )
    before = {condition.type: condition for condition in known.conditions}
    for condition in (ready, reachable):
        old = before.get(condition.type)
        is_same = old is not None and old.status == condition.status
        since = old.last_transition_time if old is not None and is_same else None
        yield replace(condition, last_transition_time=since or now)
