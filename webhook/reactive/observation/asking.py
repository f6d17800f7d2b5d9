"""Questions to Prometheus, one after the other, until there is no point in the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Protocol, TypeAlias

from webhook.errors import PrometheusError, PrometheusFault
from webhook.model.rightsizing.samples import Sample
from webhook.reactive.decisions.queries import NamespaceQuery, NamespaceReading, read_samples

log = logging.getLogger("gatewright.reconcile")

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


def unforeseen(
    error: Exception, fault: PrometheusFault = PrometheusFault.UNREACHABLE
) -> PrometheusError:
    """*error*, which nobody has foreseen, as what it comes to: nothing is known now."""
    text = f"nothing can be asked: {type(error).__name__} (see the log of the reconciler)"
    return PrometheusError(fault, text)


class Asking(Protocol):
    """What is needed of a `PrometheusClient`."""

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]: ...


# What a query came to, and how many seconds it took.
OnQuery: TypeAlias = Callable[[NamespaceReading | PrometheusError, float], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of one question. *sent* is False where nobody asked it."""

    answer: NamespaceReading | PrometheusError
    sent: bool = True


class Questioning:
    """
    Questions of one round, until there is no point in the next one.

    It ends after *within_s*, and when its queries, one after the other, took *budget_s* in all;
    None is no end. *what* they are is said where the time is over.
    """

    def __init__(
        self,
        prometheus: Asking,
        at: datetime,
        *,
        what: str,
        within_s: float | None,
        budget_s: float | None = None,
        concurrency: int,
        on_query: OnQuery,
    ) -> None:
        self._prometheus = prometheus
        self._at = at
        self._what = what
        self._on_query = on_query
        self._now = asyncio.get_running_loop().time
        self._deadline = None if within_s is None else self._now() + within_s
        self._budget_s = budget_s
        self._turns = asyncio.Semaphore(concurrency)
        # Why nothing more is asked.
        self._final: PrometheusError | None = None
        self._faults_in_a_row = 0

    async def ask(self, query: NamespaceQuery, pods: Container[str]) -> Asked:
        """What Prometheus says about *pods* (names), or why it doesn't."""
        async with self._turns:
            left_s = self._left_s()
            if left_s is not None and left_s <= 0 and not self._final:
                self._final = self._too_late()
            if self._final is not None:
                final = self._final
                text = f"not asked, after this: {final.message}"
                return Asked(PrometheusError(final.fault, text, status=final.status), sent=False)
            began = self._now()
            answer: NamespaceReading | PrometheusError
            try:
                answer = await self._answer(query, left_s, pods)
                self._faults_in_a_row = 0
            except PrometheusError as error:
                answer = error
                self._take_note(error)
            took_s = self._now() - began
            if self._budget_s is not None:
                self._budget_s -= took_s
            self._on_query(answer, took_s)
            return Asked(answer)

    def _left_s(self) -> float | None:
        ends = [] if self._budget_s is None else [self._budget_s]
        if self._deadline is not None:
            ends.append(self._deadline - self._now())
        return min(ends, default=None)

    async def _answer(
        self, query: NamespaceQuery, left_s: float | None, pods: Container[str]
    ) -> NamespaceReading:
        """
        Raises:
            PrometheusError: whatever went wrong; a round goes on without this answer.
        """
        fault = PrometheusFault.UNREACHABLE
        try:
            samples = await self._query(query, left_s)
            # From here on it concerns this question alone.
            fault = PrometheusFault.BAD_ANSWER
            return read_samples(query, samples, pods)
        except PrometheusError:
            raise
        except Exception as error:
            log.exception("a question to Prometheus failed")
            raise unforeseen(error, fault) from error

    async def _query(self, query: NamespaceQuery, left_s: float | None) -> tuple[Sample, ...]:
        try:
            async with asyncio.timeout(left_s):
                return await self._prometheus.query(query.promql, at=self._at)
        except TimeoutError:
            raise self._too_late() from None

    def _take_note(self, error: PrometheusError) -> None:
        self._faults_in_a_row += 1
        is_final = error.fault in _FINAL or error.status in _FINAL_STATUSES
        if is_final or self._faults_in_a_row >= _MAX_FAULTS_IN_A_ROW:
            self._final = self._final or error

    def _too_late(self) -> PrometheusError:
        return PrometheusError(PrometheusFault.TIMEOUT, f"the time for {self._what} is over")
