"""Amounts of GPU: exact sums and shares. Quotients alone are cut, to six places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_FLOOR, Decimal

from webhook.model.rightsizing.amounts import EXACT, format_amount, round_amount

_PLACES = Decimal("1e-6")


def sum_of(amounts: Iterable[Decimal]) -> Decimal:
    """The sum, exactly."""
    total = Decimal(0)
    for amount in amounts:
        total = EXACT.add(total, amount)
    return total


def round_down(amount: Decimal) -> Decimal:
    """*amount* to six places, not above it."""
    return amount.quantize(_PLACES, rounding=ROUND_FLOOR, context=EXACT)


def percent_of(amount: Decimal, percent: int | Decimal) -> Decimal:
    """*percent* hundredths of *amount*, exactly."""
    return EXACT.scaleb(EXACT.multiply(amount, percent), -2)


def share_out(
    total: Decimal, weights: Mapping[str, Decimal], least: Mapping[str, Decimal]
) -> dict[str, Decimal]:
    """
    *total* in proportion to *weights*, whose sum must not be zero, and to each at *least* so much.

    Each share is cut to six places, half-even; the last one that has any weight takes the rest,
    so that the shares are *total* again. *total* must not be below the sum of *least*. Who would
    have less than that gets it, and the others share out what is left.
    """
    shares = _in_proportion(total, weights)
    granted: dict[str, Decimal] = {}
    while below := [name for name in shares if shares[name] < least.get(name, 0)]:
        granted |= {name: least[name] for name in below}
        rest = EXACT.subtract(total, sum_of(granted.values()))
        others = {name: weight for name, weight in weights.items() if name not in granted}
        shares = _in_proportion(rest, others) if others else {}
    return {name: granted[name] if name in granted else shares[name] for name in weights}


def _in_proportion(total: Decimal, weights: Mapping[str, Decimal]) -> dict[str, Decimal]:
    whole = sum_of(weights.values())
    last = [name for name, weight in weights.items() if weight][-1]
    shares = {}
    rest = total
    for name, weight in weights.items():
        share = rest
        if name != last:
            quotient = EXACT.divide(EXACT.multiply(total, weight), whole)
            # Shares that were rounded up may have left less than the last ones' due.
            share = min(round_amount(quotient), rest)
        shares[name] = share
        rest = EXACT.subtract(rest, share)
    # Behind the last one with a weight there is nothing left.
    return shares


def format_gpus(amount: Decimal) -> str:
    """*amount* for a message: `1 GPU`, `0.96 GPUs`."""
    return f"{format_amount(amount)} GPU{'' if amount == 1 else 's'}"
