"""Amounts of GPU in whole GPUs: the one rounding there is, and their text, read and written."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Any

from webhook.model.values import json_type

# Enough digits that nothing but a quotient is ever rounded: a sample is below 1e309, a quantity
# below 1e400, and both have few places.
EXACT = Context(prec=1000, rounding=ROUND_HALF_EVEN)

# Beyond every number of devices that Kubernetes counts (64 bits). A sample may say anything.
_MOST = Decimal(10) ** 20
_PLACES = Decimal("1e-6")
# More than is ever written, so that what an earlier version wrote can be read.
_PLAIN_AMOUNT = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?", re.ASCII)
_SHOWN_CHARS = 40

# One amount is written several times: beside others, in a sum, in a sentence. And most that
# containers have are the same few.
_REMEMBERED = 4096


def round_amount(amount: Decimal) -> Decimal:
    """*amount* to six places, half-even."""
    return amount.quantize(_PLACES, context=EXACT)


@lru_cache(maxsize=_REMEMBERED)
def format_amount(amount: Decimal) -> str:
    """
    *amount*, which is finite, as `read_amount` reads it, with at most six places: `0.96`, `2`, `0`.

    What is beyond 10^20 either way is written as that.
    """
    text = format(round_amount(max(-_MOST, min(amount, _MOST))), "f")
    text = text.rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


def read_amount(value: Any) -> Decimal:
    """
    The amount that *value* says: a decimal number as text, without an exponent.

    Raises:
        ValueError: it is none. No other error, whatever *value* is.
    """
    if not isinstance(value, str) or not _PLAIN_AMOUNT.fullmatch(value):
        shown = repr(value[:_SHOWN_CHARS]) if isinstance(value, str) else json_type(value)
        raise ValueError(f"must be a decimal number as text, got {shown}")
    return Decimal(value)
