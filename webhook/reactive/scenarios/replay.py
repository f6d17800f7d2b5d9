"""Replays a scenario: the same decisions as in a cluster, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from webhook.model.rightsizing.amounts import format_amount
from webhook.model.rightsizing.policies import (
    Direction,
    DocumentKey,
    ReactivePolicy,
    Signal,
    Strategy,
)
from webhook.model.rightsizing.recommendations import Change
from webhook.model.rightsizing.times import format_time
from webhook.reactive.decisions.amounts import sum_of
from webhook.reactive.decisions.bounding import bound
from webhook.reactive.decisions.choose import Opinion, Selection, contributors, tried
from webhook.reactive.decisions.decide import included_pods
from webhook.reactive.decisions.grants import Grant, grants_of
from webhook.reactive.decisions.judge import judge
from webhook.reactive.decisions.scopes import ScopedWorkload, objection
from webhook.reactive.decisions.states import (
    Baseline,
    Evaluation,
    ObservedPod,
    Readings,
    Samples,
    SignalReport,
    WorkloadState,
)
from webhook.reactive.decisions.texts import name_pods
from webhook.reactive.decisions.usage import IncludedPod, measure
from webhook.reactive.decisions.windows import read_window
from webhook.reactive.scenarios.scenario import Scenario, ScenarioWorkload
from webhook.reactive.scenarios.specs import Recreate


@dataclass(frozen=True, slots=True)
class Step:
    """
    One evaluation of one workload.

    *policy* is the one that counts, None where none concerns the workload; *evaluation* is what
    it says. Of several that count it is the one that changed something (`Judged.news`).
    *allocation* is what the largest pod has in that policy's scope at the time, None
    without a GPU; *usage* is what the hottest uses by each signal's upsize window, also while it
    is too young to count. *recommended* is by container and may come from several policies; None
    is nothing.
    """

    time: datetime
    workload: ScopedWorkload
    policy: ReactivePolicy | None
    evaluation: Evaluation
    allocation: Decimal | None
    usage: Mapping[Signal, Decimal]
    baseline: Mapping[str, Baseline]
    recommended: Mapping[str, Decimal] | None
    reasons: tuple[str, ...]

    @property
    def total(self) -> Decimal | None:
        """The sum of what is recommended."""
        return None if self.recommended is None else sum_of(self.recommended.values())

    @property
    def driver(self) -> Signal | None:
        """The signal that the recommendation is owed to."""
        recommendation = self.evaluation.recommendation
        return None if recommendation is None else recommendation.driver


class SampleSource(Protocol):
    """Where the samples of a replay come from."""

    def readings(
        self, policy: ReactivePolicy, workload: ScenarioWorkload, time: datetime
    ) -> Readings: ...


def replay(scenario: Scenario, source: SampleSource | None = None) -> Iterator[Step]:
    """
    Evaluate every workload at every time, in the scenario's order.

    *source* takes the place of the scenario's own samples.
    """
    source = source or OwnSamples(scenario)
    workloads = [_Workload(scenario, workload, source) for workload in scenario.workloads]
    for time in scenario.times:
        for workload in workloads:
            yield workload.step(time)


@dataclass(frozen=True, slots=True)
class OwnSamples:
    """The samples of a scenario, looked through as Prometheus does."""

    scenario: Scenario

    def readings(
        self, policy: ReactivePolicy, workload: ScenarioWorkload, time: datetime
    ) -> Readings:
        """What Prometheus would answer to the questions of *policy* about the pods."""
        return Readings.of(
            {
                (signal, direction): self._answer(policy, signal, direction, workload, time)
                for signal in Signal
                for direction in Direction
            }
        )

    def _answer(
        self,
        policy: ReactivePolicy,
        signal: Signal,
        direction: Direction,
        workload: ScenarioWorkload,
        time: datetime,
    ) -> Samples:
        window = policy.signals[signal].by(direction).window
        copies = [
            series
            for pod in workload.pods
            for series in self.scenario.series.get((signal, pod.name), ())
        ]
        return read_window(direction, copies, time, window)


class _Workload:
    """A workload while it is replayed: its pods, and what each policy remembers of it."""

    def __init__(
        self, scenario: Scenario, workload: ScenarioWorkload, source: SampleSource
    ) -> None:
        self._scenario = scenario
        self._workload = workload
        self._source = source
        self._ref = workload.ref
        self._pods: Sequence[ObservedPod] = workload.pods
        protected = scenario.settings.protected_namespaces
        objections = {
            policy.key: objection(policy, workload.ref, protected) for policy in scenario.policies
        }
        self._policies = [policy for policy in scenario.policies if not objections[policy.key]]
        self._objections = tuple(filter(None, objections.values()))
        self._asked = contributors(
            self._policies, scenario.precedence, multi_policy=scenario.settings.multi_policy
        )
        self._tried = tried(
            self._policies, scenario.precedence, multi_policy=scenario.settings.multi_policy
        )
        # What was recommended before is owed to those that can have done so.
        self._states: Mapping[DocumentKey, WorkloadState] = {
            policy.key: workload.state for policy in self._asked
        }

    def step(self, time: datetime) -> Step:
        """Evaluate it at *time*; the pods are recreated after that, if the scenario says so."""
        settings = self._scenario.settings
        asked = (*self._asked, *self._tried)
        readings = {policy.key: self._readings(policy, time) for policy in asked}
        judged = judge(
            self._policies,
            self._states,
            self._pods,
            lambda policy: readings[policy.key],
            self._scenario.precedence,
            time,
            multi_policy=settings.multi_policy,
        )
        self._states = judged.states
        selection = judged.selection
        if judged.news is None:
            return self._unconcerned(time)
        policy, evaluation = judged.news
        recommended = self._in_order(selection)
        grants = grants_of(judged, self._pods)
        included = included_pods(policy, self._pods)
        opinions = judged.opinions if settings.multi_policy else [judged.news]
        step = Step(
            time=time,
            workload=self._ref,
            policy=policy,
            evaluation=evaluation,
            allocation=max([pod.allocation for pod in included], default=None),
            usage=_usage(policy, included, readings[policy.key]),
            baseline=self._baseline(opinions),
            recommended=recommended or None,
            reasons=(
                *evaluation.reasons,
                *selection.reasons,
                *self._held(selection, grants),
                *[_tried(each) for each in judged.trials],
            ),
        )
        acts = selection.acts and settings.automation_enabled
        if acts and self._scenario.recreate is Recreate.IMMEDIATELY:
            self._pods = [_recreated(pod, grants, time) for pod in self._pods]
        return step

    def _unconcerned(self, time: datetime) -> Step:
        signals = {signal: SignalReport() for signal in Signal}
        reasons = self._objections or ("there is no policy",)
        evaluation = Evaluation({}, None, Change.NONE, signals, reasons)
        return Step(time, self._ref, None, evaluation, None, {}, {}, None, reasons)

    def _readings(self, policy: ReactivePolicy, time: datetime) -> Readings:
        return self._source.readings(policy, self._workload, time)

    def _in_order(self, selection: Selection) -> dict[str, Decimal]:
        """The amounts in the order of the pods' containers."""
        names = [name for pod in self._pods for name in pod.allocations]
        ordered = dict.fromkeys([*names, *selection.targets])
        return {
            name: selection.targets[name].amount for name in ordered if name in selection.targets
        }

    def _baseline(self, opinions: Sequence[Opinion]) -> Mapping[str, Baseline]:
        found: dict[str, Baseline] = {}
        for _, evaluation in opinions:
            found = {**evaluation.baseline, **found}
        return found

    def _held(self, selection: Selection, grants: Mapping[str, Grant]) -> Iterator[str]:
        """What a cluster would make of it. The scenario itself says whether pods take it over."""
        if not selection.acts:
            yield "the policy only recommends"
        elif not self._scenario.settings.automation_enabled:
            yield "automation is switched off by the GlobalConfiguration"
        # Of a Deployment with two hundred pods each reason is said once.
        held: dict[tuple[str, str], list[str]] = {}
        for name, grant in grants.items():
            strategy = self._scenario.strategies.get(grant.target.policy.strategy)
            for pod in self._pods:
                if name in pod.allocations:
                    for reason in _holds(name, grant, pod.allocations[name], strategy):
                        held.setdefault((name, reason), []).append(pod.name)
        for (name, reason), pods in held.items():
            yield f"in a cluster, container {name} of {name_pods(pods)}: {reason}"


def _tried(trial: Opinion) -> str:
    """What a policy that only recommends would have said beside those that count."""
    policy, evaluation = trial
    found = evaluation.recommendation
    amounts = {} if found is None else found.containers
    each = ", ".join([f"{name} {format_amount(amount)}" for name, amount in amounts.items()])
    return f"{policy.key} is tried beside it: it recommends {each or 'nothing'}"


def _usage(
    policy: ReactivePolicy, pods: Sequence[IncludedPod], readings: Readings
) -> Mapping[Signal, Decimal]:
    found = {}
    for signal, settings in policy.signals.items():
        measured = measure(pods, readings, signal, Direction.UPSIZE, settings.source.interpretation)
        if measured.usages:
            found[signal] = measured.hottest.amount
    return found


def _holds(
    name: str, grant: Grant, has: Decimal | None, strategy: Strategy | None
) -> Iterator[str]:
    """What would keep a container that *has* so much from what it is granted."""
    objection = grant.objection(has)
    if objection:
        yield objection
    if strategy is not None:
        amount = grant.baseline if objection else grant.target.amount
        yield from bound({name: amount}, {name: has}, strategy).reasons.get(name, ())


def _recreated(pod: ObservedPod, grants: Mapping[str, Grant], time: datetime) -> ObservedPod:
    """*pod*, or a new one of that name if it differs from what it is granted."""
    allocations = {
        name: grants[name].target.amount if name in grants and amount is not None else amount
        for name, amount in pod.allocations.items()
    }
    if allocations == pod.allocations:
        return pod
    return replace(pod, started=time, allocations=allocations)


def to_json(step: Step) -> dict[str, Any]:
    """*step* as `simulate -o json` prints it: amounts are texts with at most six places."""
    total = step.total
    return {
        "time": format_time(step.time),
        "namespace": step.workload.namespace,
        "kind": step.workload.kind,
        "name": step.workload.name,
        "baseline": {name: format_amount(base.amount) for name, base in step.baseline.items()},
        "recommendation": step.recommended
        and {name: format_amount(amount) for name, amount in step.recommended.items()},
        "total": None if total is None else format_amount(total),
        "driver": step.driver,
        "change": step.evaluation.change,
        "signals": {
            signal: _signal_json(report) for signal, report in step.evaluation.signals.items()
        },
        "reasons": list(step.reasons),
    }


def _signal_json(report: SignalReport) -> dict[str, Any]:
    return {
        "usage": _amount_json(report.usage),
        "allocation": _amount_json(report.allocation),
        "pod": report.pod,
        "wants": report.wants,
        "candidate": _amount_json(report.candidate),
        "missing": list(report.missing),
    }


def _amount_json(amount: Decimal | None) -> str | None:
    return None if amount is None else format_amount(amount)
