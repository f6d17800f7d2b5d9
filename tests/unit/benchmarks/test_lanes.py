"""What the API server of the benchmark is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.lanes import GATE, MUTATE, build_registrations
from benchmarks.server import Server


def test_the_gate_is_registered_as_by_the_chart(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("certificate")

    server = Server(1, 8443, ca, 1.0, 1.0)
    mutating, validating = build_registrations("benchmark", server, "", (GATE, MUTATE), (GATE,))

    assert [describe(entry) for entry in mutating["webhooks"]] == [
        ("workloads.gatewright.io", "/mutate", "Ignore", ["gate", "mutate"], ["pytorchjobs"]),
        ("pods.gatewright.io", "/mutate", "Ignore", ["gate", "mutate"], ["pods"]),
    ]
    assert [describe(entry) for entry in validating["webhooks"]] == [
        ("workloads.gatewright.io", "/validate", "Fail", ["gate"], ["pytorchjobs"]),
        ("pods.gatewright.io", "/validate", "Fail", ["gate"], ["pods"]),
    ]


def describe(entry: dict[str, Any]) -> tuple[str, str, str, list[str], list[str]]:
    (lanes,) = entry["namespaceSelector"]["matchExpressions"]
    created = [
        resource
        for rule in entry["rules"]
        if "CREATE" in rule["operations"]
        for resource in rule["resources"]
        if resource in ("pods", "pytorchjobs")
    ]
    path = entry["clientConfig"]["url"].removeprefix("https://127.0.0.1:8443")
    return entry["name"], path, entry["failurePolicy"], lanes["values"], created
