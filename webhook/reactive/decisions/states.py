"""
What a decision is made from, and what it is.

Amounts are exact decimals in whole GPUs. A signal is read through two windows, one for each
direction, so that whatever was measured is named by both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple, Self, TypeAlias

from webhook.model.rightsizing.amounts import EXACT
from webhook.model.rightsizing.policies import Direction, Signal
from webhook.model.rightsizing.recommendations import Change
from webhook.reactive.decisions.amounts import sum_of

# Pod, container, device.
SeriesKey: TypeAlias = tuple[str, str, str]
# What one query answered: a percentage for each series.
Samples: TypeAlias = Mapping[SeriesKey, Decimal]


class Percents(NamedTuple):
    """What was measured of one container: of each device, and by a series that names none."""

    devices: tuple[Decimal, ...] = ()
    nameless: Decimal | None = None


# The same by pod and container.
Devices: TypeAlias = Mapping[tuple[str, str], Percents]
# One query of a round.
Question: TypeAlias = tuple[Signal, Direction]

# Prometheus averages in floats: 120.00000000000001 does not exceed 120. Nine places of a percent
# are a hundred-millionth of a GPU of 1,000 %.
_PERCENT_PLACES = Decimal("1e-9")


def is_usable(percent: Decimal) -> bool:
    """Whether a value is a sample at all: finite, and not negative."""
    return percent.is_finite() and percent >= 0


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """
    A pod as it is now.

    *started* is `status.startTime`. *allocations* are by container in the pod's order, regular
    ones and then restartable init containers; None is one without a GPU. *own* is what its owner
    gave those that have something else now, *devices* of how many devices a share of several is.
    One that *keeps_name* may have a predecessor of its name, whose samples look like its own.
    """

    name: str
    started: datetime | None
    allocations: Mapping[str, Decimal | None]
    own: Mapping[str, Decimal | None] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    keeps_name: bool = False


@dataclass(frozen=True, slots=True)
class Readings:
    """
    The samples of one round, for all pods of a namespace.

    Built once, by `of` or of what `by_container` made of each answer; finding those of a container
    costs no search. Device by device the values are percentages, after the window function.
    """

    _found: Mapping[Question, Devices]

    @classmethod
    def of(cls, answers: Mapping[Question, Samples | None]) -> Self:
        """*answers* by question; None is one that was not answered, or by an error."""
        found = {}
        for question, samples in answers.items():
            if samples is not None:
                found[question] = by_container(samples)
        return cls(found)

    def is_asked(self, signal: Signal, direction: Direction) -> bool:
        """Whether there is an answer, if an empty one."""
        return (signal, direction) in self._found

    def devices(self, signal: Signal, direction: Direction) -> Devices:
        """The percentage of each device of the containers that have a sample."""
        return self._found[signal, direction]


def by_container(samples: Samples) -> Devices:
    """The usable *samples*, rounded, so that finding those of a container costs no search."""
    devices: dict[tuple[str, str], list[Decimal]] = {}
    nameless: dict[tuple[str, str], Decimal] = {}
    for (pod, container, device), percent in samples.items():
        if is_usable(percent):
            rounded = percent.quantize(_PERCENT_PLACES, context=EXACT)
            if device:
                devices.setdefault((pod, container), []).append(rounded)
            else:
                nameless[pod, container] = rounded
    found = {key: Percents(tuple(values), nameless.get(key)) for key, values in devices.items()}
    for key, percent in nameless.items():
        found.setdefault(key, Percents((), percent))
    return found


@dataclass(frozen=True, slots=True)
class Baseline:
    """
    What a container had before anything was recommended for it, and so before its first upsize.

    *since* is when it was recorded, *origin* says where from (`pod llm-0`).
    """

    amount: Decimal
    since: datetime
    origin: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Amounts by container, and the signal that they are owed to; None where that isn't known."""

    containers: Mapping[str, Decimal]
    driver: Signal | None = None

    @property
    def total(self) -> Decimal:
        """The sum over the containers, exactly."""
        return sum_of(self.containers.values())


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """What one policy remembers of a workload: *previous* is the last recommendation."""

    baseline: Mapping[str, Baseline] = field(default_factory=dict)
    previous: Recommendation | None = None


@dataclass(frozen=True, slots=True)
class SignalReport:
    """
    What one signal says.

    *usage* and *allocation* are those of the hottest pod, *pod*, seen through the window of
    *direction*; None where no pod could be judged. *wants* is what the signal asks for and
    *candidate* the total that it would come to. *missing* are the eligible pods without samples.
    """

    usage: Decimal | None = None
    allocation: Decimal | None = None
    pod: str | None = None
    direction: Direction = Direction.UPSIZE
    wants: Direction | None = None
    candidate: Decimal | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """
    What a policy says of a workload at one time.

    *baseline* and *recommendation* are what is to be remembered. With *evaluated* False nothing
    could be measured, and both are as they were.
    """

    baseline: Mapping[str, Baseline]
    recommendation: Recommendation | None
    change: Change
    signals: Mapping[Signal, SignalReport]
    reasons: tuple[str, ...] = ()
    evaluated: bool = True

    @property
    def state(self) -> WorkloadState:
        """What the next evaluation starts from."""
        return WorkloadState(self.baseline, self.recommendation)
