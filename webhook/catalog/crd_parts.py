"""What CustomResourceDefinitions are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.model.kinds import VERSION

FREE = {"x-kubernetes-preserve-unknown-fields": True}
# The keyword of rules that are written in CEL.
CEL = "x-kubernetes-validations"


def column(name: str, path: str, *, priority: int = 0) -> dict[str, Any]:
    """A column of `kubectl get`; one with a *priority* is for `-o wide`."""
    found: dict[str, Any] = {"name": name, "type": "string", "jsonPath": path}
    if priority:
        found["priority"] = priority
    return found


def define_crd(
    *,
    group: str,
    kind: str,
    plural: str,
    short: list[str],
    categories: list[str],
    namespaced: bool,
    description: str,
    properties: dict[str, Any],
    columns: list[dict[str, Any]],
    status: dict[str, Any] | None = None,
    required: Sequence[str] = (),
    rules: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """
    One CRD with a `status` subresource and the column Age after *columns*.

    *properties* are those of an object beside what every object has, *required* the needed ones
    of them; *rules* are CEL expressions on the whole object with their messages.
    """
    names: dict[str, Any] = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "categories": categories,
    }
    if short:
        names["shortNames"] = short
    schema: dict[str, Any] = {
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **properties,
            "status": status or {"type": "object", **FREE},
        },
    }
    if required:
        schema["required"] = list(required)
    if rules:
        schema[CEL] = [dict(rule) for rule in rules]
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


# --- structural schemas ---

# Of a field that has no default. None would be one: null.
_ABSENT: Any = object()

Schema = dict[str, Any]


def _with(schema: Schema, description: str, default: Any) -> Schema:
    told = {**schema, "description": description}
    return told if default is _ABSENT else {**told, "default": default}


def text(description: str, *, default: Any = _ABSENT, **more: Any) -> Schema:
    return _with({"type": "string", **more}, description, default)


def flag(description: str, *, default: Any = _ABSENT) -> Schema:
    return _with({"type": "boolean"}, description, default)


def integer(
    description: str, *, least: int = 0, default: Any = _ABSENT, form: str = "int32", **more: Any
) -> Schema:
    schema = {"type": "integer", "format": form, "minimum": least, **more}
    return _with(schema, description, default)


def time(description: str) -> Schema:
    return text(description, format="date-time")


def items(description: str, item: Schema, *, default: Any = _ABSENT, **more: Any) -> Schema:
    return _with({"type": "array", "items": item, **more}, description, default)


def entries(description: str, entry: Schema) -> Schema:
    """A map with keys of the author's."""
    return {"type": "object", "description": description, "additionalProperties": entry}


def fields(
    description: str,
    properties: Mapping[str, Schema],
    *,
    required: Sequence[str] = (),
    rules: Sequence[Mapping[str, str]] = (),
    default: Any = _ABSENT,
    atomic: bool = False,
) -> Schema:
    """An object with these fields and no others; an *atomic* one is applied whole."""
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    if required:
        schema["required"] = list(required)
    if rules:
        schema[CEL] = [dict(rule) for rule in rules]
    return _with(schema, description, default)


def rule(expression: str, message: str) -> dict[str, str]:
    """A CEL expression that must be true, and what is said where it isn't."""
    return {"rule": expression, "message": message}


AT_LEAST_1M = [rule("duration(self) >= duration('1m')", "must be at least 1 minute")]


def conditions(types: str) -> Schema:
    """Conditions, each as metav1.Condition; *types* names those that are written."""
    condition = fields(
        "One aspect of the state.",
        {
            "type": text(f"{types}.", maxLength=316),
            "status": text("True, False or Unknown.", enum=["True", "False", "Unknown"]),
            "reason": text("Why, in one word.", minLength=1, maxLength=1024),
            "message": text("Why, for people.", maxLength=32768),
            "observedGeneration": integer("The generation that this is about.", form="int64"),
            "lastTransitionTime": time("Since when the status is what it is."),
        },
        required=["type", "status", "reason", "message", "lastTransitionTime"],
    )
    return items(
        "What is known about the object.",
        condition,
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
