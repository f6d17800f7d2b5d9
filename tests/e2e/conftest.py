"""One control plane and one server for all end-to-end tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.controlplane.documents import default_rules
from tests.controlplane.run import ControlPlane
from tests.e2e.gate import EXAMPLES, Gate


@pytest.fixture(scope="session")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    gate = Gate(tmp_path_factory.mktemp("gate"))
    try:
        yield gate.start()
    finally:
        gate.stop()


@pytest.fixture(scope="session")
def plane(gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with our CRDs, those of the examples, and both webhooks registered."""
    with ControlPlane().start(tmp_path_factory.mktemp("plane")) as plane:
        crds = subprocess.run(
            [sys.executable, "-m", "webhook", "crds"], check=True, capture_output=True, text=True
        ).stdout
        plane.kubectl_checked("apply", "--server-side", "-f", "-", stdin=crds)
        plane.kubectl_checked("apply", "-f", str(EXAMPLES / "crds"))
        plane.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        for namespace in ("team-a", "team-vision"):
            plane.kubectl_checked("create", "namespace", namespace)
        plane.register_webhooks(
            f"{gate.url}/mutate",
            f"{gate.url}/validate",
            gate.ca_pem,
            rules=default_rules(subresources=True),
            mutating_failure_policy="Fail",
        )
        yield plane
