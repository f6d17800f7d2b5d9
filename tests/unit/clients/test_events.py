"""Events about denials: what is alike is one, and a flood of them stays a trickle."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from webhook.clients.event_book import EventBook, EventLimits, Series, TokenBucket
from webhook.clients.events import EventWriter
from webhook.errors import KubeError
from webhook.model.refusals import Refusal
from webhook.telemetry.metrics import Metrics

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def refusal(name: str = "web", namespace: str = "team-a", group: str = "Deployments") -> Refusal:
    return Refusal(namespace, f"ada may not create {name}", f"ada may not create {group}")


class Desk:
    """A book, its clock, and somebody who writes all that is due."""

    def __init__(self, **limits: Any) -> None:
        self.book = EventBook(EventLimits(**limits))
        self.now = 0.0
        self.created: list[Series] = []
        self.updates = 0

    def add(self, *refusals: Refusal) -> None:
        for one in refusals:
            self.book.add(one, self.now, NOON)

    def write(self) -> None:
        while (series := self.book.next()) is not None and series.due_at <= self.now:
            if series.name:
                self.updates += 1
            else:
                series.name = f"event-{len(self.created)}"
                self.created.append(series)
            self.book.wrote(series, series.count, self.now)

    def notes(self) -> list[str]:
        return [series.note for series in self.created]


# --- what is one ---


def test_the_same_again_is_counted_on_the_same_event() -> None:
    desk = Desk()

    desk.add(refusal())
    desk.write()
    desk.add(refusal(), refusal())
    desk.now += 31
    desk.write()

    assert [(series.count, series.written) for series in desk.created] == [(3, 3)]
    assert desk.updates == 1


def test_a_count_is_not_written_more_often_than_it_need_be() -> None:
    desk = Desk(update_period_s=30)

    for _ in range(600):
        desk.add(refusal())
        desk.write()
        desk.now += 0.1

    assert (len(desk.created), desk.updates) == (1, 1)


def test_of_many_objects_with_the_same_fault_one_event_stands_for_the_rest() -> None:
    desk = Desk(alike=3, namespace_burst=100)

    desk.add(*[refusal(f"web-{n}") for n in range(10)])
    desk.write()

    assert desk.notes() == [
        *[f"ada may not create web-{n}" for n in range(3)],
        "ada may not create Deployments",
    ]
    assert desk.created[-1].count == 7
    assert desk.book.dropped == 0


def test_what_is_in_another_namespace_is_another_event() -> None:
    desk = Desk()

    desk.add(refusal(), refusal(namespace="team-b"))
    desk.write()

    assert [series.namespace for series in desk.created] == ["team-a", "team-b"]


def test_what_did_not_happen_for_long_begins_anew() -> None:
    desk = Desk(idle_s=600)

    desk.add(refusal())
    desk.write()
    desk.now += 601
    desk.add(refusal())
    desk.write()

    assert [series.count for series in desk.created] == [1, 1]


# --- how much ---


def test_a_namespace_has_a_burst_and_then_one_new_event_now_and_then() -> None:
    desk = Desk(namespace_burst=5, namespace_period_s=30)

    desk.add(*[refusal(f"a-{n}", group=f"g-{n}") for n in range(50)])
    assert len(desk.book) == 5
    desk.now += 61
    desk.add(*[refusal(f"b-{n}", group=f"h-{n}") for n in range(50)])

    assert len(desk.book) == 7
    assert desk.book.dropped == 93


def test_one_namespace_does_not_use_up_what_others_have() -> None:
    desk = Desk(namespace_burst=5)

    desk.add(*[refusal(f"a-{n}", group=f"g-{n}") for n in range(50)])
    desk.add(refusal(namespace="team-b"))
    desk.write()

    assert "team-b" in [series.namespace for series in desk.created]


@pytest.mark.slow
def test_twenty_thousand_denials_make_a_bounded_number_of_events_in_bounded_memory() -> None:
    """Distinct names, users and namespaces, as fast as they can come (B26)."""
    desk = Desk()

    tracemalloc.start()
    try:
        for number in range(20_000):
            some = f"{number}-{'x' * 200}"
            desk.add(refusal(some, namespace=f"ns-{number % 5000}", group=f"g-{some}"))
            if number % 100 == 0:
                desk.now += 0.1
        grown_mib = tracemalloc.get_traced_memory()[0] / 2**20
    finally:
        tracemalloc.stop()

    assert len(desk.book) <= EventLimits().series
    assert desk.book.dropped >= 20_000 - EventLimits().series
    assert grown_mib < 5


def test_room_is_made_by_what_did_not_happen_for_long() -> None:
    desk = Desk(series=3, idle_s=600)

    desk.add(*[refusal(namespace=f"old-{n}") for n in range(3)])
    desk.write()
    desk.now += 601
    desk.add(*[refusal(namespace=f"new-{n}") for n in range(3)])
    desk.write()

    assert [series.namespace for series in desk.created][3:] == ["new-0", "new-1", "new-2"]


def test_a_bucket_fills_up_again_and_not_over() -> None:
    bucket = TokenBucket(2, 10.0, now=0.0)

    assert [bucket.take(0.0) for _ in range(3)] == [True, True, False]
    assert bucket.wait_s(5.0) == pytest.approx(5.0)
    assert [bucket.take(1000.0) for _ in range(3)] == [True, True, False]


def test_a_namespace_whose_events_are_refused_waits_longer_each_time_and_others_do_not() -> None:
    desk = Desk(first_pause_s=1, longest_pause_s=8)
    tries = []
    for number in range(6):
        desk.add(refusal(f"web-{number}", group=f"g-{number}"))
        series = desk.book.next()
        assert series is not None
        desk.now = max(desk.now, series.due_at)
        tries.append(desk.now)
        desk.book.refuse(series, desk.now)

    assert tries == [0, 1, 3, 7, 15, 23]
    desk.add(refusal("last"), refusal(namespace="team-b"))
    desk.write()
    assert [series.namespace for series in desk.created] == ["team-b"]
    desk.now += 8
    desk.write()
    assert [series.namespace for series in desk.created] == ["team-b", "team-a"]


# --- the writer ---


class Events:
    """The Events of an API server, and its faults."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.faults: list[KubeError] = []
        # What is under this path is refused.
        self.refused = ""

    async def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = "application/json"
    ) -> bytes:
        await asyncio.sleep(0)
        self.calls.append((method, path, body))
        if self.faults:
            raise self.faults.pop(0)
        if self.refused and self.refused in path:
            raise KubeError(403, "Forbidden", "exceeded quota: count/events.events.k8s.io")
        return b"{}"

    @property
    def methods(self) -> list[str]:
        return [method for method, _, _ in self.calls]


@contextlib.asynccontextmanager
async def writing(events: Events, metrics: Metrics, **limits: Any) -> AsyncIterator[EventWriter]:
    writer = EventWriter(events, metrics, replica="gate-0", limits=EventLimits(**limits))
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def become(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


def outcomes(metrics: Metrics) -> dict[str, float]:
    return {
        sample.labels["outcome"]: sample.value
        for family in metrics.events.collect()
        for sample in family.samples
    }


async def test_an_event_is_about_the_namespace_and_lies_in_it() -> None:
    events = Events()

    async with writing(events, Metrics()) as writer:
        writer.add(refusal())
        await become(lambda: bool(events.calls))

    method, path, body = events.calls[0]
    assert (method, path) == ("POST", "/apis/events.k8s.io/v1/namespaces/team-a/events")
    assert body["regarding"] == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "name": "team-a",
        "namespace": "team-a",
    }
    assert (body["type"], body["reason"]) == ("Warning", "AdmissionDenied")
    assert body["reportingInstance"] == "gate-0"
    assert "series" not in body


async def test_further_ones_become_the_count_of_the_first() -> None:
    events, metrics = Events(), Metrics()

    async with writing(events, metrics, update_period_s=0.05) as writer:
        writer.add(refusal())
        await become(lambda: bool(events.calls))
        for _ in range(4):
            writer.add(refusal())
        await become(lambda: len(events.calls) > 1)

    name = events.calls[0][2]["metadata"]["name"]
    method, path, body = events.calls[1]
    assert (method, path.rpartition("/")[2]) == ("PATCH", name)
    assert body["series"]["count"] == 5
    assert outcomes(metrics) == {"created": 1, "updated": 1}


async def test_an_event_that_the_cluster_has_forgotten_is_made_again() -> None:
    events = Events()

    async with writing(events, Metrics(), update_period_s=0.05) as writer:
        writer.add(refusal())
        await become(lambda: bool(events.calls))
        events.faults.append(KubeError(404, "NotFound", "no such event"))
        writer.add(refusal())
        await become(lambda: len(events.calls) == 3)

    assert events.methods == ["POST", "PATCH", "POST"]
    assert "series" not in events.calls[2][2]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(KubeError(404, "NotFound", "no such namespace"), id="gone"),
        pytest.param(
            KubeError(403, "Forbidden", "no", {"causes": [{"reason": "NamespaceTerminating"}]}),
            id="going",
        ),
    ],
)
async def test_a_namespace_that_is_going_or_gone_is_left_alone(fault: KubeError) -> None:
    events, metrics = Events(), Metrics()
    events.faults.append(fault)

    async with writing(events, metrics) as writer:
        writer.add(refusal())
        await become(lambda: bool(events.calls))
        for number in range(20):
            writer.add(refusal(f"again-{number}"))
        writer.add(refusal(namespace="team-b"))
        await become(lambda: len(events.calls) == 2)

    assert "/team-b/" in events.calls[1][1]
    assert outcomes(metrics) == {"created": 1, "dropped": 21}


@pytest.mark.slow
async def test_without_the_right_it_is_said_once_and_tried_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, metrics = Events(), Metrics()
    events.faults += [KubeError(403, "Forbidden", "not you")] * 100

    async with writing(events, metrics) as writer:
        for number in range(100):
            writer.add(refusal(f"web-{number}", namespace=f"ns-{number}"))
        await become(lambda: len(events.calls) == 4)

    # Of each of the first, and then of all.
    assert [record.message for record in caplog.records] == ["events can't be written"] * 3
    named = [record.__dict__.get("namespace") for record in caplog.records]
    assert named == ["ns-0", "ns-1", None]


async def test_one_namespace_that_takes_no_events_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, metrics = Events(), Metrics()
    events.refused = "/full/"

    async with writing(events, metrics) as writer:
        for number in range(10):
            writer.add(refusal(f"web-{number}", namespace="full"))
        for name in "abcde":
            writer.add(refusal(namespace=f"team-{name}"))
        await become(lambda: outcomes(metrics).get("created") == 5, within_s=0.9)

    assert len([path for _, path, _ in events.calls if "/full/" in path]) == 1
    assert [record.__dict__["namespace"] for record in caplog.records] == ["full"]


@pytest.mark.slow
async def test_what_an_api_server_that_is_away_missed_is_told_later() -> None:
    events, metrics = Events(), Metrics()
    events.faults.append(KubeError(0, "Unreachable", "away"))

    async with writing(events, metrics) as writer:
        writer.add(refusal())
        writer.add(refusal())
        await become(lambda: len(events.calls) == 2)
        await become(lambda: "created" in outcomes(metrics))

    assert events.methods == ["POST", "POST"]
    assert events.calls[1][2]["series"]["count"] == 2
    assert outcomes(metrics) == {"failed": 1, "created": 1}
