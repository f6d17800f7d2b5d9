"""
What containers asked for before a recommendation was written into their pod: a note on the pod.

Without it nobody could tell later what the owner of a workload wrote from what was injected, and a
new amount in a pod template would be lost behind a recommendation for the old one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from webhook.model.rightsizing.amounts import EXACT

# `main=1,draft=0.5`: by container, in whole GPUs; 0 is none.
GPU_BEFORE = "gatewright.io/gpu-before"

_ENTRY = re.compile(r"([a-z0-9-]{1,63})=([0-9]{1,9}(?:\.[0-9]{1,1100})?)", re.ASCII)


def format_before(amounts: Mapping[str, Fraction]) -> str:
    """The note for *amounts*, by container."""
    return ",".join([f"{name}={format_amount(amounts[name])}" for name in sorted(amounts)])


def parse_before(value: Any) -> dict[str, Fraction]:
    """The amounts of a note, by container; empty where *value* is none."""
    if not isinstance(value, str) or not value:
        return {}
    found = [_ENTRY.fullmatch(entry) for entry in value.split(",")]
    if not all(found):
        return {}
    return {entry[1]: Fraction(entry[2]) for entry in found if entry is not None}


def format_amount(amount: Fraction) -> str:
    """*amount* as a decimal, exactly, as it was written as one."""
    exact = EXACT.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    text = format(exact, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
