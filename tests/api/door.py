"""A server over TLS in this process, with room for few, and connections to it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from tests.api.gate import Gate
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.api.app import build_app
from webhook.api.runner import GateRunner
from webhook.api.services import Services
from webhook.api.site import BoundedSite
from webhook.tls.context import ServerTls
from webhook.tls.directory import ensure_development_certificate

POLICY = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}))
BODY = orjson.dumps(make_review(object=make_pod()))


def make_request(body: bytes) -> bytes:
    return (
        b"POST /validate HTTP/1.1\r\nHost: gate\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


REQUEST = make_request(BODY)
PATIENCE_S = 5.0
MOST = 3

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Door:
    """A server with room for some connections."""

    def __init__(self, services: Services, runner: GateRunner, site: BoundedSite, ca: Path) -> None:
        self.services = services
        self.runner = runner
        self.site = site
        self.connections = runner.connections
        self.port: int = runner.addresses[0][1]
        self.ca = ca
        self.trust = ssl.create_default_context(cafile=str(ca))

    async def knock(self) -> Stream:
        """A connection without a handshake."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def enter(self) -> Stream:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)

    def counted(self, metric: str, **labels: str) -> float:
        """What a counter stands at."""
        return self.services.metrics.registry.get_sample_value(metric, labels) or 0.0


async def ask(stream: Stream) -> int:
    """The status of an answer."""
    stream[1].write(REQUEST)
    return await answer_of(stream)


async def answer_of(stream: Stream) -> int:
    """The status of the next answer."""
    reader, _ = stream
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
async def serving(
    directory: Path, most: int = MOST, *, documents: Sequence[Any] = (POLICY,), **options: Any
) -> AsyncIterator[Door]:
    """A server with room for *most*; *options* are those of `Services`."""
    paths = ensure_development_certificate(directory)
    async with Gate(*documents, **options) as gate:
        runner = GateRunner(
            build_app(gate.services),
            most_connections=most,
            access_log=None,
            shutdown_timeout=0.1,
        )
        await runner.setup()
        tls = ServerTls(paths.certificate, paths.key).context
        site = BoundedSite(runner, "127.0.0.1", 0, tls=tls)
        try:
            await site.start()
            yield Door(gate.services, runner, site, paths.ca)
        finally:
            await runner.cleanup()


async def close(*streams: Stream) -> None:
    for _, writer in streams:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
