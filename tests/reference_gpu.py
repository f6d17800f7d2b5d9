"""The page of the reference on the documents about GPUs, made from their CRDs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.reference_parts import code, table
from webhook.catalog.crds import build_crds

Schema = Mapping[str, Any]

# Each with the kind that has the same fields for the whole cluster, if there is one.
KINDS = {
    "GpuReactivePolicy": "ClusterGpuReactivePolicy",
    "AutomationStrategy": "ClusterAutomationStrategy",
    "GlobalConfiguration": "",
    "PolicyEvaluation": "",
    "GpuRecommendation": "",
}
# What is read and kept for others: its fields mean nothing here.
UNUSED = ("Kept as it is;", "Not written here")
# What all of Kubernetes has in one form.
LABEL_SELECTOR = "a label selector"
CONDITIONS = "conditions, as Kubernetes has them"


def gpu_page() -> Iterator[str]:
    yield "# Documents about GPUs"
    yield ""
    yield (
        "Every field of the kinds behind [GPUs by use](../gpu.md), as their CRDs have them. A field"
        " with a default may be left out; *needed* ones may not. What a field is for, and how the"
        " numbers go together, says that page."
    )
    for kind, wide in KINDS.items():
        yield ""
        yield from kind_part(kind, wide)


def kind_part(kind: str, wide: str) -> Iterator[str]:
    crd = crd_of(kind)
    yield f"## {kind}"
    yield ""
    where = "in a namespace" if crd["spec"]["scope"] == "Namespaced" else "for the whole cluster"
    schema = schema_of(crd)
    yield f"`{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}`, {where}."
    yield ""
    yield schema["description"]
    yield ""
    rows = list(rows_of(schema))
    yield from fields_table(rows)
    if wide:
        others = [row for row in rows_of(schema_of(crd_of(wide))) if row not in rows]
        yield ""
        yield f"### {wide}"
        yield ""
        yield f"For the whole cluster. As {code(kind)}" + (
            ", but for these fields:" if others else "."
        )
        if others:
            yield ""
            yield from fields_table(others)


def fields_table(rows: list[list[str]]) -> Iterator[str]:
    yield from table(["Field", "Type", "Default", "Values", "Meaning"], rows)


def crd_of(kind: str) -> Schema:
    return next(crd for crd in build_crds() if crd["spec"]["names"]["kind"] == kind)


def schema_of(crd: Schema) -> Schema:
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def rows_of(schema: Schema, path: str = "") -> Iterator[list[str]]:
    """A row for each field below *schema*; of two with the same fields, the second refers."""
    seen: list[tuple[str, Any]] = []
    for name, field in schema.get("properties", {}).items():
        here = f"{path}{name}"
        # Those that every object has.
        if here in ("apiVersion", "kind", "metadata"):
            continue
        inner, step = inside(field)
        twin = next((other for other, one in seen if one == shape(inner)), None)
        is_needed = name in schema.get("required", ())
        yield row_of(here, field, twin, is_needed=is_needed)
        is_used = not field["description"].startswith(UNUSED)
        if inner.get("properties") and is_used and not is_standard(inner) and twin is None:
            seen.append((here, shape(inner)))
            yield from rows_of(inner, f"{here}{step}.")


def row_of(path: str, field: Schema, twin: str | None, *, is_needed: bool) -> list[str]:
    same = f" The same fields as {code(twin)}." if twin else ""
    # That of an object is made of those of its fields.
    default = None if field.get("type") == "object" else field.get("default")
    return [
        code(path),
        type_of(field),
        "*needed*" if is_needed else "" if default is None else code(shown(default)),
        values_of(field),
        f"{field['description']}{same}",
    ]


def inside(field: Schema) -> tuple[Schema, str]:
    """The schema whose fields stand below *field*, and what leads there."""
    step = ""
    while True:
        if isinstance(field.get("items"), dict):
            field, step = field["items"], f"{step}[]"
        elif isinstance(field.get("additionalProperties"), dict):
            field, step = field["additionalProperties"], f"{step}.*"
        else:
            return field, step


def shape(node: Any) -> Any:
    """*node* without what is written for people."""
    if isinstance(node, dict):
        return {key: shape(value) for key, value in node.items() if key != "description"}
    return node


def is_standard(schema: Schema) -> bool:
    return bool({"matchLabels", "lastTransitionTime"} & schema["properties"].keys())


def type_of(field: Schema) -> str:
    if isinstance(field.get("items"), dict):
        if "lastTransitionTime" in field["items"].get("properties", {}):
            return CONDITIONS
        return f"list of {type_of(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {type_of(field['additionalProperties'])}"
    if "matchLabels" in field.get("properties", {}):
        return LABEL_SELECTOR
    if field.get("format") == "date-time":
        return "time"
    return str(field["type"])


def values_of(field: Schema) -> str:
    inner, _ = inside(field)
    parts = []
    if "enum" in inner:
        parts.append(", ".join([code(value) if value else "empty" for value in inner["enum"]]))
    if "minimum" in inner:
        parts.append(f"≥ {inner['minimum']}")
    if "maximum" in inner:
        parts.append(f"≤ {inner['maximum']}")
    if "maxItems" in field:
        parts.append(f"at most {field['maxItems']}")
    parts += [one["message"] for one in field.get("x-kubernetes-validations", ())]
    return "; ".join(parts)


def shown(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)
