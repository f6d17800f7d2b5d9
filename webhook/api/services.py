"""What the handlers share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from webhook.mapping.evaluator import JqWorker
from webhook.store.snapshot import Current
from webhook.telemetry.metrics import Metrics

# Larger bodies share what follows; smaller ones never wait for them.
BIG_BODY_BYTES = 256 * 1024

# Big bodies that are read and answered at once. The API server sends at most 6 MB (object and
# old object), so these are four at a time. Parsed, a body takes some ten times its size; and as
# the work is done by one core, more at once would only make each of them later.
BIG_BODIES_BYTES = 24 * 2**20


class BodyBudget:
    """
    Bounds the memory for big bodies: who would exceed *total_bytes* waits.

    A body counts while it is read and answered. One that is larger than everything is let in
    alone.
    """

    def __init__(self, total_bytes: int = BIG_BODIES_BYTES) -> None:
        self._total_bytes = total_bytes
        self.used_bytes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncIterator[None]:
        """Wait for room for *size_bytes*, and keep it to the end of the block."""
        if size_bytes <= BIG_BODY_BYTES:
            yield
            return
        while self.used_bytes and self.used_bytes + size_bytes > self._total_bytes:
            freed = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            await freed
        self.used_bytes += size_bytes
        try:
            yield
        finally:
            self.used_bytes -= size_bytes
            # All of them look again, in the order in which they came. Waking one alone would
            # be lost if that one is cancelled.
            while self._waiting:
                freed = self._waiting.popleft()
                if not freed.done():
                    freed.set_result(None)


class Running:
    """How many requests are being handled, so that the end can wait for them."""

    def __init__(self) -> None:
        self.count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one more for the time of the block."""
        self.count += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.count -= 1
            if not self.count:
                self._idle.set()

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until there is none. False if that took longer than *timeout_s*."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


@dataclass(slots=True)
class Readiness:
    """Whether requests should be sent here, and why not."""

    current: Current
    listening: bool = False
    draining: bool = False

    @property
    def obstacle(self) -> str:
        """Why we are not ready; empty if we are."""
        if self.draining:
            return "shutting down"
        if not self.current.ready:
            return "no policies are loaded yet"
        return "" if self.listening else "not listening yet"


@dataclass(frozen=True, slots=True)
class Services:
    """What handlers need. One for the life of the process, shared by both applications."""

    current: Current
    metrics: Metrics
    readiness: Readiness
    jq: JqWorker
    # Where requests wait for jq. Of its own: many that wait must not hold up a reload.
    jq_threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "jq"))
    max_body_bytes: int = 16 * 2**20
    # How long a caller may take to send a body. The API server gives up after 30 s at most.
    read_timeout_s: float = 10.0
    # Callers of `/mutate` and `/validate` must have presented one in the handshake.
    client_certificate_required: bool = False
    bodies: BodyBudget = field(default_factory=BodyBudget)
    running: Running = field(default_factory=Running)

    def close(self) -> None:
        """End the jq processes and the threads that wait for them."""
        self.jq.close()
        self.jq_threads.shutdown(cancel_futures=True)


SERVICES = web.AppKey("services", Services)
