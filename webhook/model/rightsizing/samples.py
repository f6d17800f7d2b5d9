"""What Prometheus says about series at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Sample:
    """
    One series' value.

    *value* is what Prometheus wrote, exactly, and never negative; None where it is no amount of
    usage: NaN, an infinity, beyond every double, negative, or a histogram.
    """

    labels: Mapping[str, str]
    value: Decimal | None
