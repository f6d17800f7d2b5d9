"""A scenario out of what runs, which replays to what the reconciler decides."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.gpu_cluster import make_cluster, make_object, make_running_pod
from tests.gpu_documents import METRICS, make_policy
from webhook.errors import PrometheusError, PrometheusFault
from webhook.model.manifests import dump_yaml, load_file
from webhook.model.rightsizing.policies import ReactivePolicy, Signal
from webhook.model.rightsizing.samples import Sample
from webhook.reactive.observation.workloads import ObservedWorkload, observe
from webhook.reactive.scenarios.recording import Recorded, Span, record, scenario_of, span_of
from webhook.reactive.scenarios.replay import replay
from webhook.reactive.scenarios.scenario import read_scenario

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
POLICY = make_policy(namespace="team-a", minPodMetricsAge="0s")
MAIN = ("llm-0", "main", "0")


class FakePrometheus:
    """*percents* at each minute, by the name of the metric; None is a gap."""

    def __init__(self, percents: Mapping[str, str | None]) -> None:
        self.percents = percents
        self.asked: list[tuple[str, datetime]] = []
        self.error: PrometheusError | None = None

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]:
        self.asked.append((promql, at))
        if self.error is not None:
            raise self.error
        labels = {"namespace": "team-a", "pod": "llm-0", "container": "main", "gpu_uuid": "0"}
        value = self.percents.get(at.strftime("%H:%M"))
        found = None if value is None else Decimal(value)
        strangers = ({**labels, "pod": "x"}, {**labels, "container": ""})
        return (Sample(labels, found), *[Sample(each, Decimal(1)) for each in strangers])


def observed() -> tuple[ObservedWorkload, ReactivePolicy]:
    workload = make_object("StatefulSet")
    cluster = make_cluster(POLICY, workload, make_running_pod(owner=workload))
    (found,) = observe(cluster)
    return found, found.policies[0]


async def recorded(prometheus: FakePrometheus, span: Span) -> Mapping[Signal, Recorded]:
    _, policy = observed()
    return await record(prometheus, policy, "team-a", ["llm-0"], span, device_label="gpu_uuid")


async def test_each_minute_has_the_sample_of_that_minute_or_none() -> None:
    prometheus = FakePrometheus({"11:59": "70", "12:01": "71.5"})
    span = Span(START, START + MINUTE, before=MINUTE)

    found = await recorded(prometheus, span)

    assert found[Signal.COMPUTE] == {MAIN: [Decimal(70), None, Decimal("71.5")]}
    metric = METRICS["compute"][0]
    assert prometheus.asked[0] == (
        f'max by (namespace, pod, container, gpu_uuid) (last_over_time({metric}{{namespace="team-a"}}[1m]))',
        START - MINUTE,
    )


async def test_a_question_without_an_answer_is_no_gap() -> None:
    prometheus = FakePrometheus({})
    prometheus.error = PrometheusError(PrometheusFault.TIMEOUT, "no whole answer")

    with pytest.raises(PrometheusError):
        await recorded(prometheus, Span(START, START, before=MINUTE))


def test_the_longest_window_is_looked_back() -> None:
    _, policy = observed()

    assert span_of(policy, START, START + MINUTE).before == 10 * MINUTE


async def test_what_was_recorded_can_be_replayed(tmp_path: Path) -> None:
    workload, policy = observed()
    span = span_of(policy, START, START + 3 * MINUTE)
    minutes = {time.strftime("%H:%M"): "150" for time in span.minutes}
    found = await recorded(FakePrometheus(minutes), span)

    document = scenario_of(workload, None, policy, found, span, MINUTE)

    path = tmp_path / "scenario.yaml"
    path.write_text(dump_yaml([POLICY, document]))
    scenario = read_scenario(load_file(path))
    steps = list(replay(scenario))
    assert [step.total for step in steps] == [Decimal("1.8")] * 4
