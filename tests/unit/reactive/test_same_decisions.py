"""
The reconciler comes to what `simulate` shows: by its own path, from the pods that it sees and what
is stored of a workload to what is stored next, and what pods are given by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests import gpu_documents
from tests.gpu_cluster import make_object, see_workload
from tests.gpu_scenarios import (
    make_samples,
    make_scenario,
    make_scenario_pod,
    make_workload,
    read,
)
from webhook.errors import PrometheusError
from webhook.model.manifests import load_file
from webhook.model.rightsizing.controls import NO_CONTROLS
from webhook.model.rightsizing.policies import ReactivePolicy, Strategy
from webhook.model.rightsizing.recommendations import (
    BaselineAmount,
    GpuRecommendation,
    PolicyState,
    RecommendationStatus,
    read_recommendation,
    write_recommendation,
)
from webhook.reactive.decisions.choose import contributors
from webhook.reactive.decisions.scopes import objection
from webhook.reactive.decisions.states import ObservedPod, Readings
from webhook.reactive.observation.allocations import GpuAllocation
from webhook.reactive.observation.pods import PodShape, SeenPod
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.rounds.evaluate import Rules, evaluate
from webhook.reactive.rounds.ownership import follow_owner
from webhook.reactive.scenarios.replay import OwnSamples, Step, replay
from webhook.reactive.scenarios.scenario import (
    Scenario,
    ScenarioWorkload,
    enforced,
    read_scenario,
)
from webhook.reactive.scenarios.specs import Recreate

ROOT = Path(__file__).parents[3]

Amounts: TypeAlias = Mapping[str, Decimal | None]
# Of one step: what is recommended by whom, the word for it, the baseline, and what pods have then.
Outcome: TypeAlias = tuple[Any, ...]


def make_joined() -> Scenario:
    """A scope that was widened: `b` was never raised, and is idle as `a` is."""
    pod = make_scenario_pod(containers={"a": {"gpu": "0.8"}, "b": {"gpu": "1"}})
    previous = {"containers": {"a": "0.8"}, "driver": "memory", "baseline": {"a": "0.5"}}
    calm = [
        make_samples(10, container=container, signal=signal)
        for container in ("a", "b")
        for signal in ("compute", "memory")
    ]
    workload = make_workload(pod, previous=previous)
    scenario = make_scenario(*calm, workloads=[workload], duration="40m")
    return read(gpu_documents.make_policy(), scenario)


def make_restless(first: int, then: int) -> Scenario:
    """Of a whole GPU *first* is used and a while later *then*, by both signals."""
    pod = make_scenario_pod(containers={"main": {"gpu": "1"}})
    values = [first] * 45 + [then] * 46
    place = {"pod": "llm-0", "container": "main", "from": "-30m", "values": values}
    samples = [{**place, "signal": signal} for signal in ("compute", "memory")]
    scenario = make_scenario(*samples, workloads=[make_workload(pod)], duration="60m")
    return read(gpu_documents.make_policy(), scenario)


def read_files(*files: Path) -> Scenario:
    return enforced(read_scenario([manifest for file in files for manifest in load_file(file)]))


SCENARIOS = {
    "example": read_files(*sorted((ROOT / "examples" / "gpu").rglob("*.yaml"))),
    **{
        file.stem: read_files(file)
        for file in sorted((ROOT / "tests" / "scenarios").glob("*.yaml"))
    },
    "a-container-that-joined": make_joined(),
    "idle-and-then-busy": make_restless(10, 90),
    "idle-and-then-hot": make_restless(10, 150),
    "hot-and-then-idle": make_restless(150, 10),
}


@dataclass(frozen=True)
class ScenarioSamples:
    """The samples of one workload at one time, as a round is given them."""

    scenario: Scenario
    workload: ScenarioWorkload
    time: datetime

    def readings(self, policy: ReactivePolicy) -> Readings:
        return OwnSamples(self.scenario).readings(policy, self.workload, self.time)

    def fault(self, policy: ReactivePolicy) -> PrometheusError | None:
        return None

    def reasons(self, policy: ReactivePolicy, pods: Iterable[str]) -> tuple[str, ...]:
        return ()


class Reconciled:
    """
    A workload in a cluster, whose pods are made anew at once, or never.

    A strategy and the rounding for writing change nothing: amounts are taken over as they are.
    """

    def __init__(self, scenario: Scenario, workload: ScenarioWorkload) -> None:
        self._scenario, self._workload = scenario, workload
        protected = scenario.settings.protected_namespaces
        self.policies = tuple(
            [
                policy
                for policy in scenario.policies
                if not objection(policy, workload.ref, protected)
            ]
        )
        self._seen = see_workload(make_object("Deployment", namespace=workload.ref.namespace))
        self._rules = Rules(
            {policy.strategy: Strategy(policy.strategy) for policy in self.policies},
            scenario.settings,
            scenario.precedence,
        )
        self._pods: Sequence[ObservedPod] = workload.pods
        self._own: dict[str, Amounts] = {
            pod.name: {**pod.allocations, **self._baseline(pod)} for pod in workload.pods
        }
        self.stored = GpuRecommendation(
            workload.ref.namespace, self._seen.ref, status=self._known()
        )

    def _baseline(self, pod: ObservedPod) -> Amounts:
        """What a pod into which something was written before would have by itself."""
        known = self._workload.state.baseline
        return {name: known[name].amount for name in pod.allocations if name in known}

    def _known(self) -> RecommendationStatus:
        state, settings = self._workload.state, self._scenario.settings
        asked = contributors(
            self.policies, self._scenario.precedence, multi_policy=settings.multi_policy
        )
        return RecommendationStatus(
            policies=tuple(
                [
                    PolicyState(
                        policy.key,
                        baseline={
                            name: BaselineAmount(base.amount, base.since, base.origin)
                            for name, base in state.baseline.items()
                        },
                        recommendation=state.previous.containers if state.previous else {},
                        driver=state.previous.driver if state.previous else None,
                    )
                    for policy in asked
                ]
            )
        )

    def _see(self, pod: ObservedPod) -> SeenPod:
        own = self._own[pod.name]
        before = {name: own[name] for name, has in pod.allocations.items() if has != own[name]}
        shape = PodShape(GpuAllocation(pod.allocations, before=before), {}, NO_CONTROLS)
        key = f"{self._workload.ref.namespace}/{pod.name}"
        return SeenPod(key, "9", "", None, "Running", False, pod.started, pod.started, shape)

    def step(self, time: datetime) -> Mapping[str, Amounts]:
        """A round at *time*; what pods had then."""
        had = {pod.name: pod.allocations for pod in self._pods}
        seen = tuple([self._see(pod) for pod in self._pods])
        observed = ObservedWorkload(self._seen, self.policies, seen)
        # As it is read back from the API server.
        stored = read_recommendation(write_recommendation(self.stored))
        status = follow_owner(stored.status, observed, time)
        samples = ScenarioSamples(self._scenario, self._workload, time)
        known = GpuRecommendation(stored.namespace, stored.workload, status=status)
        judgement = evaluate(observed, known, samples, self._rules, time)
        self.stored = GpuRecommendation(stored.namespace, stored.workload, status=judgement.status)
        selected = judgement.status.selected
        amounts = {} if selected is None else selected.amounts
        if self._scenario.recreate is Recreate.IMMEDIATELY:
            self._pods = [_made_anew(pod, amounts, time) for pod in self._pods]
        return had

    def outcome(self, step: Step) -> Outcome:
        """What it says at the time of *step*, in which `simulate` does."""
        had = self.step(step.time)
        assert step.policy is not None
        state = self.stored.status.state_of(step.policy.key)
        assert state is not None
        names = step.policy.scope.containers
        totals = [
            sum(
                amount
                for name, amount in amounts.items()
                if amount and (not names or name in names)
            )
            for amounts in had.values()
        ]
        baseline = {name: base.amount for name, base in state.baseline.items()}
        return dict(state.recommendation), state.driver, state.change, baseline, max(totals)


def _made_anew(pod: ObservedPod, amounts: Mapping[str, Decimal], time: datetime) -> ObservedPod:
    given = {
        name: amount if amount is None else amounts.get(name, amount)
        for name, amount in pod.allocations.items()
    }
    return pod if given == pod.allocations else replace(pod, started=time, allocations=given)


def simulated(step: Step) -> Outcome:
    recommendation = step.evaluation.recommendation
    amounts = {} if recommendation is None else dict(recommendation.containers)
    baseline = {name: base.amount for name, base in step.evaluation.baseline.items()}
    return amounts, step.driver, step.evaluation.change, baseline, step.allocation


def both(scenario: Scenario) -> Iterator[tuple[Step, Outcome]]:
    """Each step of *scenario* that a policy concerns, and what the reconciler makes of it."""
    reconciled = {str(each.ref): Reconciled(scenario, each) for each in scenario.workloads}
    for step in replay(scenario):
        if step.policy is not None:
            yield step, reconciled[str(step.workload)].outcome(step)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_reconciler_comes_to_the_decisions_of_simulate(name: str) -> None:
    compared = list(both(SCENARIOS[name]))

    assert compared
    for step, outcome in compared:
        assert outcome == simulated(step), step.time
    assert any(outcome[0] for _, outcome in compared)


def test_in_both_a_container_that_joined_keeps_what_it_had() -> None:
    *_, (step, outcome) = both(SCENARIOS["a-container-that-joined"])

    assert outcome[-1] == step.allocation == Decimal("1.5")
    assert outcome[3] == {"a": Decimal("0.5"), "b": 1}
