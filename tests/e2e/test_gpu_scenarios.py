"""
Every scenario decides the same by its own samples and by those that a real Prometheus gives back.

What Prometheus is filled with are the series of the scenario as an exporter would have them; it is
asked by the reconciler's own client and sampler. All scenarios are filled in at once, each with a
namespace of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from tests.controlplane import openmetrics
from tests.controlplane.prometheus import Prometheus
from webhook.clients.prometheus import PrometheusClient
from webhook.model.manifests import load_file
from webhook.model.rightsizing.policies import DocumentKey, ReactivePolicy
from webhook.reactive.decisions.queries import DEVICE_LABEL
from webhook.reactive.decisions.states import Readings
from webhook.reactive.observation.sampling import Sampler
from webhook.reactive.observation.wanted import Asker, Wanted
from webhook.reactive.scenarios.replay import replay, to_json
from webhook.reactive.scenarios.scenario import Scenario, ScenarioWorkload, enforced, read_scenario

ROOT = Path(__file__).parents[2]


def read(*files: Path) -> Scenario:
    return enforced(read_scenario([manifest for file in files for manifest in load_file(file)]))


SCENARIOS = {
    "example": read(*sorted((ROOT / "examples" / "gpu").rglob("*.yaml"))),
    **{file.stem: read(file) for file in sorted((ROOT / "tests" / "scenarios").glob("*.yaml"))},
}


def namespaces_of(scenario: Scenario) -> set[str]:
    return {workload.ref.namespace for workload in scenario.workloads}


def exported(scenario: Scenario) -> Iterator[openmetrics.Series]:
    """The series under the names and labels that each policy gives them; copies tell apart."""
    sources = {
        (signal, settings.source)
        for policy in scenario.policies
        for signal, settings in policy.signals.items()
    }
    for signal, source in sources:
        for workload in scenario.workloads:
            for pod in workload.pods:
                for copy, series in enumerate(scenario.series.get((signal, pod.name), ())):
                    _, container, device = series.key
                    labels = {
                        source.namespace_label: workload.ref.namespace,
                        source.pod_label: pod.name,
                        source.container_label: container,
                        DEVICE_LABEL: device,
                        "copy": str(copy),
                    }
                    samples = [
                        (time, str(value))
                        for time, value in zip(series.times, series.values, strict=True)
                    ]
                    yield openmetrics.Series(source.metric, labels, samples)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"))
    prometheus.backfill(*[one for scenario in SCENARIOS.values() for one in exported(scenario)])
    with prometheus.start():
        yield prometheus


@dataclass(frozen=True)
class Answered:
    """What Prometheus said, by policy, namespace and time."""

    found: Mapping[tuple[DocumentKey, str, datetime], Readings]

    def readings(
        self, policy: ReactivePolicy, workload: ScenarioWorkload, time: datetime
    ) -> Readings:
        return self.found[policy.key, workload.ref.namespace, time]


async def ask(server: Prometheus, scenario: Scenario) -> Answered:
    """All that the scenario's policies ask, a round at each of its times."""
    client = PrometheusClient(server.url)
    sampler = Sampler(client)
    pods = frozenset({pod.name for workload in scenario.workloads for pod in workload.pods})
    askers = tuple([Asker(policy, pods) for policy in scenario.policies])
    wanted = [Wanted(name, askers) for name in namespaces_of(scenario)]
    found = {}
    try:
        for time in scenario.times:
            async for samples in sampler.sample(wanted, time):
                for policy in scenario.policies:
                    assert samples.fault(policy) is None
                    found[policy.key, samples.namespace, time] = samples.readings(policy)
    finally:
        await client.close()
    return Answered(found)


def test_no_two_scenarios_share_a_namespace() -> None:
    names = [name for scenario in SCENARIOS.values() for name in namespaces_of(scenario)]

    assert len(names) == len(set(names)) >= len(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_prometheus_leads_to_the_decisions_of_simulate(server: Prometheus, name: str) -> None:
    scenario = SCENARIOS[name]
    answered = await ask(server, scenario)

    by_prometheus = [to_json(step) for step in replay(scenario, answered)]
    assert by_prometheus == [to_json(step) for step in replay(scenario)]
    assert any(step["recommendation"] for step in by_prometheus)
    assert any(step["signals"]["compute"]["usage"] for step in by_prometheus)
