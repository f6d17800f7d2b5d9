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
from webhook.model.rightsizing.policies import MetricSource, ReactivePolicy, Signal
from webhook.model.rightsizing.recommendations import GpuRecommendation
from webhook.model.rightsizing.times import format_time
from webhook.reactive.decisions.queries import quote_text
from webhook.reactive.observation.asking import Asking
from webhook.reactive.observation.pods import SeenPod
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.scenarios.scenario import KIND
from webhook.reactive.scenarios.specs import MINUTE

# Queries under way at a time.
_CONCURRENCY = 4

# Pod, container, device: a value for each minute, None where there is no sample.
Recorded: TypeAlias = Mapping[tuple[str, str, str], Sequence[Decimal | None]]


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
        window
        for settings in policy.signals.values()
        for window in (settings.upsize.window, settings.scale_back.window)
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
    What *policy* would have seen of *pods* (names), minute by minute.

    Raises:
        PrometheusError: one of the questions has no answer.
    """
    turns = asyncio.Semaphore(_CONCURRENCY)
    names = frozenset(pods)
    minutes = span.minutes

    async def at(
        source: MetricSource, promql: str, time: datetime
    ) -> list[tuple[tuple[str, str, str], Decimal]]:
        async with turns:
            samples = await prometheus.query(promql, at=time)
        # At once, as the answers of a week of minutes are for all pods of the namespace.
        return [
            ((pod, container, sample.labels.get(device_label, "")), sample.value)
            for sample in samples
            if (pod := sample.labels.get(source.pod_label, "")) in names
            and (container := sample.labels.get(source.container_label, ""))
            and sample.value is not None
        ]

    found: dict[Signal, Recorded] = {}
    for signal, settings in policy.signals.items():
        source = settings.source
        labels = (source.namespace_label, source.pod_label, source.container_label, device_label)
        by = ", ".join(dict.fromkeys(labels))
        series = f"{source.metric}{{{source.namespace_label}={quote_text(namespace)}}}"
        # The last sample of that minute: what is older belongs to another.
        promql = f"max by ({by}) (last_over_time({series}[1m]))"
        answers = await asyncio.gather(*[at(source, promql, time) for time in minutes])
        values: dict[tuple[str, str, str], list[Decimal | None]] = {}
        for index, answer in enumerate(answers):
            for key, value in answer:
                values.setdefault(key, [None] * len(minutes))[index] = value
        found[signal] = values
    return found


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
        "kind": workload.kind,
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
    since = f"-{format_duration(span.before)}"
    for signal, series in recorded.items():
        for (pod, container, device), values in sorted(series.items()):
            yield {
                "pod": pod,
                "container": container,
                "signal": signal.value,
                "gpu": device,
                "from": since,
                # As Prometheus prints them: in the text all of their digits are kept.
                "values": [None if value is None else str(value) for value in values],
            }
