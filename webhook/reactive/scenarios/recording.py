"""
A scenario out of what runs: its documents, its pods, and what Prometheus measured of them.

`gatewright gpu simulate` replays it. Pods that are gone by now are not in it: nobody knows any more
what they had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from webhook.model.kinds import POLICY_GROUP, VERSION
from webhook.model.rightsizing.amounts import format_amount
from webhook.model.rightsizing.durations import format_duration
from webhook.model.rightsizing.policies import Direction, ReactivePolicy, Signal
from webhook.model.rightsizing.recommendations import GpuRecommendation
from webhook.model.rightsizing.times import format_time
from webhook.reactive.decisions.queries import (
    NamespaceQuery,
    WindowFunction,
    build_query,
    place_of,
)
from webhook.reactive.decisions.states import SeriesKey
from webhook.reactive.observation.asking import Asking
from webhook.reactive.observation.pods import SeenPod
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.scenarios.scenario import KIND
from webhook.reactive.scenarios.specs import MINUTE

# Queries under way at a time.
_CONCURRENCY = 4

_Labels: TypeAlias = frozenset[tuple[str, str]]
# What Prometheus has and is no amount of usage: no sample, and a window with one has no mean.
_NO_NUMBER = Decimal("NaN")

# Of one pod, container, signal and device, so many entries at most. A container that is made anew
# every minute, seen through an hour, has that many copies within one window; what is beyond is
# merged, and told.
MAX_COPIES = 60


@dataclass(frozen=True, slots=True)
class Copy:
    """
    One copy of a series: *values* minute by minute, None where there is no sample.

    *first* is the number of the first one's minute in `Span.minutes`. NaN is a value that is none.
    One that *is_merged* is several copies, too many to be kept.
    """

    first: int
    values: Sequence[Decimal | None]
    is_merged: bool = False


# By pod, container and device.
Recorded: TypeAlias = Mapping[SeriesKey, Sequence[Copy]]


@dataclass(frozen=True, slots=True)
class Span:
    """From *start* to *end*, and before it for as long as the longest window looks back."""

    start: datetime
    end: datetime
    before: timedelta

    @property
    def minutes(self) -> list[datetime]:
        first = self.start - self.before
        return [first + index * MINUTE for index in range((self.end - first) // MINUTE + 1)]


def span_of(policy: ReactivePolicy, start: datetime, end: datetime) -> Span:
    """What has to be known to replay *policy* from *start* to *end*."""
    windows = [
        settings.by(direction).window
        for settings in policy.signals.values()
        for direction in Direction
    ]
    minutes = -(-max(windows) // MINUTE)
    return Span(start, end, minutes * MINUTE)


async def record(
    prometheus: Asking,
    policy: ReactivePolicy,
    namespace: str,
    pods: Iterable[str],
    span: Span,
    *,
    device_label: str,
) -> Mapping[Signal, Recorded]:
    """
    What *policy* would have seen of *pods* (names), minute by minute, copy by copy.

    A container that is made anew has another copy, which has a mean of its own.

    Raises:
        SpecError: a name is none of Prometheus.
        PrometheusError: one of the questions has no answer.
    """
    turns = asyncio.Semaphore(_CONCURRENCY)
    names = frozenset(pods)
    minutes = span.minutes

    async def at(query: NamespaceQuery, time: datetime) -> list[tuple[SeriesKey, _Labels, Decimal]]:
        async with turns:
            samples = await prometheus.query(query.promql, at=time)
        # At once, as the answers of a week of minutes are for all pods of the namespace.
        return [
            (
                key,
                frozenset(sample.labels.items()),
                _NO_NUMBER if sample.value is None else sample.value,
            )
            for sample in samples
            if isinstance(key := place_of(query, sample.labels, names), tuple)
        ]

    found: dict[Signal, Recorded] = {}
    for signal, settings in policy.signals.items():
        query = build_query(
            settings.source,
            namespace=namespace,
            function=WindowFunction.LAST,
            # What is older belongs to another minute.
            window=MINUTE,
            device_label=device_label,
            apart=True,
        )
        answers = await asyncio.gather(*[at(query, time) for time in minutes])
        copies: dict[SeriesKey, dict[_Labels, dict[int, Decimal]]] = {}
        for index, answer in enumerate(answers):
            for key, labels, value in answer:
                copies.setdefault(key, {}).setdefault(labels, {})[index] = value
        apart = span.before // MINUTE
        found[signal] = {key: list(_packed(own.values(), apart)) for key, own in copies.items()}
    return found


def _packed(copies: Iterable[Mapping[int, Decimal]], apart: int) -> Iterator[Copy]:
    """
    *copies* (a value for each minute) in as few entries as may be, so that nothing changes.

    What lies so many minutes *apart* that no window sees both can be one entry. Where there are
    more entries than `MAX_COPIES`, the largest of what comes together counts, as of all copies.
    """
    entries: list[dict[int, Decimal]] = []
    ends: list[int] = []
    merged: set[int] = set()
    for copy in sorted(copies, key=min):
        fitting = [index for index, end in enumerate(ends) if min(copy) - end >= apart]
        if not fitting and len(entries) < MAX_COPIES:
            entries.append(dict(copy))
            ends.append(max(copy))
            continue
        index = fitting[0] if fitting else min(range(len(ends)), key=lambda each: ends[each])
        if not fitting:
            merged.add(index)
        for minute, value in copy.items():
            entries[index][minute] = _larger(entries[index].get(minute, value), value)
        ends[index] = max(ends[index], *copy)
    for index, values in enumerate(entries):
        first = min(values)
        listed = [values.get(minute) for minute in range(first, ends[index] + 1)]
        yield Copy(first, listed, is_merged=index in merged)


def _larger(one: Decimal, other: Decimal) -> Decimal:
    return other if one.is_nan() or other > one else one


def scenario_of(
    observed: ObservedWorkload,
    recommendation: GpuRecommendation | None,
    policy: ReactivePolicy,
    recorded: Mapping[Signal, Recorded],
    span: Span,
    step: timedelta,
) -> dict[str, Any]:
    """The `GpuScenario` document."""
    workload = observed.workload
    described: dict[str, Any] = {
        "namespace": workload.namespace,
        "kind": workload.type,
        "name": workload.workload_name,
        "labels": dict(workload.labels),
    }
    previous = _previous(recommendation, policy)
    if previous:
        described["previous"] = previous
    described["pods"] = [_pod(pod) for pod in observed.pods if pod.is_evidence]
    return {
        "apiVersion": f"{POLICY_GROUP}/{VERSION}",
        "kind": KIND,
        "spec": {
            "start": format_time(span.start),
            "duration": format_duration(span.end - span.start),
            "step": format_duration(step),
            # What was measured is of pods that kept what they had.
            "recreate": "never",
            "workloads": [described],
            "samples": list(_samples(recorded, span)),
        },
    }


def _pod(pod: SeenPod) -> dict[str, Any]:
    started = pod.started
    return {
        "name": pod.pod_name,
        "startTime": None if started is None else format_time(started),
        "containers": {
            name: {} if amount is None else {"gpu": format_amount(amount)}
            for name, amount in pod.allocation.amounts.items()
        },
    }


def _previous(
    recommendation: GpuRecommendation | None, policy: ReactivePolicy
) -> dict[str, Any] | None:
    state = None if recommendation is None else recommendation.status.state_of(policy.key)
    if state is None or not (state.baseline or state.recommendation):
        return None
    previous: dict[str, Any] = {
        "containers": {name: format_amount(each) for name, each in state.recommendation.items()},
        "baseline": {name: format_amount(each.amount) for name, each in state.baseline.items()},
    }
    if state.driver is not None:
        previous["driver"] = state.driver.value
    return previous


def _samples(recorded: Mapping[Signal, Recorded], span: Span) -> Iterator[dict[str, Any]]:
    for signal, series in recorded.items():
        for (pod, container, device), copies in sorted(series.items()):
            for copy in copies:
                yield {
                    "pod": pod,
                    "container": container,
                    "signal": signal.value,
                    "gpu": device,
                    "from": format_duration(copy.first * MINUTE - span.before),
                    # As Prometheus prints them: in the text all of their digits are kept.
                    "values": [None if value is None else str(value) for value in copy.values],
                }
