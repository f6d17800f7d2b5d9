"""
How long the engine alone takes for one review: decode, decide, respond, record; no server.

    python -m benchmarks.engine [--reviews 2000] [--json FILE]

Times are processor time, and the shortest that were seen, since whatever else the machine does only
adds to them. Each piece of work is also told as a multiple of reading its body with the JSON reader
alone (`loads`), which compares between machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import orjson

from benchmarks import work
from benchmarks.command import run_alone
from benchmarks.report import Section
from tests.builders import make_snapshot
from webhook.admission.decode import Review, decode_review
from webhook.admission.record import decision_record
from webhook.admission.response import respond
from webhook.admission.review import review as decide
from webhook.admission.texts import to_json
from webhook.model.decision import Decision
from webhook.model.request import Phase
from webhook.store.snapshot import Snapshot

REVIEWS = 2000
WARM_UP_REVIEWS = 50

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class EngineResult:
    """The shortest time of each part of one piece of work, in µs."""

    work: str
    phase: str
    body_bytes: int
    operations: int
    violations: int
    loads_us: float
    decode_us: float
    decide_us: float
    respond_us: float
    record_us: float

    @property
    def total_us(self) -> float:
        return self.decode_us + self.decide_us + self.respond_us + self.record_us


class _Clock:
    """The shortest processor time of each part."""

    def __init__(self) -> None:
        self.shortest_us: dict[str, float] = {}

    def time(self, part: str, call: Callable[[], _T]) -> _T:
        started_s = time.thread_time()
        result = call()
        took_us = (time.thread_time() - started_s) * 1e6
        self.shortest_us[part] = min(took_us, self.shortest_us.get(part, took_us))
        return result


def measure(
    name: str,
    body: bytes,
    snapshot: Snapshot,
    reviews: int,
    phase: Phase = Phase.MUTATE,
    warm_up: int = WARM_UP_REVIEWS,
) -> EngineResult:
    """Review *body* so many times, each time from its bytes, after *warm_up* that don't count."""
    clock = _Clock()
    for count in range(warm_up + reviews):
        if count == warm_up:
            clock = _Clock()
        clock.time("loads", lambda: orjson.loads(body))
        review = clock.time("decode", lambda: decode_review(body))
        request = review.request
        decision = clock.time("decide", lambda: decide(request, phase, snapshot))  # noqa: B023
        clock.time("respond", lambda: to_json(respond(review, decision)))  # noqa: B023
        clock.time("record", lambda: to_json(_record(review, decision, phase, snapshot)))  # noqa: B023
    return EngineResult(
        work=name,
        phase=phase.value,
        body_bytes=len(body),
        operations=len(decision.patch),
        violations=len(decision.violations),
        **{f"{part}_us": round(shortest, 1) for part, shortest in clock.shortest_us.items()},
    )


def _record(review: Review, decision: Decision, phase: Phase, snapshot: Snapshot) -> dict[str, Any]:
    return decision_record(
        review.request,
        decision,
        phase=phase.value,
        branch=snapshot.branch(review.request.namespace),
        snapshot=snapshot.revision,
        duration_s=0.0,
    )


def measure_all(reviews: int) -> list[EngineResult]:
    """Both kinds, clean and violating."""
    snapshot = make_snapshot(*work.policies())
    bodies = {
        "Pod, clean": work.pod(),
        "Pod, violating": work.pod(clean=False),
        "PyTorchJob, clean": work.job(),
        "PyTorchJob, violating": work.job(clean=False),
    }
    return [
        measure(name, work.review(workload), snapshot, reviews) for name, workload in bodies.items()
    ]


def section(reviews: int) -> Section:
    results = measure_all(reviews)
    return Section(
        [rows(results)],
        {"engine": [asdict(result) for result in results]},
        notes=[
            "decode: from bytes to a request; decide: what is changed and refused; respond: the"
            " answer's bytes; record: the line for auditors.",
            "Each is the shortest processor time of all reviews. x loads: the total by the time"
            " that reading the body with the JSON reader alone takes.",
        ],
    )


def main() -> None:
    run_alone("engine", "Measure the engine alone.", section, reviews=REVIEWS)


def rows(results: list[EngineResult]) -> list[tuple[str, ...]]:
    """The table, its head first."""
    head = ("engine, µs", "bytes", "decode", "decide", "respond", "record", "total", "x loads")
    return [
        head,
        *[
            (
                result.work,
                f"{result.body_bytes}",
                f"{result.decode_us:.0f}",
                f"{result.decide_us:.0f}",
                f"{result.respond_us:.0f}",
                f"{result.record_us:.0f}",
                f"{result.total_us:.0f}",
                f"{result.total_us / result.loads_us:.1f}",
            )
            for result in results
        ],
    ]


if __name__ == "__main__":
    main()
