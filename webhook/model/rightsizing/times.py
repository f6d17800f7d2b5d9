"""Times as Kubernetes writes them (RFC 3339), read and written; all of them in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from webhook.model.values import json_type

# `fromisoformat` takes more than RFC 3339 has: dates alone, weeks, times without a zone.
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):([0-5]\d))",
    re.ASCII,
)
# Longer than any that is written; it bounds what is looked at, and what a message repeats.
_MAX_CHARS = 64
_SHOWN_CHARS = 40

# Of a round of the reconciler thousands of times are the same one, in what is written and in what
# the watches bring back.
_REMEMBERED = 1024

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def read_time(value: Any) -> datetime:
    """
    The time that *value* says, in UTC. What is finer than a microsecond is cut off.

    Raises:
        ValueError: *value* is no text, no time of RFC 3339 with its zone, or in UTC is before
            year 1 or after year 9999. No other error, whatever *value* is.
    """
    if not isinstance(value, str) or len(value) > _MAX_CHARS:
        raise _none(value)
    return _parse_time(value)


@lru_cache(maxsize=_REMEMBERED)
def _parse_time(text: str) -> datetime:
    found = _TIME.fullmatch(text)
    if found is None:
        raise _none(text)
    day, clock, fraction, sign, hours, minutes = found.groups()
    offset = timedelta()
    if sign is not None:
        offset = timedelta(hours=int(hours), minutes=int(minutes)) * (1 if sign == "+" else -1)
    try:
        local = datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}")
        return local.replace(tzinfo=timezone(offset)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{_shown(text)} is no time that there is") from None


@lru_cache(maxsize=_REMEMBERED)
def format_time(time: datetime) -> str:
    """*time* (aware) as `read_time` reads it, in UTC; to the microsecond, if there are some."""
    # That of UTC is left as it is, so that nothing is shifted beyond the calendar.
    return time.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def time_after(time: datetime, wait: timedelta) -> datetime:
    """*time* (aware) and *wait*, which may be negative; at most the calendar's first or last."""
    try:
        return time + wait
    except OverflowError:
        return _LAST if wait > timedelta() else _FIRST


def _none(value: Any) -> ValueError:
    return ValueError(f"must be a time such as 2026-01-01T00:00:00Z, got {_shown(value)}")


def _shown(value: Any) -> str:
    return repr(value[:_SHOWN_CHARS]) if isinstance(value, str) else json_type(value)
