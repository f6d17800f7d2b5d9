"""The reference of metrics names every value that the code counts by."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference_metrics import BOUNDED, Family, families
from webhook.telemetry.metrics import Metrics, ReconcilerMetrics, ServerMetrics

PACKAGE = Path(__file__).parents[3] / "webhook"
FAMILIES = {
    one.name: one for more in (None, ServerMetrics, ReconcilerMetrics) for one in families(more)
}


def attributes() -> dict[str, str]:
    """The metric behind each attribute of the classes of metrics."""
    metrics = Metrics()
    owners: list[object] = [metrics, ServerMetrics(metrics)]
    # The two have a leader each, and the registry takes one.
    owners.append(ReconcilerMetrics(Metrics()))
    found = {}
    for owner in owners:
        for name, collector in vars(owner).items():
            full = getattr(collector, "_name", "")
            found[name] = next(
                (known for known in (full, f"{full}_total") if known in FAMILIES), ""
            )
    return {name: full for name, full in found.items() if full}


def counted() -> Iterator[tuple[str, int, str]]:
    """Metric, position and value of every label that the code writes out."""
    known = attributes()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="labels", value=ast.Attribute(attr=name)), args=args
                ) if name in known:
                    for position, arg in enumerate(args):
                        for value in written(arg):
                            yield known[name], position, value


def written(arg: ast.expr) -> Iterator[str]:
    match arg:
        case ast.Constant(value=str() as text):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from written(body)
            yield from written(other)


COUNTED = sorted(set(counted()))


@pytest.mark.parametrize(("name", "position", "value"), COUNTED)
def test_a_value_that_is_written_is_among_those_of_its_label(
    name: str, position: int, value: str
) -> None:
    labels = list(FAMILIES[name].labels.values())

    assert value in labels[position]


def test_values_that_are_written_were_found() -> None:
    assert len({name for name, _, _ in COUNTED}) > 5


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_label_has_a_closed_set_of_values(family: Family) -> None:
    unknown = [label for label, values in family.labels.items() if not values]

    assert [label for label in unknown if label not in BOUNDED] == []
