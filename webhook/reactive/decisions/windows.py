"""
What Prometheus makes of samples: a function over a window, then the largest of the copies.

`simulate` uses this where the reconciler asks a server, so it must answer as a server does
(Prometheus: "Query functions", `avg_over_time` and `max_over_time`). The one difference is that
decimals are exact where Prometheus computes in floats.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Context, Decimal, InvalidOperation

from webhook.model.rightsizing.policies import Direction
from webhook.reactive.decisions.queries import FUNCTIONS, WindowFunction
from webhook.reactive.decisions.states import SeriesKey, is_usable

# An average that has no end is rounded somewhere; a percentage is far from needing this much.
# NaN and infinities are values of Prometheus, so that to compute with them is no error here.
_CONTEXT = Context(prec=60, traps=[])


@dataclass(frozen=True, slots=True)
class Series:
    """
    One copy of a series: *times* in ascending order, and the percentage at each of them.

    The values may be NaN or infinite, as in Prometheus.
    """

    key: SeriesKey
    times: Sequence[datetime]
    values: Sequence[Decimal]

    def within(self, at: datetime, window: timedelta) -> Sequence[Decimal]:
        """The values in (at - window, at]: the left end is outside, as since Prometheus 3."""
        first = bisect_right(self.times, at - window)
        return self.values[first : bisect_right(self.times, at)]


def avg_over_time(values: Sequence[Decimal]) -> Decimal | None:
    """The mean; None without values. One NaN, or both infinities, make it NaN."""
    if not values:
        return None
    total = Decimal(0)
    for value in values:
        total = _CONTEXT.add(total, value)
    return _CONTEXT.divide(total, Decimal(len(values)))


def max_over_time(values: Iterable[Decimal]) -> Decimal | None:
    """The largest; None without values. NaN counts only where there is nothing else."""
    found: Decimal | None = None
    for value in values:
        if found is None or found.is_nan() or (not value.is_nan() and value > found):
            found = value
    return found


def over_window(direction: Direction, values: Sequence[Decimal]) -> Decimal | None:
    """The function that a window of that direction is looked through with, as in a query."""
    match FUNCTIONS[direction]:
        case WindowFunction.MEAN:
            return avg_over_time(values)
        case WindowFunction.MAX:
            return max_over_time(values)
        case WindowFunction.LAST:
            return values[-1] if values else None


def read_window(
    direction: Direction, copies: Iterable[Series], at: datetime, window: timedelta
) -> dict[SeriesKey, Decimal]:
    """
    The percentage of each series at *at*, as the query of that direction answers.

    Copies have the same key. A series whose answer is NaN, infinite or negative has no sample.
    """
    answers: dict[SeriesKey, list[Decimal]] = {}
    for copy in copies:
        value = over_window(direction, copy.within(at, window))
        if value is not None:
            answers.setdefault(copy.key, []).append(value)
    largest = {key: max_over_time(values) for key, values in answers.items()}
    return {key: value for key, value in largest.items() if value is not None and is_usable(value)}


def parse_sample(text: str) -> Decimal:
    """
    A value as Prometheus prints it: `80.5`, `1e-05`, `NaN`, `+Inf`. `1e400` is infinite, as in a
    float of 64 bits.

    Raises:
        ValueError: *text* is no number.
    """
    try:
        value = Decimal(text.strip())
    except InvalidOperation as e:
        raise ValueError(f"{text[:40]!r} is no number") from e
    if value.is_nan():
        return Decimal("NaN")
    # The largest float is below 1.8e308.
    if value.is_finite() and value.adjusted() > 308:
        return Decimal("Infinity").copy_sign(value)
    return value
