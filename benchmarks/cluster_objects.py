"""The cluster of `benchmarks.cluster_store`: namespaces, mappings and policies."""

from __future__ import annotations

from typing import Any

API_VERSION = "policy.gatewright.io/v1alpha1"
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
    return build_document(
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
        return build_document(
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
    return build_document(
        "GVKPolicy",
        name,
        workloadType={"version": "v1", "kind": "Pod"} if is_pod else _kind(number % mappings),
        **unit,
        rules=[
            build_rule("image", "allContainers" if is_pod else "containers", {"required": True}),
            build_rule(
                "resourceLimits",
                "allContainers" if is_pod else "containers",
                {"default": {"key": "memory", "value": "4Gi"}},
                {"max": {"key": "cpu", "value": "8"}},
            ),
            build_rule("hostNetwork", "podSpec", {"options": [False]}),
        ],
    )


def _kind(number: int) -> Document:
    return {"group": f"group{number}.example.com", "version": "v1", "kind": f"Kind{number}"}


def build_rule(field: str, selector: str, *enforcements: Document) -> Document:
    return {"field": field, "specSelector": selector, "enforcements": list(enforcements)}


def build_document(kind: str, name: str, **spec: Any) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
