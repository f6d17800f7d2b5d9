"""Questions to Prometheus, one after the other, until there is no point in the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Protocol

from webhook.errors import PrometheusError, PrometheusFault
from webhook.model.rightsizing.samples import Sample
from webhook.reactive.decisions.queries import NamespaceQuery, NamespaceReading, read_samples
from webhook.reactive.decisions.states import Samples

# The server is away, slow, or wants nothing of us: the next question would fare no better, and
# would take as long.
_FINAL = frozenset(
    {
        PrometheusFault.UNREACHABLE,
        PrometheusFault.TIMEOUT,
        PrometheusFault.NO_TOKEN,
        PrometheusFault.REDIRECTED,
    }
)
_FINAL_STATUSES = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}
)
# So many other faults, and no answer between them, are no matter of the single question any more.
_MAX_FAULTS_IN_A_ROW = 8


class Asking(Protocol):
    """What is needed of a `PrometheusClient`."""

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of one question. *sent* is False where nobody asked it."""

    answer: NamespaceReading | PrometheusError
    sent: bool = True

    @property
    def samples(self) -> Samples | None:
        """By series; None without an answer."""
        return self.answer.values if isinstance(self.answer, NamespaceReading) else None


class Questioning:
    """The questions of one round, until there is no point in the next one."""

    def __init__(
        self,
        prometheus: Asking,
        at: datetime,
        within_s: float | None,
        concurrency: int,
        on_query: Callable[[PrometheusFault | None, float], None],
    ) -> None:
        self._prometheus = prometheus
        self._at = at
        self._on_query = on_query
        self._now = asyncio.get_running_loop().time
        self._deadline = None if within_s is None else self._now() + within_s
        self._turns = asyncio.Semaphore(concurrency)
        # Why nothing more is asked.
        self._final: PrometheusError | None = None
        self._faults_in_a_row = 0

    async def ask(self, query: NamespaceQuery, pods: Container[str]) -> Asked:
        """What Prometheus says, or why it doesn't."""
        async with self._turns:
            if self._deadline is not None and self._now() >= self._deadline and not self._final:
                self._final = _too_late()
            if self._final is not None:
                final = self._final
                text = f"not asked, after this: {final.message}"
                return Asked(PrometheusError(final.fault, text, status=final.status), sent=False)
            began = self._now()
            try:
                samples = await self._query(query)
            except PrometheusError as error:
                self._on_query(error.fault, self._now() - began)
                self._take_note(error)
                return Asked(error)
            self._on_query(None, self._now() - began)
            self._faults_in_a_row = 0
        return Asked(read_samples(query, samples, pods))

    async def _query(self, query: NamespaceQuery) -> tuple[Sample, ...]:
        left_s = None if self._deadline is None else self._deadline - self._now()
        try:
            async with asyncio.timeout(left_s):
                return await self._prometheus.query(query.promql, at=self._at)
        except TimeoutError:
            raise _too_late() from None

    def _take_note(self, error: PrometheusError) -> None:
        self._faults_in_a_row += 1
        is_final = error.fault in _FINAL or error.status in _FINAL_STATUSES
        if is_final or self._faults_in_a_row >= _MAX_FAULTS_IN_A_ROW:
            self._final = self._final or error


def _too_late() -> PrometheusError:
    return PrometheusError(PrometheusFault.TIMEOUT, "the time for all questions is over")
