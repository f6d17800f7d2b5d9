"""The benchmarks that take a control plane or a server come to their end, and leave nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.gate import PROJECT


def test_creates_memory_and_a_cluster_are_measured(tmp_path: Path) -> None:
    """Where the API server's own policies and the gate differ, the first of them ends with 1."""
    output, results = measure(tmp_path, "benchmarks", "C", "E", "G", "--quick")

    # What is created, and what is refused.
    assert {(row["lane"], row["status"]) for row in results["api_server"]} == {
        ("plain", 201),
        ("floor", 201),
        *[(lane, status) for lane in ("gate", "mutate") for status in (201, 403)],
        *[("cel", status) for status in (201, 422)],
    }
    assert [look["reviews"] for look in results["endurance"]["looks"]] == list(range(0, 2001, 200))
    assert results["endurance"]["looks"][0]["memory"]["rss_mib"] > 10
    assert results["cluster_store"]["namespaces"] == 100
    assert results["cluster_store"]["ready_mib"] > 10
    # The limits are not of what is so small.
    assert results["targets"] == []
    assert "promised" not in output


@pytest.mark.parametrize(
    ("part", "letter", "promised"),
    [
        pytest.param("mutate --requests=100 --rounds=1 --rate-seconds=1", "B", 4, id="mutate"),
        pytest.param("growth --reviews=1", "D", 2, id="growth"),
        pytest.param("endurance --reviews=400", "E", 3, id="endurance"),
        pytest.param("gpu_round --pods 50 100", "F", 3, id="gpu-round"),
    ],
)
def test_a_part_by_itself_is_called_as_in_all(
    tmp_path: Path, part: str, letter: str, promised: int
) -> None:
    output, results = measure(tmp_path, *f"benchmarks.{part}".split())

    assert [target["part"] for target in results["targets"]] == [letter] * promised
    assert f"\n{letter}  {results['targets'][0]['what']}" in output


def measure(directory: Path, *module: str) -> tuple[str, dict[str, Any]]:
    """What a *module*, with its arguments, prints and writes."""
    file = directory / "last.json"
    command = [sys.executable, "-m", *module, "--json", str(file)]
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text())
