"""The schemas of the API's description, made from the models that documents are read with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from webhook.api.rest.policy_routes import DESCRIPTION_MAX_CHARS
from webhook.model.documents import (
    FieldGroupSpec,
    FormatterSpec,
    GvkPolicySpec,
    SpecMappingSpec,
    WorkloadPolicySpec,
)
from webhook.model.scopes import Scope

_MODELS = (FormatterSpec, FieldGroupSpec, SpecMappingSpec, GvkPolicySpec, WorkloadPolicySpec)
REFERENCE = "#/components/schemas/{model}"

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
FLAG: Json = {"type": "boolean"}
SCOPE: Json = {"type": "string", "enum": [scope.value for scope in Scope]}
_UNITS: Json = {
    # Ids are the names of the units; elsewhere those of projects are numbers.
    "projectId": {"type": ["string", "integer"]},
    "departmentId": TEXT,
    "clusterId": TEXT,
}
_ENVELOPE: Json = {
    "resourceVersion": TEXT,
    "createdAt": {"type": "string", "description": "In a cluster; files have no such time."},
    "updatedAt": TEXT,
    "readOnly": {"type": "string", "description": "Why it can't be changed here."},
    "problems": {"type": "array", "items": TEXT, "description": "Why it is not in force."},
    "warnings": {
        "type": "array",
        "items": TEXT,
        "description": "It is in force, and perhaps not what its author wanted.",
    },
}


def build_schemas() -> dict[str, Json]:
    _, made = models_json_schema(
        [(model, "validation") for model in _MODELS], by_alias=True, ref_template=REFERENCE
    )
    schemas: dict[str, Json] = made["$defs"]
    schemas["GroupVersionKind"] = _object(
        {"group": TEXT, "version": TEXT, "kind": TEXT},
        required=("version", "kind"),
        description="A kind as Kubernetes names it; core kinds have no group.",
    )
    kind = {"$ref": REFERENCE.format(model="GroupVersionKind")}
    formatter, group = schemas.pop("FormatterSpec"), schemas.pop("FieldGroupSpec")
    mapping, policy = schemas.pop("SpecMappingSpec"), schemas.pop("GvkPolicySpec")
    native = schemas.pop("WorkloadPolicySpec")["properties"]
    name = {"type": "string", "pattern": "^[A-Za-z0-9]+(-+[A-Za-z0-9]+)*$", "maxLength": 200}
    # Ours alone: nobody else has groups for hierarchical policies.
    group["properties"].pop("native")
    schemas["Formatter"] = _named(formatter, name)
    schemas["FieldGroup"] = _named(group, name)
    schemas["Mapping"] = {**mapping, "title": "Mapping"}
    rules = policy["properties"]["rules"]
    text = {**TEXT, "minLength": 1, "maxLength": DESCRIPTION_MAX_CHARS}
    content = {"description": text, "rules": rules, "mode": policy["properties"]["mode"]}
    place = {"workloadType": kind, "scope": SCOPE, **_UNITS}
    schemas["Policy"] = _object(
        {"name": TEXT, **place, **content}, required=("workloadType", "scope")
    )
    schemas["PolicyUpdate"] = _object({"resourceVersion": TEXT, **content})
    schemas["WorkloadTypeAndScope"] = _object(place, required=("workloadType", "scope"))
    schemas["MergePatch"] = {
        "type": "object",
        "description": "A JSON merge patch: maps merge by name, null removes.",
    }
    schemas["MappingReference"] = _object({"workloadType": kind}, required=("workloadType",))
    schemas["MappingPatch"] = {
        **schemas["MergePatch"],
        "properties": {"workloadType": kind},
        "required": ["workloadType"],
    }
    schemas["FieldInfoRequest"] = _object(
        {
            "workloadType": kind,
            "fieldsRef": {
                "type": "array",
                "items": _object({"field": TEXT, "specSelector": TEXT}, required=("field",)),
            },
        }
    )
    body = {section: native[section] for section in ("defaults", "rules", "imposedAssets")}
    meta = {"name": TEXT, "resourceVersion": TEXT, "scope": SCOPE, **_UNITS}
    schemas["NativePolicy"] = _object(
        {"meta": _object(meta, required=("scope",)), "policy": _object(body)},
        required=("meta",),
    )
    schemas["NativePolicyPatch"] = _object(
        {
            "meta": _object(meta, required=("scope",)),
            "policy": _object(body),
            "reset": {
                "type": "array",
                "items": TEXT,
                "description": "Fields or sections whose default and rules are taken away first.",
            },
        },
        required=("meta",),
    )
    schemas["Submission"] = {
        "description": "One object of Kubernetes, an array of them, or a List.",
        "type": ["object", "array"],
    }
    schemas |= _answers(kind)
    return dict(sorted(schemas.items()))


def _answers(kind: Json) -> dict[str, Json]:
    """What comes back. Documents that others wrote wrongly are shown as they are."""
    identity = {"id": TEXT, "scope": TEXT}
    shown: dict[str, Json] = {
        "FormatterAnswer": _open({**identity, "name": TEXT, **_ENVELOPE}, "id", "scope", "name"),
        "FieldGroupAnswer": _open({**identity, "name": TEXT, **_ENVELOPE}, "id", "scope", "name"),
        "MappingAnswer": _open({**identity, "workloadType": kind, **_ENVELOPE}, "id", "scope"),
        "PolicyAnswer": _open(
            {**identity, "name": TEXT, "workloadType": kind, **_ENVELOPE}, "id", "scope", "name"
        ),
        "NativePolicyAnswer": _open(
            {"type": TEXT, "meta": {"type": "object"}, "policy": {"type": "object"}},
            *("type", "meta", "policy"),
        ),
        "Minimal": _open(
            {
                "fields": {"type": "object", "description": "field, selector, item selector"},
                "specSelectors": {"type": "object", "additionalProperties": TEXT},
            },
            *("fields", "specSelectors"),
        ),
        "FieldInfo": _open({"breakdown": {"type": "object"}}, "breakdown"),
        "Effective": _open(
            {"effectiveRules": {"type": "array", "items": {"type": "object"}}}, "effectiveRules"
        ),
        "Reports": {"type": "array", "items": {"type": "object"}},
        "Description": {"type": "object"},
        "Problem": _object(
            {"code": {"type": "integer"}, "message": TEXT, "details": TEXT},
            required=("code", "message", "details"),
        ),
    }
    for schema, key in (
        ("Formatter", "formatters"),
        ("FieldGroup", "fieldGroups"),
        ("Mapping", "mappings"),
        ("Policy", "policies"),
    ):
        shown[f"{schema}List"] = _list(key, {"$ref": REFERENCE.format(model=f"{schema}Answer")})
    shown["NativePolicyList"] = _list("policies", {"type": "object"})
    shown["DecisionList"] = _list("decisions", {"type": "object"})
    shown["DecisionList"]["properties"]["replica"] = TEXT
    return shown


def _named(schema: Json, name: Json) -> Json:
    return {
        **schema,
        "properties": {**schema["properties"], "name": name},
        "required": ["name"],
    }


def _object(
    properties: Mapping[str, Any], *, required: Sequence[str] = (), description: str = ""
) -> Json:
    schema: Json = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    if required:
        schema["required"] = list(required)
    return {**schema, "description": description} if description else schema


def _open(properties: Mapping[str, Any], *required: str) -> Json:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _list(key: str, item: Json) -> Json:
    properties = {key: {"type": "array", "items": item}, "next": {"type": ["string", "null"]}}
    return _open(properties, key, "next")
