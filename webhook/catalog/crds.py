"""
Our CustomResourceDefinitions.

Number, quantity and value fields carry no type: a structural type would refuse `0.5`, `"0.5"` or
`500m`, and pruning would swallow a misspelt name before it can be answered. The webhook judges
them.
"""

from __future__ import annotations

from typing import Any

from webhook.catalog import native_rows
from webhook.model.kinds import NATIVE_KINDS, POLICY_GROUP, VERSION, WORKLOAD_GROUP

_FREE = {"x-kubernetes-preserve-unknown-fields": True}

# Native types whose mapping ships; their CRDs are printed.
_SHIPPED = ("training",)

_JSON_TYPES = {"string": "string", "boolean": "boolean"}


def build_crds() -> list[dict[str, Any]]:
    """All CRDs, in a fixed order: policy documents, then native workloads."""
    crds = [
        _policy_crd(
            "WorkloadPolicy",
            "workloadpolicies",
            ["wpol"],
            "How workloads of a type may be submitted: defaults, rules and imposed assets.",
            [
                _column("Workload", ".spec.workloadType"),
                _column("Scope", ".spec.scope"),
                _column("Mode", ".spec.mode", priority=1),
            ],
        ),
        _policy_crd(
            "GVKPolicy",
            "gvkpolicies",
            ["gvkpol"],
            "Enforcements on the fields of one workload kind, by the selectors of its mapping.",
            [
                _column("Group", ".spec.workloadType.group"),
                _column("Kind", ".spec.workloadType.kind"),
                _column("Scope", ".spec.scope"),
            ],
        ),
        _policy_crd(
            "Formatter",
            "formatters",
            [],
            "How to read and write fields that are no plain values, as jq expressions.",
            [],
        ),
        _policy_crd(
            "FieldGroup", "fieldgroups", [], "Fields that policies can name, as a bundle.", []
        ),
        _policy_crd(
            "SpecMapping",
            "specmappings",
            ["smap"],
            "Where the parts of one workload kind are, and which field groups stand there.",
            [
                _column("Group", ".spec.workloadType.group"),
                _column("Version", ".spec.workloadType.version"),
                _column("Kind", ".spec.workloadType.kind"),
            ],
        ),
        _policy_crd(
            "DataSource", "datasources", [], "A storage item that policies can impose.", []
        ),
    ]
    crds += [_workload_crd(name) for name in _SHIPPED]
    return crds


def _column(name: str, path: str, *, priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": "string", "jsonPath": path}
    if priority:
        column["priority"] = priority
    return column


def _policy_crd(
    kind: str, plural: str, short: list[str], description: str, columns: list[dict[str, Any]]
) -> dict[str, Any]:
    ready = {
        "name": "Ready",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
    }
    return _crd(
        group=POLICY_GROUP,
        kind=kind,
        plural=plural,
        short=short,
        namespaced=False,
        description=description,
        spec={"description": "See the documentation of the policy language.", **_FREE},
        columns=[*columns, ready],
    )


def _workload_crd(name: str) -> dict[str, Any]:
    kind = NATIVE_KINDS[name].kind
    return _crd(
        group=WORKLOAD_GROUP,
        kind=kind,
        plural=f"{kind.lower()}s",
        short=[],
        namespaced=True,
        description=f"A native {name} workload. A platform's controller runs it.",
        spec={
            "type": "object",
            "description": "The workload, in the layout of the workload API.",
            **_FREE,
            "properties": _properties(name),
        },
        columns=[_column("Image", ".spec.image"), _column("Priority", ".spec.priorityClass")],
    )


def _properties(name: str) -> dict[str, Any]:
    """The fields of a native type as a structural schema; only text and booleans are typed."""
    properties: dict[str, Any] = {}
    for path, row in native_rows().items():
        if name not in row["workloads"]:
            continue
        node = properties
        *sections, leaf = path.split(".")
        for section in sections:
            part = node.setdefault(section, {"type": "object", **_FREE, "properties": {}})
            node = part["properties"]
        json_type = _JSON_TYPES.get(row["type"])
        node[leaf] = {"type": json_type} if json_type else dict(_FREE)
    return properties


def _crd(
    *,
    group: str,
    kind: str,
    plural: str,
    short: list[str],
    namespaced: bool,
    description: str,
    spec: dict[str, Any],
    columns: list[dict[str, Any]],
) -> dict[str, Any]:
    names: dict[str, Any] = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "categories": ["gatewright"],
    }
    if short:
        names["shortNames"] = short
    schema = {
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": {"type": "object", **_FREE},
        },
    }
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": names,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [*columns, age],
                }
            ],
        },
    }
