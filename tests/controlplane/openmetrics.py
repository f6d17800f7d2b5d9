"""Series of samples as text, in the format from which promtool makes a database."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Text is passed on as it is: `NaN`, `+Inf`, or digits that no float would keep.
Value = Decimal | float | str


@dataclass(frozen=True, slots=True)
class Series:
    """
    One series: a metric's name, its labels, and its samples as (time, value).

    Times are aware and exact to the millisecond, as Prometheus keeps them.
    """

    metric: str
    labels: Mapping[str, str]
    samples: Sequence[tuple[datetime, Value]]


def format_openmetrics(series: Iterable[Series]) -> str:
    """
    *series* as OpenMetrics text.

    Raises:
        ValueError: a time is naive, or finer than a millisecond.
    """
    lines = []
    for one in series:
        labels = ",".join(f'{name}="{_escape(value)}"' for name, value in one.labels.items())
        lines += [
            f"{one.metric}{{{labels}}} {value} {_format_time(at)}"
            # promtool refuses a sample that is older than the one before it.
            for at, value in sorted(one.samples, key=lambda sample: sample[0])
        ]
    return "\n".join([*lines, "# EOF", ""])


def _format_time(at: datetime) -> str:
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone")
    milliseconds, rest = divmod(at - EPOCH, timedelta(milliseconds=1))
    if rest:
        raise ValueError(f"{at} is finer than a millisecond")
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
