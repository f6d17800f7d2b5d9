"""A gate whose API server is slow, and has one kind less than we know: trial B22."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import JsonObject, make_gvk_policy, make_pod, make_rule
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.proxy import Proxy
from tests.unit.admission.builders import make_review
from webhook.model.manifests import dump_yaml

POLICIES = 500
# The kind that nobody has installed.
MISSING = "datasources.policy.gatewright.io"
# Longer than any delay that a start may have by itself.
HELD_S = 5.0
# A kind counts as missing after 30 s; the rest is for a machine that does other things too.
PATIENCE_S = 90.0

PRIVILEGED = make_pod(hostPID=True)


@pytest.fixture(scope="module")
def crds() -> dict[str, JsonObject]:
    printed = subprocess.run(
        [sys.executable, "-m", "webhook", "crds"], check=True, capture_output=True, text=True
    ).stdout
    return {crd["metadata"]["name"]: crd for crd in yaml.safe_load_all(printed)}


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, crds: dict[str, JsonObject]
) -> Iterator[ControlPlane]:
    policies = [
        make_gvk_policy(
            make_rule("hostPID", "podSpec", {"blocked": True}),
            name=f"project-{number}",
            scope="project",
            unit="team-a" if number == 0 else f"project-{number}",
        )
        for number in range(POLICIES)
    ]
    with ControlPlane().start(tmp_path_factory.mktemp("cluster")) as cluster:
        served = [crd for name, crd in crds.items() if name != MISSING]
        cluster.kubectl_checked("apply", "--server-side", "-f", "-", stdin=dump_yaml(served))
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        cluster.kubectl_checked("create", "-f", "-", stdin=dump_yaml(policies), timeout_s=120)
        yield cluster


class Asking:
    """Sends one review again and again from the first moment on; counts what comes of it."""

    def __init__(self, gate: ClusterGate) -> None:
        self._gate = gate
        self._body = json.dumps(make_review(object=PRIVILEGED)).encode()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.outcomes: Counter[str] = Counter()

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.outcomes[self._ask()] += 1
            time.sleep(0.1)

    def _ask(self) -> str:
        """`allowed`, `denied`, the HTTP status of another answer, or `none` while nobody listens."""
        request = urllib.request.Request(
            f"{self._gate.url}/validate",
            data=self._body,
            headers={"Content-Type": "application/json"},
        )
        try:
            tls = ssl.create_default_context(cadata=self._gate.ca_pem)
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
            )
            with opener.open(request, timeout=10) as answer:
                return "allowed" if json.load(answer)["response"]["allowed"] else "denied"
        except urllib.error.HTTPError as error:
            return str(error.code)
        except OSError:
            return "none"


def kubeconfig_through(cluster: ControlPlane, proxy: Proxy, path: Path) -> Path:
    config: Any = yaml.safe_load(cluster.kubeconfig().read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    path.write_text(yaml.safe_dump(config))
    return path


def is_only_obstacle(resource: str, told: str) -> bool:
    return (
        resource in told and told.count(".policy.gatewright.io") == 1 and "namespaces" not in told
    )


def test_nothing_is_answered_before_all_is_loaded_and_a_missing_kind_holds_nothing_up(
    cluster: ControlPlane, crds: dict[str, JsonObject], tmp_path: Path
) -> None:
    with Proxy(int(cluster.server_url.rpartition(":")[2])) as proxy:
        gate = ClusterGate(tmp_path, kubeconfig_through(cluster, proxy, tmp_path / "config"))
        proxy.hold()
        try:
            with Asking(gate) as asking:
                gate.begin()
                wait_until(lambda: gate.ops("/readyz")[0] == 503, PATIENCE_S, "the listener")
                held_until = time.monotonic() + HELD_S
                while time.monotonic() < held_until:
                    assert gate.ops("/readyz")[0] == 503
                    assert gate.ops("/healthz")[0] == 200
                    time.sleep(0.2)
                assert asking.outcomes.keys() == {"none"}

                proxy.admit()
                # All is there but one kind, and whether that comes is not known yet.
                wait_until(
                    lambda: is_only_obstacle(MISSING, gate.ops("/readyz")[1]),
                    PATIENCE_S,
                    "all the others",
                )
                assert gate.ops("/readyz")[0] == 503
                assert asking.outcomes.keys() == {"none"}

                wait_until(lambda: gate.ops("/readyz")[0] == 200, PATIENCE_S, "the gate")
                wait_until(lambda: asking.outcomes["denied"] > 5, PATIENCE_S, "denials")
                # From the first second on, not one review was answered without the policies.
                assert asking.outcomes["allowed"] == 0

            assert gate.metric("gatewright_watch_connected", resource=MISSING) == 0
            assert '"not served for long, so there is none"' in gate.log_text
            # It is looked for again.
            cluster.kubectl_checked(
                "apply", "--server-side", "-f", "-", stdin=dump_yaml([crds[MISSING]])
            )
            wait_until(
                lambda: gate.metric("gatewright_watch_connected", resource=MISSING) == 1,
                PATIENCE_S,
                "the kind that came",
            )
        finally:
            proxy.admit()
            gate.stop()
