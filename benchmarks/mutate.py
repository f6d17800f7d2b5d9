"""
What one review on `/mutate` costs the server, over loopback TLS, and how long it takes to start.

    python -m benchmarks.mutate [--requests 2000] [--rounds 3] [--rate-seconds 10] [--json FILE]

Two servers run as processes of their own on one core, the client on another where there is one:
the gate, and one that answers the same bytes to everything (`benchmarks.noop`), which is the floor.
They take turns, at 1, 8 and 32 connections; the processor time of the server per request is told
as a multiple of the floor's, which compares between machines. Last comes a steady rate of
requests, timed from when each was due, so that waiting counts.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import work
from benchmarks.command import run_alone
from benchmarks.cores import choose_cores, pinned
from benchmarks.link import Link
from benchmarks.report import Section, Target
from benchmarks.server import Server, cpu_time_s, gate_command, noop_command, prepare, serving

REQUESTS = 2000
ROUNDS = 3
WARM_UP_REQUESTS = 300
JOB = "PyTorchJob, clean"
CONNECTIONS = (1, 8, 32)
# The steady rate: what a busy cluster sends, several times over.
RATE_PER_S = 200
RATE_CONNECTIONS = 16
RATE_SECONDS = 10
# Decision 42.
FLOOR_RATIO = 4.0
P99_MS = 15.0


@dataclass(frozen=True, slots=True)
class LoadResult:
    """
    One object at so many connections, each of which sends one request after the other.

    *cpu_ms* and *floor_ms* are the processor time of the servers per request: the smallest of all
    rounds, since whatever else the machine does only adds to it. They and *ratio* are no numbers
    where it can't be measured.
    """

    work: str
    connections: int
    cpu_ms: float
    floor_ms: float
    ratio: float
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    operations: int


@dataclass(frozen=True, slots=True)
class RateResult:
    """Requests that come at a steady rate; times from when each was due."""

    work: str
    per_s: int
    p50_ms: float
    p99_ms: float
    floor_p99_ms: float


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of sending: how long each request took in s, in all, and the last answer."""

    durations_s: list[float]
    took_s: float
    cpu_s: float
    answer: bytes


def measure(
    requests: int, rounds: int, rate_seconds: int
) -> tuple[list[LoadResult], list[RateResult], float]:
    """All results, and how long the gate took to start, in s."""
    server_core, client_core = choose_cores()
    with tempfile.TemporaryDirectory(prefix="gatewright-benchmark-") as name:
        directory = Path(name)
        prepare(directory)
        with (
            serving(gate_command(directory), directory, server_core) as gate,
            serving(noop_command(directory), directory, server_core) as floor,
            pinned(client_core),
        ):
            bodies = {
                JOB: work.review(work.job()),
                "PyTorchJob, violating": work.review(work.job(clean=False)),
                "Pod, clean": work.review(work.pod()),
            }
            for server in (gate, floor):
                for body in bodies.values():
                    send(server, body, WARM_UP_REQUESTS)
            loads = [
                _measure_load(name, body, connections, requests, rounds, gate, floor)
                for name, body in bodies.items()
                for connections in (CONNECTIONS if name == JOB else (1,))
            ]
            first = next(iter(bodies))
            return (
                loads,
                [_measure_rate(first, bodies[first], rate_seconds, gate, floor)],
                round(gate.start_s, 3),
            )


def _measure_load(
    name: str,
    body: bytes,
    connections: int,
    requests: int,
    rounds: int,
    gate: Server,
    floor: Server,
) -> LoadResult:
    ours: list[Sent] = []
    floors: list[Sent] = []
    for _ in range(rounds):
        floors.append(send(floor, body, requests, connections))
        ours.append(send(gate, body, requests, connections))
    return load_result(name, connections, ours, floors)


def load_result(
    name: str, connections: int, ours: Sequence[Sent], floors: Sequence[Sent]
) -> LoadResult:
    """What the rounds of both servers come to."""
    requests = len(ours[0].durations_s)
    cpu_s, floor_s = (min(sent.cpu_s for sent in each) / requests for each in (ours, floors))
    best = min(ours, key=lambda sent: sent.took_s)
    return LoadResult(
        work=name,
        connections=connections,
        cpu_ms=round(cpu_s * 1000, 3),
        floor_ms=round(floor_s * 1000, 3),
        ratio=round(cpu_s / floor_s, 2) if floor_s else math.nan,
        requests_per_s=round(requests / best.took_s),
        p50_ms=_percentile_ms(best.durations_s, 50),
        p99_ms=_percentile_ms(best.durations_s, 99),
        operations=count_operations(json.loads(best.answer)["response"]),
    )


def _measure_rate(name: str, body: bytes, seconds: int, gate: Server, floor: Server) -> RateResult:
    requests = RATE_PER_S * seconds
    at_floor = send(floor, body, requests, RATE_CONNECTIONS, per_s=RATE_PER_S)
    ours = send(gate, body, requests, RATE_CONNECTIONS, per_s=RATE_PER_S)
    return RateResult(
        work=name,
        per_s=RATE_PER_S,
        p50_ms=_percentile_ms(ours.durations_s, 50),
        p99_ms=_percentile_ms(ours.durations_s, 99),
        floor_p99_ms=_percentile_ms(at_floor.durations_s, 99),
    )


def _percentile_ms(durations_s: list[float], percent: int) -> float:
    return round(statistics.quantiles(durations_s, n=100)[percent - 1] * 1000, 3)


# --- the client -----------------------------------------------------------------------------------


def send(
    server: Server, body: bytes, requests: int, connections: int = 1, *, per_s: int | None = None
) -> Sent:
    """
    Send *body* so often, over so many connections that are kept open.

    With *per_s*, at that rate, and each request is timed from when it was due. The process ends
    with what went wrong if one is not answered with 200: the figures would be of fewer.
    """
    # Before the threads are there: one that failed at it would let the others wait for ever.
    links = [Link(server.port, server.ca_pem) for _ in range(connections)]
    turns = count()
    durations_s: list[float] = []
    answers: list[bytes] = []
    failures: list[str] = []
    start_line = threading.Barrier(connections + 1)

    def work_off(link: Link) -> None:
        try:
            link.connect()
        except OSError as error:
            failures.append(f"cannot connect: {error}")
        start_line.wait()
        try:
            while (turn := next(turns)) < requests and not failures:
                due = time.perf_counter()
                if per_s is not None:
                    due = started + turn / per_s
                    time.sleep(max(0.0, due - time.perf_counter()))
                answer = link.post("/mutate", body)
                durations_s.append(time.perf_counter() - due)
                answers.append(answer.body)
                if answer.status != 200:
                    failures.append(f"/mutate answered {answer.status}: {answer.text}")
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"/mutate did not answer: {error!r}")
        finally:
            link.close()

    with ThreadPoolExecutor(connections) as pool:
        working = [pool.submit(work_off, link) for link in links]
        started = time.perf_counter() + 0.05
        cpu_before_s = cpu_time_s(server.pid)
        start_line.wait()
        begun = time.perf_counter()
        for each in working:
            # Or what nobody thought of would be lost.
            each.result()
        took_s = time.perf_counter() - begun
        cpu_s = cpu_time_s(server.pid) - cpu_before_s
    if failures or not answers:
        sys.exit(failures[0] if failures else "no answer")
    return Sent(durations_s, took_s, cpu_s, answers[-1])


def count_operations(response: dict[str, Any]) -> int:
    """How many operations the patch has. A review that says neither is one without policies."""
    if not response["allowed"]:
        return 0
    if "patch" not in response:
        sys.exit(f"the review was not answered with a patch: {json.dumps(response)}")
    return len(json.loads(base64.b64decode(response["patch"])))


# --- telling --------------------------------------------------------------------------------------


def load_rows(results: list[LoadResult]) -> list[tuple[str, ...]]:
    """The table, its head first."""
    head = ("/mutate", "connections", "CPU ms", "floor ms", "x floor", "per s", "p50 ms", "p99 ms")
    return [
        head,
        *[
            (
                result.work,
                f"{result.connections}",
                f"{result.cpu_ms:.3f}",
                f"{result.floor_ms:.3f}",
                f"{result.ratio:.2f}",
                f"{result.requests_per_s:.0f}",
                f"{result.p50_ms:.2f}",
                f"{result.p99_ms:.2f}",
            )
            for result in results
        ],
    ]


def rate_rows(results: list[RateResult]) -> list[tuple[str, ...]]:
    """The table, its head first."""
    return [
        ("steady rate", "per s", "p50 ms", "p99 ms", "floor p99 ms"),
        *[
            (
                result.work,
                f"{result.per_s}",
                f"{result.p50_ms:.2f}",
                f"{result.p99_ms:.2f}",
                f"{result.floor_p99_ms:.2f}",
            )
            for result in results
        ],
    ]


def section(requests: int, rounds: int, rate_seconds: int) -> Section:
    loads, rates, start_s = measure(requests, rounds, rate_seconds)
    results = {
        "mutate": [asdict(result) for result in loads],
        "rate": [asdict(result) for result in rates],
        "start_s": start_s,
    }
    tables = [load_rows(loads), rate_rows(rates)]
    notes = [
        f"start to ready: {start_s:.2f} s",
        "CPU: processor time of the server for one review, in the best round. floor: of a server"
        " that answers the same bytes to everything; x floor: CPU by floor.",
        "The server has one core to itself where there are two, the callers have another. per s: as"
        " many as callers get who wait for each answer. A steady rate is timed from when each was"
        " due.",
    ]
    return Section(tables, results, promises(loads, rates), notes)


def promises(loads: Sequence[LoadResult], rates: Sequence[RateResult]) -> list[Target]:
    return [
        *[
            Target(
                f"processor time, {load.work}, connections: {load.connections}",
                load.ratio,
                FLOOR_RATIO,
                "x floor",
            )
            for load in loads
            if load.work == JOB
        ],
        *[
            Target(f"p99 at {rate.per_s} a second, {rate.work}", rate.p99_ms, P99_MS, "ms")
            for rate in rates
        ],
    ]


def main() -> None:
    run_alone(
        "mutate",
        "Measure one review on /mutate.",
        section,
        requests=REQUESTS,
        rounds=ROUNDS,
        rate_seconds=RATE_SECONDS,
    )


if __name__ == "__main__":
    main()
