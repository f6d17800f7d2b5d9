"""
A real Prometheus on this machine, filled with samples and scraping nothing.

    with Prometheus(directory).start() as prometheus:
        prometheus.backfill(Series("gpu_percent", {"pod": "llm-0"}, [(at, 80), …]))
        ask(prometheus.url)
"""

import os
import re
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import Self

from tests.controlplane.build import provide_binaries
from tests.controlplane.errors import CommandError, ControlPlaneError
from tests.controlplane.openmetrics import Series, format_openmetrics
from tests.controlplane.processes import Process, start_process
from tests.controlplane.recipes import prometheus_recipe
from tests.controlplane.wait import wait_until

# Measured: ready within half a second on two idle cores.
START_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 2.0
STOP_GRACE_S = 20.0
BACKFILL_TIMEOUT_S = 120.0

# It says so once it listens; with port 0 this is the only place that tells the port.
_LISTENING = re.compile(r'msg="Listening on".* address=127\.0\.0\.1:(\d+)')


class Prometheus:
    """
    One Prometheus, from `start` to `stop`, with its data, log and home in *directory*.

    It answers at `url`, which stays the same over `backfill` and over a stop and start.
    """

    def __init__(self, directory: Path, binaries: Path | None = None) -> None:
        self.directory = directory.absolute()
        self._binaries = binaries
        self._process: Process | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """
        Where it answers.

        Raises:
            ControlPlaneError: it was never started.
        """
        if not self._port:
            raise ControlPlaneError("this Prometheus was never started")
        return f"http://127.0.0.1:{self._port}"

    @property
    def log(self) -> Path:
        return self.directory / "prometheus.log"

    def start(self) -> Self:
        """
        Start it, and return when it answers queries.

        Raises:
            ControlPlaneError: the binaries cannot be had, or it does not start. It is
                stopped again; its log stays.
        """
        if self._process is not None:
            raise ControlPlaneError("this Prometheus runs already")
        self._data.mkdir(parents=True, exist_ok=True)
        config = self.directory / "prometheus.yml"
        config.write_text("scrape_configs: []\n")
        self.log.unlink(missing_ok=True)  # the port of an earlier run is in it
        program = self._program("prometheus")
        self._process = start_process(
            program.name,
            [
                str(program),
                f"--config.file={config}",
                f"--storage.tsdb.path={self._data}",
                # Else blocks would be dropped that are old beside the newest one.
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            log=self.log,
            env=self._environment,
            cwd=self.directory,
        )
        try:
            wait_until(self._is_ready, START_TIMEOUT_S, "Prometheus to be ready", interval_s=0.05)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop it. Calling it again does nothing."""
        if self._process is not None:
            self._process.stop(grace_s=STOP_GRACE_S)
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def backfill(self, *series: Series) -> None:
        """
        Add samples of any time, the future included.

        One that runs is restarted for it (by itself it would find them within a minute).

        Raises:
            ControlPlaneError: promtool refuses them, or it does not start again.
        """
        text = format_openmetrics(series)
        was_running = self._process is not None
        self.stop()
        self._data.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.NamedTemporaryFile("w", dir=self.directory, suffix=".txt") as file:
                file.write(text)
                file.flush()
                command = ("tsdb", "create-blocks-from", "openmetrics")
                self._promtool(*command, file.name, str(self._data))
        finally:
            if was_running:
                self.start()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _environment(self) -> dict[str, str]:
        return {"HOME": str(self.directory), "PATH": os.defpath}

    def _program(self, name: str) -> Path:
        if self._binaries is None:
            self._binaries = provide_binaries(prometheus_recipe())
        return self._binaries / name

    def _promtool(self, *arguments: str) -> None:
        done = subprocess.run(
            [self._program("promtool"), *arguments],
            env=self._environment,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=BACKFILL_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            output = (done.stderr + done.stdout).strip()
            last = output.rpartition("\n")[2]
            raise CommandError(f"promtool {arguments[0]} failed: {last}", output)

    def _is_ready(self) -> bool:
        assert self._process is not None
        self._process.require_running()
        found = _LISTENING.search(self.log.read_text(errors="replace"))
        if found is None:
            return False
        self._port = int(found[1])
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"{self.url}/-/ready", timeout=PROBE_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
