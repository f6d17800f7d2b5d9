"""Objects near the size that an API server accepts (B15)."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from tests.api.gate import WIDGET, WIDGET_MAPPING, Gate, make_widget, of_kind, records
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.admission.decode import MAX_NESTING, MAX_VALUES

# What an API server waits for an answer by the settings that we recommend.
TIMEOUT_S = 5.0

# How long anybody else may wait meanwhile: a kubelet does for one second by default.
HELD_UP_S = 1.0
# The best of them counts: each may be disturbed.
TRIES = 3

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


async def best_s(measure_s: Callable[[], Awaitable[float]]) -> float:
    """The least that is measured, in no more tries than it takes to be short enough."""
    found_s = await measure_s()
    for _ in range(TRIES - 1):
        if found_s < HELD_UP_S:
            break
        found_s = min(found_s, await measure_s())
    return found_s


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
            # As callers that wait for the longest that Kubernetes allows.
            answer = await gate.post(f"{door}?timeout=30s", body)
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

    async def slowest_s() -> float:
        big = [asyncio.create_task(gate.post("/validate", body)) for _ in range(6)]
        slowest_s = 0.0
        while not all(task.done() for task in big):
            started = time.monotonic()
            assert (await gate.ops.get("/healthz")).status == 200
            slowest_s = max(slowest_s, time.monotonic() - started)
        await asyncio.gather(*big)
        return slowest_s

    async with Gate(*POLICIES) as gate:
        assert await best_s(slowest_s) < HELD_UP_S


@pytest.mark.parametrize("levels", [1000, 5000])
async def test_an_object_nested_a_thousand_deep_is_an_error_and_no_crash(levels: int) -> None:
    body = orjson.dumps(make_review(object={"deep": "HERE"}))
    body = body.replace(b'"HERE"', b'{"a":' * levels + b"1" + b"}" * levels)
    async with Gate(*POLICIES) as gate:
        answer = await gate.post("/validate", body)

        assert answer.status == 400
        assert "levels" in (await answer.json())["message"]


# What stands around the template, and around a value in it.
LEVELS_AROUND = 7


@pytest.mark.parametrize("field", ["deep", "priorityClassName"])
@pytest.mark.parametrize("levels", [50, MAX_NESTING - LEVELS_AROUND])
@pytest.mark.parametrize("door", ["/mutate", "/validate"])
async def test_what_nests_less_is_answered(door: str, levels: int, field: str) -> None:
    """Also where a policy governs it, so that it is compared with what was there."""
    widget = make_widget([{"role": "main", "template": {field: "HERE"}}])
    body = orjson.dumps(make_review(**of_kind(widget, operation="UPDATE", oldObject=widget)))
    for innermost in (b"1", b"2"):
        body = body.replace(b'"HERE"', b"[" * levels + innermost + b"]" * levels, 1)
    async with Gate(*POLICIES) as gate:
        answer = await gate.post(door, body)

        assert answer.status == 200


MIB = 2**20
HALF = MAX_VALUES // 2 - 30


def spec_of(spec: bytes) -> bytes:
    """A review of an object with *spec*."""
    return orjson.dumps(make_review(object={"spec": "HERE"})).replace(b'"HERE"', spec)


def update_of_last_value() -> bytes:
    """As many values as there may be, and all have to be compared to find what has changed."""
    body = orjson.dumps(make_review(operation="UPDATE", object="NEW", oldObject="OLD"))
    for mark, last in ((b'"NEW"', b"1"), (b'"OLD"', b"2")):
        spec = b'[{"":1}' + b',{"":1}' * (HALF // 2) + b"," + last + b"]"
        body = body.replace(mark, b'{"apiVersion":"v1","kind":"Pod","spec":{"x":' + spec + b"}}")
    return body


# Each fills what a body may have (8 MiB, or 24 MiB of escapes), or holds as many values as it may.
HEAVY: dict[str, Callable[[], bytes]] = {
    "objects": lambda: spec_of(b"[{}" + b",{}" * (8 * MIB // 3 - 500) + b"]"),
    "lists-in-lists": lambda: spec_of(b"[[[]]" + b",[[]]" * (8 * MIB // 5 - 500) + b"]"),
    "numbers": lambda: spec_of(b"[1" + b",1" * (4 * MIB - 500) + b"]"),
    "texts": lambda: spec_of(b'[""' + b',""' * (8 * MIB // 3 - 500) + b"]"),
    "objects-at-the-limit": lambda: spec_of(b'[{"":1}' + b',{"":1}' * HALF + b"]"),
    "keys-at-the-limit": lambda: spec_of(
        b"{" + b",".join(b'"%x":{}' % n for n in range(HALF)) + b"}"
    ),
    "quotes": lambda: spec_of(b'"' + b'\\"' * (4 * MIB - 500) + b'"'),
    "text": lambda: spec_of(b'"' + b"x" * (8 * MIB - 1000) + b'"'),
    "escapes": lambda: spec_of(b'"' + b"\\u003c" * (4 * MIB - 500) + b'"'),
    "brackets": lambda: spec_of(b"[" * (8 * MIB - 1000)),
    "update-at-the-limit": update_of_last_value,
}


@pytest.mark.parametrize("shape", HEAVY)
async def test_no_body_holds_up_the_others(shape: str) -> None:
    """Whatever is in it, others are answered within a second."""
    body = HEAVY[shape]()

    async def longest_s() -> float:
        asked = asyncio.create_task(gate.post("/validate", body))
        longest_s, last = 0.0, time.monotonic()
        while not asked.done():
            await asyncio.sleep(0.001)
            now = time.monotonic()
            longest_s, last = max(longest_s, now - last), now
        assert (await asked).status in (200, 400)
        return longest_s

    async with Gate(*POLICIES) as gate:
        assert await best_s(longest_s) < HELD_UP_S
