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
from webhook.reactive.scenarios.recording import (
    MAX_COPIES,
    Copy,
    Recorded,
    Span,
    record,
    scenario_of,
    span_of,
)
from webhook.reactive.scenarios.replay import replay
from webhook.reactive.scenarios.scenario import read_scenario

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
POLICY = make_policy(namespace="team-a", minPodMetricsAge="0s")
MAIN = ("llm-0", "main", "0")


class FakePrometheus:
    """
    *percents* at each minute; None is no number. Another copy, of a container that was made anew,
    has *others*.
    """

    def __init__(
        self, percents: Mapping[str, str | None], others: Mapping[str, str | None] | None = None
    ) -> None:
        self.copies = {"first": percents, "second": others or {}}
        self.asked: list[tuple[str, datetime]] = []
        self.error: PrometheusError | None = None

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]:
        self.asked.append((promql, at))
        if self.error is not None:
            raise self.error
        labels = {"namespace": "team-a", "pod": "llm-0", "container": "main", "gpu_uuid": "0"}
        strangers = ({**labels, "pod": "x"}, {**labels, "container": ""})
        found = [Sample(each, Decimal(1)) for each in strangers]
        for name, percents in self.copies.items():
            minute = at.strftime("%H:%M")
            if minute in percents:
                value = percents[minute]
                found.append(
                    Sample({**labels, "id": name}, None if value is None else Decimal(value))
                )
        return tuple(found)


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

    assert found[Signal.COMPUTE] == {MAIN: [Copy(0, [Decimal(70), None, Decimal("71.5")])]}
    metric = METRICS["compute"][0]
    assert prometheus.asked[0] == (
        f'last_over_time({metric}{{namespace="team-a"}}[1m])',
        START - MINUTE,
    )


def of_minutes(*values: str | None, since: int = 0) -> dict[str, str | None]:
    """One value a minute, from so many minutes after twelve."""
    return {f"12:{since + index:02}": value for index, value in enumerate(values)}


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param(
            of_minutes("20", "20"),
            of_minutes("80", since=2),
            [Copy(2, [Decimal(20), Decimal(20)]), Copy(4, [Decimal(80)])],
            id="one-window-sees-both",
        ),
        pytest.param(
            of_minutes("20", "21"),
            of_minutes("80", since=3),
            [Copy(2, [Decimal(20), Decimal(21), None, Decimal(80)])],
            id="no-window-sees-both",
        ),
        pytest.param(
            of_minutes("20"),
            of_minutes("80"),
            [Copy(2, [Decimal(20)]), Copy(2, [Decimal(80)])],
            id="two-at-a-time",
        ),
        pytest.param(of_minutes("0"), {}, [Copy(2, [Decimal(0)])], id="nothing-is-used"),
    ],
)
async def test_each_copy_is_recorded_by_itself(
    first: dict[str, str | None], second: dict[str, str | None], want: list[Copy]
) -> None:
    """A container that is made anew has another copy: merged, its mean would be another one."""
    span = Span(START, START + 5 * MINUTE, before=2 * MINUTE)

    found = await recorded(FakePrometheus(first, second), span)

    assert found[Signal.COMPUTE] == {MAIN: want}


async def test_a_value_that_is_no_number_is_recorded_as_that() -> None:
    """A window with it has no mean; a gap would leave it one."""
    found = await recorded(
        FakePrometheus(of_minutes("20", None)), Span(START, START + MINUTE, before=MINUTE)
    )

    (copy,) = found[Signal.COMPUTE][MAIN]
    assert [str(value) for value in copy.values] == ["20", "NaN"]


async def test_a_container_that_is_made_anew_all_the_time_has_so_many_entries_at_most() -> None:
    class Restarting(FakePrometheus):
        async def query(
            self, promql: str, *, at: datetime, within_s: float | None = None
        ) -> tuple[Sample, ...]:
            found = await super().query(promql, at=at)
            return tuple([Sample({**each.labels, "id": f"{at}"}, each.value) for each in found])

    span = Span(START, START + timedelta(hours=2), before=timedelta(hours=2))
    minutes = {time.strftime("%H:%M"): "20" for time in span.minutes}

    (copies,) = (await recorded(Restarting(minutes), span))[Signal.COMPUTE].values()

    assert len(copies) == MAX_COPIES
    assert any(copy.is_merged for copy in copies)


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


async def test_a_container_that_was_made_anew_asks_for_what_it_asks_for_in_the_cluster(
    tmp_path: Path,
) -> None:
    """The copy of the last minutes has a mean of 150 %; with what was before, it would be less."""
    workload, policy = observed()
    span = span_of(policy, START, START)
    minutes = [time.strftime("%H:%M") for time in span.minutes]
    old, new = dict.fromkeys(minutes[:-3], "20"), dict.fromkeys(minutes[-3:], "150")
    found = await recorded(FakePrometheus(old, new), span)

    document = scenario_of(workload, None, policy, found, span, MINUTE)

    path = tmp_path / "scenario.yaml"
    path.write_text(dump_yaml([POLICY, document]))
    (step,) = replay(read_scenario(load_file(path)))
    assert step.total == Decimal("1.8")
