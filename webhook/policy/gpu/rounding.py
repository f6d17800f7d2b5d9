"""What an amount comes to when written: a share in hundredths of each device, or whole GPUs."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from webhook.model.rightsizing.amounts import EXACT
from webhook.model.rightsizing.policies import Scheduler

HUNDREDTHS = 100
WHOLE = Fraction(1)

_HUNDREDTH = Fraction(1, HUNDREDTHS)


def written_amount(
    amount: Decimal, scheduler: Scheduler, ceiling: Decimal | None, *, devices: int = 1
) -> Decimal:
    """What *amount* comes to in a pod if nothing is in the way; a share is of so many *devices*."""
    exact = Fraction(amount)
    if scheduler is Scheduler.KAI:
        share = share_of(exact, devices, ceiling)
        if share is not None:
            hundredths = capped(share[0], ceiling, share[1]) * HUNDREDTHS
            return Decimal(int(hundredths)).scaleb(-2, EXACT).normalize(EXACT)
        exact = rounded_up(exact)
    return Decimal(int(capped(whole_of(exact), ceiling, WHOLE)))


def share_of(
    amount: Fraction, devices: int, ceiling: Decimal | None
) -> tuple[Fraction, Fraction] | None:
    """
    *amount* as shares of so many *devices*, before the *ceiling*, and the step in which it counts;
    None where whole GPUs come of it.
    """
    step = devices * _HUNDREDTH
    rounded = devices * rounded_up(amount / devices)
    return (rounded, step) if capped(rounded, ceiling, step) < devices else None


def whole_of(amount: Fraction) -> Fraction:
    """*amount* in whole GPUs. Up: less than what was meant is not enough."""
    return Fraction(math.ceil(amount))


def capped(rounded: Fraction, ceiling: Decimal | None, step: Fraction) -> Fraction:
    """*rounded*, which is a number of *step*s, or as many as *ceiling* allows."""
    if ceiling is None or rounded <= Fraction(ceiling):
        return rounded
    return math.floor(Fraction(ceiling) / step) * step


def rounded_up(amount: Fraction) -> Fraction:
    """*amount* in two decimals, as KAI counts. Up: less than what was meant is not enough."""
    return Fraction(math.ceil(amount * HUNDREDTHS), HUNDREDTHS)
