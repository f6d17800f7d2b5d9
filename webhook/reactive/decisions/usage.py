"""How much pods use, by one signal through one window, beside how much they have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from webhook.model.rightsizing.amounts import EXACT, format_amount
from webhook.model.rightsizing.policies import Direction, Interpretation, Signal
from webhook.reactive.decisions.amounts import format_gpus, percent_of, sum_of
from webhook.reactive.decisions.states import Baseline, Percents, Readings, Recommendation

# A reason is read by people, and a Deployment may have a thousand pods.
_MAX_LISTED = 5

_WHOLE = Decimal(1)


@dataclass(frozen=True, slots=True)
class IncludedPod:
    """
    A pod with those of its containers that are in scope and have a GPU; at least one.

    *allocation* is their sum. *own* is what their owner gave those that have something else now,
    *devices* of how many devices a share of several is.
    """

    name: str
    allocations: Mapping[str, Decimal]
    allocation: Decimal
    own: Mapping[str, Decimal] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)

    def owned(self, name: str) -> Decimal:
        """What the container *name* would have if nothing had been written into the pod."""
        return self.own[name] if name in self.own else self.allocations[name]

    def devices_of(self, name: str) -> int:
        """How many devices the container *name* has, at least."""
        return max(self.devices.get(name, 1), math.ceil(self.allocations[name]))

    def baseline(self, known: Mapping[str, Baseline]) -> Decimal:
        """The containers' summed baseline; for one that has none yet, what its owner gave it."""
        return sum_of(
            [known[name].amount if name in known else self.owned(name) for name in self.allocations]
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
    """What a pod uses, in whole GPUs; it *may_be_more* where devices can't be told apart."""

    pod: IncludedPod
    amount: Decimal
    may_be_more: bool = False

    def __str__(self) -> str:
        have = format_gpus(self.pod.allocation)
        least = "at least " if self.may_be_more else ""
        return f"pod {self.pod.name} uses {least}{format_amount(self.amount)} of {have}"

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

    *silent* are pods that don't count, each with its containers that have no sample; *blurred*
    those of which only the least is known, with the containers whose devices look like one.
    """

    usages: tuple[Usage, ...]
    silent: Mapping[str, tuple[str, ...]]
    blurred: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def hottest(self) -> Usage:
        """The one that uses most; the first of several."""
        return max(self.usages, key=lambda usage: usage.amount)

    @property
    def silent_text(self) -> str:
        """The pods without samples, and the containers, for a message."""
        return _list(self.silent)

    @property
    def blurred_text(self) -> str:
        """The pods whose devices can't be told apart, and the containers, for a message."""
        return _list(self.blurred)


def _list(pods: Mapping[str, tuple[str, ...]]) -> str:
    shown = [f"{pod} ({', '.join(names)})" for pod, names in pods.items()]
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

    A pod counts only if each of its containers has a sample: half of a sum is no sum. Where several
    devices look like one, the least that can be in use counts.
    """
    usages = []
    silent: dict[str, tuple[str, ...]] = {}
    blurred: dict[str, tuple[str, ...]] = {}
    known = readings.devices(signal, direction)
    for pod in pods:
        total = Decimal(0)
        missing, unclear = [], []
        for container, allocation in pod.allocations.items():
            percents = known.get((pod.name, container))
            if percents is None:
                missing.append(container)
                continue
            devices = percents.devices
            if percents.nameless is not None:
                devices, is_clear = _told_apart(percents, pod.devices_of(container))
                if not is_clear:
                    unclear.append(container)
            total = EXACT.add(total, _used(devices, allocation, interpretation))
        if missing:
            silent[pod.name] = tuple(missing)
        else:
            usages.append(Usage(pod, total, bool(unclear)))
        if unclear:
            blurred[pod.name] = tuple(unclear)
    return Measured(tuple(usages), silent, blurred)


def _told_apart(percents: Percents, count: int) -> tuple[tuple[Decimal, ...], bool]:
    """
    The percentages of *count* devices where a series names none, and whether these are all known.

    Such a series is the highest of several devices, or of the same ones as those that are named.
    Of the others it is known only that they are not below zero.
    """
    assert percents.nameless is not None
    named = percents.devices
    if count == 1:
        return (*named, percents.nameless), True
    if len(named) >= count:
        return named, True
    least = named if sum_of(named) > percents.nameless else (percents.nameless,)
    return (*least, *[Decimal(0)] * (count - len(least))), False


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
