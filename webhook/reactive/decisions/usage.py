"""How much pods use, by one signal through one window, beside how much they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from webhook.model.rightsizing.amounts import EXACT, format_amount
from webhook.model.rightsizing.policies import Direction, Interpretation, Signal
from webhook.reactive.decisions.amounts import format_gpus, percent_of, sum_of
from webhook.reactive.decisions.states import Baseline, Readings, Recommendation

# A reason is read by people, and a Deployment may have a thousand pods.
_MAX_LISTED = 5

_WHOLE = Decimal(1)


@dataclass(frozen=True, slots=True)
class IncludedPod:
    """
    A pod with those of its containers that are in scope and have a GPU; at least one.

    *allocation* is their sum.
    """

    name: str
    allocations: Mapping[str, Decimal]
    allocation: Decimal

    def baseline(self, known: Mapping[str, Baseline]) -> Decimal:
        """The containers' summed baseline; one that has none yet counts with what it has now."""
        return sum_of(
            [
                known[name].amount if name in known else amount
                for name, amount in self.allocations.items()
            ]
        )

    def previous(self, recommendation: Recommendation) -> Decimal:
        """
        What *recommendation* comes to for these containers.

        One that it says nothing of, as it joined later, counts with what it has now: totals are
        compared, and half of one is no total.
        """
        return sum_of(
            [recommendation.containers.get(name, has) for name, has in self.allocations.items()]
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """What a pod uses, in whole GPUs."""

    pod: IncludedPod
    amount: Decimal

    def __str__(self) -> str:
        have = format_gpus(self.pod.allocation)
        return f"pod {self.pod.name} uses {format_amount(self.amount)} of {have}"

    def exceeds(self, percent: int) -> bool:
        """Whether it is above *percent* of what the pod has."""
        return self.amount > percent_of(self.pod.allocation, percent)

    def is_below(self, percent: int) -> bool:
        """Whether it is below *percent* of what the pod has."""
        return self.amount < percent_of(self.pod.allocation, percent)


@dataclass(frozen=True, slots=True)
class Measured:
    """
    What one window shows of the eligible pods, in their order.

    *silent* are pods that don't count, each with its containers that have no sample.
    """

    usages: tuple[Usage, ...]
    silent: Mapping[str, tuple[str, ...]]

    @property
    def hottest(self) -> Usage:
        """The one that uses most; the first of several."""
        return max(self.usages, key=lambda usage: usage.amount)

    @property
    def silent_text(self) -> str:
        """The pods without samples, and the containers, for a message."""
        shown = [f"{pod} ({', '.join(names)})" for pod, names in self.silent.items()]
        more = len(shown) - _MAX_LISTED
        text = ", ".join(shown[:_MAX_LISTED])
        return f"{text} and {more} more" if more > 0 else text


def measure(
    pods: Sequence[IncludedPod],
    readings: Readings,
    signal: Signal,
    direction: Direction,
    interpretation: Interpretation,
) -> Measured:
    """
    Sum up the containers of each pod.

    A pod counts only if each of its containers has a sample: half of a sum is no sum.
    """
    usages, silent = [], {}
    known = readings.devices(signal, direction)
    for pod in pods:
        total = Decimal(0)
        missing = []
        for container, allocation in pod.allocations.items():
            devices = known.get((pod.name, container))
            if devices:
                used = _used(devices, allocation, interpretation)
                total = EXACT.add(total, used)
            else:
                missing.append(container)
        if missing:
            silent[pod.name] = tuple(missing)
        else:
            usages.append(Usage(pod, total))
    return Measured(tuple(usages), silent)


def _used(
    devices: Sequence[Decimal], allocation: Decimal, interpretation: Interpretation
) -> Decimal:
    percent = sum_of(devices) if len(devices) > 1 else devices[0]
    if interpretation is Interpretation.FULL_GPU:
        return percent_of(_WHOLE, percent)
    # Each device says how much of the container's part of it is used; the mean says it of all.
    if len(devices) > 1:
        percent = EXACT.divide(percent, Decimal(len(devices)))
    return percent_of(allocation, percent)
