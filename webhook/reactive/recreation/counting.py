"""
What is remembered of the evictions of a workload, so that they come to an end. Pure.

Pods that come without their amount are evicted ever more seldom. So it matters what counts as
something new to try: another amount than the one that was written or tried, and not each amount
that is computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from webhook.model.rightsizing.policies import Scheduler
from webhook.model.rightsizing.recommendations import Eviction, Selected

_HUNDREDTHS = 100


def carry_on(
    before: Eviction | None, old: Selected | None, new: Selected | None, now: datetime
) -> Eviction | None:
    """
    What is known of evictions when *new* is selected after *old*.

    They are counted anew for other written amounts, or when a strategy allows other changes. While
    nothing is selected, as before a new pod is old enough to be measured, it all is kept.
    """
    if before is None or new is None:
        return before
    amounts = written_as(new)
    if amounts == before.amounts and (old is None or _manner(old) == _manner(new)):
        return before
    return replace(before, since=now, count=0, misses=0, problem="", retried=True, amounts=amounts)


def written_as(selected: Selected) -> Mapping[str, Decimal]:
    """The amounts of *selected* as they come out in a pod, by container."""
    return {name: _written(amount, selected.scheduler) for name, amount in selected.amounts.items()}


def _written(amount: Decimal, scheduler: Scheduler) -> Decimal:
    if scheduler is Scheduler.KAI:
        hundredths = math.ceil(amount * _HUNDREDTHS)
        if hundredths < _HUNDREDTHS:
            return Decimal(hundredths).scaleb(-2)
        amount = Decimal(hundredths).scaleb(-2)
    return Decimal(math.ceil(amount))


def _manner(selected: Selected) -> Selected:
    """How it is written, and whether."""
    return replace(selected, amounts={}, policies={})
