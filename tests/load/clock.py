"""How long a server could work, on a machine that does other things as well."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.server import processes_of

# Whoever divides by the time divides by that at least.
LEAST_S = 0.001


def read_waits(pid: int) -> Iterator[tuple[str, float]]:
    """How long each thread of a server and its processes could have run but had no core, in s."""
    for process in processes_of(pid):
        for task in Path(f"/proc/{process}/task").glob("*"):
            # It may have ended meanwhile.
            with suppress(OSError):
                # Documentation/scheduler/sched-stats.rst: the second figure, in ns.
                yield task.name, int((task / "schedstat").read_text().split()[1]) / 1e9


def start_clock(
    pid: int, waits: Callable[[int], Iterable[tuple[str, float]]] = read_waits
) -> Callable[[], float]:
    """
    Tells how long, in s from now on, the server *pid* could work: the time on the clock, less
    what that thread of it waited for a core that has waited for longest.

    What is done by that does not depend much on what else the machine does, and who sleeps does
    not get around it: he waits for no core. Where the kernel does not tell, it is the time on the
    clock.
    """
    begun_s, before_s = time.monotonic(), dict(waits(pid))

    def could_work_s() -> float:
        waited_s = [until_s - before_s.get(task, 0.0) for task, until_s in waits(pid)]
        # A wait counts when it has ended, so that some of it may have been before.
        return max(LEAST_S, time.monotonic() - begun_s - max(waited_s, default=0.0))

    return could_work_s
