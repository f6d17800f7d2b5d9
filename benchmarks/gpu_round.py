"""
What one round of the reconciler costs: 2,000 workloads with 10,000 pods, and fewer.

    python -m benchmarks.gpu_round [--pods 100 1000 10000] [--json FILE]

An API server and a Prometheus are stood for by a process of their own (`gpu_world`), over TLS and
HTTP. The reconciler runs beside it as it does in a cluster. Counted is a round from its first look
at the cluster until the watches have brought back what it wrote. Promised are 10 s of one core for
a round, 300 MiB, and 4 queries a namespace.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import resource
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import aiohttp

from benchmarks.command import run_alone
from benchmarks.cores import choose_cores, pin
from benchmarks.gpu_objects import PODS_OF_A_WORKLOAD, WORKLOADS_OF_A_NAMESPACE
from benchmarks.gpu_world import serve
from benchmarks.report import Section, Target
from webhook.cli.process import calm_collector, loop_factory
from webhook.clients.kube import KubeClient
from webhook.clients.kubeconfig import KubeAccess
from webhook.errors import NotReadyError
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.prometheus import PrometheusSource
from webhook.reactive.observation.watches import Watches
from webhook.reactive.rounds.loop import Reconciler
from webhook.telemetry.metrics import Metrics, ReconcilerMetrics

PODS = (100, 1_000, 10_000)
TIMEOUT_S = 600.0
# The watches have brought back everything when hardly anything was done for so long.
QUIET_S = 0.5
QUIET_CPU_S = 0.01

CPU_LIMIT_S = 10.0
MEMORY_LIMIT_MIB = 300.0
QUERIES_LIMIT = 4

# What happens in each round: the load in percent of what containers have, and whether the webhook
# is seen to mutate. While it is not, nothing is evicted.
ROUNDS = (
    ("each workload gets its first recommendation", 120, "no"),
    ("each recommendation is kept", 120, "no"),
    ("nothing changes", 120, "no"),
    ("a pod of each workload is evicted", 120, "yes"),
    ("another recommendation, another eviction", 135, "yes"),
    ("all is quiet, and scaled back", 20, "yes"),
)


@dataclass(frozen=True, slots=True)
class Round:
    """
    *wall_s* counts whatever the stand-in takes, and waits before evictions. *queries* are those of
    the namespace that has most; *calls* are the writes, by their method and resource.
    """

    what: str
    cpu_s: float
    wall_s: float
    queries: int
    calls: dict[str, int]


@dataclass(frozen=True, slots=True)
class Result:
    """
    *start_cpu_s* is what comes before the first round, which is once: imports, lists. *peak_mib* is
    the most memory that there was at any time.
    """

    pods: int
    start_cpu_s: float
    start_mib: float
    peak_mib: float
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """What this process has taken by then: processor time, and the most memory."""

    cpu_s: float
    wall_s: float
    mib: float

    @classmethod
    def now(cls) -> Self:
        return cls(time.process_time(), time.perf_counter(), peak_mib())


class MarkingWatches(Watches):
    """Keeps the moment of the first look since the last call of `expect_look`."""

    _looked: Moment | None = None

    def expect_look(self) -> None:
        self._looked = None

    @property
    def looked(self) -> Moment:
        assert self._looked is not None
        return self._looked

    def take(self) -> Cluster:
        self._looked = self._looked or Moment.now()
        return super().take()


class CountedRounds(Reconciler):
    """Counts the rounds that came to their end. One that fails ends the benchmark."""

    _done = 0
    _fault: Exception | None = None

    def have_come_to(self, count: int) -> bool:
        if self._fault is not None:
            raise self._fault
        return self._done >= count

    async def round(self) -> None:
        try:
            await super().round()
        except NotReadyError:
            raise
        except Exception as fault:
            self._fault = fault
            raise
        self._done += 1


def measure(pods: int) -> Result:
    """One cluster, from the first list to the last round."""
    spawn = multiprocessing.get_context("spawn")
    own_core, other_core = choose_cores()
    places, telling = spawn.Pipe(duplex=False)
    world = spawn.Process(target=_serve, args=(pods, other_core, telling), daemon=True)
    world.start()
    telling.close()
    try:
        results, resulting = spawn.Pipe(duplex=False)
        arguments = (own_core, places.recv(), resulting)
        measured = spawn.Process(target=_measure, args=(pods, *arguments), daemon=True)
        measured.start()
        resulting.close()
        try:
            found: Result = results.recv()
        finally:
            measured.terminate()
            measured.join()
    finally:
        world.terminate()
        world.join()
    return found


def _serve(pods: int, core: int | None, connection: Connection) -> None:
    pin(core)
    serve(pods, connection)


def _measure(
    pods: int, core: int | None, places: tuple[str, str, str], connection: Connection
) -> None:
    pin(core)
    # As the command does.
    calm_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        connection.send(runner.run(run(pods, *places)))


async def run(pods: int, server: str, control: str, authority: str) -> Result:
    """Reconcile what is there, and measure."""
    client = KubeClient(KubeAccess(server, ssl.create_default_context(cadata=authority)))
    metrics = Metrics()
    reconciler_metrics = ReconcilerMetrics(metrics)
    prometheus = PrometheusSource(metrics=reconciler_metrics, url=f"{control}/prometheus")
    watches = MarkingWatches(client, metrics=metrics)
    reconciler = CountedRounds(
        client,
        watches,
        prometheus,
        namespace="gatewright",
        metrics=reconciler_metrics,
    )

    def is_healthy() -> bool:
        return metrics.registry.get_sample_value("gatewright_webhook_healthy") == 1.0

    rounds: list[Round] = []
    start: Moment | None = None
    async with asyncio.timeout(TIMEOUT_S), aiohttp.ClientSession(control) as session:
        running = asyncio.create_task(asyncio.sleep(0.0))
        for what, load, mutated in ROUNDS:
            await session.put("/control", params={"mutated": mutated})
            if mutated == "yes":
                await _until(is_healthy)
            await (await session.get("/control")).read()
            watches.expect_look()
            # This begins a round.
            await session.put("/control", params={"mutated": mutated, "load": str(load)})
            if start is None:
                running = asyncio.create_task(reconciler.run())
            await _until(lambda: reconciler.have_come_to(len(rounds) + 1))
            ended_s = time.perf_counter()
            await _quiet()
            began = watches.looked
            start = start or began
            happened = await (await session.get("/control")).json()
            cpu_s, wall_s = time.process_time() - began.cpu_s, ended_s - began.wall_s
            rounds.append(Round(what, cpu_s, wall_s, **happened))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await prometheus.close()
    await client.close()
    assert start is not None
    return Result(pods, start.cpu_s, start.mib, peak_mib(), tuple(rounds))


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  Metrics tell nobody that they change.
        await asyncio.sleep(0.05)


async def _quiet() -> None:
    """Until the watches have brought back all that was written."""
    before_s = -math.inf
    while time.process_time() - before_s > QUIET_CPU_S:
        before_s = time.process_time()
        await asyncio.sleep(QUIET_S)


def peak_mib() -> float:
    """The most memory that this process has had."""
    status = Path("/proc/self/status")
    if not status.exists():
        # Of some systems in bytes, of others in KiB.
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    # Not of the process that started this one, as the other is.
    found = [line.split() for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(found[0][1]) / 2**10


def section(pods: Sequence[int]) -> Section:
    """One cluster for each count of *pods*, the largest last: that is the one that is promised."""
    results = [measure(count) for count in pods]
    return Section(
        [rows(results)],
        {"gpu_round": [asdict(result) for result in results]},
        promises(results[-1]),
        [
            f"Each workload has {PODS_OF_A_WORKLOAD} pods, each namespace up to"
            f" {WORKLOADS_OF_A_NAMESPACE} workloads. queries: to Prometheus, of the namespace that"
            " has most.",
            "time: on the clock, with whatever the API server's stand-in takes. Before the first"
            " eviction of a round are 2 s in which the servers see what was written: they are to"
            " write it into the next pod.",
            "peak: the most memory at any time. What was written, call by call, is in the file of"
            " --json.",
        ],
    )


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The table, its head first."""
    return [
        ("round", "pods", "CPU s", "time s", "queries", "peak MiB"),
        *[
            (
                each.what,
                f"{result.pods}",
                f"{each.cpu_s:.2f}",
                f"{each.wall_s:.2f}",
                f"{each.queries}",
                f"{result.peak_mib:.0f}",
            )
            for result in results
            for each in result.rounds
        ],
    ]


def promises(result: Result) -> list[Target]:
    """What the worst round of *result* is to keep."""
    cpu_s = max(each.cpu_s for each in result.rounds)
    queries = max(each.queries for each in result.rounds)
    pods = f"{result.pods} pods"
    return [
        Target(f"a round over {pods}, processor time", cpu_s, CPU_LIMIT_S, "s"),
        Target(f"{pods}, memory at most", result.peak_mib, MEMORY_LIMIT_MIB, "MiB"),
        Target(f"{pods}, queries a namespace", queries, QUERIES_LIMIT),
    ]


def main() -> None:
    run_alone("gpu_round", "Measure a round of the GPU reconciler.", section, pods=PODS)


if __name__ == "__main__":
    main()
