"""
How the cost of a review grows: with policies, containers, the size of the object, and namespaces.

    python -m benchmarks.growth [--reviews 200] [--json FILE]

The engine alone, on a clean job. Only one thing grows at a time; each row is told as a multiple of
the first of its group. The rows of a group take turns, and the shortest of each counts: a first one
that was disturbed would hide that the others grow. Policies beside those that count concern other
kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from benchmarks import work
from benchmarks.command import run_alone
from benchmarks.engine import measure
from benchmarks.report import Section, Target
from tests.builders import make_snapshot
from webhook.store.snapshot import Snapshot

# Of each row, in all rounds.
REVIEWS = 200
ROUNDS = 5
WARM_UP_REVIEWS = 10
POLICIES = (1, 10, 100, 1000)
CONTAINERS = (1, 2, 10, 50, 200)
OBJECT_BYTES = (5_000, 50_000, 500_000, 2_000_000)
NAMESPACES = (10, 100, 1000, 5000)
# A large object takes long, and the shortest of few tells as much.
MAX_BYTES = 200_000_000
OTHER_POLICIES = "policies of other kinds"
MANY_NAMESPACES = "namespaces"
# What a review does not look at costs nothing; the rest is for what else the machine does.
SAME_RATIO = 1.2


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Row:
    """What is reviewed where so much of something is there."""

    size: int
    body: bytes
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class GrowthResult:
    """*size* of what grows. *ratio*: the time of the engine by that of the group's first row."""

    grows: str
    size: int
    body_bytes: int
    total_us: float
    ratio: float


def measure_all(reviews: int) -> list[GrowthResult]:
    snapshot = make_snapshot(*work.policies())
    job = work.review(work.job())
    base = len(job)
    groups: Mapping[str, list[Row]] = {
        OTHER_POLICIES: [
            Row(count, job, make_snapshot(*work.policies(), *work.unrelated_policies(count)))
            for count in POLICIES
        ],
        "containers of a role": [
            Row(count, work.review(work.job(containers=count)), snapshot) for count in CONTAINERS
        ],
        "bytes of text in the object": [
            Row(size, work.review(work.job(padding=size - base)), snapshot) for size in OBJECT_BYTES
        ],
        MANY_NAMESPACES: [
            Row(count, job, replace(snapshot, namespaces=_namespaces(count)))
            for count in NAMESPACES
        ],
    }
    return [result for name, rows in groups.items() for result in _measure(name, rows, reviews)]


def _namespaces(count: int) -> dict[str, dict[str, str]]:
    """So many, each with the labels that a platform gives them."""
    names = [work.NAMESPACE, *[f"team-{i}" for i in range(count - 1)]]
    return {name: {"kubernetes.io/metadata.name": name, "team": name} for name in names}


def _measure(name: str, rows: Sequence[Row], reviews: int) -> list[GrowthResult]:
    def measure_us(row: Row) -> float:
        most = min(reviews, max(5, MAX_BYTES // len(row.body)))
        count = max(1, most // ROUNDS)
        return measure(name, row.body, row.snapshot, count, warm_up=WARM_UP_REVIEWS).total_us

    shortest_us = take_turns(rows, measure_us, ROUNDS)
    return [
        GrowthResult(name, row.size, len(row.body), round(us, 1), round(us / shortest_us[0], 2))
        for row, us in zip(rows, shortest_us, strict=True)
    ]


def take_turns(rows: Sequence[_T], measure_us: Callable[[_T], float], rounds: int) -> list[float]:
    """The shortest time of each row. All are measured in each round, one after the other."""
    times_us = [[measure_us(row) for row in rows] for _ in range(rounds)]
    return [min(of_a_row) for of_a_row in zip(*times_us, strict=True)]


def rows(results: list[GrowthResult]) -> list[tuple[str, ...]]:
    """The table, its head first."""
    return [
        ("what grows", "size", "bytes", "total µs", "x first"),
        *[
            (
                result.grows,
                f"{result.size}",
                f"{result.body_bytes}",
                f"{result.total_us:.0f}",
                f"{result.ratio:.2f}",
            )
            for result in results
        ],
    ]


def section(reviews: int) -> Section:
    results = measure_all(reviews)
    promised = [
        Target(f"most {group}, by fewest", _last_ratio(results, group), SAME_RATIO, "x")
        for group in (OTHER_POLICIES, MANY_NAMESPACES)
    ]
    return Section(
        [rows(results)],
        {"growth": [asdict(result) for result in results]},
        promised,
        [
            "The engine alone, as in A, for the clean PyTorchJob. Only what is named grows; of a"
            " role: of each of the job's two, Master and Worker.",
            "x first: by the first row of its group. The rows take turns, and the shortest counts.",
        ],
    )


def _last_ratio(results: list[GrowthResult], group: str) -> float:
    return [result.ratio for result in results if result.grows == group][-1]


def main() -> None:
    run_alone("growth", "Measure how the cost of a review grows.", section, reviews=REVIEWS)


if __name__ == "__main__":
    main()
