"""
How long one review on `/mutate` takes, over loopback TLS, and how long the server takes to start.

    python -m benchmarks.mutate [--requests 2000] [--json]

The real server runs as a process of its own on one core, the client on another where there is
one. One connection is kept open; requests follow one another. Times are those that the client
sees, its own share included.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import platform
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from webhook.model.manifests import dump_yaml

WARM_UP_REQUESTS = 300
START_TIMEOUT_S = 30.0

KIND = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}
OBJECT_BYTES = 5 * 1024


@dataclass(frozen=True, slots=True)
class Result:
    """
    What was measured.

    *cpu_ms* is the processor time of the server per request: on a busy machine it says more
    than the others. Numbers of different machines don't compare.
    """

    start_s: float
    p50_ms: float
    p99_ms: float
    requests_per_s: float
    cpu_ms: float
    requests: int
    object_bytes: int
    review_bytes: int
    enforcements: int
    operations: int
    server_core: int | None
    client_core: int | None
    machine: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs. *start_s*: from its start to ready."""

    pid: int
    port: int
    ca: Path
    start_s: float


def build_policy() -> dict[str, Any]:
    """Ten enforcements: what writes, bounds, choices and patterns, for the job and containers."""
    return {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "GVKPolicy",
        "metadata": {"name": "benchmark"},
        "spec": {
            "workloadType": KIND,
            "scope": "tenant",
            "rules": [
                _rule(
                    "resourceLimits",
                    "allContainers",
                    {"default": {"key": "memory", "value": "4Gi"}},
                    {"max": {"key": "cpu", "value": "32"}},
                ),
                _rule("imagePullPolicy", "allContainers", {"default": "IfNotPresent"}),
                _rule(
                    "image",
                    "allContainers",
                    {"required": True},
                    {"pattern": ["ghcr.io/*", "nvcr.io/*"]},
                ),
                _rule("allowPrivilegeEscalation", "allContainers", {"set": False}),
                _rule("runAsNonRoot", "podSpec", {"default": True}),
                _rule("replicas", "worker", {"min": 1}, {"max": 64}),
                _rule("labels", "metadata", {"required": {"key": "example.com/owner"}}),
            ],
        },
    }


def _rule(field: str, selector: str, *enforcements: dict[str, Any]) -> dict[str, Any]:
    return {"field": field, "specSelector": selector, "enforcements": list(enforcements)}


def build_job() -> dict[str, Any]:
    """A PyTorchJob of about 5 KB as compact JSON, two roles of two containers each."""

    def role(replicas: int) -> dict[str, Any]:
        containers = [_container("pytorch", variables=12), _container("metrics", variables=3)]
        template = {"metadata": {"labels": {"app": "train"}}, "spec": {"containers": containers}}
        return {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}

    job: dict[str, Any] = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": "benchmark",
            "namespace": "team-a",
            "labels": {"example.com/owner": "ada"},
            "annotations": {"example.com/note": ""},
        },
        "spec": {"pytorchReplicaSpecs": {"Master": role(1), "Worker": role(8)}},
    }
    missing = OBJECT_BYTES - len(_encode(job))
    job["metadata"]["annotations"]["example.com/note"] = "x" * max(missing, 0)
    return job


def _container(name: str, *, variables: int) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"ghcr.io/example/{name}:1.4.2",
        "command": ["python", "-m", name, "--config", "/etc/train/config.yaml"],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(variables)],
        "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "8", "nvidia.com/gpu": 1}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


def build_review(job: dict[str, Any]) -> bytes:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7f0c9a52-5a0c-4e0c-9a5e-0f6f5b1b2c3d",
            "kind": KIND,
            "resource": {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"},
            "name": job["metadata"]["name"],
            "namespace": job["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
            "object": job,
        },
    }
    return _encode(review)


def _encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def measure(requests: int) -> Result:
    """Start a server, send it *requests* reviews, and stop it."""
    server_core, client_core = choose_cores()
    policy, job = build_policy(), build_job()
    review = build_review(job)
    with tempfile.TemporaryDirectory(prefix="gatewright-benchmark-") as name:
        directory = Path(name)
        (directory / "policies").mkdir()
        (directory / "policies" / "policy.yaml").write_text(dump_yaml([policy]))
        with serving(directory, server_core) as server:
            pin(client_core)
            send(server, review, WARM_UP_REQUESTS)
            cpu_before_s = cpu_time_s(server.pid)
            durations_s, operations = send(server, review, requests)
            cpu_s = cpu_time_s(server.pid) - cpu_before_s
    return Result(
        start_s=round(server.start_s, 3),
        p50_ms=round(statistics.median(durations_s) * 1000, 3),
        p99_ms=round(statistics.quantiles(durations_s, n=100)[98] * 1000, 3),
        requests_per_s=round(requests / sum(durations_s)),
        cpu_ms=round(cpu_s / requests * 1000, 3),
        requests=requests,
        object_bytes=len(_encode(job)),
        review_bytes=len(review),
        enforcements=sum(len(rule["enforcements"]) for rule in policy["spec"]["rules"]),
        operations=operations,
        server_core=server_core,
        client_core=client_core,
        machine=describe_machine(),
    )


@contextmanager
def serving(directory: Path, core: int | None) -> Iterator[Server]:
    """A server pinned to *core*, for the time of the block."""
    port, ops_port = free_ports(2)
    command = [sys.executable, "-m", "webhook", "serve"]
    command += ["--policies", str(directory / "policies"), "--cert-dir", str(directory / "certs")]
    command += ["--listen", f"127.0.0.1:{port}", "--ops-listen", f"127.0.0.1:{ops_port}"]
    started = time.perf_counter()
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: pin(core),  # noqa: PLW1509  there is no other thread
        )
    try:
        while not is_ready(ops_port):
            if process.poll() is not None or time.perf_counter() - started > START_TIMEOUT_S:
                sys.exit(f"the server did not start:\n{(directory / 'server.log').read_text()}")
            time.sleep(0.005)
        start_s = time.perf_counter() - started
        yield Server(process.pid, port, directory / "certs" / "ca.crt", start_s)
    finally:
        process.terminate()
        process.wait(30)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(held.getsockname()[1]) for held in sockets]
    for held in sockets:
        held.close()
    return ports


def is_ready(ops_port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", ops_port), timeout=2) as connection:
            connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def send(server: Server, review: bytes, requests: int) -> tuple[list[float], int]:
    """How long each request took, in s, and how many operations the patch has."""
    context = ssl.create_default_context(cafile=str(server.ca))
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context)
    connection.connect()
    headers = {"Content-Type": "application/json"}
    durations_s: list[float] = []
    body = b""
    for _ in range(requests):
        started = time.perf_counter()
        connection.request("POST", "/mutate", body=review, headers=headers)
        response = connection.getresponse()
        body = response.read()
        durations_s.append(time.perf_counter() - started)
        if response.status != 200:
            sys.exit(f"/mutate answered {response.status}: {body.decode()}")
    connection.close()
    return durations_s, count_operations(json.loads(body)["response"])


def count_operations(response: dict[str, Any]) -> int:
    """How many operations the patch has. None would mean that the policy was not in force."""
    if not response["allowed"] or "patch" not in response:
        sys.exit(f"the review was not answered with a patch: {json.dumps(response)}")
    return len(json.loads(base64.b64decode(response["patch"])))


def cpu_time_s(pid: int) -> float:
    """Processor time of a process so far; 0 where the system has no /proc."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    # proc(5): the name may hold anything but ends with the last parenthesis; utime and stime
    # are the 12th and 13th field behind it.
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def choose_cores() -> tuple[int | None, int | None]:
    """One for the server, one for the client; the same if there is no other; None: not pinned."""
    if not hasattr(os, "sched_setaffinity"):
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


def pin(core: int | None) -> None:
    """Keep the calling process on *core*."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def describe_machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = names[0] if names else model
    return f"{os.cpu_count()} x {model}, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutate", description="Measure one review on /mutate."
    )
    parser.add_argument("--requests", metavar="N", type=int, default=2000)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    result = measure(args.requests)
    if args.json:
        print(json.dumps(asdict(result)))
        return
    print(f"start to ready   {result.start_s:.2f} s")
    print(f"p50              {result.p50_ms:.2f} ms")
    print(f"p99              {result.p99_ms:.2f} ms")
    print(f"requests         {result.requests_per_s:.0f} /s, one after the other")
    print(f"server CPU       {result.cpu_ms:.2f} ms per review")
    print(
        f"measured         {result.requests} reviews of {result.review_bytes} bytes"
        f" (object {result.object_bytes}), {result.enforcements} enforcements,"
        f" {result.operations} patch operations"
    )
    print(f"pinned           server to core {result.server_core}, client to {result.client_core}")
    print(f"machine          {result.machine}")


if __name__ == "__main__":
    main()
