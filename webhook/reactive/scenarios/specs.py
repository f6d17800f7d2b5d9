"""
The spec of a `GpuScenario` as people write it.

Pydantic stands at the border only: `scenario.py` makes workloads, pods and series out of these.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from webhook.errors import QuantityError
from webhook.model.documents import Spec
from webhook.model.quantity import parse_quantity
from webhook.model.rightsizing.amounts import EXACT
from webhook.model.rightsizing.durations import read_duration
from webhook.model.rightsizing.policies import Signal
from webhook.model.rightsizing.times import read_time
from webhook.model.values import json_type
from webhook.reactive.decisions.windows import parse_sample

# Samples are one a minute.
MINUTE = timedelta(minutes=1)
# More than any container will have; it keeps sums and pictures within bounds.
MAX_GPUS = 1_000_000


class Recreate(StrEnum):
    """Whether pods take a recommendation over at once, as new pods, or keep what they have."""

    IMMEDIATELY = "immediately"
    NEVER = "never"


def _read_amount(value: Any) -> Any:
    try:
        amount = parse_quantity(value)
    except QuantityError as e:
        raise ValueError(str(e)) from e
    if not 0 <= amount <= MAX_GPUS:
        raise ValueError(f"must be from 0 to {MAX_GPUS}")
    return EXACT.divide(Decimal(amount.numerator), Decimal(amount.denominator))


def _read_optional_amount(value: Any) -> Any:
    return None if value is None else _read_amount(value)


def _read_optional_time(value: Any) -> Any:
    return None if value is None else read_time(value)


def _read_value(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"must be a number, or NaN, +Inf or -Inf as text, got {json_type(value)}")
    return parse_sample(str(value))


def _read_device(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _read_name(value: Any) -> Any:
    if value == "":
        raise ValueError("must not be empty")
    return value


def _read_object(value: Any) -> Any:
    return {} if value is None else value


Name = Annotated[str, BeforeValidator(_read_name)]
Amount = Annotated[Decimal, BeforeValidator(_read_amount)]
OptionalValue = Annotated[Decimal | None, Field(allow_inf_nan=True), BeforeValidator(_read_value)]
Duration = Annotated[timedelta, BeforeValidator(read_duration)]
Time = Annotated[datetime, BeforeValidator(read_time)]


class ContainerSpec(Spec):
    gpu: Annotated[Decimal | None, BeforeValidator(_read_optional_amount)] = None


class InitContainerSpec(ContainerSpec):
    restartable: bool = False


class PodSpec(Spec):
    """A pod at the start: *age* says since when it runs, or *startTime*, which may be null."""

    name: Name
    age: Duration | None = None
    start_time: Annotated[datetime | None, BeforeValidator(_read_optional_time)] = None
    containers: dict[str, Annotated[ContainerSpec, BeforeValidator(_read_object)]]
    init_containers: dict[str, Annotated[InitContainerSpec, BeforeValidator(_read_object)]] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _says_how_old_it_is(self) -> PodSpec:
        if self.age is None and "start_time" not in self.model_fields_set:
            raise ValueError("age is needed (or startTime, which is null for none)")
        if self.age is not None and self.age < timedelta():
            raise ValueError("age must not be negative")
        if self.age is not None and self.start_time is not None:
            raise ValueError("age and startTime don't go together")
        return self


class PreviousSpec(Spec):
    containers: dict[str, Amount] = Field(default_factory=dict)
    driver: Signal | None = Field(default=None, strict=False)
    baseline: dict[str, Amount] = Field(default_factory=dict)


class WorkloadSpec(Spec):
    namespace: str = "default"
    kind: Name
    name: Name
    labels: dict[str, str] = Field(default_factory=dict)
    previous: PreviousSpec | None = None
    pods: list[PodSpec]


class SamplesSpec(Spec):
    """One copy of a series: *value* each minute from *from* to *to*, or *values* from there on."""

    pod: str
    container: str
    signal: Signal = Field(strict=False)
    gpu: Annotated[str, BeforeValidator(_read_device)] = "0"
    since: Duration = Field(alias="from")
    to: Duration | None = None
    value: OptionalValue = None
    # What `gpu record` writes; null is a gap.
    values: list[OptionalValue] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_values(self) -> SamplesSpec:
        if self.values:
            if self.value is not None or self.to is not None:
                raise ValueError("values go without value and to")
        elif self.value is None or self.to is None:
            raise ValueError("value and to are needed (or values)")
        elif self.to < self.since:
            raise ValueError("to is before from")
        return self

    @property
    def count(self) -> int:
        """How many minutes it spans."""
        if self.to is None:
            return len(self.values)
        return (self.to - self.since) // MINUTE + 1


class ScenarioSpec(Spec):
    start: Time
    duration: Duration
    step: Duration | None = None
    recreate: Recreate = Field(default=Recreate.IMMEDIATELY, strict=False)
    workloads: list[WorkloadSpec] = Field(min_length=1)
    samples: list[SamplesSpec] = Field(default_factory=list)
