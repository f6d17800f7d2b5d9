"""
The piece of work that the speed of reviews is measured on: policies, and objects of two kinds.

A Pod and a PyTorchJob of two roles, each with an init container and two containers; one that
keeps all rules, and one that breaks six (seven of the job). The rules are what platform teams ask
of containers, on init containers as well.
"""

from __future__ import annotations

import json
from typing import Any

from tests.builders import make_gvk_policy, make_rule

NAMESPACE = "team-a"
POD = {"group": "", "version": "v1", "kind": "Pod"}
JOB = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}
_PLURALS = {"Pod": "pods", "PyTorchJob": "pytorchjobs"}
_REGISTRIES = ["ghcr.io/*", "nvcr.io/*", "registry.example.com/*"]

Document = dict[str, Any]


def policies() -> list[Document]:
    """One for each kind: three defaults, a set, and seven rules that only judge."""
    replicas = make_rule("replicas", "worker", {"max": 8})
    return [_policy("work-pod", POD, []), _policy("work-job", JOB, [replicas])]


def unrelated_policies(count: int) -> list[Document]:
    """Policies that concern neither kind, each by a kind's turn of five."""
    kinds = [("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet")]
    kinds += [("batch", "Job"), ("batch", "CronJob")]
    return [
        _policy(f"other-{i}", {"group": group, "version": "v1", "kind": kind}, [])
        for i in range(count)
        for group, kind in [kinds[i % len(kinds)]]
    ]


def _policy(name: str, kind: Document, more: list[Document]) -> Document:
    rules = [
        make_rule(
            "resourceLimits",
            "allContainers",
            {"default": {"key": "memory", "value": "4Gi"}},
            {"max": {"key": "cpu", "value": "8"}},
            {"max": {"key": "memory", "value": "64Gi"}},
        ),
        make_rule("imagePullPolicy", "allContainers", {"default": "IfNotPresent"}),
        make_rule("allowPrivilegeEscalation", "allContainers", {"set": False}),
        make_rule("image", "allContainers", {"required": True}, {"pattern": _REGISTRIES}),
        make_rule("privileged", "allContainers", {"options": [False]}),
        make_rule(
            "labels",
            "metadata",
            {"default": {"key": "team", "value": "none"}},
            {"required": {"key": "project"}},
        ),
        *more,
    ]
    return make_gvk_policy(*rules, kind=kind, name=name)


def pod(*, clean: bool = True, containers: int = 2, padding: int = 0) -> Document:
    """
    A pod with an init container and so many *containers*.

    *padding* is of an annotation, in bytes. One that is not *clean* breaks six rules.
    """
    spec = _pod_spec("solo", containers)
    labels = {"app": "speech", **({"project": "speech"} if clean else {})}
    if not clean:
        _break(spec)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata("speech-0", labels, padding),
        "spec": spec,
    }


def job(*, clean: bool = True, containers: int = 2, padding: int = 0) -> Document:
    """
    A job with a Master and Workers, whose pods each have an init container and *containers*.

    *padding* is of an annotation, in bytes. One that is not *clean* breaks seven rules.
    """
    labels = {"app": "speech", **({"project": "speech"} if clean else {})}
    master, worker = _pod_spec("master", containers), _pod_spec("worker", containers)
    if not clean:
        _break(worker)
    roles = {
        "Master": _role(1, master),
        "Worker": _role(4 if clean else 12, worker),
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": _metadata("speech", labels, padding),
        "spec": {"runPolicy": {"cleanPodPolicy": "Running"}, "pytorchReplicaSpecs": roles},
    }


def _metadata(name: str, labels: Document, padding: int) -> Document:
    annotations = {"example.com/note": "x" * padding} if padding else {}
    metadata: Document = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {**metadata, "annotations": annotations} if annotations else metadata


def _role(replicas: int, spec: Document) -> Document:
    template = {"metadata": {"labels": {"app": "speech"}}, "spec": spec}
    return {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}


def _pod_spec(role: str, containers: int) -> Document:
    data = {"name": "corpus", "mountPath": "/corpus"}
    trainer = {
        "name": "trainer",
        "image": "ghcr.io/example/speech-trainer:7.2.0",
        "command": ["python", "-m", "speech.train"],
        "args": ["--corpus", "/corpus/librispeech", "--steps", "400000", "--precision", "bf16"],
        "env": [
            {"name": "ROLE", "value": role},
            *[{"name": f"SPEECH_OPTION_{i}", "value": f"value-{i}"} for i in range(6)],
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
        ],
        "ports": [{"name": "rendezvous", "containerPort": 29500}],
        "resources": {
            "requests": {"cpu": "6", "memory": "24Gi"},
            "limits": {"cpu": "8", "memory": "48Gi", "nvidia.com/gpu": "1"},
        },
        "securityContext": {"runAsNonRoot": True},
        "volumeMounts": [data, {"name": "scratch", "mountPath": "/scratch"}],
    }
    sidecars = [_sidecar(i) for i in range(containers - 1)]
    fetch = {
        "name": "stage-in",
        "image": "registry.example.com/tools/stage:2.4",
        "command": ["stage", "--from", "s3://corpora/librispeech", "--to", "/corpus"],
        "volumeMounts": [data],
    }
    claim = {"name": "corpus", "persistentVolumeClaim": {"claimName": "corpora"}}
    return {
        "restartPolicy": "Never",
        "nodeSelector": {"example.com/pool": "gpu"},
        "initContainers": [fetch],
        "containers": [trainer, *sidecars],
        "volumes": [claim, {"name": "scratch", "emptyDir": {"sizeLimit": "20Gi"}}],
    }


def _sidecar(index: int) -> Document:
    return {
        "name": f"exporter-{index}",
        "image": "nvcr.io/example/gpu-exporter:3.1",
        "imagePullPolicy": "Always",
        "resources": {"limits": {"cpu": "250m"}},
        "ports": [{"name": f"metrics-{index}", "containerPort": 9400 + index}],
    }


def _break(spec: Document) -> None:
    """
    Break five rules: two limits, a registry, and a privileged container, which also contradicts
    the escalation that is set to false.
    """
    spec["containers"][0]["resources"]["limits"] |= {"cpu": "24", "memory": "96Gi"}
    spec["containers"][-1]["image"] = "docker.io/library/exporter:1"
    spec["initContainers"][0]["securityContext"] = {"privileged": True}


def review(workload: Document) -> bytes:
    """The AdmissionReview of a create of *workload*, as an API server sends it."""
    group, _, version = workload["apiVersion"].rpartition("/")
    kind = workload["kind"]
    where = {"group": group, "version": version}
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "3d0f4a7e-6c1b-4f0e-9a55-21a3b8c4d5e6",
            "kind": {**where, "kind": kind},
            "resource": {**where, "resource": _PLURALS[kind]},
            "name": workload["metadata"]["name"],
            "namespace": workload["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
            "object": workload,
        },
    }
    return json.dumps(body, separators=(",", ":")).encode()
