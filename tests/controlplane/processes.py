"""Child processes with a log file each, which never outlive this process."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.controlplane.errors import ProcessError

LAUNCHER = Path(__file__).with_name("launch.py")
LOG_TAIL_LINES = 15
LOG_TAIL_BYTES = 8192

# The kernel takes the thread that started a child for its parent. So one thread starts
# them all, and it lives as long as the interpreter: a fixture that runs in a short-lived
# thread would otherwise lose its control plane when that thread ends.
_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="controlplane-starter")


class Process:
    """One running child: its name, its log, and an end that is certain."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._popen.poll()

    def require_running(self) -> None:
        """
        Pass if the process runs.

        Raises:
            ProcessError: it has ended; with the end of its log.
        """
        if not self.running:
            tail = self.log_tail()
            last = tail.rpartition("\n")[2] or "it said nothing"
            raise ProcessError(f"{self.name} ended with status {self.status}: {last}", tail)

    def log_tail(self) -> str:
        """The last lines of the log."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])

    def stop(self, *, grace_s: float, first: signal.Signals = signal.SIGTERM) -> None:
        """
        End the process: the signal *first*, and after *grace_s* without effect SIGKILL.

        Returns when it is gone. Calling it again does nothing.
        """
        # Popen sends no signal to a child that it has already waited for, so a process id
        # that the system has given to somebody else is never hit.
        self._popen.send_signal(first)
        try:
            self._popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def start_process(
    name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str], cwd: Path
) -> Process:
    """
    Start *command* (its first word is a path) with its output appended to *log*.

    It runs in a session of its own: Ctrl-C in the terminal reaches this process only,
    which then ends its children in the right order. If this process dies, the child is
    killed (Linux; elsewhere it has to be ended by hand).
    """
    launched = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *command]

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                launched,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )

    return Process(name, _STARTER.submit(start).result(), log)
