"""Objects near the size that an API server accepts (B15)."""

from __future__ import annotations

import asyncio
import io
import time
from typing import Any

import orjson
import pytest

from tests.api.gate import WIDGET, WIDGET_MAPPING, Gate, make_widget, of_kind, records
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.api.services import BIG_BODY_BYTES, BodyBudget

# What an API server waits for an answer by the settings that we recommend.
TIMEOUT_S = 5.0

OBJECT_BYTES = 2_900_000

POLICIES = (
    make_gvk_policy(
        make_rule("annotations", "metadata", {"required": {"key": "note"}}),
        make_rule("hostNetwork", "podSpec", {"options": [False]}),
    ),
    WIDGET_MAPPING,
    make_gvk_policy(make_rule("priorityClassName", "parts", {"default": "x"}), kind=WIDGET),
)
# `baseline` twice would be a conflict.
POLICIES[2]["metadata"]["name"] = "widgets"


def one_long_annotation() -> dict[str, Any]:
    pod = make_pod()
    pod["metadata"]["annotations"] = {"note": "x" * OBJECT_BYTES}
    return pod


def many_items() -> dict[str, Any]:
    item = {"role": "side", "text": "y" * 850, "numbers": [1, 2, 3], "flags": {"a": True}}
    return make_widget([{**item, "index": n} for n in range(3000)])


def update_of(document: dict[str, Any]) -> bytes:
    return orjson.dumps(make_review(**of_kind(document, operation="UPDATE", oldObject=document)))


@pytest.mark.parametrize("make_object", [one_long_annotation, many_items])
@pytest.mark.parametrize("door", ["/mutate", "/validate"])
async def test_an_update_of_twice_three_megabytes_is_answered(door: str, make_object: Any) -> None:
    body = update_of(make_object())
    assert len(body) > 2 * 2_700_000
    async with Gate(*POLICIES) as gate:
        started = time.monotonic()
        answer = await gate.post(door, body)

        assert answer.status == 200, await answer.text()
        assert (await answer.json())["response"]["allowed"]
        assert time.monotonic() - started < TIMEOUT_S


async def test_twenty_of_them_at_once_are_answered_and_recorded_in_short(
    log: io.StringIO,
) -> None:
    body = update_of(many_items())
    async with Gate(*POLICIES) as gate:

        async def ask(door: str) -> int:
            answer = await gate.post(door, body)
            await answer.read()
            return answer.status

        asked = [ask(door) for door in ("/mutate", "/validate") * 10]
        assert await asyncio.gather(*asked) == [200] * 20
        assert gate.services.bodies.used_bytes == 0

    lines = log.getvalue().splitlines()
    assert len(records(lines)) == 20
    assert max(map(len, lines)) < 16 * 1024


async def test_health_is_answered_meanwhile() -> None:
    body = update_of(many_items())
    async with Gate(*POLICIES) as gate:
        big = [asyncio.create_task(gate.post("/validate", body)) for _ in range(6)]
        slowest_s = 0.0
        while not all(task.done() for task in big):
            started = time.monotonic()
            assert (await gate.ops.get("/healthz")).status == 200
            slowest_s = max(slowest_s, time.monotonic() - started)
        await asyncio.gather(*big)

    # A kubelet waits for one second by default.
    assert slowest_s < 1.0


@pytest.mark.parametrize("levels", [1000, 5000])
async def test_an_object_nested_a_thousand_deep_is_an_error_and_no_crash(levels: int) -> None:
    body = orjson.dumps(make_review(object={"deep": "HERE"}))
    body = body.replace(b'"HERE"', b'{"a":' * levels + b"1" + b"}" * levels)
    async with Gate(*POLICIES) as gate:
        answer = await gate.post("/validate", body)

        assert answer.status == 400
        assert "levels" in (await answer.json())["message"]


@pytest.mark.parametrize("levels", [200, 300, 600, 880])
@pytest.mark.parametrize("door", ["/mutate", "/validate"])
async def test_what_nests_less_is_answered(door: str, levels: int) -> None:
    widget = make_widget([{"role": "main", "template": {"deep": "HERE"}}])
    nested = b"[" * levels + b"1" + b"]" * levels
    body = orjson.dumps(make_review(**of_kind(widget, operation="UPDATE", oldObject=widget)))
    body = body.replace(b'"HERE"', nested)
    async with Gate(*POLICIES) as gate:
        answer = await gate.post(door, body)

        assert answer.status == 200


async def test_big_bodies_wait_for_each_other_and_small_ones_do_not() -> None:
    budget = BodyBudget(total_bytes=3 * BIG_BODY_BYTES)
    order: list[str] = []
    release = asyncio.Event()

    async def big(name: str) -> None:
        async with budget.hold(2 * BIG_BODY_BYTES):
            order.append(name)
            await release.wait()

    tasks = [asyncio.create_task(big(name)) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    async with budget.hold(100):
        order.append("small")
    assert order == ["first", "small"]

    tasks[1].cancel()
    release.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["first", "small", "third"]
    assert budget.used_bytes == 0


async def test_a_body_larger_than_the_whole_budget_is_let_in_alone() -> None:
    budget = BodyBudget(total_bytes=BIG_BODY_BYTES)

    async with budget.hold(100 * BIG_BODY_BYTES):
        assert budget.used_bytes == 100 * BIG_BODY_BYTES
