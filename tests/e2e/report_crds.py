"""The CRDs of both report APIs, by the shape of the public ones, with what they insist on."""

from __future__ import annotations

from tests.builders import JsonObject

_TEXT: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer"}
_REFERENCE: JsonObject = {
    "type": "object",
    "properties": dict.fromkeys(
        ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"), _TEXT
    ),
}
_RESULT: JsonObject = {
    "type": "object",
    "required": ["policy"],
    "properties": {
        **dict.fromkeys(("category", "message", "policy", "rule", "source"), _TEXT),
        "properties": {"type": "object", "additionalProperties": _TEXT},
        "resources": {"type": "array", "items": _REFERENCE},
        "result": {"type": "string", "enum": ["pass", "fail", "warn", "error", "skip"]},
        "scored": {"type": "boolean"},
        "severity": {"type": "string", "enum": ["critical", "high", "low", "medium", "info"]},
        "timestamp": {
            "type": "object",
            "required": ["nanos", "seconds"],
            "properties": {
                "nanos": {"type": "integer", "format": "int32"},
                "seconds": {"type": "integer", "format": "int64"},
            },
        },
    },
}


def _crd(group: str, version: str, kind: str, *, namespaced: bool, has_source: bool) -> JsonObject:
    plural = f"{kind.lower()}s"
    columns = [
        {"name": name.title(), "type": "integer", "jsonPath": f".summary.{name}"}
        for name in ("pass", "fail", "warn", "error", "skip")
    ]
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "scope": _REFERENCE,
            "summary": {
                "type": "object",
                "properties": dict.fromkeys(("pass", "fail", "warn", "error", "skip"), _COUNT),
            },
            "results": {"type": "array", "items": _RESULT},
            **({"source": _TEXT} if has_source else {}),
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # The groups of the community's own are approved there.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


POLICY_REPORT_CRDS = [
    _crd("wgpolicyk8s.io", "v1alpha2", kind, namespaced=namespaced, has_source=False)
    for kind, namespaced in (("PolicyReport", True), ("ClusterPolicyReport", False))
]
OPEN_REPORT_CRDS = [
    _crd("openreports.io", "v1alpha1", kind, namespaced=namespaced, has_source=True)
    for kind, namespaced in (("Report", True), ("ClusterReport", False))
]
