"""`gatewright reconcile` as a process, which a test may kill."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.controlplane.processes import Process, start_process
from tests.controlplane.run import free_port
from tests.controlplane.wait import wait_until
from tests.e2e.gate import PROJECT, START_TIMEOUT_S


class ReconcilerProcess:
    """One replica, from `start` to `stop` or `kill`."""

    def __init__(self, directory: Path, kubeconfig: Path, *flags: str) -> None:
        self._log = directory / "reconcile.log"
        self._kubeconfig = kubeconfig
        self._flags = flags
        self._ops_port = free_port()
        self._process: Process | None = None

    def start(self) -> Self:
        """Return when it answers."""
        self._process = start_process(
            "reconcile",
            [
                *(sys.executable, "-m", "webhook", "reconcile"),
                *("--kubeconfig", str(self._kubeconfig)),
                *("--ops-listen", f"127.0.0.1:{self._ops_port}"),
                *self._flags,
            ],
            log=self._log,
            env={k: text for k, text in os.environ.items() if not k.startswith("GATEWRIGHT_")},
            cwd=PROJECT,
        )
        wait_until(lambda: self.ops("/healthz")[0] == 200, START_TIMEOUT_S, "the reconciler")
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(grace_s=10.0)
            self._process = None

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.stop(grace_s=10.0, first=signal.SIGKILL)
        self._process = None

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

    def metric(self, name: str, **labels: str) -> float:
        """One sample; 0 where there is none yet."""
        shown = ",".join([f'{key}="{text}"' for key, text in sorted(labels.items())])
        start = f"{name}{{{shown}}} " if shown else f"{name} "
        for line in self.ops("/metrics")[1].splitlines():
            if line.startswith(start):
                return float(line.removeprefix(start))
        return 0.0

    @property
    def leads(self) -> bool:
        return self.metric("gatewright_leader") == 1.0

    @property
    def rounds(self) -> float:
        """How many are done."""
        return self.metric("gatewright_reconcile_rounds_total", outcome="done")

    def lines(self) -> list[dict[str, Any]]:
        """What it logged, oldest first."""
        lines = self._log.read_text().splitlines()
        return [json.loads(line) for line in lines if line[:1] == "{"]
