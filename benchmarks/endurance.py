"""
How long the gate takes to start, and what memory it has: idle, and over 100,000 reviews.

    python -m benchmarks.endurance [--reviews 100000] [--json FILE]

Over eight connections come Pods and PyTorchJobs, clean and violating, on `/mutate` and `/validate`
in turn. Each has a name and an image of its own, and they are of 500 namespaces and 2,000 users, so
that what is kept of objects would show. The settings are the defaults, the decision log is written
to a file. Memory is of the server and all of its processes: RSS, and PSS, which counts what several
share once.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from benchmarks import work
from benchmarks.command import run_alone
from benchmarks.cores import choose_cores, pinned
from benchmarks.link import Link
from benchmarks.report import Section, Target
from benchmarks.server import Server, gate_command, prepare, processes_of, serving
from tests.builders import make_snapshot, submit

REVIEWS = 100_000
CONNECTIONS = 8
# The memory is looked at after each tenth of the reviews.
LOOKS = 10
# So many of the looks come before caches are full, and before what Python keeps has settled.
SETTLING_LOOKS = 2
STARTS = 3
IDLE_S = 1.0

START_LIMIT_S = 3.0
IDLE_LIMIT_MIB = 120.0
# What the allocator does between two looks; a hundred bytes kept of each review would be 8 MiB.
GROWTH_LIMIT_MIB = 4.0

# What is another's in each review, by what stands for it in the templates.
_VARIED: Mapping[bytes, Callable[[int], str]] = {
    b"3d0f4a7e": lambda number: f"{number:08x}",
    b'"name":"speech': lambda number: f'"name":"run-{number}-speech',
    b'"namespace":"team-a"': lambda number: f'"namespace":"team-{number % 500}"',
    b'"username":"ada"': lambda number: f'"username":"user-{number % 2000}"',
    b"speech-trainer:7.2.0": lambda number: f"speech-trainer:7.2.{number}",
    # Within the limit, and not below what is requested.
    b'"memory":"48Gi"': lambda number: f'"memory":"{30_000 + number % 30_000}Mi"',
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Of a process and all that come from it, in MiB."""

    rss_mib: float
    pss_mib: float
    processes: int


@dataclass(frozen=True, slots=True)
class Look:
    """The memory after so many *reviews*."""

    reviews: int
    memory: Memory


@dataclass(frozen=True, slots=True)
class EnduranceResult:
    """
    *start_s*: from the start of the process to ready, the median of several; the first of them
    makes a certificate as well. *looks*: the first is idle.
    """

    start_s: float
    start_cpu_s: float
    looks: tuple[Look, ...]
    per_s: float

    @property
    def idle(self) -> Memory:
        return self.looks[0].memory

    @property
    def growth_mib(self) -> float:
        """How much more than once it had settled there ever was."""
        settled, *later = [look.memory.rss_mib for look in self.looks[SETTLING_LOOKS:]]
        return max(later) - settled


@dataclass(frozen=True, slots=True)
class Template:
    """A review, and whether it is to be allowed."""

    path: str
    body: bytes
    allowed: bool

    @classmethod
    def of(cls, path: str, workload: work.Document, *, allowed: bool = True) -> Self:
        return cls(path, work.review(workload), allowed)

    def fill(self, number: int) -> bytes:
        """The review with that *number*: no other is of the same object."""
        body = self.body
        for marker, vary in _VARIED.items():
            body = body.replace(marker, vary(number).encode())
        return body


def templates() -> list[Template]:
    """As they come: what is clean is judged once more as it was changed, the rest is refused."""
    snapshot = make_snapshot(*work.policies())
    return [
        template
        for make in (work.job, work.pod)
        for template in (
            Template.of("/mutate", make()),
            Template.of("/validate", submit(snapshot, make()).document),
            Template.of("/mutate", make(clean=False), allowed=False),
        )
    ]


def measure(reviews: int) -> EnduranceResult:
    server_core, client_core = choose_cores()
    with tempfile.TemporaryDirectory(prefix="gatewright-benchmark-") as name:
        directory = Path(name)
        prepare(directory)
        command = gate_command(directory)
        starts = []
        for _ in range(STARTS - 1):
            with serving(command, directory, server_core) as gate:
                starts.append(gate)
        with serving(command, directory, server_core) as gate, pinned(client_core):
            starts.append(gate)
            begun_s = time.perf_counter()
            looks = tuple(_send_all(gate, reviews))
            took_s = time.perf_counter() - begun_s
    return EnduranceResult(
        start_s=round(statistics.median(start.start_s for start in starts), 3),
        start_cpu_s=round(statistics.median(start.start_cpu_s for start in starts), 3),
        looks=looks,
        per_s=round(reviews / took_s),
    )


def _send_all(gate: Server, reviews: int) -> Iterator[Look]:
    time.sleep(IDLE_S)
    yield Look(0, memory_of(gate.pid))
    callers = [Caller(gate) for _ in range(CONNECTIONS)]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for look in range(LOOKS):
            first, end = reviews * look // LOOKS, reviews * (look + 1) // LOOKS
            shares = [range(first + nth, end, CONNECTIONS) for nth in range(CONNECTIONS)]
            # Taken, so that what fails there fails here.
            list(pool.map(Caller.send, callers, shares))
            yield Look(end, memory_of(gate.pid))
    for caller in callers:
        caller.close()


class Caller:
    """Sends reviews one after the other over one connection."""

    def __init__(self, gate: Server) -> None:
        self._link = Link(gate.port, gate.ca_pem)
        self._templates = templates()

    def send(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            template = self._templates[number % len(self._templates)]
            answer = self._link.post(template.path, template.fill(number))
            wanted = b'"allowed":true' if template.allowed else b'"allowed":false'
            if answer.status != 200 or wanted not in answer.body:
                sys.exit(f"{template.path} answered {answer.status}: {answer.text}")

    def close(self) -> None:
        self._link.close()


def memory_of(pid: int) -> Memory:
    """What the process has now, with all that come from it."""
    rollups = [_rollup(each) for each in processes_of(pid)]
    return Memory(
        rss_mib=round(sum(rollup["Rss"] for rollup in rollups) / 2**10, 1),
        pss_mib=round(sum(rollup["Pss"] for rollup in rollups) / 2**10, 1),
        processes=len(rollups),
    )


def _rollup(pid: int) -> dict[str, int]:
    """In KiB. proc(5): behind the first line, each is a name, a colon, a number and `kB`."""
    path = Path(f"/proc/{pid}/smaps_rollup")
    if not path.exists():
        sys.exit(f"memory is read from {path}, which is not there")
    lines = [line.split() for line in path.read_text().splitlines()[1:]]
    return {name.rstrip(":"): int(kib) for name, kib, _ in lines}


# --- telling --------------------------------------------------------------------------------------


def section(reviews: int) -> Section:
    result = measure(reviews)
    return Section(
        [rows(result)],
        {"endurance": {**asdict(result), "growth_mib": round(result.growth_mib, 1)}},
        promises(result),
        [
            f"start to ready: {result.start_s:.2f} s, of which processor time"
            f" {result.start_cpu_s:.2f} s; {result.per_s:.0f} reviews a second",
            "Of the server and all of its processes. RSS: what several share counts for each;"
            " PSS: it counts once.",
        ],
    )


def promises(result: EnduranceResult) -> list[Target]:
    return [
        Target("start to ready", result.start_s, START_LIMIT_S, "s"),
        Target("memory idle, RSS", result.idle.rss_mib, IDLE_LIMIT_MIB, "MiB"),
        Target("memory once settled grows by", result.growth_mib, GROWTH_LIMIT_MIB, "MiB"),
    ]


def rows(result: EnduranceResult) -> list[tuple[str, ...]]:
    """The table, its head first."""
    return [
        ("memory, MiB", "RSS", "PSS", "processes"),
        *[
            (
                f"after {look.reviews} reviews" if look.reviews else "idle",
                f"{look.memory.rss_mib:.1f}",
                f"{look.memory.pss_mib:.1f}",
                f"{look.memory.processes}",
            )
            for look in result.looks
        ],
    ]


def main() -> None:
    run_alone("endurance", "Measure start and memory of the server.", section, reviews=REVIEWS)


if __name__ == "__main__":
    main()
