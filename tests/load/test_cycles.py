"""
What is done with goes at once, without the collector, which comes late where nothing goes wrong.

A reference cycle in each request would hold its body, up to megabytes, until then.
"""

from __future__ import annotations

import asyncio
import gc
import io
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CoroutineType, FrameType, TracebackType
from typing import Any

import orjson
import pytest

import webhook
from tests.api.full import FullLine, FullRoom
from tests.api.gate import WIDGET, WIDGET_MAPPING, Gate, make_widget, of_kind
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.telemetry.logs import configure_logging

REQUESTS = 200
AT_ONCE = 100
POLICIES = (
    make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]})),
    WIDGET_MAPPING,
    make_gvk_policy(
        make_rule("priorityClassName", "parts", {"default": "x"}), kind=WIDGET, name="widgets"
    ),
)
OURS = str(Path(webhook.__file__).parent)


def body_of(document: dict[str, Any], padding: int = 0) -> bytes:
    return orjson.dumps(make_review(**of_kind(document))) + b" " * padding


ALLOWED = body_of(make_pod())
DENIED = body_of(make_pod(hostNetwork=True))
# Both need jq, which fails for the second.
WITH_PARTS = body_of(make_widget([{"role": "main", "template": {"priorityClassName": "x"}}]))
WITHOUT_PARTS = body_of(make_widget("none"))
LARGE = body_of(make_pod(), padding=300_000)


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def count_ours() -> Counter[str]:
    """The objects of our own classes and the calls of our own functions, by name."""
    return Counter(name for each in gc.get_objects() if (name := name_of(each)))


def name_of(each: object) -> str:
    """Empty where it is not ours."""
    match each:
        case TracebackType(tb_frame=frame):
            code = frame.f_code
        case FrameType(f_code=code) | CoroutineType(cr_code=code):
            pass
        case _:
            kind = type(each)
            # Where a library asks for it, it may be no text.
            is_ours = str(kind.__module__).partition(".")[0] == webhook.__name__
            return kind.__qualname__ if is_ours else ""
    is_ours = code.co_filename.startswith(OURS)
    return f"{type(each).__name__} of {code.co_qualname}" if is_ours else ""


async def call_all(gate: Gate, path: str, body: bytes, status: int) -> None:
    async def call() -> None:
        answer = await gate.post(path, body)
        assert answer.status == status, await answer.text()
        await answer.read()

    for _ in range(REQUESTS // AT_ONCE):
        await asyncio.gather(*[call() for _ in range(AT_ONCE)])


@pytest.mark.parametrize("door", ["/mutate", "/validate"])
@pytest.mark.parametrize(
    ("make_gate", "body", "status"),
    [
        pytest.param(lambda: Gate(*POLICIES), ALLOWED, 200, id="allowed"),
        pytest.param(lambda: Gate(*POLICIES), DENIED, 200, id="denied"),
        pytest.param(lambda: Gate(*POLICIES), LARGE, 200, id="large"),
        pytest.param(lambda: Gate(*POLICIES), WITH_PARTS, 200, id="asks-jq"),
        pytest.param(lambda: Gate(*POLICIES), b"null", 400, id="bad"),
        pytest.param(lambda: Gate(*POLICIES), b" " * 300_000, 400, id="bad-and-large"),
        pytest.param(lambda: Gate(*POLICIES, max_body_bytes=200_000), LARGE, 413, id="too-large"),
        pytest.param(lambda: Gate(*POLICIES, line=FullLine()), ALLOWED, 503, id="busy"),
        pytest.param(lambda: Gate(*POLICIES, bodies=FullRoom()), LARGE, 503, id="busy-and-large"),
        pytest.param(lambda: Gate(*POLICIES), WITHOUT_PARTS, 500, id="failed"),
        pytest.param(Gate, ALLOWED, 500, id="nothing-loaded"),
    ],
)
async def test_nothing_of_a_request_waits_for_the_collector(
    make_gate: Callable[[], Gate], body: bytes, status: int, door: str, log: io.StringIO
) -> None:
    # Once more: pytest came in between, and keeps each record with what failed.
    configure_logging("debug", log)
    # Or some would be refused who wait for jq.
    path = f"{door}?timeout=30s"
    async with make_gate() as gate:
        # What is made once is there.
        await call_all(gate, path, body, status)
        with no_collector():
            before = count_ours()
            await call_all(gate, path, body, status)
            left = count_ours() - before

    assert left.total() < REQUESTS, left.most_common(10)
