"""As many connections as there may be, and those who come after them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.api.door import (
    MOST,
    PATIENCE_S,
    REQUEST,
    Door,
    answer_of,
    ask,
    close,
    is_ended,
    serving,
)
from webhook.api import site as module
from webhook.api.limits.connections import Connections
from webhook.api.limits.line import Line
from webhook.telemetry.metrics import Metrics


class Held:
    """What is in a `Connections`, and which of them were ended."""

    def __init__(self, most: int = MOST) -> None:
        self.metrics = Metrics()
        self.connections = Connections(self.metrics, most)
        self.ended: list[str] = []

    def enter(self, *names: str) -> list[bool]:
        return [
            self.connections.enter(name, lambda name=name: self.ended.append(name))  # type: ignore[misc]  # mypy#15459
            for name in names
        ]

    def answer(self, *names: str) -> None:
        for name in names:
            self.connections.begin(name)
            self.connections.done(name)

    def shed(self, outcome: str) -> float:
        labels = {"outcome": outcome}
        found = self.metrics.registry.get_sample_value("gatewright_connections_shed_total", labels)
        return found or 0.0


def test_for_a_new_one_the_one_goes_that_has_been_idle_for_longest() -> None:
    held = Held()
    held.enter("a", "b", "c")
    held.answer("a", "b", "c", "a")

    assert held.enter("d") == [True]
    held.answer("d")
    held.enter("e")
    held.answer("e")
    held.enter("f")

    assert held.ended == ["b", "c", "a"]
    assert len(held.connections) == MOST
    assert held.shed("ended") == 3


def test_who_has_never_asked_anything_goes_first() -> None:
    held = Held()
    held.enter("known", "a", "b")
    held.answer("known")

    held.enter("c", "d", "e")

    assert held.ended == ["a", "b", "c"]


def test_who_is_being_answered_stays_and_the_new_one_goes() -> None:
    held = Held()
    held.enter("a", "b", "c")
    for name in ("a", "b", "c"):
        held.connections.begin(name)

    assert held.enter("d") == [False]
    assert held.ended == []
    assert held.shed("refused") == 1

    held.connections.done("b")
    assert held.enter("e") == [True]
    assert held.ended == ["b"]


def test_who_is_slow_to_send_is_no_better_than_who_sends_nothing() -> None:
    held = Held()
    held.enter("a", "slow", "b")
    held.connections.begin("slow", is_whole=False)

    held.enter("c", "d", "e")

    assert held.ended == ["a", "b", "slow"]
    held.connections.begin("c", is_whole=False)
    held.connections.done("c")
    held.enter("f")
    assert held.ended[3:] == ["d"]


def test_half_of_the_places_are_for_those_who_come_though_all_others_were_answered() -> None:
    """Or the next one to come would end the only other one who does."""
    held = Held(6)
    held.enter("a", "b", "c", "d", "e", "f")
    held.answer("a", "b", "c", "d", "e", "f")

    held.enter("g", "h", "i", "j")

    assert held.ended == ["a", "b", "c", "g"]


def test_who_was_answered_and_sends_the_next_one_in_pieces_is_still_known() -> None:
    held = Held(4)
    held.enter("known", "a", "b", "c")
    held.answer("known")
    held.connections.begin("known", is_whole=False)

    held.enter("d", "e")
    held.connections.arrived("known")
    held.enter("f", "g", "h")

    assert held.ended == ["a", "b", "c", "d", "e"]


def test_who_was_slow_to_send_is_being_answered_when_all_of_it_is_here() -> None:
    held = Held()
    held.enter("slow", "a", "b")
    held.connections.begin("slow", is_whole=False)
    held.connections.arrived("slow")

    held.enter("c", "d", "e")
    assert held.ended == ["a", "b", "c"]

    # The rest of what was refused before it was here.
    held.connections.done("slow")
    held.connections.arrived("slow")
    held.answer("d", "e")
    held.enter("f")
    assert held.ended[3:] == ["slow"]


def test_who_has_left_takes_no_room() -> None:
    held = Held()
    held.enter("a", "b", "c")
    held.answer("a")
    held.connections.begin("b")
    for name in ("a", "b", "c"):
        held.connections.leave(name)
    # It was closed while it was answered.
    held.connections.done("b")
    held.connections.arrived("c")

    assert len(held.connections) == 0
    assert held.enter("d", "e", "f") == [True] * 3
    assert held.ended == []


async def test_a_new_caller_is_answered_and_the_longest_idle_is_ended(tmp_path: Path) -> None:
    async with serving(tmp_path) as door:
        streams = [await door.enter() for _ in range(MOST)]
        assert [await ask(stream) for stream in streams] == [200] * MOST
        assert await ask(streams[0]) == 200

        newest = await door.enter()

        assert await ask(newest) == 200
        assert await is_ended(streams[1])
        assert [await ask(streams[0]), await ask(streams[2])] == [200, 200]
        await close(newest, *streams)


async def test_who_makes_no_handshake_is_ended_for_who_does(tmp_path: Path) -> None:
    async with serving(tmp_path) as door:
        known = await door.enter()
        assert await ask(known) == 200
        silent = [await door.knock() for _ in range(3 * MOST)]
        # The last ones are as new as the caller would be.
        async with asyncio.timeout(PATIENCE_S):
            assert all([await is_ended(stream) for stream in silent[: 2 * MOST]])
        caller = await door.enter()

        assert await ask(caller) == 200
        assert await ask(known) == 200, "who was answered is not ended for strangers"
        assert len(door.connections) <= MOST
        await close(known, caller, *silent)


@pytest.mark.slow
async def test_who_makes_no_handshake_in_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HANDSHAKE_S", 0.2)
    async with serving(tmp_path) as door:
        silent = await door.knock()
        half = await door.knock()
        half[1].write(b"\x16\x03\x01\x02\x00\x01")

        assert await is_ended(silent)
        assert await is_ended(half)
        assert len(door.connections) == 0
        await close(silent, half)


@pytest.mark.parametrize(
    "sent", [REQUEST, bytes(range(256)), b"\x16\x03\x01\xff\xff"], ids=["no-tls", "bytes", "record"]
)
async def test_what_is_no_tls_is_ended_and_forgotten(tmp_path: Path, sent: bytes) -> None:
    async with serving(tmp_path) as door:
        stream = await door.knock()
        stream[1].write(sent)
        stream[1].write_eof()

        async with asyncio.timeout(PATIENCE_S):
            # It may be told, in words of TLS.
            with contextlib.suppress(OSError):
                await stream[0].read()
            while len(door.connections):  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.01)
        await close(stream)


async def test_when_nobody_is_accepted_any_more_who_is_here_is_still_answered(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as door:
        stream = await door.enter()
        await door.site.stop()

        with pytest.raises(OSError, match="Connect call failed"):
            await door.enter()
        assert await ask(stream) == 200
        await close(stream)


class HeldUp(Line):
    """One in which everybody stands until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()

    async def wait_turn(
        self, *, wait_until: float, is_gone: Callable[[], bool], peer: Callable[[], str]
    ) -> None:
        await self.open.wait()
        await super().wait_turn(wait_until=wait_until, is_gone=is_gone, peer=peer)


async def until(condition: Callable[[], bool]) -> None:
    """Nobody tells."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("sent_bytes", [len(REQUEST), len(REQUEST) - 50], ids=["whole", "parts"])
async def test_who_waits_for_his_answer_is_not_ended_for_a_crowd(
    tmp_path: Path, sent_bytes: int
) -> None:
    line = HeldUp()
    async with serving(tmp_path, line=line) as door:
        caller = await door.enter()
        caller[1].write(REQUEST[:sent_bytes])
        await asyncio.sleep(0.1)
        caller[1].write(REQUEST[sent_bytes:])
        await until(lambda: door.counted("gatewright_reviews_running") == 1)
        await asyncio.sleep(0.1)
        silent = [await door.knock() for _ in range(3 * MOST)]
        assert await is_ended(silent[0])

        line.open.set()

        assert await answer_of(caller) == 200
        await close(caller, *silent)


async def test_who_has_not_sent_all_of_it_is_ended_for_a_crowd(tmp_path: Path) -> None:
    async with serving(tmp_path) as door:
        caller = await door.enter()
        caller[1].write(REQUEST[:-50])
        await until(lambda: door.counted("gatewright_reviews_running") == 1)
        silent = [await door.knock() for _ in range(MOST)]

        assert await is_ended(caller)
        # It is not he who has done something wrong.
        await until(lambda: rejected(door, "gone") == 1)
        assert rejected(door, "malformed") == 0
        await close(caller, *silent)


async def test_who_has_called_is_let_in_though_nobody_is_any_more(tmp_path: Path) -> None:
    """The kernel holds those who come at once: more than are let in at a time."""
    async with serving(tmp_path, 1000) as door:
        callers = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(100)]
        assert len(door.connections) == 0
        await door.site.stop()
        assert len(door.connections) == 100

        greeted = asyncio.create_task(door.site.wait_greeted(PATIENCE_S))
        streams = [
            await asyncio.open_connection(sock=caller, ssl=door.trust, server_hostname="127.0.0.1")
            for caller in callers
        ]
        await greeted

        assert [await ask(stream) for stream in streams] == [200] * len(callers)
        await close(*streams)


async def test_the_end_waits_for_handshakes_for_a_time_and_then_ends_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as door:
        silent = await door.knock()
        await until(lambda: len(door.connections) == 1)
        await door.site.stop()
        begun = asyncio.get_running_loop().time()

        await door.site.wait_greeted(0.2)

        assert asyncio.get_running_loop().time() - begun >= 0.19
        assert len(door.connections) == 1
        await door.runner.cleanup()
        assert len(door.connections) == 0
        assert await is_ended(silent)
        # At once: nobody is left to wait for.
        async with asyncio.timeout(0.1):
            await door.site.wait_greeted(PATIENCE_S)
        await close(silent)


@contextmanager
def no_more_files() -> Iterator[None]:
    """This process can open none in the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_who_comes_while_there_are_no_files_waits_until_there_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    async with serving(tmp_path) as door:
        with socket.socket() as plain:
            plain.setblocking(False)
            with no_more_files():
                await loop.sock_connect(plain, ("127.0.0.1", door.port))
                await asyncio.sleep(0.3)
            stream = await asyncio.open_connection(
                sock=plain, ssl=door.trust, server_hostname="127.0.0.1"
            )

            assert await ask(stream) == 200
            await close(stream)
        # Fifty in a second, and not as many as the loop has rounds.
        assert 2 <= missing_files(door) <= 20

    said = [record.getMessage() for record in caplog.records]
    assert said.count("connections can't be accepted: Too many open files") == 1


async def test_without_files_an_idle_connection_goes_for_who_comes(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with serving(tmp_path) as door:
        idle = await door.enter()
        assert await ask(idle) == 200
        with socket.socket() as plain:
            plain.setblocking(False)
            with no_more_files():
                await loop.sock_connect(plain, ("127.0.0.1", door.port))
                stream = await asyncio.open_connection(
                    sock=plain, ssl=door.trust, server_hostname="127.0.0.1"
                )
                assert await ask(stream) == 200

            assert missing_files(door) == 1
            assert await is_ended(idle)
            await close(stream, idle)


def rejected(door: Door, reason: str) -> float:
    return door.counted("gatewright_requests_rejected_total", reason=reason)


def missing_files(door: Door) -> float:
    return door.counted("gatewright_connections_shed_total", outcome="no_files")
