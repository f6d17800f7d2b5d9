"""When a strategy lets pods be recreated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.model.rightsizing.policies import DocumentKey, Strategy, Window
from webhook.reactive.recreation.schedule import is_open, next_open

KEY = DocumentKey("AutomationStrategy", "team-a", "gpu")
MONDAY, SATURDAY, SUNDAY = 0, 5, 6


def strategy(*included: Window, excluded: tuple[Window, ...] = ()) -> Strategy:
    return Strategy(KEY, inclusion_windows=included, exclusion_windows=excluded)


def at(text: str) -> datetime:
    """In the first week of 2026, whose Thursday is the first of January."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def clock(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def window(start: str, end: str, *weekdays: int, timezone: str = "UTC") -> Window:
    return Window(clock(start), clock(end), timezone, frozenset(weekdays))


NIGHT = window("22:00", "06:00")
SATURDAY_NIGHT = window("22:00", "06:00", SATURDAY)
TOKYO = window("09:00", "17:00", timezone="Asia/Tokyo")


@pytest.mark.parametrize(
    ("given", "now", "want"),
    [
        pytest.param(strategy(), "2026-01-01T12:00", True, id="no-windows"),
        pytest.param(strategy(NIGHT), "2026-01-01T21:59", False, id="a-minute-before"),
        pytest.param(strategy(NIGHT), "2026-01-01T22:00", True, id="the-start-is-inside"),
        pytest.param(strategy(NIGHT), "2026-01-02T05:59", True, id="over-midnight"),
        pytest.param(strategy(NIGHT), "2026-01-02T06:00", False, id="the-end-is-outside"),
        pytest.param(
            strategy(SATURDAY_NIGHT), "2026-01-04T03:00", True, id="it-began-the-day-before"
        ),
        pytest.param(
            strategy(SATURDAY_NIGHT), "2026-01-03T03:00", False, id="that-night-was-fridays"
        ),
        pytest.param(strategy(TOKYO), "2026-01-01T00:00", True, id="nine-in-tokyo"),
        pytest.param(strategy(TOKYO), "2026-01-01T08:00", False, id="five-in-tokyo"),
        pytest.param(
            strategy(window("00:00", "24:00", SUNDAY)), "2026-01-04T23:59", True, id="a-whole-day"
        ),
        pytest.param(
            strategy(NIGHT, window("12:00", "13:00")), "2026-01-01T12:30", True, id="any-will-do"
        ),
        pytest.param(
            strategy(NIGHT, excluded=(window("23:00", "23:30"),)),
            "2026-01-01T23:10",
            False,
            id="an-exclusion-is-stronger",
        ),
        pytest.param(
            strategy(excluded=(window("23:00", "23:30"),)),
            "2026-01-01T22:10",
            True,
            id="only-an-exclusion",
        ),
    ],
)
def test_it_is_open_inside_an_inclusion_and_outside_all_exclusions(
    given: Strategy, now: str, want: bool
) -> None:
    assert is_open(given, at(now)) is want


@pytest.mark.parametrize(
    ("given", "now", "want"),
    [
        pytest.param(strategy(), "2026-01-01T12:00", "2026-01-01T12:00", id="now"),
        pytest.param(strategy(NIGHT), "2026-01-01T12:00", "2026-01-01T22:00", id="tonight"),
        pytest.param(
            strategy(window("01:00", "02:00", MONDAY)),
            "2026-01-05T02:00",
            "2026-01-12T01:00",
            id="in-a-week",
        ),
        pytest.param(
            strategy(NIGHT, excluded=(window("21:00", "23:00"),)),
            "2026-01-01T12:00",
            "2026-01-01T23:00",
            id="when-the-exclusion-ends",
        ),
        pytest.param(strategy(TOKYO), "2026-01-01T12:00", "2026-01-02T00:00", id="elsewhere"),
        # The night in which the clock of Berlin goes from two to three.
        pytest.param(
            strategy(window("02:30", "02:45", timezone="Europe/Berlin")),
            "2026-03-28T12:00",
            "2026-03-30T00:30",
            id="a-window-that-is-left-out",
        ),
    ],
)
def test_the_next_time_is_told(given: Strategy, now: str, want: str) -> None:
    assert next_open(given, at(now)) == at(want)


def test_never_is_told() -> None:
    always = window("00:00", "24:00")

    assert next_open(strategy(NIGHT, excluded=(always,)), at("2026-01-01T12:00")) is None


MINUTES = st.integers(0, 1439)
WINDOWS = st.builds(
    Window,
    MINUTES,
    MINUTES,
    st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York"]),
    st.frozensets(st.integers(0, 6)),
).filter(lambda window: window.start != window.end)


@pytest.mark.slow
@given(
    st.lists(WINDOWS, max_size=3),
    st.lists(WINDOWS, max_size=2),
    st.integers(0, 366 * 24 * 60),
)
def test_the_next_time_is_the_first_open_one(
    included: list[Window], excluded: list[Window], minutes: int
) -> None:
    given = strategy(*included, excluded=tuple(excluded))
    now = at("2026-01-01T00:00") + timedelta(minutes=minutes)
    found = next_open(given, now)

    times = [now + timedelta(minutes=15 * number) for number in range(7 * 24 * 4)]
    before = [time for time in times if found is None or time < found]
    assert not any(is_open(given, time) for time in before)
    assert found is None or is_open(given, found)
