"""What others take of the machine is not a server's fault, and sleeping is."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from benchmarks.cores import choose_cores, pinned
from tests.load.clock import LEAST_S, start_clock

# Each says when it is what it is to be: to start takes long beside one that is busy.
UP = 'print("up", flush=True)'
BUSY, IDLE = f"{UP}\nwhile True: pass", f"import time; {UP}; time.sleep(60)"


@contextmanager
def processes(programs: list[str]) -> Iterator[list[int]]:
    """Python *programs* that share one core and are up; their process ids."""
    core, _ = choose_cores()
    with ExitStack() as stack:
        started = []
        with pinned(core):
            for program in programs:
                process = stack.enter_context(
                    subprocess.Popen(
                        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
                    )
                )
                stack.callback(process.kill)
                started.append(process)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
        yield [process.pid for process in started]


@pytest.mark.parametrize(
    ("programs", "least", "most"),
    [
        pytest.param([IDLE, BUSY], 0.8, 1.0, id="idle"),
        pytest.param([BUSY, BUSY, BUSY], 0.0, 0.6, id="two-others-want-the-core"),
    ],
)
def test_waiting_for_a_core_does_not_count(programs: list[str], least: float, most: float) -> None:
    with processes(programs) as (first, *_):
        begun_s, could_work_s = time.monotonic(), start_clock(first)
        time.sleep(1.0)
        could_s, lasted_s = could_work_s(), time.monotonic() - begun_s

    assert least <= could_s / lasted_s <= most


def test_some_time_is_always_left() -> None:
    """A wait from before may count, and what was done is divided by the time."""
    waits_s = iter([0.0, 60.0])

    assert start_clock(1, lambda _pid: [("1", next(waits_s))])() == LEAST_S
