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

EXAMPLES = PROJECT / "examples"


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


def submitted() -> list[str]:
    """The examples of workloads. The others are policies, which the playground has as files."""
    directories = ("workloads", "one-policy", "native", "mappings")
    files = [each for name in directories for each in (EXAMPLES / name).glob("*.yaml")]
    found = sorted(str(file.relative_to(PROJECT)) for file in files if file.name != "policy.yaml")
    assert "examples/one-policy/rayjob.yaml" in found
    return found


def run_in(line: str, command: str) -> subprocess.CompletedProcess[str]:
    """*command* as a newcomer types it, after the *line* that the playground prints."""
    return subprocess.run(
        ["bash", "-c", f"{line}; {command}"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )


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
            name: run_in(line, f"kubectl apply -f examples/workloads/{name}.yaml")
            for name in ("pytorchjob-greedy", "pytorchjob-forgetful")
        }
        tried = {
            file: run_in(line, f"kubectl apply --dry-run=server -f {file}") for file in submitted()
        }
    finally:
        playground.send_signal(signal.SIGINT)
        code = playground.wait(timeout=60)

    assert code == 0, output.read_text()
    refused, stored = applied["pytorchjob-greedy"], applied["pytorchjob-forgetful"]
    assert refused.returncode != 0
    assert "replicas [worker]: above the maximum, got 64; ≤ 8" in refused.stderr
    assert stored.returncode == 0, stored.stderr
    # Each may be refused, but by the gate: none has a kind that is not there.
    unknown = {
        file: done.stderr
        for file, done in tried.items()
        if done.returncode != 0 and "denied the request" not in done.stderr
    }
    assert unknown == {}
    kubeconfig = Path(re.findall(r"KUBECONFIG='?([^ ']+)", line)[0])
    assert not kubeconfig.parent.exists()
