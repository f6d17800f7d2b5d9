"""Tells refusals as Events in their namespaces, beside the requests and never faster than that."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, NoReturn, Protocol
from urllib.parse import quote

from webhook.clients.event_book import EventBook, EventLimits, Series, TokenBucket, new_name
from webhook.errors import KubeError
from webhook.model.refusals import Refusal
from webhook.telemetry.metrics import Metrics

log = logging.getLogger("gatewright.events")

API_PATH = "/apis/events.k8s.io/v1"
REASON = "AdmissionDenied"
CONTROLLER = "gatewright.io/admission"

# Of all Events together: so many at once, and then two a second.
_CALLS_BURST = 25
_CALL_PERIOD_S = 0.5

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0

# Refused in so many namespaces and written in none, it is our right that is missing.
_REFUSED_ALIKE = 3

# Of what was said in the log so much is remembered.
_TOLD_MAX = 1000

# How the API server says, in a cause, that a namespace is on its way out.
_TERMINATING = "NamespaceTerminating"


class EventCalls(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = "application/json"
    ) -> bytes: ...


class EventWriter:
    """
    Writes Events of what `add` was told, while `run` runs.

    Each replica writes those of what it has refused itself. What can't be told is counted.
    """

    def __init__(
        self,
        client: EventCalls,
        metrics: Metrics,
        *,
        replica: str,
        limits: EventLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*replica* names this process; in a cluster, the Pod."""
        self._client = client
        self._metrics = metrics
        self._replica = replica
        self._clock = clock
        self._book = EventBook(limits or EventLimits())
        self._calls = TokenBucket(_CALLS_BURST, _CALL_PERIOD_S, clock())
        self._news = asyncio.Event()
        self._pause_s = 0.0
        # Whose Events were refused since the last that was written.
        self._refused: set[str] = set()
        # What was said in the log of which namespace (``""``: of all), so that it is said once.
        self._told: set[tuple[str, str]] = set()
        self._counted_drops = 0

    def add(self, refusal: Refusal) -> None:
        """Take a refusal. Is quick, and never fails."""
        if self._book.add(refusal, self._clock(), datetime.now(UTC)):
            self._news.set()
        self._count_drops()

    async def run(self) -> NoReturn:
        """Write until cancelled. No failure ends it."""
        while True:
            series = await self._next()
            await asyncio.sleep(self._calls.wait_s(self._clock()))
            self._calls.take(self._clock())
            await self._write(series)
            self._count_drops()
            if self._pause_s:
                await asyncio.sleep(self._pause_s)

    async def _next(self) -> Series:
        """What has to be written, as soon as it is due."""
        while True:
            self._news.clear()
            series = self._book.next()
            wait_s = None if series is None else series.due_at - self._clock()
            if series is not None and wait_s is not None and wait_s <= 0:
                return series
            try:
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _write(self, series: Series) -> None:
        count = series.count
        is_new = not series.name
        collection = f"{API_PATH}/namespaces/{quote(series.namespace, safe='')}/events"
        try:
            if is_new:
                name = new_name(series.namespace)
                await self._client.request(
                    "POST", collection, body=event_of(series, name, self._replica)
                )
                series.name = name
            else:
                await self._client.request(
                    "PATCH",
                    f"{collection}/{quote(series.name, safe='')}",
                    body={"series": _series(series)},
                    content_type="application/merge-patch+json",
                )
        except KubeError as error:
            self._handle(series, error, is_new=is_new)
            return
        self._book.wrote(series, count, self._clock())
        self._metrics.events.labels("created" if is_new else "updated").inc()
        self._pause_s = 0.0
        self._refused.clear()
        self._told -= {told for told in self._told if told[0] in ("", series.namespace)}

    def _handle(self, series: Series, error: KubeError, *, is_new: bool) -> None:
        if error.status == HTTPStatus.NOT_FOUND and not is_new:
            # Events are kept for an hour.
            series.begin_anew()
            return
        if error.status == HTTPStatus.NOT_FOUND or is_terminating(error):
            self._book.mute(series.namespace, self._clock())
            return
        self._metrics.events.labels("failed").inc()
        is_ours = HTTPStatus.BAD_REQUEST <= error.status < HTTPStatus.INTERNAL_SERVER_ERROR
        if is_ours and error.status != HTTPStatus.TOO_MANY_REQUESTS:
            # It answers, and other namespaces may have room: unless all of them say the same.
            self._book.refuse(series, self._clock())
            self._refused.add(series.namespace)
            if len(self._refused) < _REFUSED_ALIKE:
                self._tell(series.namespace, error)
                return
        self._tell("", error)
        longer_s = min(_LONGEST_PAUSE_S, self._pause_s * 2) or _FIRST_PAUSE_S
        self._pause_s = min(_LONGEST_PAUSE_S, max(longer_s, error.retry_after_s or 0.0))

    def _tell(self, namespace: str, error: KubeError) -> None:
        if (namespace, error.reason) in self._told:
            return
        if len(self._told) >= _TOLD_MAX:
            self._told.clear()
        self._told.add((namespace, error.reason))
        log.warning(
            "events can't be written",
            extra={
                **({"namespace": namespace} if namespace else {}),
                "status": error.status,
                "reason": error.reason,
                "problem": str(error)[:300],
            },
        )

    def _count_drops(self) -> None:
        if new := self._book.dropped - self._counted_drops:
            self._counted_drops = self._book.dropped
            self._metrics.events.labels("dropped").inc(new)


def event_of(series: Series, name: str, replica: str) -> dict[str, Any]:
    """The Event (`events.k8s.io/v1`) that *series* is told as, by the process *replica*."""
    namespace = series.namespace
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": _micro_time(series.first),
        "type": "Warning",
        "reason": REASON,
        "action": "Deny",
        "note": series.note,
        # The object itself is not there. And an Event lies in the namespace of what it is about:
        # without that the API server refuses it.
        "regarding": {
            "apiVersion": "v1",
            "kind": "Namespace",
            "name": namespace,
            "namespace": namespace,
        },
        "reportingController": CONTROLLER,
        # Kubernetes refuses more.
        "reportingInstance": replica[:128],
    }
    return event if series.count == 1 else {**event, "series": _series(series)}


def _series(series: Series) -> dict[str, Any]:
    return {"count": series.count, "lastObservedTime": _micro_time(series.last)}


def _micro_time(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_terminating(error: KubeError) -> bool:
    """Whether a namespace is on its way out, so that nothing can be made in it."""
    causes = error.details.get("causes")
    return any(
        isinstance(cause, dict) and cause.get("reason") == _TERMINATING
        for cause in (causes if isinstance(causes, list) else ())
    )
