"""`gatewright serve --kubernetes` as a process, which a test may kill."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Self

from tests.controlplane.processes import start_process
from tests.controlplane.wait import wait_until
from tests.e2e.gate import PROJECT, START_TIMEOUT_S, Gate


class ClusterGate(Gate):
    """A server whose policies are those of a cluster; always on the same ports."""

    def __init__(self, directory: Path, kubeconfig: Path, *flags: str) -> None:
        super().__init__(directory, *flags)
        self._kubeconfig = kubeconfig

    def start(self) -> Self:
        """Return when it is ready."""
        self.begin()
        wait_until(lambda: self.ops("/readyz")[0] == 200, START_TIMEOUT_S, "the server")
        return self

    def begin(self) -> Self:
        """Return at once."""
        self._process = start_process(
            "gatewright",
            [
                *(sys.executable, "-m", "webhook", "serve", "--kubernetes"),
                *("--kubeconfig", str(self._kubeconfig)),
                *("--listen", f"127.0.0.1:{self._port}"),
                *("--ops-listen", f"127.0.0.1:{self._ops_port}"),
                *("--cert-dir", str(self.directory / "certificates")),
                *self._flags,
            ],
            log=self._log,
            env={k: text for k, text in os.environ.items() if not k.startswith("GATEWRIGHT_")},
            cwd=PROJECT,
        )
        return self

    def metric(self, name: str, **labels: str) -> float:
        """One sample; 0 where there is none yet."""
        shown = ",".join([f'{key}="{text}"' for key, text in sorted(labels.items())])
        start = f"{name}{{{shown}}} " if shown else f"{name} "
        for line in self.ops("/metrics")[1].splitlines():
            if line.startswith(start):
                return float(line.removeprefix(start))
        return 0.0
