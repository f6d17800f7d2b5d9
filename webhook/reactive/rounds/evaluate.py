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
    MISSING_LISTED,
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
from webhook.reactive.decisions.bounding import bound, ceiling_of
from webhook.reactive.decisions.choose import TRIED_MAX, Opinion, Selection, Target
from webhook.reactive.decisions.decide import included_pods
from webhook.reactive.decisions.grants import Grant, grants_of
from webhook.reactive.decisions.judge import judge
from webhook.reactive.decisions.states import (
    Baseline,
    Evaluation,
    ObservedPod,
    Readings,
    Recommendation,
    SignalReport,
    WorkloadState,
)
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.recreation.counting import carry_on
from webhook.reactive.rounds.written import remember_written

_NOTHING_STORED = RecommendationStatus()
_TRIED = "it is tried: it only recommends, and another policy comes first for this workload"


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
    What is to be stored of a workload, and what each policy that was asked said: *trials* are of
    those that only recommend beside others.

    *strategies* are those of the selected amounts.
    """

    status: RecommendationStatus
    opinions: tuple[Opinion, ...]
    strategies: tuple[Strategy, ...] = ()
    trials: tuple[Opinion, ...] = ()


def evaluate(
    observed: ObservedWorkload,
    before: GpuRecommendation | None,
    samples: Samples,
    rules: Rules,
    now: datetime,
) -> Judgement:
    """
    Evaluate the policies that concern *observed*, and choose.

    Policies that concern it no longer are forgotten.
    """
    known = _NOTHING_STORED if before is None else before.status
    pods = observed.evidence
    judged = judge(
        observed.policies,
        {state.policy: _remembered(state) for state in known.policies},
        pods,
        samples.readings,
        rules.precedence,
        now,
        multi_policy=rules.settings.multi_policy,
    )
    counting = {policy.key for policy, _ in judged.opinions}
    heard = (*judged.opinions, *judged.trials)
    evaluations = {policy.key: evaluation for policy, evaluation in heard}
    policies = {policy.key: policy for policy in observed.policies}
    states: list[PolicyState] = []
    for key, state in judged.states.items():
        policy, evaluation = policies[key], evaluations.get(key)
        if evaluation is not None:
            own = known.state_of(key) or PolicyState(key)
            said = samples.reasons(policy, [pod.name for pod in pods])
            if key not in counting:
                said = (_TRIED, *said)
            states.append(_state(policy, own, evaluation, pods, said, observed.reasons, now))
        else:
            states.append(_passed_over(policy, state))
    selection, opinions = judged.selection, judged.opinions
    counted = [state for state in states if state.policy in counting]
    chosen = _choose(observed, selection, grants_of(judged, pods), rules, counted)
    status = RecommendationStatus(
        evaluated_at=now,
        policies=tuple(states),
        selected=chosen.selected,
        reasons=(*selection.reasons, *chosen.reasons),
        eviction=carry_on(known.eviction, known.selected, chosen.selected, observed.pods, now),
        conditions=tuple(_conditions(known, samples if pods else None, opinions, now)),
        written=remember_written(known.written, chosen.selected, observed.pods),
    )
    return Judgement(status, opinions, chosen.strategies, judged.trials)


def switched(
    known: RecommendationStatus, policies: Iterable[ReactivePolicy], settings: GlobalSettings
) -> RecommendationStatus:
    """*known*, switched off as far as *policies* and *settings* say so; never switched on."""
    selected = known.selected
    if selected is None:
        return known
    acting = {policy.key for policy in policies if policy.mode is Mode.ENFORCE}
    acts = acting.issuperset({selected.policy, *selected.policies.values()})
    off = replace(
        selected,
        mode=selected.mode if acts else Mode.RECOMMEND,
        automation_enabled=selected.automation_enabled and settings.automation_enabled,
    )
    return known if off == selected else replace(known, selected=off)


# --- what a policy remembers ---


def _remembered(state: PolicyState) -> WorkloadState:
    baseline = {
        name: Baseline(base.amount, base.since, base.origin)
        for name, base in state.baseline.items()
    }
    amounts = state.recommendation
    return WorkloadState(baseline, Recommendation(amounts, state.driver) if amounts else None)


def _stored_baseline(state: WorkloadState) -> Mapping[str, BaselineAmount]:
    return {
        name: BaselineAmount(base.amount, base.since, base.origin)
        for name, base in state.baseline.items()
    }


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
        baseline=_stored_baseline(evaluation.state),
        current=current,
        recommendation=amounts,
        total=sum_of(amounts.values()) if amounts else None,
        driver=None if recommendation is None else recommendation.driver,
        change=evaluation.change,
        signals=signals,
        reasons=(*said, *left_out, *evaluation.reasons),
        evaluated_at=now if evaluation.evaluated else before.evaluated_at,
    )


def _signal(settings: SignalSettings, report: SignalReport) -> SignalState:
    is_upsize = report.direction is Direction.UPSIZE
    shown = settings.by(report.direction)
    evaluation = SignalEvaluation(
        threshold_percent=shown.threshold_percent,
        window=shown.window,
        usage=report.usage,
        allocation=report.allocation,
        pod=report.pod or "",
        candidate=report.candidate,
        missing=report.missing[:MISSING_LISTED],
        missing_count=len(report.missing),
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


def _passed_over(policy: ReactivePolicy, state: WorkloadState) -> PolicyState:
    """It recommends nothing."""
    reason = "not evaluated: another policy comes first for this workload"
    if policy.mode is Mode.RECOMMEND:
        reason += f", and no more than {TRIED_MAX} that only recommend are tried beside it"
    return PolicyState(
        policy=policy.key,
        generation=policy.generation,
        baseline=_stored_baseline(state),
        change=stored.Change.NONE,
        reasons=(reason,),
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
    grants: Mapping[str, Grant],
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
    ceilings: dict[str, Decimal] = {}
    baselines: dict[str, Decimal] = {}
    reasons = [] if is_there else [f"{policy.strategy} is not there, or can't be read"]
    for name, grant in grants.items():
        target, baseline = grant.target, grant.baseline
        own = rules.strategies.get(target.policy.strategy) or Strategy(target.policy.strategy)
        if not _agree(own, strategy):
            reasons.append(
                f"container {name}: {own.key} of {target.policy.key} writes GPUs in another way"
                f" than {strategy.key}"
            )
            continue
        amount, has = target.amount, current.get(name)
        objection = grant.objection(has)
        if objection:
            reasons.append(f"container {name}: {objection}")
            amount = baseline
        bounded = bound({name: amount}, {name: has}, own)
        amounts[name], baselines[name] = bounded.amounts[name], baseline
        ceiling = ceiling_of(own, name)
        if ceiling is not None:
            ceilings[name] = ceiling
        reasons += [f"container {name}: {text}" for text in bounded.reasons.get(name, ())]
        if own not in used:
            used.append(own)
    acts = selection.acts and all(each.key in rules.strategies for each in used)
    workload, settings = observed.workload, rules.settings
    selected = Selected(
        policy=policy.key,
        strategy=strategy.key,
        amounts=amounts,
        ceilings=ceilings,
        baselines=baselines,
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
