"""
Our CustomResourceDefinitions.

Number, quantity and value fields carry no type: a structural type would refuse `0.5`, `"0.5"` or
`500m`, and pruning would swallow a misspelt name before it can be answered. The webhook judges
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.catalog import native_places, native_rows_of
from webhook.catalog.crd_parts import FREE, column, define_crd
from webhook.catalog.recommendation_crd import build_recommendation_crd
from webhook.catalog.rightsizing_crds import build_rightsizing_crds
from webhook.model.documents import (
    MAX_ARGUMENTS,
    MAX_FIELD_GROUPS,
    MAX_FORMATTER_FIELDS,
    MAX_GROUP_FIELDS,
    MAX_ITEM_SELECTORS,
    MAX_SPEC_SELECTORS,
)
from webhook.model.kinds import NATIVE_KINDS, POLICY_GROUP, WORKLOAD_GROUP

# Null is absent to a policy; the API server refuses it unless the schema says so.
_SECTION = {"type": "object", "nullable": True, **FREE}

_TEXT = {"type": "string", "nullable": True}
_TEXTS = {"type": "array", "nullable": True, "items": {"type": "string"}}

# What every policy says about where it holds. Spellings of them in another case are kept too.
_SCOPED = {
    "workloadType": FREE,
    "scope": {
        **_TEXT,
        "description": "system, tenant, cluster, department or project.",
    },
    "project": _TEXT,
    "department": _TEXT,
    "cluster": _TEXT,
    "mode": {**_TEXT, "description": "Enforce, Warn or Audit."},
    "description": _TEXT,
}

_JSON_TYPES = {"string": "string", "boolean": "boolean"}

# What people look for in a list of each native type, beside its priority. All columns are text:
# a number that is written as text would be left out of a column of numbers.
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "workspace": {
        "Image": ".spec.image",
        "GPUs": ".spec.compute.gpuDevicesRequest",
    },
    "training": {
        "Image": ".spec.image",
        "GPUs": ".spec.compute.gpuDevicesRequest",
        "Parallelism": ".spec.parallelism",
    },
    "distributed": {
        "Framework": ".spec.distributedFramework",
        "Image": ".spec.image",
        "Workers": ".spec.numWorkers",
        "GPUs": ".spec.compute.gpuDevicesRequest",
    },
    "inference": {
        "Image": ".spec.image",
        "GPUs": ".spec.compute.gpuDevicesRequest",
        "Min": ".spec.autoscaling.minReplicas",
        "Max": ".spec.autoscaling.maxReplicas",
    },
    "distributedInference": {
        "Image": ".spec.leader.image",
        "Replicas": ".spec.replicas",
        "Workers": ".spec.workers",
        "GPUs": ".spec.leader.compute.gpuDevicesRequest",
    },
    "nimService": {
        "Image": ".spec.image",
        "Replicas": ".spec.replicas",
        "GPUs": ".spec.compute.gpuDevicesRequest",
    },
}

# Begin with g: kinds of these names exist in other groups, and theirs may have taken the rest.
_SHORT_NAMES = {
    "workspace": "gws",
    "training": "gtrain",
    "distributed": "gdtrain",
    "inference": "ginf",
    "distributedInference": "gdinf",
    "nimService": "gnim",
}


def _object_with(properties: dict[str, Any]) -> dict[str, Any]:
    return {**_SECTION, "properties": properties}


def _map_of(entry: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "nullable": True, "additionalProperties": entry}


def _list_of(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "nullable": True, "items": item}


def _bounded(schema: dict[str, Any], what: str, most: int) -> dict[str, Any]:
    """
    *schema*, which says in words how much it may hold.

    It is the webhook that refuses more: by the schema, a stored document that has more could not
    be read any more.
    """
    return {**schema, "description": f"At most {most} {what}."}


_ARGUMENTS = _bounded(_map_of(_TEXT), "arguments", MAX_ARGUMENTS)
_RULE = _object_with(
    {
        "field": _TEXT,
        "specSelector": _TEXT,
        "itemSelector": _TEXT,
        "selectorParams": FREE,
        "allowOverride": {"type": "boolean", "nullable": True},
        "enforcements": _list_of(FREE),
    }
)
_FORMATTER_FIELD = _object_with(
    {
        "getExpr": {**_TEXT, "description": "A jq expression that reads the value."},
        "setExpr": {**_TEXT, "description": "A jq expression that gives what is merged in."},
        "argsInfo": _ARGUMENTS,
        "argsEnum": _map_of(_list_of(FREE)),
        "arrayKey": _object_with({"argName": _TEXT}),
    }
)
_GROUP_FIELD = _object_with(
    {
        "formatter": _TEXT,
        "specRef": _TEXT,
        "description": _TEXT,
        "type": _TEXT,
        "itemSelectors": _TEXTS,
    }
)
_ITEM_SELECTOR = _object_with({"description": _TEXT, "query": _TEXT, "argsInfo": _ARGUMENTS})
_SPEC_SELECTOR = _object_with(
    {
        "description": _TEXT,
        "query": {
            **_TEXT,
            "description": "A jq expression that selects the places: a path, not a computed value.",
        },
        "fieldGroups": _bounded(_TEXTS, "groups", MAX_FIELD_GROUPS),
        "dependency": {
            **_object_with({"specSelector": _TEXT, "path": _TEXT}),
            "description": "Where a place that is absent may be created: at path below each place"
            " of specSelector, or of the object. The query has to select it once it is there.",
        },
        "podTemplate": {
            "type": "boolean",
            "nullable": True,
            "description": "Whether the places are the spec of pod templates, beside which the"
            " metadata of the pods stands: labels, annotations and shares of a GPU are at home"
            " there then. By default they are if each place is called spec.",
        },
    }
)

# Ours alone, so nothing unknown stands in it. As metav1.Condition.
_STATUS = {
    "type": "object",
    "description": "Whether the document is in force; written by gatewright.",
    "properties": {
        "observedGeneration": {"type": "integer", "format": "int64"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {
                    "type": {"type": "string", "description": "Ready, Compiled or Conflict."},
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": {"type": "string"},
                    "message": {"type": "string"},
                    "observedGeneration": {"type": "integer", "format": "int64"},
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                },
            },
        },
    },
}


def build_crds(*, rightsizing: bool = True) -> list[dict[str, Any]]:
    """
    All CRDs, in a fixed order: policy documents, native workloads, what is found out about GPUs,
    and, if *rightsizing*, the kinds of `rightsizing.kubex.ai`, which a cluster may have already.
    """
    crds = [
        _policy_crd(
            "WorkloadPolicy",
            "workloadpolicies",
            ["wpol"],
            "How workloads of a type may be submitted: defaults, rules and imposed assets.",
            {**_SCOPED, "defaults": FREE, "rules": FREE, "imposedAssets": FREE},
            [
                column("Workload", ".spec.workloadType", priority=1),
                *_SCOPE_COLUMNS,
                column("Mode", ".spec.mode", priority=1),
            ],
        ),
        _policy_crd(
            "GVKPolicy",
            "gvkpolicies",
            ["gvkpol"],
            "Enforcements on the fields of one workload kind, by the selectors of its mapping.",
            {**_SCOPED, "rules": _list_of(_RULE)},
            [
                column("Group", ".spec.workloadType.group"),
                column("Kind", ".spec.workloadType.kind"),
                *_SCOPE_COLUMNS,
                column("Mode", ".spec.mode", priority=1),
            ],
        ),
        _policy_crd(
            "Formatter",
            "formatters",
            ["gfmt"],
            "How to read and write fields that are no plain values, as jq expressions.",
            {
                "name": _TEXT,
                "description": _TEXT,
                "fields": _bounded(_map_of(_FORMATTER_FIELD), "fields", MAX_FORMATTER_FIELDS),
            },
            [column("Name", ".spec.name")],
        ),
        _policy_crd(
            "FieldGroup",
            "fieldgroups",
            ["fgroup"],
            "Fields that policies can name, as a bundle.",
            {
                "name": _TEXT,
                "description": _TEXT,
                "fields": _bounded(_map_of(_GROUP_FIELD), "fields", MAX_GROUP_FIELDS),
                "itemSelectors": _bounded(
                    _map_of(_ITEM_SELECTOR), "item selectors", MAX_ITEM_SELECTORS
                ),
            },
            [column("Name", ".spec.name")],
        ),
        _policy_crd(
            "SpecMapping",
            "specmappings",
            ["smap"],
            "Where the parts of one workload kind are, and which field groups stand there.",
            {
                "workloadType": FREE,
                "description": _TEXT,
                "resource": _TEXT,
                "specSelectors": _bounded(_map_of(_SPEC_SELECTOR), "selectors", MAX_SPEC_SELECTORS),
                "scale": _object_with({"specSelector": _TEXT, "field": _TEXT}),
            },
            [
                column("Group", ".spec.workloadType.group"),
                column("Version", ".spec.workloadType.version"),
                column("Kind", ".spec.workloadType.kind"),
            ],
        ),
        _policy_crd(
            "DataSource",
            "datasources",
            ["gdata"],
            "A storage item that policies can impose.",
            {"id": _TEXT},
            [],
        ),
    ]
    crds += [_workload_crd(name) for name in NATIVE_KINDS]
    crds.append(build_recommendation_crd())
    return [*crds, *build_rightsizing_crds()] if rightsizing else crds


_SCOPE_COLUMNS = (
    column("Scope", ".spec.scope"),
    # The one of them that the scope needs.
    column("Unit", ".spec['project','department','cluster']"),
)


def _policy_crd(
    kind: str,
    plural: str,
    short: list[str],
    description: str,
    spec: dict[str, Any],
    columns: list[dict[str, Any]],
) -> dict[str, Any]:
    return define_crd(
        group=POLICY_GROUP,
        kind=kind,
        plural=plural,
        short=short,
        categories=["gatewright"],
        namespaced=False,
        description=description,
        properties={
            "spec": {
                "description": "See the documentation of the policy language.",
                **FREE,
                "type": "object",
                "properties": spec,
            }
        },
        columns=[
            *columns,
            column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        ],
        status=_STATUS,
    )


def _workload_crd(name: str) -> dict[str, Any]:
    kind = NATIVE_KINDS[name].kind
    columns = [column(title, path) for title, path in _COLUMNS[name].items()]
    return define_crd(
        group=WORKLOAD_GROUP,
        kind=kind,
        plural=f"{kind.lower()}s",
        short=[_SHORT_NAMES[name]],
        categories=["gatewright", "workloads"],
        namespaced=True,
        description=f"The native workload type {name}. A platform's controller runs it.",
        properties=_workload_properties(name),
        columns=[
            *columns,
            column("Priority", ".spec.priorityClass"),
            column("Preemptibility", ".spec.preemptibility", priority=1),
        ],
    )


def _workload_properties(name: str) -> dict[str, Any]:
    """What an object of a native type has beside what every object has."""
    properties: dict[str, Any] = {}
    for selector, place in native_places(name).items():
        node = properties
        for part in place:
            node = node.setdefault(part, {**_SECTION, "properties": {}})["properties"]
        _add_fields(node, name, selector)
    properties["spec"]["description"] = "The workload, in the layout of the workload API."
    if "masterSpec" in properties:
        properties["masterSpec"]["description"] = "The master, in the layout of spec."
        properties["masterSpecSameAsWorker"] = {
            "type": "boolean",
            "nullable": True,
            "description": "Whether spec describes the master too; then there is no masterSpec.",
        }
    return properties


def _add_fields(properties: dict[str, Any], name: str, selector: str) -> None:
    """The fields at one selector as a structural schema; only text and booleans are typed."""
    for path, row in native_rows_of(name).items():
        if selector not in row["workloads"][name]:
            continue
        node = properties
        *sections, leaf = path.split(".")
        for section in sections:
            node = node.setdefault(section, {**_SECTION, "properties": {}})["properties"]
        json_type = _JSON_TYPES.get(row["type"])
        shape = {"type": json_type, "nullable": True} if json_type else FREE
        node[leaf] = {"description": _describe(row), **shape}


def _describe(row: Mapping[str, Any]) -> str:
    """What `kubectl explain` shows."""
    default = row.get("platformDefault")
    return f"{row['description']}." + (f" Default: {default}." if default else "")
