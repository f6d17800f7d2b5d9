"""What others take of the machine is not a server's fault, and sleeping is."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from benchmarks.server import choose_cores, pinned
from tests.load.clock import start_clock

BUSY, IDLE = "while True: pass", "import time; time.sleep(60)"


@contextmanager
def processes(programs: list[str]) -> Iterator[list[int]]:
    """Python *programs* that share one core; their process ids."""
    core, _ = choose_cores()
    with ExitStack() as stack, pinned(core):
        started = []
        for program in programs:
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", program]))
            stack.callback(process.kill)
            started.append(process.pid)
        yield started


@pytest.mark.parametrize(
    ("programs", "least", "most"),
    [
        pytest.param([IDLE, BUSY], 0.9, 1.0, id="idle"),
        pytest.param([BUSY, BUSY, BUSY], 0.0, 0.6, id="two-others-want-the-core"),
    ],
)
def test_waiting_for_a_core_does_not_count(programs: list[str], least: float, most: float) -> None:
    with processes(programs) as (first, *_):
        # Until it is what it is to be.
        time.sleep(1.0)
        begun_s, could_work_s = time.monotonic(), start_clock(first)
        time.sleep(1.0)
        could_s, lasted_s = could_work_s(), time.monotonic() - begun_s

    assert least <= could_s / lasted_s <= most
