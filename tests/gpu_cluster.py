"""Workloads and their pods as an API server sends them, and the view that a round has of them."""

from __future__ import annotations

import json
from typing import Any

from tests.builders import JsonObject
from tests.gpu import make_gpu_container, make_gpu_pod
from webhook.model.rightsizing.controls import Controls
from webhook.model.rightsizing.policies import GROUP_VERSION
from webhook.model.rightsizing.workload_types import type_of
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.documents import decode_document
from webhook.reactive.observation.kinds import (
    WORKLOAD_KINDS,
    SeenWorkload,
    WorkloadKind,
    decode_workload,
)
from webhook.reactive.observation.pods import SeenPod, decode_pod
from webhook.store.gpu_objects import decode_owner

NAMESPACE = "team-a"
STARTED = "2026-01-01T11:30:00Z"


def make_reference(owner: JsonObject, **more: Any) -> JsonObject:
    """How an object says that *owner* made it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        **more,
    }


def make_object(
    kind: str,
    name: str = "llm",
    *,
    api_version: str = "",
    namespace: str = NAMESPACE,
    owner: JsonObject | None = None,
    uid: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **more: Any,
) -> JsonObject:
    """Of a kind of workloads, or a ReplicaSet. Its uid is made of its kind and name."""
    known = WORKLOAD_KINDS.get(kind)
    version = f"{known.group}/{known.versions[0]}" if known else "apps/v1"
    metadata: JsonObject = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{kind}-{name}".lower(),
        "resourceVersion": "7",
        "labels": labels or {},
        "annotations": annotations or {},
    }
    if owner is not None:
        metadata["ownerReferences"] = [make_reference(owner)]
    return {"apiVersion": api_version or version, "kind": kind, "metadata": metadata, **more}


def make_running_pod(
    name: str = "llm-0",
    *containers: JsonObject,
    owner: JsonObject | None = None,
    namespace: str = NAMESPACE,
    annotations: dict[str, Any] | None = None,
    started: str | None = STARTED,
    phase: str = "Running",
    conditions: list[JsonObject] | None = None,
    deleted: bool = False,
    **spec: Any,
) -> JsonObject:
    """By default it runs one container, main, with one GPU."""
    pod = make_gpu_pod(
        *(containers or [make_gpu_container(limit="1", request="1")]),
        annotations=annotations,
        nodeName="node-1",
        **spec,
    )
    references = [make_reference(owner)] if owner is not None else []
    pod["metadata"] |= {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-pod-{name}",
        "resourceVersion": "9",
        "ownerReferences": references,
    }
    if deleted:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T11:31:00Z"}]
    pod["status"] = {"phase": phase, "conditions": ready if conditions is None else conditions}
    if started is not None:
        pod["status"]["startTime"] = started
    return pod


def see_pod(pod: JsonObject) -> SeenPod:
    return decode_pod(json.dumps(pod).encode())


def see_workload(workload: JsonObject) -> SeenWorkload:
    group, _, version = workload["apiVersion"].partition("/")
    kind = WORKLOAD_KINDS.get(type_of(group, workload["kind"])) or WorkloadKind(
        workload["kind"], group, (version,), f"{workload['kind'].lower()}s"
    )
    return decode_workload(json.dumps(workload).encode(), kind, version)


def make_cluster(
    *objects: JsonObject, paused: dict[str, Controls] | None = None, **more: Any
) -> Cluster:
    """What is seen of *objects*: documents, pods, ReplicaSets, workloads of any other kind."""
    documents, pods, replica_sets = {}, {}, {}
    workloads: dict[str, dict[str, SeenWorkload]] = {kind: {} for kind in WORKLOAD_KINDS}
    for each in objects:
        raw = json.dumps(each).encode()
        match each["kind"]:
            case "Pod":
                pod = decode_pod(raw)
                pods[pod.name] = pod
            case "ReplicaSet":
                replica_set = decode_owner(raw)
                replica_sets[replica_set.name] = replica_set
            case kind if each["apiVersion"] == GROUP_VERSION:
                seen = decode_document(raw, kind)
                documents[seen.key] = seen
            case _:
                workload = see_workload(each)
                workloads.setdefault(workload.type, {})[workload.name] = workload
    return Cluster(
        documents=documents,
        pods=pods,
        replica_sets=replica_sets,
        workloads=workloads,
        namespaces=paused or {},
        **more,
    )
