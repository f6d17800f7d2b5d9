"""What a part of the benchmarks found, beside what was promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.table import show

Rows = Sequence[tuple[str, ...]]
# What stands below the promises.
NO_FAILURE = "A NO is no failure: which are known, and why, is in docs/sizing.md (Promises)."


@dataclass(frozen=True, slots=True)
class Target:
    """
    A promise: *measured* is at most *limit*, or below it if *strict*.

    A figure that is no number keeps no promise.
    """

    what: str
    measured: float
    limit: float
    unit: str = ""
    strict: bool = False

    @property
    def met(self) -> bool:
        return self.measured < self.limit if self.strict else self.measured <= self.limit


@dataclass(frozen=True, slots=True)
class Section:
    """
    One part: *tables*, each with its head first, *notes* below them, and *results* as JSON.

    The results of several parts stand beside one another, so their keys differ.
    """

    tables: Sequence[Rows]
    results: Mapping[str, Any]
    targets: Sequence[Target] = ()
    notes: Sequence[str] = ()


def show_section(section: Section) -> None:
    for rows in section.tables:
        show(rows)
    if section.notes:
        print(*section.notes, sep="\n", end="\n\n")


def show_targets(targets: Mapping[str, Sequence[Target]]) -> None:
    """Print what was promised, by part, and whether it holds. Nothing if nothing was."""
    rows = target_rows(targets)
    if len(rows) > 1:
        show(rows)
        print(f"{NO_FAILURE}\n")


def target_rows(targets: Mapping[str, Sequence[Target]]) -> list[tuple[str, ...]]:
    """The table, its head first."""
    return [
        ("promised", "measured", "limit", "unit", "holds"),
        *[
            (
                f"{part}  {target.what}".strip(),
                _figure(target.measured),
                f"{'<' if target.strict else '<='} {_figure(target.limit)}",
                target.unit,
                "yes" if target.met else "NO",
            )
            for part, promised in targets.items()
            for target in promised
        ],
    ]


def _figure(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def to_json(sections: Mapping[str, Section]) -> dict[str, Any]:
    """The results of all *sections*, by part, and below them what was promised."""
    written: dict[str, Any] = {}
    for section in sections.values():
        written |= section.results
    written["targets"] = [
        {"part": part, **asdict(target), "met": target.met}
        for part, section in sections.items()
        for target in section.targets
    ]
    return written
