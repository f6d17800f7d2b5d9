"""
A replay as a picture: usage, thresholds, baseline and recommendation over time, as SVG text.

Coordinates are floats; nothing is decided by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from html import escape
from itertools import groupby

from webhook.model.rightsizing.policies import Signal
from webhook.reactive.decisions.amounts import percent_of, sum_of
from webhook.reactive.scenarios.replay import Step

_WIDTH = 960
_PANEL_HEIGHT = 380
_LEFT, _RIGHT, _TOP = 60, 20, 46
_PLOT_WIDTH = _WIDTH - _LEFT - _RIGHT
_PLOT_HEIGHT = 230
_LEGEND_COLUMNS = 3
_LEGEND_ROW = 20

_STYLE = (
    "text { font: 12px sans-serif; fill: #24292f } .title { font-size: 14px; font-weight: bold }"
    " .small { font-size: 11px; fill: #57606a } line.grid { stroke: #d8dee4 }"
    " path { fill: none } .frame { fill: none; stroke: #8c959f }"
)

_COLOR = {Signal.COMPUTE: "#bc4c00", Signal.MEMORY: "#8250df"}

Value = Callable[[Step], Decimal | None]


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a panel; *dash* is an SVG dash pattern. A step without a value is a gap."""

    label: str
    color: str
    value: Value
    dash: str = ""
    width: float = 1.6


def draw(steps: Iterable[Step]) -> str:
    """An SVG document with one panel for each workload; *steps* are those of one replay."""
    by_workload = sorted(steps, key=lambda step: str(step.workload))
    panels = [list(group) for _, group in groupby(by_workload, key=lambda step: str(step.workload))]
    height = _PANEL_HEIGHT * max(len(panels), 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>GPU usage, thresholds, baseline and recommendation over time</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for index, panel in enumerate(panels):
        lines.append(f'<g transform="translate(0 {index * _PANEL_HEIGHT})">')
        lines += _panel(panel)
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def _panel(steps: Sequence[Step]) -> Iterator[str]:
    chart = _Chart.of(steps)
    policy = next((str(step.policy.key) for step in steps if step.policy), "no policy")
    yield _text(_LEFT, 20, f"{steps[0].workload} ({policy})", css="title")
    yield _text(_LEFT, 38, "GPUs", css="small")
    yield from chart.axes()
    yield (
        f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{_PLOT_WIDTH}"'
        f' height="{_PLOT_HEIGHT}"/>'
    )
    for line in chart.lines:
        yield from chart.paths(line)
    yield from _legend(chart.lines)


def _lines(steps: Sequence[Step]) -> tuple[_Line, ...]:
    lines = [
        _Line("recommendation", "#1a7f37", lambda step: step.total, width=2.6),
        _Line("allocation", "#0969da", lambda step: step.allocation),
        _Line("baseline", "#6e7781", _baseline, dash="8 4"),
        *[_Line(f"{signal} usage", _COLOR[signal], _usage(signal)) for signal in Signal],
    ]
    policy = next((step.policy for step in steps if step.policy), None)
    if policy is not None:
        upper = {signal: policy.signals[signal].upsize.threshold_percent for signal in Signal}
        lower = {signal: policy.signals[signal].scale_back.threshold_percent for signal in Signal}
        lines += _threshold_lines("upsize above", upper, "2 3")
        lines += _threshold_lines("scale-back below", lower, "6 3 1 3")
    return tuple(lines)


def _threshold_lines(what: str, percents: Mapping[Signal, int], dash: str) -> Iterator[_Line]:
    """One line if both signals have the same threshold."""
    if len(set(percents.values())) == 1:
        percent = percents[Signal.COMPUTE]
        yield _Line(f"{what} {percent} %", "#cf222e", _threshold(percent), dash)
        return
    for signal, percent in percents.items():
        yield _Line(f"{signal} {what} {percent} %", _COLOR[signal], _threshold(percent), dash)


def _baseline(step: Step) -> Decimal | None:
    return sum_of(base.amount for base in step.baseline.values()) if step.baseline else None


def _usage(signal: Signal) -> Value:
    return lambda step: step.usage.get(signal)


def _threshold(percent: int) -> Value:
    def value(step: Step) -> Decimal | None:
        return None if step.allocation is None else percent_of(step.allocation, percent)

    return value


@dataclass(frozen=True, slots=True)
class _Chart:
    """The scales of a panel: *start* is its left end, *top* the amount at its upper end."""

    steps: Sequence[Step]
    lines: tuple[_Line, ...]
    start: datetime
    length: timedelta
    top: float

    @classmethod
    def of(cls, steps: Sequence[Step]) -> _Chart:
        lines = _lines(steps)
        values = [float(v) for line in lines for step in steps if (v := line.value(step))]
        start = steps[0].time
        # A single step has no length; any will do.
        length = steps[-1].time - start or timedelta(minutes=1)
        return cls(steps, lines, start, length, top=max(values, default=1.0) * 1.08)

    def x(self, time: datetime) -> float:
        return _LEFT + _PLOT_WIDTH * ((time - self.start) / self.length)

    def y(self, amount: float) -> float:
        return _TOP + _PLOT_HEIGHT * (1 - amount / self.top)

    def axes(self) -> Iterator[str]:
        spacing = _nice(self.top / 5)
        for index in range(int(self.top / spacing) + 1):
            amount = index * spacing
            y = self.y(amount)
            right = _WIDTH - _RIGHT
            yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
            yield _text(_LEFT - 6, y + 4, f"{amount:g}", css="small", anchor="end")
        with_day = self.length > timedelta(days=1)
        for index in range(7):
            time = self.start + self.length * index / 6
            label = time.strftime("%m-%d %H:%M" if with_day else "%H:%M")
            bottom = _TOP + _PLOT_HEIGHT
            yield _text(self.x(time), bottom + 16, label, css="small", anchor="middle")
        day = self.start.strftime("%Y-%m-%d")
        yield _text(_LEFT, _TOP + _PLOT_HEIGHT + 32, f"UTC, from {day}", css="small")

    def paths(self, line: _Line) -> Iterator[str]:
        """The line as stairs: an amount holds until the next step. Gaps interrupt it."""
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        for has_value, run in groupby(self.steps, key=lambda step: line.value(step) is not None):
            if has_value:
                points = [(self.x(step.time), self.y(float(line.value(step) or 0))) for step in run]
                yield (
                    f'<path d="{_stairs(points)}" stroke="{line.color}"'
                    f' stroke-width="{line.width}"{dash}/>'
                )


def _stairs(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in rest:
        parts.append(f"H{next_x:.1f}")
        if next_y != y:
            parts.append(f"V{next_y:.1f}")
        y = next_y
    # A value at a single step would be no line at all.
    return " ".join(parts if rest else [*parts, "h2"])


def _nice(raw: float) -> float:
    """The next of 1, 2, 5, 10, ... (times a power of ten) that is not below *raw*."""
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)


def _legend(lines: Sequence[_Line]) -> Iterator[str]:
    top = _TOP + _PLOT_HEIGHT + 54
    column_width = _PLOT_WIDTH / _LEGEND_COLUMNS
    for index, line in enumerate(lines):
        row, column = divmod(index, _LEGEND_COLUMNS)
        x, y = _LEFT + column * column_width, top + row * _LEGEND_ROW
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        yield (
            f'<path d="M{x:.1f} {y:.1f}h26" stroke="{line.color}"'
            f' stroke-width="{line.width}"{dash}/>'
        )
        yield _text(x + 32, y + 4, line.label)


def _text(x: float, y: float, text: str, *, css: str = "", anchor: str = "start") -> str:
    style = f' class="{css}"' if css else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{style} text-anchor="{anchor}">{_clean(text)}</text>'


def _clean(text: str) -> str:
    """Escaped, and without characters that XML has no place for."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))
