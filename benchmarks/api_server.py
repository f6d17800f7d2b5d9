"""
What a policy costs whoever creates something: through a real API server, with and without it.

    python -m benchmarks.api_server [--rounds 400] [--json FILE]

Server-side dry-run creates over one kept connection for each lane, the lanes taking turns:

    plain   no policy at all
    floor   both calls of a webhook that admits everything (`noop`): no webhook is quicker
    gate    the gate as the chart registers it: `/mutate` and `/validate`
    mutate  the gate with `/mutate` alone, to show what the second call is
    cel     the same rules as the API server's own policies (`cel_policies.yaml`)

Before that it is checked that gate and cel change and refuse the same. What a lane adds is the
median of the differences to plain within one round, so that what slows down all of them for a
while counts for none.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from benchmarks import work
from benchmarks.command import run_alone
from benchmarks.cores import choose_cores
from benchmarks.lanes import (
    CEL,
    FLOOR,
    GATE,
    LANES,
    MUTATE,
    PATHS,
    PLAIN,
    Caller,
    Callers,
    Lane,
    build_namespaces,
    build_registrations,
    load_cel_policies,
)
from benchmarks.link import Answer
from benchmarks.meaning import differences
from benchmarks.report import Section, Target
from benchmarks.server import gate_command, noop_command, prepare, serving
from tests.controlplane import ControlPlane, WaitTimeoutError, wait_until

ROUNDS = 400
WARM_UP_ROUNDS = 20
IN_USE_TIMEOUT_S = 60.0
# What may come on top where something is refused.
REFUSED_ADDS_MS = 1.0

CRD = Path(__file__).parents[1] / "examples" / "crds" / "pytorchjobs.yaml"


@dataclass(frozen=True, slots=True)
class CreateResult:
    """*added_ms*: the median of the differences to plain, round by round."""

    work: str
    lane: str
    status: int
    median_ms: float
    p90_ms: float
    added_ms: float


def measure(rounds: int) -> list[CreateResult]:
    """Start everything, see that the lanes mean the same, and let them take turns."""
    with calling() as callers:
        turns = _take_turns(callers, rounds)
    return [
        _result(name, lane, answers, turns[name, PLAIN]) for (name, lane), answers in turns.items()
    ]


@contextmanager
def calling() -> Iterator[Callers]:
    """A control plane with the policies of each lane in use, and a caller of each."""
    core, _ = choose_cores()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gatewright-")))
        prepare(directory)
        gate = stack.enter_context(serving(gate_command(directory), directory, core))
        noop = stack.enter_context(serving(noop_command(directory), directory, core))
        plane = stack.enter_context(ControlPlane().start(directory / "plane"))
        plane.apply(yaml.safe_load(CRD.read_text()))
        plane.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        plane.apply(*build_namespaces(), *load_cel_policies())
        plane.apply(*build_registrations("gatewright-benchmark", gate, "", (GATE, MUTATE), (GATE,)))
        plane.apply(*build_registrations("floor", noop, "/echo", (FLOOR,), (FLOOR,)))
        callers = {lane: Caller(plane, lane) for lane in LANES}
        for caller in callers.values():
            stack.callback(caller.close)
        _wait_until_equal(callers)
        # It has nothing more to do, and works on our cores.
        plane.kill("kube-controller-manager")
        yield callers


def _wait_until_equal(callers: Callers) -> None:
    found: list[str] = []

    def is_equal() -> bool:
        found[:] = differences(callers)
        return not found

    try:
        # A registration counts a moment after it was written.
        wait_until(is_equal, IN_USE_TIMEOUT_S, "lanes that mean the same")
    except WaitTimeoutError:
        sys.exit("\n".join(["the lanes don't mean the same:", *found]))


# --- times ----------------------------------------------------------------------------------------

_Turns = dict[tuple[str, Lane], list[Answer]]


def _take_turns(callers: Callers, rounds: int) -> _Turns:
    workloads = {
        "PyTorchJob, clean": work.job(),
        "PyTorchJob, violating": work.job(clean=False),
        "Pod, clean": work.pod(),
        "Pod, violating": work.pod(clean=False),
    }
    turns: _Turns = {(name, lane): [] for name in workloads for lane in LANES}
    bodies = {(name, lane): callers[lane].body(workloads[name]) for name, lane in turns}
    for turn in range(WARM_UP_ROUNDS + rounds):
        # Nobody always follows the same one.
        first = turn % len(LANES)
        for name, workload in workloads.items():
            for lane in LANES[first:] + LANES[:first]:
                answer = callers[lane].send(workload["kind"], bodies[name, lane])
                _require(answer, name, lane)
                if turn >= WARM_UP_ROUNDS:
                    turns[name, lane].append(answer)
    return turns


def _require(answer: Answer, name: str, lane: Lane) -> None:
    """A call that failed would be admitted, and would count as a quick one."""
    if not lane.has_policies:
        is_right = answer.status == 201
    elif "clean" in name:
        is_right = answer.status == 201 and b'"team":"none"' in answer.body
    else:
        is_right = lane.refuses(answer)
    if not is_right:
        sys.exit(f"{name}: {lane.name} answered {answer.status}: {answer.text}")


def _result(
    name: str, lane: Lane, answers: Sequence[Answer], plain: Sequence[Answer]
) -> CreateResult:
    took_ms = [answer.took_ms for answer in answers]
    added_ms = [ours.took_ms - other.took_ms for ours, other in zip(answers, plain, strict=True)]
    return CreateResult(
        work=name,
        lane=lane.name,
        status=answers[0].status,
        median_ms=round(statistics.median(took_ms), 3),
        p90_ms=round(statistics.quantiles(took_ms, n=10)[-1], 3),
        added_ms=round(statistics.median(added_ms), 3),
    )


# --- telling --------------------------------------------------------------------------------------


def section(rounds: int) -> Section:
    results = measure(rounds)
    return Section(
        [rows(results)],
        {"api_server": [asdict(result) for result in results]},
        promises(results),
        [
            "floor: both calls of a webhook that admits everything; gate: as the chart registers"
            " it; mutate: without /validate; cel: the API server's own policies.",
            "added: the median of the differences to plain within a round.",
        ],
    )


def promises(results: Sequence[CreateResult]) -> list[Target]:
    added_ms = {(result.work, result.lane): result.added_ms for result in results}
    return [
        *[
            Target(
                f"{kind}, clean: the gate adds less than cel",
                added_ms[f"{kind}, clean", GATE.name],
                added_ms[f"{kind}, clean", CEL.name],
                "ms",
                strict=True,
            )
            for kind in PATHS
        ],
        *[
            Target(
                f"{kind}, refused: the gate adds",
                added_ms[f"{kind}, violating", GATE.name],
                REFUSED_ADDS_MS,
                "ms",
            )
            for kind in PATHS
        ],
    ]


def rows(results: Sequence[CreateResult]) -> list[tuple[str, ...]]:
    """The table, its head first."""
    return [
        ("create, ms", "lane", "status", "median", "p90", "added"),
        *[
            (
                result.work,
                result.lane,
                f"{result.status}",
                f"{result.median_ms:.2f}",
                f"{result.p90_ms:.2f}",
                f"{result.added_ms:+.2f}",
            )
            for result in results
        ],
    ]


def main() -> None:
    run_alone("api_server", "Measure creates through a real API server.", section, rounds=ROUNDS)


if __name__ == "__main__":
    main()
