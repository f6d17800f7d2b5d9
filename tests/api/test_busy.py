"""Reviews that come when there is too much to do, and those that wait for jq."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.api.door import MOST, REQUEST, ask, close, make_request, serving
from tests.api.full import FullLine, FullRoom
from tests.api.gate import WIDGET, WIDGET_MAPPING, Gate, make_widget, of_kind, records
from tests.api.rest import ACME, MAPPINGS, Api
from tests.builders import make_gvk_policy, make_rule
from tests.unit.admission.builders import make_review
from webhook.api.limits.line import Line
from webhook.errors import JqBusyError
from webhook.mapping.evaluator import JqWorker

DOORS = ["/mutate", "/validate"]
POLICY = make_gvk_policy(
    make_rule("priorityClassName", "parts", {"default": "train"}), kind=WIDGET, name="widgets"
)
PART = {"role": "main", "template": {"priorityClassName": "train"}}
BODY = orjson.dumps(make_review(**of_kind(make_widget([PART]))))
PATIENCE_S = 5.0


@pytest.mark.parametrize("door", DOORS)
async def test_an_api_server_is_not_told_to_repeat_what_was_refused(door: str) -> None:
    """It would do so until its time is up: five times the load, and its user waits."""
    async with Gate(POLICY, WIDGET_MAPPING, line=FullLine()) as gate:
        answer = await gate.post(door, BODY)

        assert answer.status == 503
        assert await answer.json() == {"code": 503, "message": "too many reviews at once"}
        assert "Retry-After" not in answer.headers


@pytest.mark.parametrize(
    ("query", "held_s"), [("", 0.5), ("?timeout=1s", 0.1)], ids=["usual", "short"]
)
async def test_a_refusal_is_held_back_for_those_who_would_call_again_at_once(
    query: str, held_s: float
) -> None:
    async with Gate(POLICY, WIDGET_MAPPING, line=FullLine()) as gate:
        begun = time.monotonic()
        answer = await gate.post(f"/mutate{query}", BODY)
        took_s = time.monotonic() - begun

    assert answer.status == 503
    assert took_s >= 0.9 * held_s
    # Long before the caller gives up.
    assert took_s < held_s + 1.0


async def test_who_is_refused_and_not_told_yet_keeps_no_place_from_others(tmp_path: Path) -> None:
    async with serving(tmp_path, line=FullLine()) as door:
        refused = [await door.enter() for _ in range(MOST)]
        for caller in refused:
            caller[1].write(REQUEST)
        # Refused, and held back for half a second.
        await asyncio.sleep(0.2)
        newcomer = await door.enter()

        assert await ask(newcomer) == 503
        await close(newcomer, *refused)


async def test_a_program_that_uses_the_api_is_told_to_come_again(tmp_path: Path) -> None:
    async with Api(tmp_path, room=FullRoom()) as api:
        answer = await api.post(MAPPINGS, {"workloadType": ACME})

    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"


class HeldJq(JqWorker):
    """One whose children are at something else until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.let_go = threading.Event()

    def evaluate_paths(
        self, sources: tuple[str, ...], document_json: bytes, begin_until: float | None = None
    ) -> Any:
        assert begin_until is not None
        self.asked.set()
        if not self.let_go.wait(begin_until - time.monotonic()):
            raise JqBusyError("jq was busy")
        return super().evaluate_paths(sources, document_json, begin_until)


@pytest.mark.slow
async def test_who_can_not_wait_for_jq_is_refused_while_he_still_listens(
    log: io.StringIO,
) -> None:
    jq = HeldJq()
    async with Gate(POLICY, WIDGET_MAPPING, jq=jq) as gate:
        begun = time.monotonic()
        answer = await gate.post("/validate?timeout=3s", BODY)
        took_s = time.monotonic() - begun
        series = await gate.series()
        jq.let_go.set()

        assert answer.status == 503
        message = "too many reviews that need jq at once"
        assert await answer.json() == {"code": 503, "message": message}
    assert 1.5 < took_s < 3.0
    assert ("gatewright_requests_rejected_total", (("reason", "busy"),)) in series
    # Nothing was decided, and nothing failed.
    assert not records(log.getvalue().splitlines())


class BusyJq(JqWorker):
    """One that has no time for this question, whatever time the caller has."""

    def evaluate_paths(self, *_args: Any, **_kw: Any) -> Any:
        raise JqBusyError("jq was busy")


async def test_who_has_time_left_is_refused_as_well_where_jq_has_none() -> None:
    async with Gate(POLICY, WIDGET_MAPPING, jq=BusyJq()) as gate:
        answer = await gate.post("/validate?timeout=5s", BODY)

        assert answer.status == 503


@pytest.mark.slow
async def test_who_can_wait_for_longer_does_so(log: io.StringIO) -> None:
    jq = HeldJq()
    async with Gate(POLICY, WIDGET_MAPPING, jq=jq) as gate:
        asking = asyncio.create_task(gate.post("/validate?timeout=30s", BODY))
        # More than the worker itself would wait.
        await asyncio.sleep(3.5)
        jq.let_go.set()

        assert (await asking).status == 200


async def test_nothing_is_decided_for_who_hung_up_while_jq_was_asked(
    tmp_path: Path, log: io.StringIO
) -> None:
    jq = HeldJq()
    async with serving(tmp_path, documents=(POLICY, WIDGET_MAPPING), jq=jq) as door:
        caller = await door.enter()
        caller[1].write(make_request(BODY))
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.to_thread(jq.asked.wait)
            await close(caller)
            while len(door.connections):  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.01)
        jq.let_go.set()
        assert await door.services.running.wait_idle(PATIENCE_S)

        assert door.counted("gatewright_requests_rejected_total", reason="gone") == 1
    assert not records(log.getvalue().splitlines())


class CountedLine(Line):
    """One that counts turns, and knows who had them."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[str] = []
        self.peers: set[str] = set()

    async def wait_turn(
        self, *, wait_until: float, is_gone: Callable[[], bool], peer: Callable[[], str]
    ) -> None:
        self.turns.append("new")
        self.peers.add(peer())
        await super().wait_turn(wait_until=wait_until, is_gone=is_gone, peer=peer)

    async def return_for_turn(self, *, is_gone: Callable[[], bool]) -> None:
        self.turns.append("returned")
        await super().return_for_turn(is_gone=is_gone)


async def test_with_the_answers_of_jq_a_review_takes_a_turn_again() -> None:
    line = CountedLine()
    async with Gate(POLICY, WIDGET_MAPPING, line=line) as gate:
        assert (await gate.ask("/validate"))["allowed"]
        assert line.turns == ["new"]

        assert (await gate.post("/validate", BODY)).status == 200

    assert line.turns == ["new", "new", "returned"]


async def test_who_waits_does_so_by_the_address_that_he_calls_from() -> None:
    line = CountedLine()
    async with Gate(POLICY, WIDGET_MAPPING, line=line) as gate:
        await gate.post("/validate", BODY)
        # Said by whoever writes the request, who may say what he likes.
        told = {"X-Forwarded-For": "10.0.0.9", "Forwarded": "for=10.0.0.9"}
        await gate.post("/validate", BODY, **told)

    assert line.peers == {"127.0.0.1"}
