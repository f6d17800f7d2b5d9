"""
API servers that call a webhook: by its Service, over connections that they keep, at a steady rate.

Written on bare connections: with a library for HTTP, two cores would be busy with the callers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import ssl
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Protocol, Self

from tests.controlplane.run import ControlPlane

# What an API server waits for an answer by the settings that we recommend.
TIMEOUT_S = 5.0
# A registration is followed by a look so often: whoever calls knows authorities as old as that.
FOLLOW_S = 2.0


class Service:
    """
    Where calls go: what a kube-proxy knows of the endpoints, by port on this machine.

    Whoever ends stays among them for *lag_s*, in seconds.
    """

    def __init__(self, lag_s: float) -> None:
        self._lag_s = lag_s
        # When each leaves.
        self._until: dict[int, float] = {}

    def join(self, port: int) -> None:
        self._until[port] = float("inf")

    def leave(self, port: int) -> None:
        """It has been told to end."""
        self._until[port] = time.monotonic() + self._lag_s

    def lose(self, port: int) -> None:
        """It is gone, and everybody knows."""
        del self._until[port]

    def is_leaving(self, port: int) -> bool:
        return self._until.get(port) != float("inf")

    def pick(self) -> int:
        now = time.monotonic()
        return random.choice([port for port, end in list(self._until.items()) if now < end])

    def route(self, _host: str, _port: int) -> int:
        """For a `ServiceProxy`, where there is no other Service."""
        return self.pick()


class Trust:
    """The authorities that a registration names, as whoever calls by it knows them."""

    def __init__(self, plane: ControlPlane, registration: str) -> None:
        self._plane = plane
        self._path = (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/" + registration
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self.bundle = self._look()
        self.context = ssl.create_default_context(cadata=self.bundle.decode())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ended.wait(FOLLOW_S):
            try:
                bundle = self._look()
            except OSError:
                continue
            if bundle and bundle != self.bundle:
                self.bundle = bundle
                self.context = ssl.create_default_context(cadata=bundle.decode())

    def _look(self) -> bytes:
        answer = self._plane.request("GET", self._path, timeout_s=TIMEOUT_S)
        if answer.status != 200:
            return b""
        return base64.b64decode(answer.json()["webhooks"][0]["clientConfig"].get("caBundle", ""))


class Connection:
    """One connection, with one request at a time."""

    def __init__(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trust: object
    ) -> None:
        self.port = port
        # What it was opened with.
        self.trust = trust
        self._reader, self._writer = reader, writer
        self._goes_on = True

    @classmethod
    async def open(
        cls, port: int, host: str, context: ssl.SSLContext, source: str = "127.0.0.1"
    ) -> Self:
        """*source* is the address that it comes from."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=host, local_addr=(source, 0)
        )
        return cls(port, reader, writer, context)

    @property
    def is_usable(self) -> bool:
        """Whether neither end has closed it, as far as is known."""
        return self._goes_on and not self._reader.at_eof() and not self._writer.is_closing()

    async def post(self, head: bytes, body: bytes) -> tuple[int, bytes]:
        """
        Status and body of the answer. *head* has all but the length, and no end.

        Raises:
            OSError, EOFError: there was none.
        """
        self._writer.write(b"%b\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        self._goes_on = b"\r\nconnection: close\r\n" not in answer
        return int(answer[9:12]), await self._reader.readexactly(length)

    @property
    def certificate(self) -> bytes:
        """The other end's, in DER."""
        tls: ssl.SSLObject = self._writer.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True) or b""

    def close(self) -> None:
        self._writer.close()

    async def closed(self) -> None:
        """Return when both ends have closed it."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                await self._writer.wait_closed()


class Door(Protocol):
    """Something that can be called."""

    @property
    def trust(self) -> object:
        """What a connection is opened with now; those of another one are not used any more."""

    async def open(self) -> Connection:
        """A new connection."""


class ServiceDoor:
    """A webhook behind its Service, which has the DNS name *host*."""

    def __init__(self, service: Service, trust: Trust, host: str) -> None:
        self._service, self._trust, self._host = service, trust, host
        self.certificates: set[bytes] = set()

    @property
    def trust(self) -> object:
        return self._trust.context

    async def open(self) -> Connection:
        made = await Connection.open(self._service.pick(), self._host, self._trust.context)
        self.certificates.add(made.certificate)
        return made


class ApiServerDoor:
    def __init__(self, plane: ControlPlane) -> None:
        self._port = int(plane.server_url.rpartition(":")[2])
        self.trust = ssl.create_default_context(cadata=plane.ca_pem)

    async def open(self) -> Connection:
        return await Connection.open(self._port, "127.0.0.1", self.trust)


class Caller:
    """
    Keeps the connections that are idle, and takes the one that was used last, as Go does.

    As there, a POST that was sent is never sent again. One that *keeps* none is a caller who is
    new with every call.
    """

    def __init__(self, door: Door, *, keeps: bool = True) -> None:
        self._door = door
        self._keeps = keeps
        self._idle: list[Connection] = []

    async def post(self, head: bytes, body: bytes) -> tuple[int, int, bytes]:
        """The port that was called, and what it answered: status and body."""
        connection = self._kept() or await self._door.open()
        answered = False
        try:
            status, answer = await connection.post(head, body)
            answered = True
        finally:
            if answered and self._keeps and connection.is_usable:
                self._idle.append(connection)
            else:
                connection.close()
        return connection.port, status, answer

    async def close(self) -> None:
        kept, self._idle = self._idle, []
        for connection in kept:
            connection.close()
        for connection in kept:
            await connection.closed()

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.trust is self._door.trust:
                return connection
            connection.close()
        return None


@dataclass(frozen=True, slots=True)
class Call:
    """
    One call: when it was due and how long it took from then on, in seconds; by whom it was
    answered, and what was wrong with that.
    """

    due_s: float
    took_s: float
    port: int
    failure: str


class Asking(Protocol):
    """What is called for, and what is to come of it."""

    async def ask(self, number: int) -> tuple[int, str]:
        """
        Make the call of that *number*: the port that answered, and what is wrong with the answer.

        Raises:
            OSError, EOFError: there was none.
        """

    async def close(self) -> None:
        """Close all connections."""


class Load:
    """
    Calls at a steady rate, whether or not those before are answered, in a thread of their own.

    Use as `with`: all calls are answered, or given up, when it ends.
    """

    def __init__(self, rate_per_s: float, asking: Asking) -> None:
        self._rate_per_s = rate_per_s
        self._asking = asking
        self._ended = False
        self._thread = threading.Thread(target=self._run)
        self.calls: list[Call] = []
        self.lasted_s = 0.0
        # The processor time that the callers took.
        self.cpu_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()

    @property
    def failures(self) -> Counter[str]:
        """What was wrong, and how often."""
        return Counter(call.failure for call in self.calls if call.failure)

    @property
    def made_per_s(self) -> float:
        """The rate at which calls really were made."""
        return len(self.calls) / self.lasted_s

    def quantile_s(self, share: float) -> float:
        """How long that share of the calls took at most, from the moment that they were due."""
        took = sorted(call.took_s for call in self.calls)
        return took[min(len(took) - 1, int(share * len(took)))]

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._call_all())
        self.cpu_s = time.thread_time()

    async def _call_all(self) -> None:
        begun = time.monotonic()
        calls = set()
        number = 0
        while not self._ended:
            due_s = number / self._rate_per_s
            await asyncio.sleep(begun + due_s - time.monotonic())
            call = asyncio.create_task(self._call(number, begun, due_s))
            calls.add(call)
            call.add_done_callback(calls.discard)
            number += 1
        self.lasted_s = time.monotonic() - begun
        await asyncio.gather(*calls)
        await self._asking.close()

    async def _call(self, number: int, begun: float, due_s: float) -> None:
        port, failure = 0, ""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                port, failure = await self._asking.ask(number)
        except (OSError, EOFError, TimeoutError) as error:
            failure = repr(error)
        took_s = time.monotonic() - begun - due_s
        self.calls.append(Call(due_s, took_s, port, failure))
