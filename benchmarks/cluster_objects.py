"""The cluster of `benchmarks.cluster_store`: namespaces, mappings and policies."""

from __future__ import annotations

from typing import Any

from tests.builders import POD, POLICY_API, make_gvk_policy, make_rule, make_workload_policy

NAMESPACES_OF_A_PROJECT = 5

Document = dict[str, Any]


def build_namespaces(count: int) -> list[Document]:
    """Namespaces of as many projects as there are of five, in 20 departments."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name_namespace(number),
                "labels": {
                    "runai/queue": name_project(number),
                    "gatewright.io/department": f"department-{_project(number) % 20}",
                    "example.com/cost-centre": f"{number:08}",
                },
            },
        }
        for number in range(count)
    ]


def name_namespace(number: int) -> str:
    return f"team-{number:05}"


def _project(namespace: int) -> int:
    return namespace // NAMESPACES_OF_A_PROJECT


def name_project(namespace: int) -> str:
    return f"project-{_project(namespace):04}"


def build_mappings(count: int) -> list[Document]:
    """Mappings of kinds with two roles; every second one has a query that takes jq."""
    return [_mapping(number) for number in range(count)]


def _mapping(number: int) -> Document:
    workers = ".spec.worker.template.spec.containers[]"
    if number % 2:
        workers = f'{workers} | select(.name != "sidecar-{number}")'
    selectors = {
        "metadata": {"query": ".metadata", "fieldGroups": ["metadata"]},
        "podSpec": {"query": ".spec.worker.template.spec", "fieldGroups": ["podSpec"]},
        "containers": {
            "query": workers,
            "fieldGroups": ["podSpecContainer", "podSpecAndContainer"],
        },
    }
    return {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": f"kind-{number:03}"},
        "spec": {"workloadType": _kind(number), "specSelectors": selectors},
    }


def build_policies(count: int, mappings: int) -> list[Document]:
    """Policies of projects: on kinds of the mappings, on Pods, and on native types."""
    return [_policy(number, mappings) for number in range(count)]


def _policy(number: int, mappings: int) -> Document:
    name, project = f"policy-{number:04}", f"project-{number:04}"
    if number % 5 == 0:
        return make_workload_policy(
            workload_type=["training", "workspace"],
            defaults={"imagePullPolicy": "Always", "compute": {"gpuDevicesRequest": 1}},
            rules={
                "image": {"required": True, "pattern": ["registry.example.com/*"]},
                "compute": {"gpuDevicesRequest": {"min": 1, "max": number % 8 + 1}},
            },
            name=name,
            scope="project",
            unit=project,
        )
    is_pod = number % 5 == 1 or not mappings
    containers = "allContainers" if is_pod else "containers"
    return make_gvk_policy(
        make_rule("image", containers, {"required": True}),
        make_rule(
            "resourceLimits",
            containers,
            {"default": {"key": "memory", "value": "4Gi"}},
            {"max": {"key": "cpu", "value": "8"}},
        ),
        make_rule("hostNetwork", "podSpec", {"options": [False]}),
        kind=POD if is_pod else _kind(number % mappings),
        name=name,
        scope="project",
        unit=project,
    )


def _kind(number: int) -> Document:
    return {"group": f"group{number}.example.com", "version": "v1", "kind": f"Kind{number}"}
