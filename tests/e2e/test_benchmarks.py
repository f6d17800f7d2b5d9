"""The benchmarks that take a control plane or a server come to their end, and leave nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.gate import PROJECT


def test_creates_and_memory_are_measured(tmp_path: Path) -> None:
    """Where the API server's own policies and the gate differ, the first of them ends with 1."""
    file = tmp_path / "last.json"
    command = [sys.executable, "-m", "benchmarks", "C", "E", "--quick", "--json", str(file)]

    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())
    # What is created, and what is refused.
    assert {(row["lane"], row["status"]) for row in results["api_server"]} == {
        ("plain", 201),
        ("floor", 201),
        *[(lane, status) for lane in ("gate", "mutate") for status in (201, 403)],
        *[("cel", status) for status in (201, 422)],
    }
    assert [look["reviews"] for look in results["endurance"]["looks"]] == list(range(0, 2001, 200))
    assert results["endurance"]["looks"][0]["memory"]["rss_mib"] > 10
    # Whether they hold is not of a busy machine to say.
    assert [target["part"] for target in results["targets"]] == ["C"] * 4 + ["E"] * 3
    assert "promised" in done.stdout
