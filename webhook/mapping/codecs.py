"""
Values that Kubernetes writes otherwise than the workload API, by the home they have there.

`from_home` reads what stands in the object, `to_home` says what to write there. A policy's own
values go there and back first (`rounded`), so that both are compared after the same rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from webhook.errors import QuantityError
from webhook.model.quantity import parse_integer, parse_quantity

_MIB = 2**20
# Letters of either case are a power of 1024 to the JVM; without one, Spark takes MiB.
_JVM = re.compile(r"([0-9]{1,18})(?:([kmgtp])i?b?|(b))?")
_JVM_UNITS = {None: "Mi", "b": "", "k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti", "p": "Pi"}
# KAI takes fractions of a GPU with two decimals.
_HUNDREDTHS = 100


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What stands at a home in a form that it can't have there: of no type at all."""

    raw: Any


@dataclass(frozen=True, slots=True)
class Codec:
    """How one kind of home writes a value."""

    from_home: Callable[[Any], Any]
    to_home: Callable[[Any], Any]
    # What a home takes, for messages.
    expected: str

    def rounded(self, value: Any) -> Any:
        """*value* as it is after it has been written and read."""
        return self.from_home(self.to_home(value))


def _mib_from(value: Any) -> Any:
    try:
        return f"{parse_integer(value)}Mi" if isinstance(value, str) else Unreadable(value)
    except QuantityError:
        return Unreadable(value)


def _mib_to(value: Any) -> str:
    return str(math.ceil(parse_quantity(value) / _MIB))


def _fraction_from(value: Any) -> Any:
    if not isinstance(value, str) or not value.replace(".", "", 1).isdecimal():
        return Unreadable(value)
    return value


def _fraction_to(value: Any) -> str:
    # Up, because half of what was meant to be kept for a pod is not enough.
    hundredths = math.ceil(Fraction(parse_quantity(value)) * _HUNDREDTHS)
    whole, part = divmod(hundredths, _HUNDREDTHS)
    return f"{whole}.{part:02}".rstrip("0").rstrip(".")


def _groups_from(value: Any) -> Any:
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        return Unreadable(value)
    return ",".join(map(str, value)) or None


def _groups_to(value: Any) -> Any:
    return [int(part) for part in str(value).replace(";", ",").split(",") if part.strip()]


def _octal_from(value: Any) -> Any:
    return f"{value:04o}" if type(value) is int and value >= 0 else Unreadable(value)


def _octal_to(value: Any) -> int:
    return int(str(value), 8)


def _jvm_from(value: Any) -> Any:
    match = _JVM.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if match is None:
        return Unreadable(value)
    return f"{match[1]}{_JVM_UNITS[match[2] or match[3]]}"


def _jvm_to(value: Any) -> str:
    return f"{math.ceil(parse_quantity(value) / _MIB)}m"


CODECS = {
    "mib": Codec(_mib_from, _mib_to, "a whole number of MiB as text, such as 2000"),
    "fraction": Codec(_fraction_from, _fraction_to, 'a fraction as text, such as "0.5"'),
    "groups": Codec(_groups_from, _groups_to, "a list of group ids"),
    "jvm": Codec(_jvm_from, _jvm_to, "an amount of memory as the JVM writes it, such as 512m"),
    "octal": Codec(_octal_from, _octal_to, "a file mode"),
}
