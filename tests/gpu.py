"""Pods that ask for GPUs, recommendations for them, and who would refuse them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from tests.builders import JsonObject, make_container, make_pod
from webhook.model.quantity import parse_quantity
from webhook.model.rightsizing.injections import Injection, injection_of
from webhook.model.rightsizing.policies import DocumentKey, Scheduler
from webhook.model.rightsizing.recommendations import WorkloadRef, read_recommendation

GPU = "nvidia.com/gpu"
FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
DEVICES = "gpu-fraction-num-devices"
CONTAINER = "gpu-fraction-container-name"
MPS = "mps"
QUEUE = "kai.scheduler/queue"

POLICY = DocumentKey("GpuReactivePolicy", "team-a", "llm")
WORKLOAD = WorkloadRef("apps/v1", "Deployment", "llm", "d-1")


def make_injection(amounts: dict[str, str] | None = None, **more: Any) -> Injection:
    """By default the container main is to have two GPUs, and all changes are allowed."""
    decimals = {name: Decimal(text) for name, text in (amounts or {"main": "2"}).items()}
    allowed: dict[str, Any] = {"upsize": True, "downsize": True, "set_from_unspecified": True}
    return Injection(WORKLOAD, POLICY, decimals, **(allowed | more))


def make_kai_injection(amounts: dict[str, str] | None = None, **more: Any) -> Injection:
    return make_injection(amounts, scheduler=Scheduler.KAI, **({"queue": "gpus"} | more))


def make_gpu_container(
    name: str = "main",
    limit: Any = None,
    request: Any = None,
    *,
    resource: str = GPU,
    **more: Any,
) -> JsonObject:
    """Asks for so many of *resource*; None: the key is not there."""
    resources: JsonObject = {"limits": {"memory": "8Gi"}, "requests": {"cpu": "1"}}
    for part, count in (("limits", limit), ("requests", request)):
        if count is not None:
            resources[part][resource] = count
    return make_container(name, resources=resources, **more)


def make_gpu_pod(
    *containers: JsonObject,
    annotations: dict[str, Any] | None = None,
    labels: dict[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    pod = make_pod(containers=list(containers) or [make_gpu_container(limit="1", request="1")])
    pod["spec"] |= copy.deepcopy(spec)
    if annotations is not None:
        pod["metadata"]["annotations"] = dict(annotations)
    if labels is not None:
        pod["metadata"]["labels"] = dict(labels)
    return pod


def all_containers(pod: JsonObject) -> list[JsonObject]:
    return [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]


def whole_gpus(pod: JsonObject) -> dict[str, tuple[Any, Any]]:
    """Limit and request of each container that names any."""
    found: dict[str, tuple[Any, Any]] = {}
    for container in all_containers(pod):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        if (limits.get(GPU), requests.get(GPU)) != (None, None):
            found[container["name"]] = limits.get(GPU), requests.get(GPU)
    return found


def share_of(pod: JsonObject) -> dict[str, str]:
    """The annotations that KAI reads."""
    annotations = pod["metadata"].get("annotations") or {}
    keys = (FRACTION, MEMORY, DEVICES, CONTAINER, MPS)
    return {key: annotations[key] for key in keys if key in annotations}


def kubernetes_refusals(pod: JsonObject) -> list[str]:
    """Why an API server refuses what *pod* asks for (extended resources: whole, never lone)."""
    refusals = []
    for container in all_containers(pod):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for key in {*limits, *requests}:
            if "/" not in key:
                continue
            if key not in limits:
                refusals.append(f"{container['name']}: {key} is requested without a limit")
                continue
            amounts = {parse_quantity(part[key]) for part in (limits, requests) if key in part}
            if len(amounts) > 1:
                refusals.append(f"{container['name']}: {key} differs")
            if any(amount.denominator != 1 for amount in amounts):
                refusals.append(f"{container['name']}: {key} is not whole")
    return refusals


def kai_refusals(pod: JsonObject) -> list[str]:
    """Why KAI's own webhook refuses *pod*, in the order of its checks."""
    annotations = pod["metadata"].get("annotations") or {}
    has_fraction, has_memory = FRACTION in annotations, MEMORY in annotations
    limits = [
        GPU in ((container.get("resources") or {}).get("limits") or {})
        for container in all_containers(pod)
    ]
    refusals = []
    if annotations.get(MPS) == "true" and not (has_fraction or has_memory):
        refusals.append("mps without a share")
    if has_fraction and any(limits):
        refusals.append("a share beside a limit")
    if has_memory and (has_fraction or any(limits)):
        refusals.append("memory beside a share or a limit")
    if DEVICES in annotations and not (has_fraction or has_memory):
        refusals.append("devices without a share")
    if has_fraction and not _is_portion(annotations[FRACTION]):
        refusals.append("a portion that is none")
    if DEVICES in annotations and not _is_count(annotations[DEVICES]):
        refusals.append("devices that are no number")
    names = [container["name"] for container in all_containers(pod)]
    if (has_fraction or has_memory) and annotations.get(CONTAINER, names[0]) not in names:
        refusals.append("nobody of that name")
    return refusals


def _is_portion(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


def _is_count(text: str) -> bool:
    return text.isdecimal() and int(text) > 0


class KnownRecommendations:
    """Recommendations by the owner that a pod names, as the store would find them."""

    def __init__(self, *manifests: JsonObject) -> None:
        self._injections = [injection_of(read_recommendation(manifest)) for manifest in manifests]

    def find(self, namespace: str, metadata: Mapping[str, Any], now: datetime) -> Injection | None:
        owners = [(owner["kind"], owner["name"]) for owner in metadata.get("ownerReferences", [])]
        for injection in self._injections:
            if injection is not None:
                workload = injection.workload
                if (workload.kind, workload.name) in owners:
                    return replace(injection, now=now)
        return None
