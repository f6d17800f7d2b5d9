"""
The owner of a workload has the last word about what its containers have without us.

Pure. A baseline is what was there before the first upsize. When the pods are written with another
amount now, that is what would be there: it takes the baseline's place, and what was recommended on
the old one is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from webhook.model.rightsizing.recommendations import (
    BaselineAmount,
    Change,
    PolicyState,
    RecommendationStatus,
)
from webhook.reactive.observation.pods import SeenPod
from webhook.reactive.observation.workloads import ObservedWorkload


def follow_owner(
    known: RecommendationStatus, observed: ObservedWorkload, now: datetime
) -> RecommendationStatus:
    """
    *known* with the baselines that the owner of *observed* gave it meanwhile.

    A container whose pods don't agree keeps its own, or a roll-out that is stopped half-way would
    have the baseline change with each pod that is made. What pods have that we wrote into is never
    taken for the owner's.
    """
    states = tuple([_follow(state, observed, now) for state in known.policies])
    moved = {
        name
        for old, new in zip(known.policies, states, strict=True)
        for name, base in old.baseline.items()
        if new.baseline.get(name) != base
    }
    kept = {name for state in states for name in state.baseline}
    injected = _injected(observed.pods)
    lost = {
        name: _baseline(amount, observed, now)
        for name, amount in observed.own.items()
        if amount is not None and name in injected and name not in kept
    }
    if lost:
        # Of a recommendation that is gone. Whose it is doesn't matter: baselines are shared.
        first = states[0] if states else PolicyState(observed.policies[0].key)
        states = (replace(first, baseline={**first.baseline, **lost}), *states[1:])
    if states == known.policies:
        return known
    # What was written on top of another baseline may be what the owner writes now.
    written = {name: amounts for name, amounts in known.written.items() if name not in moved}
    return replace(known, policies=states, written=written)


def _follow(state: PolicyState, observed: ObservedWorkload, now: datetime) -> PolicyState:
    own = observed.own
    baseline: dict[str, BaselineAmount] = {}
    for name, base in state.baseline.items():
        amount = own.get(name, base.amount)
        if amount == base.amount:
            baseline[name] = base
        elif amount is not None:
            baseline[name] = _baseline(amount, observed, now)
    if baseline == state.baseline:
        return state
    return replace(
        state, baseline=baseline, recommendation={}, total=None, driver=None, change=Change.NONE
    )


def _baseline(amount: Decimal, observed: ObservedWorkload, now: datetime) -> BaselineAmount:
    return BaselineAmount(amount, now, f"{observed.workload.kind}, as its pods are written now")


def _injected(pods: Iterable[SeenPod]) -> Mapping[str, Decimal | None]:
    """What we wrote over, by container."""
    return {
        name: amount
        for pod in pods
        if pod.is_evidence
        for name, amount in pod.allocation.before.items()
    }
