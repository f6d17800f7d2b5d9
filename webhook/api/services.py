"""What the handlers share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from aiohttp import web

from webhook.api.limits.bodies import MAX_BODY_BYTES, BodyRoom, Turns
from webhook.api.limits.line import Line
from webhook.api.limits.threads import BoundedThreads
from webhook.api.rest_services import RestServices
from webhook.mapping.evaluator import JqWorker
from webhook.model.refusals import Refusal
from webhook.model.rightsizing.injections import Injection
from webhook.model.rightsizing.policies import DocumentKey, Strategy
from webhook.store.compile.inputs import QueryCheck, SourceFile
from webhook.store.snapshot import Current
from webhook.telemetry.metrics import Metrics


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
    # What the store still waits for; empty where it can't say.
    waiting_for: Callable[[], str] = str
    # What the certificate waits for; empty where there is one.
    certificate_waits_for: Callable[[], str] = str
    listening: bool = False
    draining: bool = False

    @property
    def obstacle(self) -> str:
        """Why we are not ready; empty if we are."""
        if self.draining:
            return "shutting down"
        if not self.current.ready:
            return self.waiting_for() or "no policies are loaded yet"
        return "" if self.listening else self.certificate_waits_for() or "not listening yet"


@dataclass(frozen=True, slots=True)
class OwnDocuments:
    """
    What reviews of our own documents are judged by, where the cluster is the store.

    In a thread of its own: all that depends on a document is compiled with it.
    """

    # Gives everything that is known now.
    sources: Callable[[], Sequence[SourceFile]]
    check_query: QueryCheck
    # Finds out what the given document is judged by beside the others. Is quick, and never fails.
    look_around: Callable[[dict[str, Any]], Awaitable[None]] | None = None
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "documents"))


class RefusalTeller(Protocol):
    """Tells refusals where they happened, later and beside the requests."""

    def add(self, refusal: Refusal) -> None:
        """Take one. Is quick, and never fails."""


class Recommendations(Protocol):
    """What pods are recommended, without asking anybody."""

    def find(self, namespace: str, metadata: Mapping[str, Any], now: datetime) -> Injection | None:
        """What a pod with this *metadata* is to be given, if it is made in *namespace* *now*."""


@dataclass(frozen=True, slots=True)
class Services:
    """What handlers need. One for the life of the process, shared by both applications."""

    current: Current
    metrics: Metrics
    readiness: Readiness
    jq: JqWorker
    # Where requests wait for jq. Of its own: many that wait must not hold up a reload.
    jq_threads: BoundedThreads = field(
        default_factory=lambda: BoundedThreads(32, "jq", "reviews that need jq")
    )
    # Where big reviews are worked on, so that others are answered meanwhile. One thread, as
    # there is one interpreter lock.
    big_thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "big"))
    max_body_bytes: int = MAX_BODY_BYTES
    # How long a caller may take to send a body.
    read_timeout_s: float = 10.0
    # Callers of `/mutate` and `/validate` must have presented one in the handshake.
    client_certificate_required: bool = False
    bodies: BodyRoom = field(default_factory=BodyRoom)
    # Where reviews that are not large wait for one another.
    line: Line = field(default_factory=Line)
    # Read into objects, a body takes some ten times its size, 80 MB at worst. Two: one is worked
    # on while jq looks at the other.
    big_turns: Turns = field(default_factory=lambda: Turns(2))
    running: Running = field(default_factory=Running)
    # None: documents are written elsewhere, and reviews of them are none of our business.
    own_documents: OwnDocuments | None = None
    # All strategies for GPUs that there are; None where that is not known, or for one that can't be
    # read.
    strategies: Callable[[], Mapping[DocumentKey, Strategy | None] | None] = lambda: None
    # None: pods are given what they ask for.
    recommendations: Recommendations | None = None
    # None: refusals are told to their caller only, and recorded.
    refusals: RefusalTeller | None = None
    # None: there is no API.
    rest: RestServices | None = None

    def close(self) -> None:
        """End the jq processes and the threads. Those that are at work end after it."""
        self.jq.close()
        if self.rest is not None:
            self.rest.close()
        if self.own_documents is not None:
            self.own_documents.thread.shutdown(wait=False, cancel_futures=True)
        self.jq_threads.close()
        self.big_thread.shutdown(wait=False, cancel_futures=True)


SERVICES = web.AppKey("services", Services)
