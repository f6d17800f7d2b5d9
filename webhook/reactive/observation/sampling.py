"""
One round of questions to Prometheus: each asked once, whoever wants to know.

The answers come namespace by namespace, so that not all of a cluster's samples are held at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Self

from webhook.errors import PrometheusError, SpecError
from webhook.model.rightsizing.policies import Direction, DocumentKey, ReactivePolicy, Signal
from webhook.reactive.decisions.queries import (
    DEVICE_LABEL,
    NamespaceQuery,
    NamespaceReading,
    Skip,
    build_queries,
)
from webhook.reactive.decisions.states import Devices, Question, Readings, by_container
from webhook.reactive.observation.asking import Asked, Asking, OnQuery, Questioning, unforeseen
from webhook.reactive.observation.turns import Turns
from webhook.reactive.observation.wanted import Wanted

log = logging.getLogger("gatewright.reconcile")

# Queries under way at a time. A guess; Prometheus itself works on 20.
CONCURRENCY = 4

_SKIPPED_TEXTS: Mapping[Skip, str] = {
    Skip.OTHER_NAMESPACE: "are of another namespace",
    Skip.NO_POD: "name no pod",
    Skip.NO_CONTAINER: "name no container",
    Skip.UNUSABLE: "have no usable value",
}

# Of a workload that has no pods now, so that there is nothing to ask.
NOTHING_TO_ASK = Readings.of({question: {} for question in product(Signal, Direction)})

_NO_READINGS = Readings.of({})


@dataclass(frozen=True, slots=True)
class _Finding:
    """
    What is left to say of a question when its samples are read: *without_device* counts the series
    of each pod that name no device.
    """

    sent: bool
    error: PrometheusError | None = None
    skipped: Mapping[Skip, int] = field(default_factory=dict)
    without_device: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, asked: Asked) -> Self:
        answer = asked.answer
        if isinstance(answer, PrometheusError):
            return cls(asked.sent, answer)
        nameless = [pod for pod, _, device in answer.values if not device]
        return cls(asked.sent, None, answer.skipped, Counter(nameless))


@dataclass(frozen=True, slots=True)
class NamespaceSamples:
    """What Prometheus said about one namespace in one round."""

    namespace: str
    _queries: Mapping[DocumentKey, Mapping[Question, NamespaceQuery]]
    # In the order in which the questions were done with.
    findings: Mapping[NamespaceQuery, _Finding]
    _readings: Mapping[DocumentKey, Readings]
    # Of policies whose questions can't even be asked.
    _unaskable: Mapping[DocumentKey, str]
    # Why nothing at all is known of it, by a fault of ours.
    _failure: PrometheusError | None = None

    @property
    def is_left_out(self) -> bool:
        """Whether nothing was asked about it, as the round was over."""
        findings = self.findings.values()
        return bool(findings) and not any(finding.sent for finding in findings)

    def readings(self, policy: ReactivePolicy) -> Readings:
        """For `decide`. A question without an answer counts as not asked."""
        return self._readings.get(policy.key, _NO_READINGS)

    def fault(self, policy: ReactivePolicy) -> PrometheusError | None:
        """What went wrong with the first of the policy's questions that has no answer."""
        for query in self._queries.get(policy.key, {}).values():
            error = self.findings[query].error
            if error is not None:
                return error
        return self._failure

    def reasons(self, policy: ReactivePolicy, pods: Iterable[str]) -> tuple[str, ...]:
        """
        What is odd about the answers, for a workload with *pods* (names).

        Series that name no pod, or have no usable value, may be anybody's and are told to all.
        """
        if self._failure is not None:
            return (f"Prometheus: {self._failure}",)
        unaskable = self._unaskable.get(policy.key)
        if unaskable:
            return (f"Prometheus is not asked: {unaskable}",)
        titles: dict[NamespaceQuery, list[str]] = {}
        for (signal, direction), query in self._queries.get(policy.key, {}).items():
            titles.setdefault(query, []).append(f"{signal} ({direction})")
        by_problem: dict[str, list[str]] = {}
        names = tuple(pods)
        for query, asking in titles.items():
            for problem in _oddities(query, self.findings[query], names):
                by_problem.setdefault(problem, []).extend(asking)
        return tuple([f"{', '.join(asking)}: {problem}" for problem, asking in by_problem.items()])


def _oddities(query: NamespaceQuery, finding: _Finding, pods: Sequence[str]) -> Iterator[str]:
    if finding.error is not None:
        yield f"Prometheus: {finding.error}"
    for skip, count in finding.skipped.items():
        yield f"{count} series of {query.metric} {_SKIPPED_TEXTS[skip]}"
    count = sum([finding.without_device.get(pod, 0) for pod in pods])
    if count:
        yield (
            f"{count} series of {query.metric} have no label {query.device_label}, so that several"
            " devices would look like one"
        )


@dataclass(frozen=True, slots=True)
class _Lanes:
    """
    The questions of one round. Those *apart* are of policies that are only tried, and of those with
    a question that had no answer the last time: what becomes of them says nothing about the others,
    and they get one query at a time and half of the round's time at most.
    """

    first: Questioning
    apart: Questioning


class Sampler:
    """
    Asks *prometheus*, round after round.

    *concurrency* bounds the queries under way; there is one more for the questions that are asked
    apart. *on_query* is told of each that was sent.
    """

    def __init__(
        self,
        prometheus: Asking,
        *,
        device_label: str = DEVICE_LABEL,
        concurrency: int = CONCURRENCY,
        on_query: OnQuery = lambda answer, seconds: None,
    ) -> None:
        self._prometheus = prometheus
        self._device_label = device_label
        self._concurrency = concurrency
        self._on_query = on_query
        self._turns = Turns()

    async def sample(
        self, wanted: Iterable[Wanted], at: datetime, *, within_s: float | None = None
    ) -> AsyncGenerator[NamespaceSamples, None]:
        """
        Ask all that is *wanted*, of the time *at*: one round. Each namespace comes once.

        It stops asking when Prometheus is away, does not answer in time or wants nothing of us,
        and after *within_s*. What is not asked any more has that for its fault. The next round
        begins there, and what had no answer is asked apart in it, so that one question that is too
        much keeps nobody from his turn for ever.
        """
        lanes = self._lanes(at, within_s)
        self._turns.begin()
        under_way: deque[asyncio.Task[NamespaceSamples]] = deque()
        try:
            for each in self._turns.in_order(wanted, lambda each: each.namespace):
                # Not all at once, as answers are large and wait until they are looked at.
                if len(under_way) >= self._concurrency:
                    yield self._noted(await under_way.popleft())
                under_way.append(asyncio.create_task(self._try_to_ask(lanes, each)))
            while under_way:
                yield self._noted(await under_way.popleft())
            self._turns.end()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _lanes(self, at: datetime, within_s: float | None) -> _Lanes:
        first = Questioning(
            self._prometheus,
            at,
            what="all questions",
            within_s=within_s,
            concurrency=self._concurrency,
            on_query=self._on_query,
        )
        apart = Questioning(
            self._prometheus,
            at,
            what="questions that are asked apart",
            within_s=within_s,
            budget_s=None if within_s is None else within_s / 2,
            concurrency=1,
            on_query=self._on_query,
        )
        return _Lanes(first, apart)

    def _noted(self, samples: NamespaceSamples) -> NamespaceSamples:
        for query, finding in samples.findings.items():
            self._turns.note(query, sent=finding.sent, failed=finding.error is not None)
        return samples

    async def _try_to_ask(self, lanes: _Lanes, wanted: Wanted) -> NamespaceSamples:
        """What fails about one namespace keeps no other from its turn."""
        try:
            return await self._ask(lanes, wanted)
        except Exception as error:
            log.exception("a namespace can't be asked about", extra={"place": wanted.namespace})
            return NamespaceSamples(wanted.namespace, {}, {}, {}, {}, unforeseen(error))

    async def _ask(self, lanes: _Lanes, wanted: Wanted) -> NamespaceSamples:
        queries: dict[DocumentKey, Mapping[Question, NamespaceQuery]] = {}
        unaskable: dict[DocumentKey, str] = {}
        pods: dict[NamespaceQuery, frozenset[str]] = {}
        urgent: set[NamespaceQuery] = set()
        for asker in wanted.askers:
            policy = asker.policy
            try:
                own = build_queries(
                    policy.signals, namespace=wanted.namespace, device_label=self._device_label
                )
            except SpecError as error:
                unaskable[policy.key] = str(error)
                continue
            queries[policy.key] = own
            if not asker.is_tried and not self._turns.are_troubled(own.values()):
                urgent.update(own.values())
            for query in own.values():
                known = pods.get(query, asker.pods)
                pods[query] = known if known is asker.pods else known | asker.pods
        findings: dict[NamespaceQuery, _Finding] = {}
        answers: dict[NamespaceQuery, Devices] = {}

        async def ask(query: NamespaceQuery) -> None:
            lane = lanes.first if query in urgent else lanes.apart
            asked = await lane.ask(query, pods[query])
            findings[query] = _Finding.of(asked)
            if isinstance(asked.answer, NamespaceReading):
                # Policies that ask the same share it.
                answers[query] = by_container(asked.answer.values)

        ordered = self._turns.queries_in_order([own.values() for own in queries.values()])
        await asyncio.gather(*[ask(query) for query in ordered])
        readings = {
            key: Readings({question: answers[q] for question, q in own.items() if q in answers})
            for key, own in queries.items()
        }
        return NamespaceSamples(wanted.namespace, queries, findings, readings, unaskable)
