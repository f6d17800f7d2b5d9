"""Documents of `rightsizing.kubex.ai` for tests: valid by default, a test names what it is about."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]

API = "rightsizing.kubex.ai/v1alpha1"
CONTRACT = "v1alpha1-2026-07"

METRICS = {
    "compute": ("kubex_gpu_container_sm_utilization_percent", "fullGPU"),
    "memory": ("kubex_gpu_container_memory_footprint_percent", "currentAllocation"),
}


def make_document(
    kind: str, name: str, spec: Mapping[str, Any], *, namespace: str = "", **metadata: Any
) -> JsonObject:
    place = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, **place, **metadata},
        "spec": dict(spec),
    }


def make_source(signal: str, **more: Any) -> JsonObject:
    metric, interpretation = METRICS[signal]
    return {
        "metric": metric,
        "interpretation": interpretation,
        "namespaceLabel": "namespace",
        "podLabel": "pod",
        "containerLabel": "container",
        **more,
    }


def make_policy(
    name: str = "gpu-reactive", *, namespace: str = "default", mode: str = "", **spec: Any
) -> JsonObject:
    """A GpuReactivePolicy with nothing but what is needed."""
    annotations = {"annotations": {"gatewright.io/mode": mode}} if mode else {}
    needed = {
        "experimental": {"gpuKaiContract": CONTRACT},
        "metrics": {signal: {"prometheus": make_source(signal)} for signal in METRICS},
        "automationStrategyRef": {"name": "gpu"},
    }
    return make_document(
        "GpuReactivePolicy", name, {**needed, **spec}, namespace=namespace, **annotations
    )


def make_cluster_policy(name: str = "gpu-reactive-cluster", **spec: Any) -> JsonObject:
    scope = {"namespaceSelector": {"operator": "In", "values": ["*"]}}
    policy = make_policy(name, namespace="", **{"scope": scope, **spec})
    return {**policy, "kind": "ClusterGpuReactivePolicy"}


def make_strategy(
    name: str = "gpu", *, namespace: str = "default", requests: Any = None, **spec: Any
) -> JsonObject:
    """An AutomationStrategy that allows both directions; *requests* are those of GPUs."""
    given = {
        "experimental": {"gpuKaiContract": CONTRACT},
        "enablement": {"gpu": {"requests": requests or {"upsize": True, "downsize": True}}},
    }
    return make_document("AutomationStrategy", name, {**given, **spec}, namespace=namespace)


def make_cluster_strategy(name: str = "gpu", **spec: Any) -> JsonObject:
    return {**make_strategy(name, namespace="", **spec), "kind": "ClusterAutomationStrategy"}


def make_settings(name: str = "global-config", **spec: Any) -> JsonObject:
    return make_document("GlobalConfiguration", name, spec)


def make_precedence(*precedence: JsonObject, name: str = "policy-evaluation") -> JsonObject:
    return make_document("PolicyEvaluation", name, {"precedence": list(precedence)})


def with_value(document: JsonObject, path: str, value: Any) -> JsonObject:
    """*document* with *value* at *path* (`spec.metrics.compute.upsize.maxPercent`)."""
    changed = copy.deepcopy(document)
    *parents, last = path.split(".")
    node = changed
    for part in parents:
        node = node.setdefault(part, {})
    node[last] = value
    return changed


def without(document: JsonObject, path: str) -> JsonObject:
    """*document* without what is at *path*."""
    changed = copy.deepcopy(document)
    *parents, last = path.split(".")
    node = changed
    for part in parents:
        node = node[part]
    del node[last]
    return changed
