"""Durations as Go writes them: `10m`, `1h30m`, `1.5h`. There are no days."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

from webhook.model.values import json_type

# Longer than any that people write; it bounds the work.
_MAX_CHARS = 64

# Windows of thousands of workloads are the same few.
_REMEMBERED = 1024

# Go counts nanoseconds in 64 bits, which is some 292 years.
_MAX_NANOSECONDS = 2**63 - 1

_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # U+00B5, the micro sign
    "μs": 10**3,  # U+03BC, the Greek letter
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_UNIT = "|".join(sorted(_NANOSECONDS, key=len, reverse=True))
# At least one digit, on either side of the point.
_NUMBER = r"(?=\.?[0-9])[0-9]*(?:\.[0-9]*)?"
_PART = re.compile(rf"({_NUMBER})({_UNIT})")
_WHOLE = re.compile(rf"([+-]?)((?:{_NUMBER}(?:{_UNIT}))+)")


@lru_cache(maxsize=_REMEMBERED)
def parse_duration(text: str) -> timedelta:
    """
    Read a duration: numbers with a unit (ns, us, ms, s, m, h), one after the other; or `0`.

    Raises:
        ValueError: *text* is none, is longer than Go can count (292 years), or is finer than a
            microsecond.
    """
    if len(text) > _MAX_CHARS:
        raise ValueError("is too long for a duration")
    if text in ("0", "+0", "-0"):
        return timedelta()
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration (such as 10m, 1h30m or 90s)")
    nanoseconds = sum(
        Fraction(number.removesuffix(".")) * _NANOSECONDS[unit]
        for number, unit in _PART.findall(found[2])
    )
    if nanoseconds > _MAX_NANOSECONDS:
        raise ValueError(f"{text!r} is longer than 292 years")
    microseconds = Fraction(nanoseconds, 1000)
    if microseconds.denominator != 1:
        raise ValueError(f"{text!r} is finer than a microsecond")
    whole = timedelta(microseconds=microseconds.numerator)
    return -whole if found[1] == "-" else whole


def read_duration(value: Any) -> timedelta:
    """
    The duration that *value* says.

    Raises:
        ValueError: it is no text, or as from `parse_duration`.
    """
    if not isinstance(value, str):
        raise ValueError(f"must be a duration such as 30m, got {json_type(value)}")
    return parse_duration(value)


@lru_cache(maxsize=_REMEMBERED)
def format_duration(value: timedelta) -> str:
    """*value* in the shortest form that `parse_duration` reads: `1h30m`, `10m`, `0.5s`, `0s`."""
    microseconds = value // timedelta(microseconds=1)
    sign = "-" if microseconds < 0 else ""
    minutes, rest = divmod(abs(microseconds), 60 * 10**6)
    hours, minutes = divmod(minutes, 60)
    seconds, fraction = divmod(rest, 10**6)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if rest:
        digits = f".{fraction:06}".rstrip("0") if fraction else ""
        parts.append(f"{seconds}{digits}s")
    return sign + ("".join(parts) or "0s")
