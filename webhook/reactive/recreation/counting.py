"""
What is remembered of the evictions of a workload, so that they come to an end. Pure.

Pods that come without their amount are evicted ever more seldom. So it matters what counts as
something new to try: another amount than the one that was written or tried, and not each amount
that is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from webhook.model.rightsizing.recommendations import Eviction, Selected
from webhook.policy.gpu.rounding import written_amount
from webhook.reactive.observation.pods import SeenPod

# Pods say when they began by the clock of their node.
_CLOCKS_DIFFER = timedelta(minutes=1)


def carry_on(
    before: Eviction | None,
    old: Selected | None,
    new: Selected | None,
    pods: Iterable[SeenPod],
    now: datetime,
) -> Eviction | None:
    """
    What is known of evictions when *new* is selected after *old*, and *pods* are there.

    They are counted anew for other written amounts, if the last eviction brought one of *pods*
    what it was for, or when a strategy allows other changes. While nothing is selected, as before a
    new pod is old enough to be measured, it all is kept.
    """
    if before is None or new is None:
        return before
    is_other_manner = old is not None and _manner(old) != _manner(new)
    amounts = written_as(new)
    # A load that moves changes the amount each time. Of pods that are not given any of them the
    # next one would be evicted at once.
    is_news = amounts != before.amounts and any(_was_given(pod, before) for pod in pods)
    if not is_news and not is_other_manner:
        return before
    return replace(before, since=now, count=0, misses=0, problem="", retried=True, amounts=amounts)


def _was_given(pod: SeenPod, eviction: Eviction) -> bool:
    """Whether *pod* was made after *eviction*, and something was written into it."""
    if not pod.is_evidence or pod.started is None or pod.uid == eviction.uid:
        return False
    if pod.started <= eviction.at - _CLOCKS_DIFFER:
        return False
    allocation = pod.allocation
    amounts = {name: allocation.amounts.get(name) for name in eviction.amounts}
    is_written = any(allocation.amounts[name] != own for name, own in allocation.before.items())
    # What it had before the first upsize comes back without anything being written.
    return is_written or amounts == eviction.amounts


def written_as(selected: Selected) -> Mapping[str, Decimal]:
    """The amounts of *selected* as they come out in a pod, by container."""
    return {
        name: written_amount(amount, selected.scheduler, selected.ceilings.get(name))
        for name, amount in selected.amounts.items()
    }


def _manner(selected: Selected) -> Selected:
    """How it is written, and whether."""
    return replace(selected, amounts={}, policies={})
