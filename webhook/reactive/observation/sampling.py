"""
One round of questions to Prometheus: each asked once, whoever wants to know.

The answers come namespace by namespace, so that not all of a cluster's samples are held at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Self

from webhook.errors import PrometheusError, PrometheusFault, SpecError
from webhook.model.rightsizing.policies import Direction, DocumentKey, ReactivePolicy, Signal
from webhook.reactive.decisions.queries import DEVICE_LABEL, NamespaceQuery, Skip, build_queries
from webhook.reactive.decisions.states import Question, Readings
from webhook.reactive.observation.asking import Asked, Asking, Questioning
from webhook.reactive.observation.workloads import ObservedWorkload

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
class Wanted:
    """What is to be known about a namespace: all that *policies* ask, about *pods* (names)."""

    namespace: str
    policies: tuple[ReactivePolicy, ...]
    pods: frozenset[str]


def wanted_of(workloads: Iterable[ObservedWorkload]) -> tuple[Wanted, ...]:
    """What is to be known to decide on *workloads*, by namespace. Pods that ended are left out."""
    policies: dict[str, dict[DocumentKey, ReactivePolicy]] = {}
    pods: dict[str, set[str]] = {}
    for observed in workloads:
        names = [pod.pod_name for pod in observed.pods if pod.is_evidence]
        if names:
            namespace = observed.workload.namespace
            pods.setdefault(namespace, set()).update(names)
            own = policies.setdefault(namespace, {})
            own.update({policy.key: policy for policy in observed.policies})
    return tuple(
        [
            Wanted(namespace, tuple(policies[namespace].values()), frozenset(pods[namespace]))
            for namespace in sorted(pods)
        ]
    )


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
    _findings: Mapping[NamespaceQuery, _Finding]
    _readings: Mapping[DocumentKey, Readings]
    # Of policies whose questions can't even be asked.
    _unaskable: Mapping[DocumentKey, str]

    @property
    def is_left_out(self) -> bool:
        """Whether nothing was asked about it, as the round was over."""
        findings = self._findings.values()
        return bool(findings) and not any(finding.sent for finding in findings)

    def readings(self, policy: ReactivePolicy) -> Readings:
        """For `decide`. A question without an answer counts as not asked."""
        return self._readings.get(policy.key, _NO_READINGS)

    def fault(self, policy: ReactivePolicy) -> PrometheusError | None:
        """What went wrong with the first of the policy's questions that has no answer."""
        for query in self._queries.get(policy.key, {}).values():
            error = self._findings[query].error
            if error is not None:
                return error
        return None

    def reasons(self, policy: ReactivePolicy, pods: Iterable[str]) -> tuple[str, ...]:
        """
        What is odd about the answers, for a workload with *pods* (names).

        Series that name no pod, or have no usable value, may be anybody's and are told to all.
        """
        unaskable = self._unaskable.get(policy.key)
        if unaskable:
            return (f"Prometheus is not asked: {unaskable}",)
        titles: dict[NamespaceQuery, list[str]] = {}
        for (signal, direction), query in self._queries.get(policy.key, {}).items():
            titles.setdefault(query, []).append(f"{signal} ({direction})")
        by_problem: dict[str, list[str]] = {}
        names = tuple(pods)
        for query, asking in titles.items():
            for problem in _oddities(query, self._findings[query], names):
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
            " devices look like one"
        )


class Sampler:
    """
    Asks *prometheus*, round after round.

    *concurrency* bounds the queries under way. *on_query* is told of each that was sent: what was
    wrong, None for nothing, and how many seconds it took.
    """

    def __init__(
        self,
        prometheus: Asking,
        *,
        device_label: str = DEVICE_LABEL,
        concurrency: int = CONCURRENCY,
        on_query: Callable[[PrometheusFault | None, float], None] = lambda fault, seconds: None,
    ) -> None:
        self._prometheus = prometheus
        self._device_label = device_label
        self._concurrency = concurrency
        self._on_query = on_query
        # The first namespace that the last round did not come to. The next one begins there.
        self._next_first = ""

    async def sample(
        self, wanted: Iterable[Wanted], at: datetime, *, within_s: float | None = None
    ) -> AsyncGenerator[NamespaceSamples, None]:
        """
        Ask all that is *wanted*, of the time *at*: one round. Each namespace comes once.

        It stops asking when Prometheus is away, does not answer in time or wants nothing of us,
        and after *within_s*. What is not asked any more has that for its fault. The next round
        begins there, so that one question that is too much keeps nobody from his turn for ever.
        """
        asking = Questioning(self._prometheus, at, within_s, self._concurrency, self._on_query)
        ordered = sorted(wanted, key=lambda each: each.namespace)
        later = [each for each in ordered if each.namespace >= self._next_first]
        ordered = [*later, *ordered[: len(ordered) - len(later)]]
        self._next_first = ""
        under_way: deque[asyncio.Task[NamespaceSamples]] = deque()
        try:
            for each in ordered:
                # Not all at once, as answers are large and wait until they are looked at.
                if len(under_way) >= self._concurrency:
                    yield self._noted(await under_way.popleft())
                under_way.append(asyncio.create_task(self._ask(asking, each)))
            while under_way:
                yield self._noted(await under_way.popleft())
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _noted(self, samples: NamespaceSamples) -> NamespaceSamples:
        if samples.is_left_out and not self._next_first:
            self._next_first = samples.namespace
        return samples

    async def _ask(self, asking: Questioning, wanted: Wanted) -> NamespaceSamples:
        queries: dict[DocumentKey, Mapping[Question, NamespaceQuery]] = {}
        unaskable: dict[DocumentKey, str] = {}
        for policy in wanted.policies:
            try:
                queries[policy.key] = build_queries(
                    policy.signals, namespace=wanted.namespace, device_label=self._device_label
                )
            except SpecError as error:
                unaskable[policy.key] = str(error)
        different = tuple(
            dict.fromkeys([query for own in queries.values() for query in own.values()])
        )
        answers = await asyncio.gather(*[asking.ask(query, wanted.pods) for query in different])
        asked = dict(zip(different, answers, strict=True))
        # Policies that ask the same share the answers.
        alike: dict[tuple[tuple[Question, NamespaceQuery], ...], Readings] = {}
        readings = {}
        for key, own in queries.items():
            questions = tuple(own.items())
            if questions not in alike:
                alike[questions] = Readings.of({q: asked[own[q]].samples for q in own})
            readings[key] = alike[questions]
        findings = {query: _Finding.of(asked[query]) for query in different}
        return NamespaceSamples(wanted.namespace, queries, findings, readings, unaskable)
