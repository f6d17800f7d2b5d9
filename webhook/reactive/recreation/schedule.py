"""
When a strategy lets pods be recreated: inside one of its inclusion windows (always, if there are
none), and inside none of its exclusion windows.

Windows are in local time, on the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from webhook.model.rightsizing.policies import Strategy, Window

_DAY_MINUTES = 24 * 60
# A window comes back within a week; it may have begun the day before.
_DAYS = range(-1, 9)


def is_open(strategy: Strategy, now: datetime) -> bool:
    """Whether *strategy* lets pods be recreated at *now*."""
    included = strategy.inclusion_windows
    if included and not any(_holds(window, now) for window in included):
        return False
    return not any(_holds(window, now) for window in strategy.exclusion_windows)


def next_open(strategy: Strategy, now: datetime) -> datetime | None:
    """
    The first time from *now* on at which *strategy* lets pods be recreated, in UTC.

    None if there is none within a week, so that there will never be one.
    """
    if is_open(strategy, now):
        return now.astimezone(UTC)
    windows = (*strategy.inclusion_windows, *strategy.exclusion_windows)
    for border in sorted({border for border in _borders(windows, now) if border > now}):
        if is_open(strategy, border):
            return border
    return None


def _holds(window: Window, now: datetime) -> bool:
    local = now.astimezone(_zone(window.timezone))
    minute, weekday = local.hour * 60 + local.minute, local.weekday()
    if window.start < window.end:
        return window.start <= minute < window.end and _is_on(window, weekday)
    if minute >= window.start:
        return _is_on(window, weekday)
    # Over midnight: it began on the day before.
    return minute < window.end and _is_on(window, (weekday - 1) % 7)


def _is_on(window: Window, weekday: int) -> bool:
    return not window.weekdays or weekday in window.weekdays


def _borders(windows: Iterable[Window], now: datetime) -> Iterator[datetime]:
    """All times around *now* at which one of *windows* begins or ends, in UTC."""
    for window in windows:
        zone = _zone(window.timezone)
        today = now.astimezone(zone).date()
        for days in _DAYS:
            for minute in (window.start, window.end):
                yield _at(today + timedelta(days=days), minute, zone)


def _at(day: date, minute: int, zone: ZoneInfo) -> datetime:
    """That minute of *day*. One that the clock leaves out in spring counts as the next there is."""
    day += timedelta(days=minute // _DAY_MINUTES)
    minute %= _DAY_MINUTES
    local = datetime.combine(day, time(minute // 60, minute % 60), zone)
    return local.astimezone(UTC)


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
