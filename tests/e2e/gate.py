"""The real server as a process, on a policy directory that a test may edit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.controlplane.processes import Process, start_process
from tests.controlplane.run import free_port
from tests.controlplane.wait import wait_until
from webhook.model.manifests import dump_yaml

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "examples"

# The server is ready within a second; the rest is for a machine that does other things too.
START_TIMEOUT_S = 30.0
# Two seconds are promised.
RELOAD_TIMEOUT_S = 10.0


class Gate:
    """`gatewright serve` on a directory of its own, which starts as a copy of the examples."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.directory = directory
        self._flags = flags
        self.policies = directory / "policies"
        self._log = directory / "gatewright.log"
        self._port, self._ops_port = free_port(), free_port()
        self._process: Process | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def ca_pem(self) -> str:
        return (self.directory / "certificates" / "ca.crt").read_text()

    def start(self) -> Self:
        if not self.policies.exists():
            shutil.copytree(EXAMPLES / "policies", self.policies)
        self._process = start_process(
            "gatewright",
            [
                *(sys.executable, "-m", "webhook", "serve", "--policies", str(self.policies)),
                *("--listen", f"127.0.0.1:{self._port}"),
                *("--ops-listen", f"127.0.0.1:{self._ops_port}"),
                *("--cert-dir", str(self.directory / "certificates")),
                *self._flags,
            ],
            log=self._log,
            env=os.environ,
            cwd=PROJECT,
        )
        wait_until(lambda: self.ops("/readyz")[0] == 200, START_TIMEOUT_S, "the server")
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(grace_s=10.0)

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.stop(grace_s=10.0, first=signal.SIGKILL)

    def ops(self, path: str) -> tuple[int, str]:
        """Status and body of a GET on the ops listener; status 0 while nothing listens."""
        try:
            url = f"http://127.0.0.1:{self._ops_port}{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def decisions(self) -> list[dict[str, Any]]:
        """The decision records so far, oldest first."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line[:1] == "{"]
        return [line for line in lines if line.get("logger") == "gatewright.decision"]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def resident_mib(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    @property
    def cpu_s(self) -> float:
        """The processor time that it has taken so far, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    @property
    def log_text(self) -> str:
        return self._log.read_text()

    def write_policies(self, name: str, *documents: Any) -> None:
        """Put *documents* in a file of the policy directory; return when they are in force."""
        before = self._reloads()
        (self.policies / name).write_text(dump_yaml(documents))
        wait_until(lambda: self._reloads() > before, RELOAD_TIMEOUT_S, "the policies' reload")

    def remove_policies(self, name: str) -> None:
        before = self._reloads()
        (self.policies / name).unlink()
        wait_until(lambda: self._reloads() > before, RELOAD_TIMEOUT_S, "the policies' reload")

    def _reloads(self) -> int:
        return self._log.read_text().count('"policies loaded"')
