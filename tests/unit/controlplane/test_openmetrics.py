"""The text that promtool reads. That it reads it is seen by the end-to-end tests."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from tests.controlplane.openmetrics import Series, format_openmetrics

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_samples_are_written_in_the_order_of_time_and_to_the_millisecond() -> None:
    series = Series(
        "gpu_percent",
        {"pod": "llm-0"},
        [(AT + timedelta(milliseconds=1500), Decimal("80.50")), (AT, "NaN")],
    )

    assert format_openmetrics([series]) == (
        'gpu_percent{pod="llm-0"} NaN 1767225600.000\n'
        'gpu_percent{pod="llm-0"} 80.50 1767225601.500\n'
        "# EOF\n"
    )


def test_any_label_value_can_be_written() -> None:
    text = format_openmetrics([Series("m", {"a": 'x"y\\z\n', "b": ""}, [(AT, 1.5)])])

    assert text.startswith('m{a="x\\"y\\\\z\\n",b=""} 1.5 ')


def test_a_time_is_the_same_in_every_zone() -> None:
    there = AT.astimezone(timezone(timedelta(hours=9)))

    assert format_openmetrics([Series("m", {}, [(there, 1.0)])]) == (
        format_openmetrics([Series("m", {}, [(AT, 1.0)])])
    )


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        pytest.param(AT.replace(tzinfo=None), "no time zone", id="naive"),
        pytest.param(AT + timedelta(microseconds=1), "finer than a millisecond", id="too-fine"),
    ],
)
def test_a_time_that_prometheus_would_not_keep_is_an_error(at: datetime, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        format_openmetrics([Series("m", {}, [(at, 1.0)])])
