"""Callers that announce much and send little, while others want an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from tests.api.gate import Gate
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review

POLICY = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}))

# What an API server waits for an answer by the settings that we recommend.
TIMEOUT_S = 5.0

# By when all slow callers sit there. Up to 400 MB are on their way.
SIT_TIMEOUT_S = 10.0

HEAD = b"POST /validate?timeout=30s HTTP/1.1\r\nHost: gate\r\nContent-Type: application/json\r\n"
LONG = HEAD + b"Content-Length: 8000000\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def chunk(size_bytes: int) -> bytes:
    return b"%x\r\n" % size_bytes + b" " * size_bytes + b"\r\n"


# What each sends before it stops.
SLOW = {
    "one-byte": LONG + b"{",
    "one-byte-of-chunks": CHUNKED + chunk(1),
    "one-byte-packed": HEAD + b"Content-Encoding: gzip\r\n" + LONG.removeprefix(HEAD) + b"\x1f",
    "more-than-is-small": LONG + b" " * 300_000,
    "nearly-all": LONG + b" " * 7_999_999,
    "many-chunks": CHUNKED + chunk(7_999_999),
}


async def wait_until_quiet(gate: Gate) -> None:
    """Return when nothing more of what was sent comes in."""
    before_bytes, now_bytes = -1, gate.services.bodies.used_bytes
    async with asyncio.timeout(SIT_TIMEOUT_S):
        while before_bytes != now_bytes:
            before_bytes = now_bytes
            await asyncio.sleep(0.3)
            now_bytes = gate.services.bodies.used_bytes


@asynccontextmanager
async def slow_callers(gate: Gate, sent: bytes, count: int) -> AsyncIterator[None]:
    """*count* callers that send *sent*, then nothing, and stay."""
    opening = [asyncio.open_connection("127.0.0.1", gate.client.port) for _ in range(count)]
    writers = [writer for _, writer in await asyncio.gather(*opening)]

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()

    senders = [asyncio.create_task(send(writer)) for writer in writers]
    try:
        await wait_until_quiet(gate)
        yield
    finally:
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        for writer in writers:
            writer.close()


def review_of(size_bytes: int) -> bytes:
    pod = make_pod()
    pod["metadata"]["annotations"] = {"note": "x" * (size_bytes // 2)}
    return orjson.dumps(make_review(operation="UPDATE", object=pod, oldObject=pod))


@pytest.mark.parametrize("size_bytes", [300_000, 5_800_000])
@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
async def test_large_reviews_are_answered_while_many_slow_callers_sit_there(
    sent: bytes, size_bytes: int
) -> None:
    body = review_of(size_bytes)
    async with Gate(POLICY) as gate, slow_callers(gate, sent, 50):
        for _ in range(3):
            started = time.monotonic()
            answer = await gate.post("/validate?timeout=5s", body)

            assert answer.status == 200, await answer.text()
            assert time.monotonic() - started < TIMEOUT_S
