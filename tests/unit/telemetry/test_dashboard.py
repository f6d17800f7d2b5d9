"""The alerts and the dashboard of the chart ask for metrics that there are, with their labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.telemetry.metrics import Metrics, ReconcilerMetrics, ServerMetrics

FILES = Path(__file__).parents[3] / "charts" / "gatewright" / "files"

# What Prometheus adds when it scrapes by a ServiceMonitor, and what a histogram has.
SCRAPED = frozenset({"namespace", "pod", "container", "job", "instance", "le"})

_NAME = re.compile(r"\b(?:gatewright|process|python)_[a-z_]+")
_SELECTOR = re.compile(r"\b((?:gatewright|process)_[a-z_]+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


def alerts() -> Iterator[tuple[str, Mapping[str, Any]]]:
    groups = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    yield from [(rule["alert"], rule) for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text())
    return found


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> dict[str, str]:
    """Every query, by the alert or panel that it is of."""
    asked = {name: str(rule["expr"]) for name, rule in alerts()}
    for panel in panels():
        for target in panel["targets"]:
            asked[f"{panel['title']} {target['refId']}"] = target["expr"]
    return asked


def labels_by_metric() -> dict[str, frozenset[str]]:
    """The names by which each metric can be asked for, and its labels."""
    found: dict[str, frozenset[str]] = {}
    for make in (ServerMetrics, ReconcilerMetrics):
        metrics = Metrics()
        make(metrics)
        # Labels are nowhere to be read from without a sample.
        collectors: list[Any] = list(metrics.registry._collector_to_names)
        labels = {
            collector._name: frozenset(collector._labelnames)
            for collector in collectors
            if hasattr(collector, "_labelnames")
        }
        for family in metrics.registry.collect():
            known = labels.get(family.name, frozenset())
            suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
            for suffix in suffixes.get(family.type, ("",)):
                found[family.name + suffix] = known
    return found


EXPRESSIONS = expressions()


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_metric_that_is_asked_for_exists(name: str) -> None:
    known = labels_by_metric()
    asked = _NAME.findall(EXPRESSIONS[name])

    assert asked
    assert [metric for metric in asked if metric not in known] == []


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_label_that_is_asked_for_exists(name: str) -> None:
    known = labels_by_metric()
    expression = EXPRESSIONS[name]
    selected = [
        (metric, label)
        for metric, matchers in _SELECTOR.findall(expression)
        for label in _MATCHER.findall(matchers)
    ]
    grouped = {
        label.strip()
        for labels in _GROUPING.findall(expression)
        for label in labels.split(",")
        if label.strip()
    }
    of_metrics = frozenset().union(*[known[metric] for metric in _NAME.findall(expression)])

    assert [pair for pair in selected if pair[1] not in known[pair[0]] | SCRAPED] == []
    assert grouped - of_metrics - SCRAPED == set()


@pytest.mark.parametrize(("name", "rule"), list(alerts()))
def test_an_alert_says_what_is_wrong_and_how_bad_it_is(name: str, rule: Mapping[str, Any]) -> None:
    assert re.fullmatch(r"Gatewright[A-Za-z]+", name)
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"].endswith(".")


def test_no_two_panels_lie_on_one_another() -> None:
    cells = [
        (x, y)
        for panel in dashboard()["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_panels_have_numbers_of_their_own_and_the_chosen_data_source() -> None:
    shown = dashboard()
    numbers = [panel["id"] for panel in shown["panels"]]

    assert len(numbers) == len(set(numbers))
    assert {panel["datasource"]["uid"] for panel in panels()} == {"${datasource}"}
    assert [each["name"] for each in shown["templating"]["list"]] == ["datasource", "namespace"]
