"""Durations as Go reads them (`time.ParseDuration`), which is what CEL calls in the API server."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.model.rightsizing.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("10m", timedelta(minutes=10), id="minutes"),
        pytest.param("1h30m", timedelta(minutes=90), id="two-units"),
        pytest.param("1.5h", timedelta(minutes=90), id="fraction"),
        pytest.param(".5s", timedelta(milliseconds=500), id="no-digit-before-the-point"),
        pytest.param("5.s", timedelta(seconds=5), id="no-digit-after-the-point"),
        pytest.param("0", timedelta(), id="zero-needs-no-unit"),
        pytest.param("0s", timedelta(), id="zero"),
        pytest.param("-1m", timedelta(minutes=-1), id="negative"),
        pytest.param("+1m", timedelta(minutes=1), id="sign"),
        pytest.param("30s1m", timedelta(seconds=90), id="any-order"),
        pytest.param("1m1m", timedelta(minutes=2), id="a-unit-twice"),
        pytest.param("250ms", timedelta(milliseconds=250), id="milliseconds"),
        pytest.param("1µs", timedelta(microseconds=1), id="micro-sign"),
        pytest.param("1μs", timedelta(microseconds=1), id="greek-letter"),
        pytest.param("1us", timedelta(microseconds=1), id="ascii"),
        pytest.param("2000ns", timedelta(microseconds=2), id="nanoseconds"),
        pytest.param("2562047h", timedelta(hours=2562047), id="as-long-as-it-gets"),
    ],
)
def test_a_duration_is_read_exactly(text: str, want: timedelta) -> None:
    assert parse_duration(text) == want


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("10", id="no-unit"),
        pytest.param("1d", id="days"),
        pytest.param("1w", id="weeks"),
        pytest.param("m", id="no-number"),
        pytest.param(".s", id="point-alone"),
        pytest.param("1 m", id="blank"),
        pytest.param("10m ", id="blank-at-the-end"),
        pytest.param("10m\n", id="line-end"),
        pytest.param("1M", id="capital"),
        pytest.param("--1m", id="two-signs"),
        pytest.param("1m-1s", id="sign-inside"),
        pytest.param("1e3s", id="exponent"),
        pytest.param("PT10M", id="iso-8601"),
        pytest.param("١m", id="other-digits"),
        pytest.param("2562048h", id="longer-than-go-counts"),
        pytest.param("1ns", id="finer-than-a-microsecond"),
        pytest.param("9" * 10_000 + "s", id="far-too-long"),
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer|finer"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(timedelta(minutes=10), "10m", id="minutes"),
        pytest.param(timedelta(hours=1, minutes=30), "1h30m", id="hours"),
        pytest.param(timedelta(hours=6), "6h", id="whole-hours"),
        pytest.param(timedelta(seconds=90), "1m30s", id="seconds"),
        pytest.param(timedelta(milliseconds=1500), "1.5s", id="fraction"),
        pytest.param(timedelta(), "0s", id="zero"),
        pytest.param(timedelta(minutes=-1), "-1m", id="negative"),
        pytest.param(timedelta(days=2), "48h", id="days"),
    ],
)
def test_a_duration_is_written_short(value: timedelta, want: str) -> None:
    assert format_duration(value) == want


@given(st.timedeltas(min_value=timedelta(days=-90_000), max_value=timedelta(days=90_000)))
def test_what_is_written_is_read_as_the_same(value: timedelta) -> None:
    assert parse_duration(format_duration(value)) == value
