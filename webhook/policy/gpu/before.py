"""
What containers asked for before a recommendation was written into their pod: a note on the pod.

Without it nobody could tell later what the owner of a workload wrote from what was injected, and a
new amount in a pod template would be lost behind a recommendation for the old one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from webhook.model.rightsizing.amounts import EXACT, round_amount

# `main=1,draft=0.5,other=0.9*2`: by container, in whole GPUs, or the share of each of so many
# devices; 0 is none.
GPU_BEFORE = "gatewright.io/gpu-before"

# KAI reads a portion both as a float of Go and as a quantity.
PORTION = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE]-?[0-9]{1,3})?"
PORTION_MAX_CHARS = 32

_ENTRY = re.compile(rf"([a-z0-9-]{{1,63}})=({PORTION})(?:\*([1-9][0-9]{{0,8}}))?", re.ASCII)


_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_MILLION = 10**6
# More devices than any node has.
_MOST_DEVICES = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """
    What a container asked for, as it was written: so many GPUs, or that part of each of *devices*.

    *text* is a number of at most `PORTION_MAX_CHARS` characters, below one where it is a part.
    """

    text: str
    devices: int = 1

    @property
    def amount(self) -> Fraction:
        """In whole GPUs."""
        portion = _number(self.text)
        return portion if self.devices == 1 else portion * self.devices

    @property
    def is_share(self) -> bool:
        """Whether KAI gave it, and not Kubernetes."""
        return _number(self.text).denominator != 1

    def __str__(self) -> str:
        return self.text if self.devices == 1 else f"{self.text}*{self.devices}"


# Of all pods of a cluster they are the same few.
@lru_cache(maxsize=1024)
def _number(text: str) -> Fraction:
    return Fraction(text)


def asked_for(amount: Fraction) -> Asked:
    """
    How *amount* can have been asked for, where nothing tells how it was.

    As a share of the fewest devices that give it exactly, with six places at most.
    """
    if amount.denominator == 1:
        return Asked(str(amount))
    least = math.floor(amount) + 1
    exact = (n for n in range(least, _MOST_DEVICES) if (amount / n * _MILLION).denominator == 1)
    devices = next(exact, least)
    # Up: less than it had is not enough.
    digits = f"{min(math.ceil(amount / devices * _MILLION), _MILLION - 1):06}".rstrip("0")
    return Asked(f"0.{digits}", devices)


def format_before(asked: Mapping[str, Asked]) -> str:
    """The note of what was *asked* for, by container."""
    return ",".join([f"{name}={asked[name]}" for name in sorted(asked)])


def parse_before(value: Any) -> dict[str, Asked]:
    """What a note says, by container; empty where *value* is none."""
    if not isinstance(value, str) or not value:
        return {}
    found: dict[str, Asked] = {}
    for entry in value.split(","):
        read = _ENTRY.fullmatch(entry)
        asked = None if read is None else _asked(read[2], read[3])
        if read is None or asked is None:
            return {}
        found[read[1]] = asked
    return found


def _asked(text: str, devices: str | None) -> Asked | None:
    """None where nothing can have been asked for so."""
    if _WHOLE.fullmatch(text):
        return None if devices else Asked(text)
    if len(text) > PORTION_MAX_CHARS or not 0 < _number(text) < 1:
        return None
    return Asked(text, int(devices or 1))


def as_stored(amount: Fraction) -> Decimal:
    """*amount* with as many places as it is stored with, to be compared with what is."""
    exact = EXACT.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return round_amount(exact)
