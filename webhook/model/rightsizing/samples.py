"""What Prometheus says about series at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import msgspec


# A round of the reconciler makes some hundred thousand of them: no dataclass, which takes three
# times as long.
class Sample(msgspec.Struct, frozen=True, gc=False):
    """
    One series' value.

    *value* is what Prometheus wrote, exactly, and never negative; None where it is no amount of
    usage: NaN, an infinity, beyond every double, negative, or a histogram.
    """

    labels: Mapping[str, str]
    value: Decimal | None
