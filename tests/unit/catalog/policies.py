"""Policies on native workloads, compiled one by one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tests.builders import make_snapshot, make_workload_policy
from webhook.catalog import native_rows_of
from webhook.errors import SpecError
from webhook.model.documents import parse_document
from webhook.model.values import FieldType
from webhook.policy.compile.compiler import compile_policy
from webhook.store.snapshot import Snapshot

TYPES = (
    "workspace",
    "training",
    "distributed",
    "inference",
    "distributedInference",
    "nimService",
)


@cache
def builtin() -> Snapshot:
    """What holds before anybody has written a policy."""
    return make_snapshot()


def problems_of(workload_type: str, **spec: Any) -> list[tuple[str, str]]:
    """Path and text of everything that is wrong with a policy; none if it compiles."""
    document = parse_document(make_workload_policy(workload_type=workload_type, **spec), "test")
    try:
        compile_policy(document, builtin().mappings)
    except ExceptionGroup as group:
        return [(error.path, error.problem) for error in _errors(group)]
    return []


def _errors(group: ExceptionGroup[Exception]) -> list[SpecError]:
    return [error for error in group.exceptions if isinstance(error, SpecError)]


def tree(path: str, value: Any) -> dict[str, Any]:
    """`{a: {b: value}}` for the path `a.b`."""
    for part in reversed(path.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def legal_value(workload_type: str, path: str) -> Any:
    """A value that the field *path* may have in an object of *workload_type*."""
    row = native_rows_of(workload_type)[path]
    if row["type"] == FieldType.ITEMIZED:
        return [{row["key"]: legal_of(row["attributes"][row["key"]])}]
    return legal_of(row)


def legal_of(row: Mapping[str, Any]) -> Any:
    """A value within what a row, or an attribute of one, says."""
    if row.get("enum"):
        return row["enum"][0]
    match FieldType(row["type"]):
        case FieldType.BOOLEAN:
            return True
        case FieldType.INTEGER | FieldType.NUMBER:
            return row.get("min", 1)
        case FieldType.QUANTITY:
            return "1Gi"
        case FieldType.STRINGS:
            return ["a"]
        case FieldType.OBJECT:
            return {"a": "b"}
        case _:
            return "0644" if row.get("pattern", "").startswith("0") else "a"
