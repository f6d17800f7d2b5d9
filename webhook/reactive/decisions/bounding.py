"""What of a recommendation a strategy lets be written, and why not the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from webhook.model.rightsizing.policies import Bounds, Strategy
from webhook.reactive.decisions.amounts import format_gpus


@dataclass(frozen=True, slots=True)
class Bounded:
    """
    A recommendation within a strategy.

    *amounts* are what every container may be given at most and at least, floor and ceiling
    applied. *writable* are those of them that change something and may be written now; *reasons*
    say by container what was moved or held.
    """

    amounts: Mapping[str, Decimal]
    writable: Mapping[str, Decimal]
    reasons: Mapping[str, tuple[str, ...]]


def bound(
    recommended: Mapping[str, Decimal],
    current: Mapping[str, Decimal | None],
    strategy: Strategy,
) -> Bounded:
    """
    Judge what each container is *recommended* to have beside what it has; None is no GPU.

    The order is floor and ceiling, then what the strategy enables. Amounts stay exact: rounding
    for writing comes after this, and then the ceiling again.
    """
    amounts, writable, reasons = {}, {}, {}
    for name, amount in recommended.items():
        moved, said = _clamp(name, amount, strategy)
        amounts[name] = moved
        has = current.get(name)
        held = _held(moved, has, strategy)
        if held:
            said = (*said, held)
        elif moved != has:
            writable[name] = moved
        if said:
            reasons[name] = said
    return Bounded(amounts, writable, reasons)


def ceiling_of(strategy: Strategy, container: str) -> Decimal | None:
    """The most that may be written into *container*, after rounding as well."""
    own = strategy.container_bounds.get(container, Bounds())
    return own.ceiling if own.ceiling is not None else strategy.bounds.ceiling


def _clamp(name: str, amount: Decimal, strategy: Strategy) -> tuple[Decimal, tuple[str, ...]]:
    own = strategy.container_bounds.get(name, Bounds())
    floor = own.floor if own.floor is not None else strategy.bounds.floor
    ceiling = ceiling_of(strategy, name)
    # The ceiling last: where the two cross, nobody gets more than is allowed.
    if ceiling is not None and amount > ceiling:
        return ceiling, (f"lowered from {format_gpus(amount)} to the ceiling of {strategy.key}",)
    if floor is not None and amount < floor:
        raised = floor if ceiling is None else min(floor, ceiling)
        return raised, (f"raised from {format_gpus(amount)} to the floor of {strategy.key}",)
    return amount, ()


def _held(amount: Decimal, has: Decimal | None, strategy: Strategy) -> str:
    """Why *amount* may not be written over what the container has; ``""`` if it may."""
    if has is None:
        if not strategy.set_from_unspecified:
            return f"has no GPU, and {strategy.key} does not enable setFromUnspecified"
    elif amount > has:
        if not strategy.upsize:
            return f"{strategy.key} does not enable upsize"
    elif amount < has and not strategy.downsize:
        return f"{strategy.key} does not enable downsize"
    return ""
