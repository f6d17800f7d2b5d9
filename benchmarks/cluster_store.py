"""
How a server does on a large cluster: 500 policies, 40 mappings and 5,000 namespaces.

    python -m benchmarks.cluster_store [--policies 500] [--mappings 40] [--namespaces 5000] [--json]

A real API server holds them; the server runs as a process of its own beside it. Promised are
ready within 10 s and at most 250 MiB, and a change in force within 1 s.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.run import ControlPlane
from tests.e2e.cluster_gate import ClusterGate
from webhook.clients.kube import KubeClient, load_kube_client

API_VERSION = "policy.gatewright.io/v1alpha1"
PLURALS = {
    "GVKPolicy": "gvkpolicies",
    "WorkloadPolicy": "workloadpolicies",
    "SpecMapping": "specmappings",
}
CALLS = 16
CHANGES = 10
TIMEOUT_S = 120.0

Document = dict[str, Any]


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


def build_namespaces(count: int) -> list[Document]:
    """Namespaces of as many projects as there are of five, in 20 departments."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": f"team-{number:05}",
                "labels": {
                    "runai/queue": f"project-{number // 5:04}",
                    "gatewright.io/department": f"department-{number // 5 % 20}",
                    "example.com/cost-centre": f"{number:08}",
                },
            },
        }
        for number in range(count)
    ]


def build_mappings(count: int) -> list[Document]:
    """Mappings of kinds with two roles; every second one has a query that takes jq."""
    return [_mapping(number) for number in range(count)]


def _mapping(number: int) -> Document:
    workers = ".spec.worker.template.spec.containers[]"
    if number % 2:
        workers = f'{workers} | select(.name != "sidecar-{number}")'
    return _document(
        "SpecMapping",
        f"kind-{number:03}",
        workloadType=_kind(number),
        specSelectors={
            "metadata": {"query": ".metadata", "fieldGroups": ["metadata"]},
            "podSpec": {"query": ".spec.worker.template.spec", "fieldGroups": ["podSpec"]},
            "containers": {
                "query": workers,
                "fieldGroups": ["podSpecContainer", "podSpecAndContainer"],
            },
        },
    )


def build_policies(count: int, mappings: int) -> list[Document]:
    """Policies of projects: on kinds of the mappings, on Pods, and on native types."""
    return [_policy(number, mappings) for number in range(count)]


def _policy(number: int, mappings: int) -> Document:
    unit = {"scope": "project", "project": f"project-{number:04}"}
    name = f"policy-{number:04}"
    if number % 5 == 0:
        return _document(
            "WorkloadPolicy",
            name,
            workloadType=["training", "workspace"],
            **unit,
            defaults={"imagePullPolicy": "Always", "compute": {"gpuDevicesRequest": 1}},
            rules={
                "image": {"required": True, "pattern": ["registry.example.com/*"]},
                "compute": {"gpuDevicesRequest": {"min": 1, "max": number % 8 + 1}},
            },
        )
    is_pod = number % 5 == 1 or not mappings
    return _document(
        "GVKPolicy",
        name,
        workloadType={"version": "v1", "kind": "Pod"} if is_pod else _kind(number % mappings),
        **unit,
        rules=[
            _rule("image", "allContainers" if is_pod else "containers", {"required": True}),
            _rule(
                "resourceLimits",
                "allContainers" if is_pod else "containers",
                {"default": {"key": "memory", "value": "4Gi"}},
                {"max": {"key": "cpu", "value": "8"}},
            ),
            _rule("hostNetwork", "podSpec", {"options": [False]}),
        ],
    )


def _kind(number: int) -> Document:
    return {"group": f"group{number}.example.com", "version": "v1", "kind": f"Kind{number}"}


def _rule(field: str, selector: str, *enforcements: Document) -> Document:
    return {"field": field, "specSelector": selector, "enforcements": list(enforcements)}


def _document(kind: str, name: str, **spec: Any) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def create(client: KubeClient, documents: list[Document]) -> None:
    """Write them all, some at once."""
    waiting = iter(documents)

    async def write() -> None:
        for document in waiting:
            plural = PLURALS.get(document["kind"])
            path = f"/apis/{API_VERSION}/{plural}" if plural else "/api/v1/namespaces"
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
    _wait(lambda: gate.ops("/readyz")[0] == 200, 0.1)
    ready_s = time.monotonic() - started
    ready_mib, cpu_s = gate.resident_mib, gate.cpu_s
    _say("waiting until each status is written")
    documents = sizes[0] + sizes[1]
    _wait(
        lambda: gate.metric("gatewright_status_writes_total", outcome="written") >= documents, 0.2
    )
    settled_mib = gate.resident_mib

    _say("changing things")
    ask = _asker(gate)
    changes, labels, oldest = [], [], []
    for number in range(CHANGES):
        policy = _document(
            "GVKPolicy",
            f"new-{number}",
            workloadType={"version": "v1", "kind": "Pod"},
            scope="project",
            project="project-0700",
            rules=[_rule("hostPID", "podSpec", {"options": [number % 2 == 1]})],
        )
        changes.append(
            _seconds(
                lambda: plane.request("POST", f"/apis/{API_VERSION}/gvkpolicies", policy).status,  # noqa: B023  called now
                lambda: ask("team-03500", hostPID=number % 2 == 0) is False,  # noqa: B023
            )
        )
        plane.request("DELETE", f"/apis/{API_VERSION}/gvkpolicies/new-{number}")
        _wait(lambda: ask("team-03500", hostPID=number % 2 == 0) is True)  # noqa: B023
        # policy-0001 is on Pods of project-0001, and the oldest of them.
        value = number % 2 == 0
        patch = [_rule("hostPID", "podSpec", {"options": [value]})]
        oldest.append(
            _seconds(
                lambda: _patch(plane, f"/apis/{API_VERSION}/gvkpolicies/policy-0001", patch),  # noqa: B023
                lambda: ask("team-00005", hostPID=not value) is False,  # noqa: B023
            )
        )
        project = "project-0001" if value else "project-0900"
        labels.append(
            _seconds(
                lambda: plane.kubectl_checked(
                    *("label", "namespace", "team-04500", "--overwrite"),
                    f"runai/queue={project}",  # noqa: B023
                ),
                lambda: ask("team-04500", hostPID=not value) is not value,  # noqa: B023
            )
        )
    return Result(
        *sizes,
        ready_s=ready_s,
        cpu_s=cpu_s,
        ready_mib=ready_mib,
        settled_mib=settled_mib,
        change_s=max(changes),
        oldest_s=max(oldest),
        label_s=max(labels),
    )


def _patch(plane: ControlPlane, path: str, rules: list[Document]) -> None:
    stored = plane.request("GET", path).json()
    stored["spec"]["rules"] = rules
    answer = plane.request("PUT", path, stored)
    assert answer.status == 200, answer.text


def _seconds(change: Callable[[], Any], is_in_force: Callable[[], bool]) -> float:
    change()
    started = time.monotonic()
    _wait(is_in_force)
    return time.monotonic() - started


def _asker(gate: ClusterGate) -> Callable[..., bool]:
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


def _wait(condition: Callable[[], bool], interval_s: float = 0.02) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("gave up waiting")
        time.sleep(interval_s)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--policies", type=int, default=500)
    parser.add_argument("--mappings", type=int, default=40)
    parser.add_argument("--namespaces", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.policies, arguments.mappings, arguments.namespaces)
    if arguments.json:
        print(json.dumps(asdict(result)))
        return
    print(f"{result.policies} policies, {result.mappings} mappings, {result.namespaces} namespaces")
    for text, value, promised in (
        ("ready, s", result.ready_s, "10"),
        ("processor time until then, s", result.cpu_s, ""),
        ("memory when ready, MiB", result.ready_mib, "250"),
        ("memory with all statuses written, MiB", result.settled_mib, "250"),
        ("new policy in force, s", result.change_s, "1"),
        ("oldest policy changed, s", result.oldest_s, "1"),
        ("namespace moved, s", result.label_s, "1"),
    ):
        print(f"  {text:<40}{value:>8.2f}" + (f"   (at most {promised})" if promised else ""))
    print(f"  load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
