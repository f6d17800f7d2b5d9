"""What a newcomer runs: the demo and the playground, as they are."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.controlplane.wait import wait_until
from tests.e2e.gate import PROJECT


def test_the_demo_ends_well_and_shows_both_outcomes() -> None:
    done = subprocess.run(
        [sys.executable, "examples/demo.py"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "completed PyTorchJob resnet" in done.stdout
    assert "replicas [worker]: above the maximum, got 64; ≤ 8" in done.stdout
    assert "this-is-never-printed" not in done.stdout + done.stderr


def test_the_playground_refuses_an_example_and_leaves_nothing(tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    with output.open("w") as file:
        playground = subprocess.Popen(
            [sys.executable, "-m", "tests.controlplane", "playground"],
            cwd=PROJECT,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        (line, *_) = wait_until(
            lambda: re.findall(r"export KUBECONFIG=.*", output.read_text()), 120, "the playground"
        )
        applied = {
            name: subprocess.run(
                ["bash", "-c", f"{line}; kubectl apply -f examples/workloads/{name}.yaml"],
                cwd=PROJECT,
                capture_output=True,
                text=True,
                check=False,
            )
            for name in ("pytorchjob-greedy", "pytorchjob-forgetful")
        }
    finally:
        playground.send_signal(signal.SIGINT)
        code = playground.wait(timeout=60)

    assert code == 0, output.read_text()
    refused, stored = applied["pytorchjob-greedy"], applied["pytorchjob-forgetful"]
    assert refused.returncode != 0
    assert "replicas [worker]: above the maximum, got 64; ≤ 8" in refused.stderr
    assert stored.returncode == 0, stored.stderr
    kubeconfig = Path(re.findall(r"KUBECONFIG='?([^ ']+)", line)[0])
    assert not kubeconfig.parent.exists()
