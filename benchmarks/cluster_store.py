"""
How a server does on a large cluster: 500 policies, 40 mappings and 5,000 namespaces.

    python -m benchmarks.cluster_store [--policies 500] [--mappings 40] [--namespaces 5000]
        [--json FILE]

A real API server holds them; the server runs as a process of its own beside it. Promised are
ready within 10 s and at most 250 MiB, and a change in force within 1 s.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.cluster_changes import TIMEOUT_S, Asker, Changes
from benchmarks.cluster_objects import (
    Document,
    build_mappings,
    build_namespaces,
    build_policies,
)
from benchmarks.command import run_alone
from benchmarks.report import Section, Target
from tests.builders import POLICY_API
from tests.controlplane import ControlPlane, WaitTimeoutError, wait_until
from tests.e2e.cluster_gate import ClusterGate
from webhook.clients.kube import KubeClient, load_kube_client

PLURALS = {
    "GVKPolicy": "gvkpolicies",
    "WorkloadPolicy": "workloadpolicies",
    "SpecMapping": "specmappings",
}
POLICIES = 500
MAPPINGS = 40
NAMESPACES = 5_000
READY_LIMIT_S = 10.0
MEMORY_LIMIT_MIB = 250.0
CHANGE_LIMIT_S = 1.0

CALLS = 16
CHANGES = 10


@dataclass(frozen=True, slots=True)
class Result:
    """
    What was measured. *ready_s*: from the start of the process until `/readyz` says so.

    *change_s*, *oldest_s* and *label_s* are the longest times from the API server's answer until
    the gate judges by it: a new policy, a change of the oldest one, and a namespace's label.
    """

    policies: int
    mappings: int
    namespaces: int
    ready_s: float
    cpu_s: float
    ready_mib: float
    settled_mib: float
    change_s: float
    oldest_s: float
    label_s: float


async def create(client: KubeClient, documents: list[Document]) -> None:
    """Write them all, some at once."""
    waiting = iter(documents)

    async def write() -> None:
        for document in waiting:
            plural = PLURALS.get(document["kind"])
            path = f"/apis/{POLICY_API}/{plural}" if plural else "/api/v1/namespaces"
            await client.request("POST", path, body=document, timeout_s=60)

    await asyncio.gather(*[write() for _ in range(CALLS)])


def measure(policies: int, mappings: int, namespaces: int) -> Result:
    """Fill a new control plane, start a server on it, and change things."""
    with tempfile.TemporaryDirectory() as name, ControlPlane().start(Path(name, "plane")) as plane:
        crds = subprocess.run(
            [sys.executable, "-m", "webhook", "crds"], check=True, capture_output=True, text=True
        ).stdout
        plane.kubectl_checked("apply", "--server-side", "-f", "-", stdin=crds)
        plane.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        # It would make two objects more in each namespace, on our two cores.
        plane.kill("kube-controller-manager")
        _say(f"writing {namespaces} namespaces, {mappings} mappings and {policies} policies")
        asyncio.run(_fill(plane, policies, mappings, namespaces))

        gate = ClusterGate(Path(name), plane.kubeconfig())
        try:
            return _measure(plane, gate, (policies, mappings, namespaces))
        except WaitTimeoutError as error:
            sys.exit(error.summary)
        finally:
            gate.stop()


async def _fill(plane: ControlPlane, policies: int, mappings: int, namespaces: int) -> None:
    client = load_kube_client(plane.kubeconfig())
    try:
        await create(client, build_namespaces(namespaces))
        await create(client, build_mappings(mappings))
        await create(client, build_policies(policies, mappings))
    finally:
        await client.close()


def _measure(plane: ControlPlane, gate: ClusterGate, sizes: tuple[int, int, int]) -> Result:
    _say("starting the server")
    started = time.monotonic()
    gate.begin()
    wait_until(lambda: gate.ops("/readyz")[0] == 200, TIMEOUT_S, "the server to be ready")
    ready_s = time.monotonic() - started
    ready_mib, cpu_s = gate.resident_mib, gate.cpu_s
    _say("waiting until each status is written")
    documents = sizes[0] + sizes[1]
    wait_until(
        lambda: gate.metric("gatewright_status_writes_total", outcome="written") >= documents,
        TIMEOUT_S,
        "each status to be written",
        interval_s=0.2,
    )
    settled_mib = gate.resident_mib

    _say("changing things")
    changes = Changes(plane, _asker(gate), sizes[2])
    took_s = [
        (
            changes.new_policy_s(number),
            changes.changed_policy_s(number),
            changes.moved_namespace_s(number),
        )
        for number in range(CHANGES)
    ]
    change_s, oldest_s, label_s = map(max, zip(*took_s, strict=True))
    return Result(
        *sizes,
        ready_s=ready_s,
        cpu_s=cpu_s,
        ready_mib=ready_mib,
        settled_mib=settled_mib,
        change_s=change_s,
        oldest_s=oldest_s,
        label_s=label_s,
    )


def _asker(gate: ClusterGate) -> Asker:
    tls = ssl.create_default_context(cadata=gate.ca_pem)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )

    def ask(namespace: str, **spec: Any) -> bool:
        """Whether the gate allows a Pod."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "pod", "namespace": namespace},
            "spec": {"containers": [{"name": "main", "image": "i"}], **spec},
        }
        request = {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": namespace,
            "object": pod,
        }
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": request,
        }
        call = urllib.request.Request(
            f"{gate.url}/validate",
            data=json.dumps(review).encode(),
            headers={"Content-Type": "application/json"},
        )
        with opener.open(call, timeout=10) as answer:
            allowed: bool = json.load(answer)["response"]["allowed"]
            return allowed

    return ask


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def section(policies: int, mappings: int, namespaces: int) -> Section:
    result = measure(policies, mappings, namespaces)
    return Section(
        [rows(result)],
        {"cluster_store": asdict(result)},
        promises(result),
        [
            f"Each change is made {CHANGES} times, and the longest counts, from the API server's"
            " answer until the gate judges by it."
        ],
    )


def rows(result: Result) -> list[tuple[str, ...]]:
    """The table, its head first."""
    sizes = (
        f"{result.policies} policies, {result.mappings} mappings, {result.namespaces} namespaces"
    )
    return [
        (sizes, ""),
        ("ready, s", f"{result.ready_s:.2f}"),
        ("processor time until then, s", f"{result.cpu_s:.2f}"),
        ("memory when ready, RSS, MiB", f"{result.ready_mib:.0f}"),
        ("memory with all statuses written, RSS, MiB", f"{result.settled_mib:.0f}"),
        ("new policy in force, s", f"{result.change_s:.2f}"),
        ("oldest policy changed, s", f"{result.oldest_s:.2f}"),
        ("namespace moved, s", f"{result.label_s:.2f}"),
    ]


def promises(result: Result) -> list[Target]:
    mib = max(result.ready_mib, result.settled_mib)
    change_s = max(result.change_s, result.oldest_s, result.label_s)
    return [
        Target("ready on a large cluster", result.ready_s, READY_LIMIT_S, "s"),
        Target("memory on a large cluster, RSS", mib, MEMORY_LIMIT_MIB, "MiB"),
        Target("a change is in force", change_s, CHANGE_LIMIT_S, "s"),
    ]


def main() -> None:
    run_alone(
        "cluster_store",
        "Measure a server on a large cluster.",
        section,
        policies=POLICIES,
        mappings=MAPPINGS,
        namespaces=NAMESPACES,
    )


if __name__ == "__main__":
    main()
