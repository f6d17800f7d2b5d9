"""Child processes: real ones, but short."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane.errors import ProcessError, WaitTimeoutError
from tests.controlplane.processes import Process, start_process
from tests.controlplane.wait import wait_until

PROJECT = Path(__file__).parents[3]
FOREVER = "import time; time.sleep(600)"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True);" + FOREVER

# Starts a child, says its process id, and waits for its own end.
PARENT = f"""
import pathlib, sys, time
from tests.controlplane.processes import start_process
child = start_process("child", [sys.executable, "-c", {FOREVER!r}],
                      log=pathlib.Path(sys.argv[1]), env={{}}, cwd=pathlib.Path("/"))
print(child.pid, flush=True)
time.sleep(600)
"""

Start = Callable[[str], Process]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def start(code: str) -> Process:
        command = [sys.executable, "-c", code]
        return start_process("child", command, log=tmp_path / "log", env={}, cwd=tmp_path)

    return start


def is_gone(pid: int) -> bool:
    """Whether the process has ended; one that nobody has waited for yet has, too."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def test_a_process_runs_until_it_is_stopped(start: Start) -> None:
    process = start(FOREVER)
    assert process.status is None

    process.stop(grace_s=10)

    assert process.status == -signal.SIGTERM


@pytest.mark.slow
def test_a_process_that_ignores_the_request_is_killed(start: Start) -> None:
    process = start(STUBBORN)
    wait_until(lambda: "deaf" in process.log_tail(), 10, "the child to ignore SIGTERM")

    process.stop(grace_s=0.05)

    assert process.status == -signal.SIGKILL


def test_stopping_twice_is_harmless(start: Start) -> None:
    process = start(FOREVER)
    process.stop(grace_s=10)

    process.stop(grace_s=10)

    assert process.status == -signal.SIGTERM


def test_a_process_that_ended_is_reported_with_the_end_of_its_log(start: Start) -> None:
    process = start("import sys; sys.exit('bind: address already in use')")
    wait_until(lambda: not process.running, 10, "the child to end")

    with pytest.raises(ProcessError, match="child ended with status 1: bind: ") as e:
        process.require_running()
    assert e.value.detail == "bind: address already in use"


def test_a_program_that_is_not_there_says_so_in_its_log(tmp_path: Path) -> None:
    process = start_process("etcd", ["/no/etcd"], log=tmp_path / "log", env={}, cwd=tmp_path)
    wait_until(lambda: not process.running, 10, "the launcher to give up")

    assert process.log_tail() == "cannot run /no/etcd: No such file or directory"


def test_only_the_end_of_a_long_log_is_shown(start: Start) -> None:
    process = start("for i in range(10_000): print(i)")
    wait_until(lambda: not process.running, 10, "the child to end")

    assert process.log_tail().splitlines() == [str(i) for i in range(9985, 10_000)]


@pytest.mark.slow
def test_a_process_sees_no_variable_but_those_given(start: Start) -> None:
    process = start("import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))")
    wait_until(lambda: not process.running, 10, "the child to end")

    assert process.log_tail() == "[]"


def test_a_process_is_out_of_reach_of_ctrl_c(start: Start) -> None:
    """A terminal signals the whole process group; our children are stopped in order instead."""
    process = start(FOREVER)

    assert os.getpgid(process.pid) != os.getpgid(0)

    process.stop(grace_s=10)


@pytest.mark.slow
def test_a_process_does_not_outlive_the_one_that_started_it(tmp_path: Path) -> None:
    """Also when that one is killed, so that it can do nothing about it."""
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not is_gone(child)
        parent.kill()

    wait_until(lambda: is_gone(child), 10, "the child to be killed")


@pytest.mark.slow
def test_a_process_outlives_the_thread_that_started_it(start: Start) -> None:
    """The kernel takes a thread for the parent; a fixture may run in a short-lived one."""
    started: list[Process] = []

    def start_and_end() -> None:
        process = start("print('up', flush=True); " + FOREVER)
        started.append(process)
        wait_until(lambda: process.log_tail() == "up", 10, "the child to be up")

    thread = threading.Thread(target=start_and_end)
    thread.start()
    thread.join()

    with pytest.raises(WaitTimeoutError):
        wait_until(lambda: not started[0].running, 0.2, "the child to be killed with the thread")
    started[0].stop(grace_s=10)
