"""
What is asked of Prometheus for one namespace, and what its answer says about pods.

One query is for all pods of a namespace; those that nobody asked for are passed over here. Its
function runs over the window of each series first; then copies of one series, which differ in
labels that say nothing about the pod (the exporter's own, a second scrape), collapse to the
largest.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from webhook.errors import SpecError
from webhook.model.rightsizing.policies import (
    Direction,
    MetricSource,
    Signal,
    SignalSettings,
)
from webhook.model.rightsizing.samples import Sample
from webhook.reactive.decisions.states import SeriesKey

DEVICE_LABEL = "gpu_uuid"

# What every version of Prometheus reads without quotes.
_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MILLISECOND = timedelta(milliseconds=1)


class WindowFunction(StrEnum):
    """What becomes of a series' values over a window."""

    MEAN = "avg_over_time"
    MAX = "max_over_time"
    LAST = "last_over_time"


# The mean asks whether a load lasts; the maximum whether there was none at any time.
FUNCTIONS: Mapping[Direction, WindowFunction] = {
    Direction.UPSIZE: WindowFunction.MEAN,
    Direction.SCALE_BACK: WindowFunction.MAX,
}


@dataclass(frozen=True, slots=True)
class NamespaceQuery:
    """
    One query for the pods of one namespace. Equal ones need to be asked once.

    The window is (t−window, t] with t the time of the query; a Prometheus before 3.0 counts a
    sample at t−window too. With *apart* copies of one series are left as they are, each with all
    of its labels.
    """

    namespace: str
    metric: str
    namespace_label: str
    pod_label: str
    container_label: str
    device_label: str
    function: WindowFunction
    window: timedelta
    apart: bool = False

    @property
    def promql(self) -> str:
        series = f"{self.metric}{{{self.namespace_label}={quote_text(self.namespace)}}}"
        copies = f"{self.function}({series}[{format_range(self.window)}])"
        if self.apart:
            return copies
        labels = (self.namespace_label, self.pod_label, self.container_label, self.device_label)
        # Each once, whoever gives two things one name.
        by = ", ".join(dict.fromkeys(labels))
        return f"max by ({by}) ({copies})"


class Skip(StrEnum):
    """Why a series is not used."""

    OTHER_NAMESPACE = "otherNamespace"
    NO_POD = "noPod"
    NO_CONTAINER = "noContainer"
    UNUSABLE = "unusable"  # NaN, an infinity, a negative value, …: no sample


@dataclass(frozen=True, slots=True)
class NamespaceReading:
    """
    What a query said about the pods that were asked for.

    *skipped* counts series that were not used, by the reason; one without a pod may belong to any.
    Where a series names no device, that part of its key is empty; *without_device* counts these,
    as those of several devices look like one.
    """

    values: Mapping[SeriesKey, Decimal] = field(default_factory=dict)
    skipped: Mapping[Skip, int] = field(default_factory=dict)
    without_device: int = 0

    @property
    def is_unusable(self) -> bool:
        """Whether there were series, and none that could be used."""
        return bool(self.skipped) and not self.values


def build_query(
    source: MetricSource,
    *,
    namespace: str,
    function: WindowFunction,
    window: timedelta,
    device_label: str = DEVICE_LABEL,
    apart: bool = False,
) -> NamespaceQuery:
    """
    The query for what *function* makes of *source* over *window*.

    Raises:
        SpecError: a name is none of Prometheus, or the window is shorter than a millisecond.
    """
    for what, name, names in (
        ("metric", source.metric, _METRIC),
        ("namespaceLabel", source.namespace_label, _LABEL),
        ("podLabel", source.pod_label, _LABEL),
        ("containerLabel", source.container_label, _LABEL),
        ("the device label", device_label, _LABEL),
    ):
        if names.fullmatch(name) is None:
            raise SpecError(what, f"{name!r} is no name of Prometheus")
    if window < _MILLISECOND:
        raise SpecError("metricsWindow", f"{window} is too short")
    return NamespaceQuery(
        namespace=namespace,
        metric=source.metric,
        namespace_label=source.namespace_label,
        pod_label=source.pod_label,
        container_label=source.container_label,
        device_label=device_label,
        function=function,
        window=window,
        apart=apart,
    )


def build_queries(
    signals: Mapping[Signal, SignalSettings], *, namespace: str, device_label: str = DEVICE_LABEL
) -> dict[tuple[Signal, Direction], NamespaceQuery]:
    """
    All that a policy needs to know about a namespace.

    Raises:
        SpecError: as for `build_query`.
    """
    return {
        (signal, direction): build_query(
            settings.source,
            namespace=namespace,
            function=FUNCTIONS[direction],
            window=settings.by(direction).window,
            device_label=device_label,
        )
        for signal, settings in signals.items()
        for direction in Direction
    }


def read_samples(
    query: NamespaceQuery, samples: Iterable[Sample], pods: Container[str]
) -> NamespaceReading:
    """
    What the answer to *query* says about *pods* (names). Values are those of the metric.

    Of several copies the largest counts; one with an unusable value is no copy.
    """
    values: dict[SeriesKey, Decimal] = {}
    skipped: Counter[Skip] = Counter()
    without_device = 0
    for sample in samples:
        key = place_of(query, sample.labels, pods)
        if isinstance(key, Skip):
            skipped[key] += 1
        elif key is None:
            pass  # somebody else's
        elif sample.value is None:
            skipped[Skip.UNUSABLE] += 1
        else:
            without_device += not key[2]
            known = values.get(key)
            if known is None or sample.value > known:
                values[key] = sample.value
    return NamespaceReading(values, dict(skipped), without_device)


def place_of(
    query: NamespaceQuery, labels: Mapping[str, str], pods: Container[str]
) -> SeriesKey | Skip | None:
    """
    Which device of which container a series with *labels* is of, or why it can't be used.

    None is one of a pod that is none of *pods*.
    """
    pod = labels.get(query.pod_label, "")
    container = labels.get(query.container_label, "")
    if labels.get(query.namespace_label) != query.namespace:
        return Skip.OTHER_NAMESPACE
    if not pod:
        return Skip.NO_POD
    if pod not in pods:
        return None
    if not container:
        return Skip.NO_CONTAINER
    # Each answer has its own copy of the same few texts.
    return sys.intern(pod), sys.intern(container), sys.intern(labels.get(query.device_label, ""))


def quote_text(text: str) -> str:
    """*text* as a string of PromQL, whatever is in it."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def format_range(duration: timedelta) -> str:
    """As Prometheus reads the length of a window: `10m`, `1h30m`; cut to whole milliseconds."""
    rest = duration // _MILLISECOND
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


_ESCAPES = {
    **{chr(code): f"\\u{code:04x}" for code in (*range(0x20), 0x7F)},
    "\\": "\\\\",
    '"': '\\"',
}
