"""
Which of the amounts that count are written into pods. Pure.

Both the reconciler and `simulate` go by this, so that what is tried is what happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from webhook.reactive.decisions.amounts import format_gpus
from webhook.reactive.decisions.choose import Target
from webhook.reactive.decisions.judge import Judged
from webhook.reactive.decisions.states import ObservedPod


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container is given, and the *baseline* that this was computed from."""

    target: Target
    baseline: Decimal

    def objection(self, has: Decimal | None) -> str:
        """
        Why a container that *has* so much is given its baseline instead; ``""`` if it isn't.

        Its owner raised it meanwhile, and its pods can't have shown yet what they need.
        """
        amount = self.target.amount
        if has is None or max(has, amount) >= self.baseline:
            return ""
        return (
            f"{format_gpus(amount)} would be less than the baseline of"
            f" {format_gpus(self.baseline)}, which its pods don't have yet"
        )


def grants_of(judged: Judged, pods: Sequence[ObservedPod]) -> Mapping[str, Grant]:
    """
    By container, what *judged* has written into *pods* and those that come after them.

    Nothing where all of them have their baseline and are to have it: they come with that by
    themselves. Nothing either where no baseline is known, and so what they would have without us.
    """
    found = {}
    for name, target in judged.selection.targets.items():
        known = judged.states[target.policy.key].baseline.get(name)
        if known is None:
            continue
        present = {pod.allocations[name] for pod in pods if name in pod.allocations}
        if target.amount != known.amount or present - {known.amount}:
            found[name] = Grant(target, known.amount)
    return found
