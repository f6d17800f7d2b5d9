"""
Kubernetes quantities: `500m`, `1.5Gi`, `129e6`, 2.

The grammar and the rounding are those of apimachinery's `resource.Quantity` as its comments
state them. Amounts are fractions, so that no comparison and no division ever rounds.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from webhook.errors import QuantityError

# What a quantity stands for, without a unit of its own: cores, bytes, devices.
Amount: TypeAlias = Fraction

MIB = 2**20

# Nobody writes a number of this length; Python itself refuses digits from 4,300 on.
MAX_CHARS = 1024

# Texts up to this length are read once and then known.
_KEPT_CHARS = 24

# Of a text that is quoted in a message.
MAX_SHOWN_CHARS = 40

# Beyond every double (1.8e308). Kubernetes has no bound for decimal quantities, and needs
# hours to compare 1e999999999 with anything; an error is the better answer.
MAX_EXPONENT = 400
_MAX_INTEGER = 10**MAX_EXPONENT

# apimachinery keeps exponents in 32 bits and lets larger ones wrap around, so that
# 1e4294967296 becomes 1 there.
_MAX_WRITTEN_EXPONENT = 2**31 - 1

# apimachinery caps binary quantities, and only these, at the largest 64-bit integer.
_BINARY_CAP = 2**63 - 1

# The finest unit. What is finer is rounded to it, away from zero: who asks for some gets some.
_NANO_EXPONENT = -9

_BINARY_POWER = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY_POWER.items()}
_DECIMAL_EXPONENT = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18
}  # fmt: skip
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENT.items()}

# At least one digit, as the grammar says; the Go parser also takes `.` and `m` for zero.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkMGTPE]?))"
)
# Without a suffix: `8`, `8.0`, `1e3`.
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")


class _Family(Enum):
    """How a quantity was written. Kubernetes prints it in the same family again."""

    DECIMAL = "decimal suffix"
    BINARY = "binary suffix"
    EXPONENT = "decimal exponent"


def parse_quantity(value: object) -> Amount:
    """
    The amount that a quantity stands for, exactly.

    *value* is text, an int, a float (taken as its shortest decimal form) or a Decimal.
    Finer than nano is rounded away from zero; with a binary suffix, the largest amount
    is 2^63-1.

    Raises:
        QuantityError: *value* is no Kubernetes quantity, or 1e400 and larger.
    """
    return _read(value)[0]


def parse_integer(value: object) -> int:
    """
    A whole number: an int, a float without a fraction, or such a number as text.

    Raises:
        QuantityError: *value* is anything else; true and false are no numbers.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_INTEGER:
        return value
    if isinstance(value, str) and len(value) <= MAX_CHARS and _PLAIN_NUMBER.fullmatch(value):
        amount = parse_quantity(value)
        if amount.denominator == 1:
            return amount.numerator
    raise QuantityError(f"{_show(value)} is not a whole number")


def format_quantity(amount: Amount | int, *, like: object = 0) -> str:
    """
    The canonical text of *amount*, in the family that the quantity *like* is written in.

    With a decimal suffix (`500m`, `1500`, `1M`) finer than nano is rounded away from zero. From
    1e21 on there is no suffix, and the exponent is written (`1e21`). With a binary suffix (`1Gi`)
    it is rounded up to whole: nobody means a part of a byte.

    Raises:
        QuantityError: *like* is no quantity.
    """
    family = _read(like)[1]
    if family is _Family.BINARY:
        whole = _divide_up(amount.numerator, amount.denominator)
        if abs(whole) >= 1024:
            return _format_binary(whole)
        return _format_decimal(Fraction(whole), _Family.DECIMAL)
    return _format_decimal(Fraction(amount), family)


def canonical(value: object) -> str:
    """
    The canonical text of a quantity, in the family that it is written in.

    `1024Mi` becomes `1Gi`, `0.5` becomes `500m`, `1.29e8` becomes `129e6`. A binary quantity
    below 1024 or with a fraction gets a decimal suffix (`0.5Ki` becomes `512`).

    Raises:
        QuantityError: *value* is no Kubernetes quantity.
    """
    amount, family = _read(value)
    if family is _Family.BINARY and abs(amount) >= 1024 and amount.denominator == 1:
        return _format_binary(amount.numerator)
    return _format_decimal(amount, family)


def _read(value: object) -> tuple[Amount, _Family]:
    if isinstance(value, bool):
        raise QuantityError(f"{_show(value)} is not a number")
    if isinstance(value, int):
        if abs(value) >= _MAX_INTEGER:
            raise QuantityError(f"{_show(value)} is too large for a quantity")
        return Fraction(value), _Family.DECIMAL
    if isinstance(value, float | Decimal):
        # A number has no spelling to keep: Kubernetes writes 1e21 where repr has 1e+21.
        return _read_text(str(value))[0], _Family.DECIMAL
    if isinstance(value, str):
        return _read_known(value) if len(value) <= _KEPT_CHARS else _read_text(value)
    raise QuantityError(f"{_show(value)} is not a Kubernetes quantity")


# A few dozen amounts are nearly all that the objects of a cluster ask for.
@lru_cache(maxsize=4096)
def _read_known(text: str) -> tuple[Amount, _Family]:
    return _read_text(text)


def _read_text(text: str) -> tuple[Amount, _Family]:
    if len(text) > MAX_CHARS:
        raise QuantityError(f"{_show(text)} is too long for a quantity")
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise QuantityError(
            f"{_show(text)} is not a Kubernetes quantity (such as 2, 500m, 1.5Gi or 1e3)"
        )

    part = found["part"] or ""
    digits = int(found["whole"] + part)
    suffix = found["suffix"] or ""
    if suffix in _BINARY_POWER:
        family = _Family.BINARY
        digits <<= _BINARY_POWER[suffix]
        capped = digits >= _BINARY_CAP * 10 ** len(part)
        magnitude = Fraction(_BINARY_CAP) if capped else _scale(digits, -len(part), text)
    elif found["exponent"] is not None:
        family = _Family.EXPONENT
        magnitude = _scale(digits, int(found["exponent"]) - len(part), text)
    else:
        family = _Family.DECIMAL
        magnitude = _scale(digits, _DECIMAL_EXPONENT[suffix] - len(part), text)
    return (-magnitude if found["sign"] == "-" else magnitude), family


def _scale(digits: int, exponent: int, text: str) -> Amount:
    """`digits · 10^exponent`, rounded up to nano. Never computes a power that it cannot need."""
    if abs(exponent) > _MAX_WRITTEN_EXPONENT:
        raise QuantityError(f"{_show(text)} has an exponent beyond 32 bits")
    if digits == 0:
        return Fraction(0)
    if len(str(digits)) + exponent > MAX_EXPONENT:
        raise QuantityError(f"{_show(text)} is too large for a quantity")
    if exponent >= 0:
        return Fraction(digits * 10**exponent)
    dropped = min(_NANO_EXPONENT - exponent, MAX_CHARS * 2)
    if dropped <= 0:
        return Fraction(digits, 10**-exponent)
    return Fraction(_divide_up(digits, 10**dropped), 10**-_NANO_EXPONENT)


def _divide_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _format_binary(amount: int) -> str:
    power = 0
    while amount % 1024 == 0:
        amount //= 1024
        power += 10
    return f"{amount}{_BINARY_SUFFIX.get(power, '')}"


def _format_decimal(amount: Amount, family: _Family) -> str:
    nanos = _divide_up(abs(amount.numerator) * 10**-_NANO_EXPONENT, amount.denominator)
    if nanos == 0:
        return "0"
    exponent = _NANO_EXPONENT
    while nanos % 1000 == 0:
        nanos //= 1000
        exponent += 3
    sign = "-" if amount < 0 else ""
    if exponent == 0:
        suffix = ""
    elif family is _Family.EXPONENT or exponent not in _DECIMAL_SUFFIX:
        suffix = f"e{exponent}"
    else:
        suffix = _DECIMAL_SUFFIX[exponent]
    return f"{sign}{nanos}{suffix}"


def _show(value: object) -> str:
    """*value* for a message: one short line, whatever it is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= _MAX_INTEGER:
            return f"an integer of {value.bit_length()} bits"
        case str():
            return repr(_shorten(value))
        case int() | float() | Decimal():
            return _shorten(str(value))
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
