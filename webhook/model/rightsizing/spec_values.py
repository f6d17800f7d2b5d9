"""Values in the specs of `rightsizing.kubex.ai/v1alpha1`: what may be, and what it means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field

from webhook.errors import QuantityError
from webhook.model.globs import Glob
from webhook.model.quantity import parse_quantity
from webhook.model.rightsizing.amounts import format_amount
from webhook.model.rightsizing.durations import format_duration, parse_duration
from webhook.model.rightsizing.policies import CONTRACT
from webhook.model.rightsizing.workload_types import read_type
from webhook.model.values import json_type

MINUTE = timedelta(minutes=1)

_MAX_INT32 = 2**31 - 1
# A container's name is a DNS label (Kubernetes: "Object Names and IDs").
CONTAINER_NAME = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_CONTAINER_NAME = re.compile(CONTAINER_NAME)
# Prometheus: "Data model".
METRIC_NAME = r"[A-Za-z_:][A-Za-z0-9_:]*"
LABEL_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
START = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
END = rf"{START}|24:00"
DAY_MINUTES = 24 * 60

# In the order of `datetime.weekday`.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT_DAYS = (
    ("Mon",), ("Tue", "Tues"), ("Wed",), ("Thu", "Thur", "Thurs"), ("Fri",), ("Sat",), ("Sun",)
)  # fmt: skip
WEEKDAYS = {
    name: day
    for day, (full, short) in enumerate(zip(_DAYS, _SHORT_DAYS, strict=True))
    for name in (full, *short)
}

_SizedT = TypeVar("_SizedT", bound=Sized)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, got {json_type(value)}")
    return value


def _integer(least: int, most: int = _MAX_INT32) -> BeforeValidator:
    def read(value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"must be a whole number, got {json_type(value)}")
        if value < least:
            raise ValueError(f"must be at least {least}, not {value}")
        if value > most:
            raise ValueError(f"must be at most {most}")
        return value

    return BeforeValidator(read)


def _duration(least: timedelta = timedelta(), *, more: bool = False) -> BeforeValidator:
    """*least* and above; with *more*, only above."""

    def read(value: Any) -> timedelta:
        duration = parse_duration(_text(value))
        if more and duration <= least:
            raise ValueError(f"must be more than {format_duration(least)}, not {value}")
        if duration < least:
            raise ValueError(f"must be at least {format_duration(least)}, not {value}")
        return duration

    return BeforeValidator(read)


def _pod_age(value: Any) -> timedelta:
    duration = parse_duration(value) if _text(value) else timedelta()
    if duration and duration < MINUTE:
        raise ValueError(f"must be empty, 0s, or at least 1m, not {value}")
    return duration


def _named(pattern: str, what: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(f"{value[:80]!r} is no {what}")
        return value

    return AfterValidator(check)


def _one_of(known: Iterable[str]) -> BeforeValidator:
    names = tuple(known)

    def check(value: Any) -> str:
        if _text(value) not in names:
            raise ValueError(f"must be one of {', '.join(names)}, not {value[:80]!r}")
        return str(value)

    return BeforeValidator(check)


def _contract(value: Any) -> str:
    if value == "":
        raise ValueError(f"is needed: {CONTRACT}")
    if _text(value) not in ("none", CONTRACT):
        raise ValueError(f"the contract {value[:80]!r} is not kept here; it must be {CONTRACT}")
    return str(value)


def _container(name: Any) -> str:
    if _text(name) == "*":
        raise ValueError('"*" is no container; leave the list out to include all of them')
    if not _CONTAINER_NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name of a container")
    return str(name)


def _distinct(names: list[str]) -> list[str]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"named more than once: {', '.join(twice)}")
    return names


def _glob(pattern: Any) -> str:
    return Glob.compile(_text(pattern)).source


def _filled(value: _SizedT) -> _SizedT:
    if not len(value):
        raise ValueError("must not be empty")
    return value


def _amount(value: Any) -> Decimal:
    try:
        amount = parse_quantity(_text(value))
    except QuantityError as error:
        raise ValueError(str(error)) from None
    if amount < 0:
        raise ValueError(f"must not be negative, not {value}")
    # As it is stored later, so that what is read back is the same.
    return Decimal(format_amount(exact(amount)))


def exact(amount: Fraction) -> Decimal:
    """*amount*, which is a whole number of billionths, as a decimal without a rounding."""
    digits, exponent = int(amount * 10**9), -9
    while exponent and digits % 10 == 0:
        digits, exponent = digits // 10, exponent + 1
    # Not by arithmetic, which rounds to the context's precision.
    return Decimal(f"{digits}E{exponent}")


def _timezone(name: Any) -> str:
    if not _text(name):
        return "UTC"
    try:
        # By the database that the windows are looked up in later.
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise ValueError(
            f"{name[:80]!r} is no time zone (such as UTC or Europe/Amsterdam)"
        ) from None
    return str(name)


Filled = Annotated[str, AfterValidator(_filled)]
Percent = Annotated[int, _integer(1)]
Headroom = Annotated[int, _integer(0)]
Weight = Annotated[int, _integer(0)]
Lookback = Annotated[timedelta, _duration(MINUTE)]
Interval = Annotated[timedelta, _duration(MINUTE)]
Wait = Annotated[timedelta, _duration()]
Timeout = Annotated[timedelta, _duration(more=True)]
Amount = Annotated[Decimal, BeforeValidator(_amount)]
Label = Annotated[str, _named(LABEL_NAME, "label name of Prometheus")]
Contract = Annotated[str, BeforeValidator(_contract)]
Globs = list[Annotated[str, BeforeValidator(_glob), AfterValidator(_filled)]]
Clock = Annotated[str, _named(rf"(?:{START})?", "time of the day (HH:MM)")]
Metric = Annotated[str, _named(METRIC_NAME, "metric name of Prometheus")]
PodAge = Annotated[timedelta, BeforeValidator(_pod_age)]
ProbeInterval = Annotated[timedelta, _duration(timedelta(seconds=1))]
WorkloadType = Annotated[str, BeforeValidator(lambda name: read_type(_text(name)))]
Container = Annotated[str, BeforeValidator(_container)]
Containers = Annotated[list[Container], AfterValidator(_distinct)]
FilledGlobs = Annotated[Globs, AfterValidator(_filled)]
FreePercent = Annotated[int, _integer(0, 100)]
TimeZone = Annotated[str, BeforeValidator(_timezone), Field(max_length=64)]
Weekday = Annotated[str, _one_of(WEEKDAYS)]
Weekdays = Annotated[list[Weekday], AfterValidator(_distinct), Field(max_length=7)]
EndClock = Annotated[str, _named(rf"(?:{END})?", "time of the day (HH:MM, up to 24:00)")]
