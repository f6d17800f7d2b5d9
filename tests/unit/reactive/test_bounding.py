"""What a strategy lets be written of a recommendation."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from webhook.model.rightsizing.policies import Bounds, DocumentKey, Strategy
from webhook.reactive.decisions.bounding import bound

KEY = DocumentKey("AutomationStrategy", "default", "gpu")
ALL = {"upsize": True, "downsize": True, "set_from_unspecified": True}


def make_strategy(floor: str | None = None, ceiling: str | None = None, **more: Any) -> Strategy:
    return Strategy(KEY, bounds=make_bounds(floor, ceiling), **(ALL | more))


def make_bounds(floor: str | None = None, ceiling: str | None = None) -> Bounds:
    return Bounds(
        None if floor is None else Decimal(floor), None if ceiling is None else Decimal(ceiling)
    )


@pytest.mark.parametrize(
    ("enabled", "current", "want"),
    [
        pytest.param("upsize", "1", "2", id="more"),
        pytest.param("downsize", "3", "2", id="less"),
        pytest.param("set_from_unspecified", None, "2", id="the-first"),
    ],
)
def test_each_direction_must_be_enabled(enabled: str, current: str | None, want: str) -> None:
    has = {"main": None if current is None else Decimal(current)}
    only: Any = {name: name == enabled for name in ALL}
    others: Any = {enabled: False}

    allowed = bound({"main": Decimal(2)}, has, make_strategy(**only))
    assert (allowed.writable, allowed.reasons) == ({"main": Decimal(want)}, {})
    refused = bound({"main": Decimal(2)}, has, make_strategy(**others))
    assert refused.writable == {}
    assert f"{KEY} does not enable " in refused.reasons["main"][0]


def test_a_default_strategy_lets_nothing_through() -> None:
    amounts = {"a": Decimal(2), "b": Decimal(2), "c": Decimal(2)}
    current = {"a": Decimal(1), "b": Decimal(3)}
    bounded = bound(amounts, current, Strategy(KEY))

    assert bounded.writable == {}
    assert bounded.reasons == {
        "a": ("AutomationStrategy default/gpu does not enable upsize",),
        "b": ("AutomationStrategy default/gpu does not enable downsize",),
        "c": ("has no GPU, and AutomationStrategy default/gpu does not enable setFromUnspecified",),
    }


def test_what_a_container_has_already_is_not_written() -> None:
    bounded = bound({"main": Decimal("2.0")}, {"main": Decimal(2)}, Strategy(KEY))

    assert (bounded.amounts, bounded.writable, bounded.reasons) == (
        {"main": Decimal(2)},
        {},
        {},
    )


@pytest.mark.parametrize(
    ("strategy", "want"),
    [
        pytest.param(make_strategy(floor="3"), "3", id="raised-to-the-floor"),
        pytest.param(make_strategy(ceiling="1.5"), "1.5", id="lowered-to-the-ceiling"),
        pytest.param(make_strategy("1", "3"), "2", id="within"),
        pytest.param(make_strategy("3", "1"), "1", id="the-ceiling-where-they-cross"),
        pytest.param(
            make_strategy("3", container_bounds={"main": make_bounds(floor="2.5")}),
            "2.5",
            id="the-containers-own-floor",
        ),
        pytest.param(
            make_strategy("3", "4", container_bounds={"main": make_bounds(ceiling="3.5")}),
            "3",
            id="what-the-container-leaves-open-is-that-of-all",
        ),
        pytest.param(
            make_strategy(container_bounds={"other": make_bounds(floor="9")}),
            "2",
            id="anothers-bounds",
        ),
    ],
)
def test_amounts_are_kept_within_floor_and_ceiling(strategy: Strategy, want: str) -> None:
    bounded = bound({"main": Decimal(2)}, {"main": Decimal("0.5")}, strategy)

    assert bounded.amounts == bounded.writable == {"main": Decimal(want)}
    assert bool(bounded.reasons) is (want != "2")


def test_bounds_come_before_directions() -> None:
    """What the ceiling lowers below what the container has is a downsize."""
    strategy = make_strategy(ceiling="1", downsize=False)
    bounded = bound({"main": Decimal(3)}, {"main": Decimal(2)}, strategy)

    assert bounded.writable == {}
    assert bounded.reasons["main"] == (
        "lowered from 3 GPUs to the ceiling of AutomationStrategy default/gpu",
        "AutomationStrategy default/gpu does not enable downsize",
    )
