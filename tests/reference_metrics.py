"""
The page of the reference on metrics, made from the registries of `serve` and `reconcile`.

`LABELS` says which values a label can have, as far as the text of the metric does not: from the
enumerations that the code counts by, so that a new member is on the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.reference_parts import code, codes, table
from webhook.errors import PrometheusFault
from webhook.model.decision import Outcome, Rule
from webhook.model.request import Operation, Phase
from webhook.reactive.decisions.queries import Skip
from webhook.registrations.wanted import Configuration
from webhook.reports.findings import Verdict
from webhook.telemetry.metrics import (
    OTHER,
    PATHS,
    Metrics,
    ReconcilerMetrics,
    Rejection,
    ServerMetrics,
)

# By label, or by metric and label where it differs.
LABELS: Mapping[str | tuple[str, str], Iterable[str]] = {
    # The others are the command line's and the scan's, where nobody counts.
    "phase": [Phase.MUTATE.value, Phase.VALIDATE.value],
    "operation": [Operation.CREATE.value, Operation.UPDATE.value, OTHER],
    "dry_run": ["true", "false"],
    "rule": [rule.value for rule in Rule],
    "reason": [reason.value for reason in Rejection],
    "path": [*PATHS, OTHER],
    "severity": ["error", "warning"],
    "configuration": [configuration.value for configuration in Configuration],
    "result": [verdict.value for verdict in Verdict],
    ("gatewright_reviews", "outcome"): [outcome.value for outcome in Outcome],
    ("gatewright_review_duration_seconds", "outcome"): [outcome.value for outcome in Outcome],
    ("gatewright_prometheus_queries", "outcome"): [
        "answered",
        "unusable",
        *[fault.value for fault in PrometheusFault],
    ],
    ("gatewright_prometheus_skipped_series", "reason"): [skip.value for skip in Skip],
}
# What is no list of words, and why it is bounded.
BOUNDED = {
    "code": "the status of HTTP",
    "revision": "one series: that of the snapshot in force",
    "kind": "the kinds of our documents",
    "resource": "the resources that are watched, such as `namespaces`",
}

_IN_TEXT = re.compile(r" (?P<label>[a-z_]+): (?P<values>[^.]+)\.$")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric as it is scraped. *labels* are its values by name, none where unbounded words."""

    name: str
    type: str
    text: str
    labels: Mapping[str, tuple[str, ...]]


def families(more: Callable[[Metrics], object] | None = None) -> list[Family]:
    """Those of every process, or those that *more* adds."""
    metrics = Metrics()
    found = _collectors(metrics)
    if more is not None:
        more(metrics)
        found = {name: one for name, one in _collectors(metrics).items() if name not in found}
    return [_family(name, one) for name, one in sorted(found.items())]


def _collectors(metrics: Metrics) -> dict[str, Any]:
    # Nothing public tells the names of labels of a metric without samples.
    collectors: Iterable[Any] = metrics.registry._collector_to_names
    return {
        collector._name: collector
        for collector in collectors
        if getattr(collector, "_name", "").startswith("gatewright_")
    }


def _family(name: str, collector: Any) -> Family:
    in_text = _IN_TEXT.search(collector._documentation)
    labels = {}
    for label in collector._labelnames:
        values = LABELS.get((name, label), LABELS.get(label, ()))
        if in_text and in_text["label"] == label and not values:
            values = re.sub(r" \([^)]*\)", "", in_text["values"]).split(", ")
        labels[label] = tuple(values)
    suffix = "_total" if collector._type == "counter" else ""
    return Family(f"{name}{suffix}", collector._type, collector._documentation, labels)


def metrics_page() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield (
        "What `/metrics` on `--ops-listen` shows. Each label has a closed set of values: no name of"
        " an object or of a user is among them, so the number of series is bounded. Beside these"
        " are the `process_` and `python_gc_` metrics that most programs in Python have. Alerts and"
        " a dashboard on them: [auditors.md](../auditors.md#metrics)."
    )
    for title, more in (
        ("Of both commands", None),
        ("Of `serve` with a cluster", ServerMetrics),
        ("Of `reconcile`", ReconcilerMetrics),
    ):
        yield ""
        yield f"## {title}"
        yield ""
        if more is None:
            yield "`reconcile` shows them too; those about reviews stay at 0 there."
            yield ""
        yield from table(
            ["Metric", "Type", "Labels", "Meaning"],
            [
                [code(one.name), one.type, labels_text(one.labels), text_of(one)]
                for one in families(more)
            ],
        )


def text_of(family: Family) -> str:
    """What *family* is, without the list of values that stands beside it, if that says no more."""
    found = _IN_TEXT.search(family.text)
    if found and found["label"] in family.labels and "(" not in found["values"]:
        return family.text[: found.start()]
    return family.text


def labels_text(labels: Mapping[str, tuple[str, ...]]) -> str:
    return "; ".join([f"{code(name)}: {codes(labels[name]) or BOUNDED[name]}" for name in labels])
