"""As many connections as there may be, and those who come after them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import orjson
import pytest

from tests.api.gate import Gate
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.api import connections as module
from webhook.api.app import build_app
from webhook.api.connections import BoundedSite, Connections
from webhook.api.runner import GateRunner
from webhook.telemetry.metrics import Metrics
from webhook.tls.context import ServerTls
from webhook.tls.directory import ensure_development_certificate

POLICY = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}))
BODY = orjson.dumps(make_review(object=make_pod()))
REQUEST = (
    b"POST /validate HTTP/1.1\r\nHost: gate\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
PATIENCE_S = 5.0
MOST = 3

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


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
    held.enter("known", "slow", "a")
    held.answer("known", "slow")
    held.connections.begin("slow", is_whole=False)

    held.enter("b", "c")

    assert held.ended == ["a", "slow"]
    held.connections.begin("b", is_whole=False)
    held.connections.done("b")
    held.enter("d")
    assert held.ended == ["a", "slow", "c"]


def test_who_has_left_takes_no_room() -> None:
    held = Held()
    held.enter("a", "b", "c")
    held.answer("a")
    held.connections.begin("b")
    for name in ("a", "b", "c"):
        held.connections.leave(name)
    # It was closed while it was answered.
    held.connections.done("b")

    assert len(held.connections) == 0
    assert held.enter("d", "e", "f") == [True] * 3
    assert held.ended == []


class Door:
    """A server with room for *MOST*."""

    def __init__(self, site: BoundedSite, connections: Connections, port: int, ca: Path) -> None:
        self.site = site
        self.connections = connections
        self.port = port
        self.trust = ssl.create_default_context(cafile=str(ca))

    async def knock(self) -> Stream:
        """A connection without a handshake."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def enter(self) -> Stream:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)


async def ask(stream: Stream) -> int:
    """The status of an answer."""
    reader, writer = stream
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12])


async def is_ended(stream: Stream) -> bool:
    """Whether the other end closes it, or has."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await stream[0].read() == b""
    except OSError:
        return True
    except TimeoutError:
        return False


@asynccontextmanager
async def serving(directory: Path, most: int = MOST) -> AsyncIterator[Door]:
    paths = ensure_development_certificate(directory)
    async with Gate(POLICY) as gate:
        connections = Connections(gate.services.metrics, most)
        runner = GateRunner(
            build_app(gate.services),
            connections=connections,
            access_log=None,
            shutdown_timeout=0.1,
        )
        await runner.setup()
        tls = ServerTls(paths.certificate, paths.key).context
        site = BoundedSite(runner, "127.0.0.1", 0, connections=connections, tls=tls)
        try:
            await site.start()
            yield Door(site, connections, runner.addresses[0][1], paths.ca)
        finally:
            await runner.cleanup()


async def close(*streams: Stream) -> None:
    for _, writer in streams:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


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
                # Two tries, and not as many as the loop has rounds.
                await asyncio.sleep(0.15)
            stream = await asyncio.open_connection(
                sock=plain, ssl=door.trust, server_hostname="127.0.0.1"
            )

            assert await ask(stream) == 200
            await close(stream)

    said = [record.getMessage() for record in caplog.records]
    assert 1 <= said.count("connections can't be accepted: Too many open files") <= 3
