"""A server that is measured: a process of its own, kept on one core, with what it takes."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks import work
from benchmarks.cores import pinned
from webhook.model.manifests import dump_yaml

# A machine that does much else takes its time.
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
# Of the log of a server that does not start: its end says why.
LOG_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs. *start_s*: from its start to ready; *start_cpu_s*: what that took."""

    pid: int
    port: int
    ca: Path
    start_s: float
    start_cpu_s: float

    @property
    def ca_pem(self) -> str:
        return self.ca.read_text()


def prepare(directory: Path) -> None:
    """Write the policies of the benchmark where `gate_command` has them read."""
    (directory / "policies").mkdir()
    (directory / "policies" / "policies.yaml").write_text(dump_yaml(work.policies()))


def gate_command(directory: Path) -> list[str]:
    command = [sys.executable, "-m", "webhook", "serve"]
    command += ["--policies", str(directory / "policies"), "--cert-dir", str(directory / "certs")]
    return [*command, "--listen", "127.0.0.1:{port}", "--ops-listen", "127.0.0.1:{ops_port}"]


def noop_command(directory: Path) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.noop", "--cert-dir", str(directory / "certs")]
    return [*command, "--port", "{port}", "--ops-port", "{ops_port}"]


@contextmanager
def serving(command: Sequence[str], directory: Path, core: int | None) -> Iterator[Server]:
    """
    A server pinned to *core*, for the time of the block.

    *command* has `{port}` and `{ops_port}` for the ports that it gets. What it says goes into a
    file of *directory*.
    """
    port, ops_port = free_ports(2)
    command = [part.format(port=port, ops_port=ops_port) for part in command]
    log = directory / f"{port}.log"
    # A child begins where its parent is kept.
    with log.open("wb") as output, pinned(core):
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        while not is_ready(ops_port):
            if process.poll() is not None or time.perf_counter() - started > START_TIMEOUT_S:
                sys.exit(f"the server did not start:\n{log.read_text()[-LOG_CHARS:]}")
            time.sleep(0.005)
        start_s, start_cpu_s = time.perf_counter() - started, cpu_time_s(process.pid)
        yield Server(process.pid, port, directory / "certs" / "ca.crt", start_s, start_cpu_s)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it, if need be the hard way."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(wanted: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(wanted)]
    ports = [int(held.getsockname()[1]) for held in sockets]
    for held in sockets:
        held.close()
    return ports


def is_ready(ops_port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", ops_port), timeout=2) as connection:
            connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def cpu_time_s(pid: int) -> float:
    """Processor time of a process so far; no number where the system has no /proc."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return math.nan
    # Finer than the ticks of `stat`, where the kernel keeps it.
    precise = Path(f"/proc/{pid}/schedstat")
    if precise.exists():
        tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
    # proc(5): the name may hold anything but ends with the last parenthesis; utime and stime
    # are the 12th and 13th field behind it.
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processes_of(pid: int) -> Iterator[int]:
    """A process and all that come from it; nothing more where the system has no /proc."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        # Its thread may have ended meanwhile.
        with suppress(OSError):
            for child in children.read_text().split():
                yield from processes_of(int(child))
