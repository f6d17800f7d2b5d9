"""Times as Kubernetes writes them, read and written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.model.rightsizing.times import format_time, read_time, time_after

FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", id="utc"),
        pytest.param("2026-01-01t00:00:00z", "2026-01-01T00:00:00Z", id="in-lower-case"),
        pytest.param("2026-01-01T05:30:00+05:30", "2026-01-01T00:00:00Z", id="elsewhere"),
        pytest.param("2025-12-31T22:00:00-02:00", "2026-01-01T00:00:00Z", id="west"),
        pytest.param("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.500000Z", id="tenths"),
        pytest.param(
            "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.123456Z", id="nanoseconds"
        ),
        pytest.param("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", id="first"),
        pytest.param("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z", id="last"),
    ],
)
def test_a_time_is_read_in_utc(text: str, want: str) -> None:
    read = read_time(text)

    assert (read.tzinfo, format_time(read)) == (UTC, want)


def test_one_time_has_one_text_wherever_it_was_said() -> None:
    """Equal times are remembered as one."""
    east = timezone(timedelta(hours=5, minutes=30))
    said = [datetime(2026, 1, 1, 5, 30, tzinfo=east), datetime(2026, 1, 1, tzinfo=UTC)]

    assert [format_time(time) for time in (*said, *reversed(said))] == ["2026-01-01T00:00:00Z"] * 4


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("0001-01-01T00:00:00+14:00", id="before-the-calendar"),
        pytest.param("9999-12-31T23:59:59-00:01", id="after-the-calendar"),
        pytest.param("0000-01-01T00:00:00Z", id="year-zero"),
        pytest.param("2026-02-30T00:00:00Z", id="no-such-day"),
        pytest.param("2026-01-01T24:00:00Z", id="hour-24"),
        pytest.param("2026-01-01T23:59:60Z", id="leap-second"),
        pytest.param("2026-01-01T00:00:00+99:59", id="no-such-zone"),
        pytest.param("2026-01-01T00:00:00", id="no-zone"),
        pytest.param("2026-01-01", id="day"),
        pytest.param("2026-W01-1T00:00:00Z", id="week"),
        pytest.param("٢٠٢٦-01-01T00:00:00Z", id="other-digits"),
        pytest.param("2026-01-01T00:00:00Z\n", id="line"),
        pytest.param(f"2026-01-01T00:00:00.{'0' * 100}Z", id="long"),
        pytest.param("", id="empty"),
        pytest.param(None, id="null"),
        pytest.param(1767225600, id="number"),
        pytest.param({}, id="map"),
    ],
)
def test_what_is_no_time_is_told(value: Any) -> None:
    with pytest.raises(ValueError, match="time") as raised:
        read_time(value)
    assert len(str(raised.value)) < 120


@pytest.mark.slow
@given(st.text(max_size=40) | st.from_regex(r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d\Z"))
def test_no_text_makes_another_error(text: str) -> None:
    try:
        read = read_time(text)
    except ValueError:
        return
    assert read_time(format_time(read)) == read


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_is_read_as_the_same(time: datetime) -> None:
    assert read_time(format_time(time)) == time


def test_a_time_elsewhere_is_written_in_utc() -> None:
    elsewhere = datetime(2026, 1, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))

    assert format_time(elsewhere) == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("time", "wait", "want"),
    [
        pytest.param(FIRST, timedelta(days=1), datetime(1, 1, 2, tzinfo=UTC), id="after"),
        pytest.param(LAST, timedelta(days=-1), LAST - timedelta(days=1), id="before"),
        pytest.param(LAST, timedelta(seconds=1), LAST, id="after-the-last"),
        pytest.param(FIRST, timedelta(seconds=-1), FIRST, id="before-the-first"),
        pytest.param(FIRST, timedelta.max, LAST, id="longest"),
    ],
)
def test_a_wait_ends_within_the_calendar(time: datetime, wait: timedelta, want: datetime) -> None:
    assert time_after(time, wait) == want
