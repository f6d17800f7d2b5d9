"""Fields: named values at a place, and how they are found there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.errors import SpecError
from webhook.mapping.plain import parse_ref
from webhook.model.documents import Document, FieldGroupSpec, GroupField
from webhook.model.names import did_you_mean
from webhook.model.values import FieldType

KEY_VALUE = "KeyValue"
KEY_VALUE_MAP = "KeyValueMap"

# Words in the path of a value that make it a secret to us, whatever its author says.
_SECRET_WORDS = ("secret", "password", "passwd", "token", "credential", "apikey", "privatekey")
_SECRET_NAMES = frozenset(
    {"env", "envfrom", "args", "command", "annotations", "data", "stringdata"}
)


@dataclass(frozen=True, slots=True)
class Field:
    """
    One field of a group, compiled.

    *ref* leads from the place to the value. With *is_map*, the value is an object and an
    enforcement names one of its keys; *type* is then that of the entries. *type* is None where
    the group's author gave none. Hierarchical policies name the *native* ones. The other parts
    are as in catalog/field_groups.yaml.
    """

    name: str
    type: FieldType | None
    ref: tuple[str, ...]
    is_map: bool = False
    native: bool = False
    sensitive: bool = False
    having: str | None = None
    not_below: str | None = None
    not_above: str | None = None
    not_with: str | None = None
    not_without: str | None = None
    removes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    # Of an itemized field: the attribute that identifies an item; its attributes by path, those
    # of them that policies may rule, and names of which an item has only one.
    item_key: str = ""
    attributes: Mapping[str, Field] = field(default_factory=dict)
    ruled: frozenset[str] = frozenset()
    exclusive: tuple[str, ...] = ()
    format: str | None = None


class RefMismatchError(Exception):
    """On the way to a field stands something that is no object. *ref* leads to it."""

    def __init__(self, ref: tuple[str, ...], value: Any) -> None:
        super().__init__()
        self.ref = ref
        self.value = value


def read_ref(node: Any, ref: tuple[str, ...]) -> Any:
    """
    The value at *ref* below *node*; None where it is absent.

    Raises:
        RefMismatchError: something on the way is neither absent nor an object.
    """
    for depth, token in enumerate(ref):
        if node is None:
            return None
        if not isinstance(node, dict):
            raise RefMismatchError(ref[:depth], node)
        node = node.get(token)
    return node


@dataclass(frozen=True, slots=True)
class CompiledGroup:
    """
    A field group: its name as its author spells it, and its fields by name.

    The fields of a *native* group are for hierarchical policies only.
    """

    name: str
    fields: Mapping[str, Field]
    native: bool = False


def compile_group(document: Document) -> CompiledGroup:
    """
    Compile one FieldGroup.

    Raises:
        ExceptionGroup: of SpecError, one for each problem.
    """
    spec: FieldGroupSpec = document.spec
    problems: list[SpecError] = []
    fields: dict[str, Field] = {}
    for name, group_field in spec.fields.items():
        path = f"spec.fields.{name}"
        try:
            fields[name] = _compile_field(name, group_field, path, builtin=document.builtin)
        except SpecError as error:
            problems.append(error)
    for name in spec.item_selectors:
        problems.append(
            SpecError(f"spec.itemSelectors.{name}", "item selectors are not available yet")
        )
    if spec.native and not document.builtin:
        problems.append(SpecError("spec.native", "is for built-in groups only"))
    if problems:
        raise ExceptionGroup("the field group is wrong", problems)
    return CompiledGroup(spec.name or document.name, fields, spec.native)


def _compile_field(name: str, group_field: GroupField, path: str, *, builtin: bool) -> Field:
    if group_field.formatter not in (None, KEY_VALUE, KEY_VALUE_MAP):
        hint = did_you_mean(group_field.formatter, (KEY_VALUE, KEY_VALUE_MAP))
        raise SpecError(f"{path}.formatter", f"only built-in formatters are available yet{hint}")
    if group_field.item_selectors:
        raise SpecError(f"{path}.itemSelectors", "item selectors are not available yet")
    if group_field.type is FieldType.ITEMIZED and not builtin:
        raise SpecError(f"{path}.type", "itemized is a type of native fields only")
    ref: tuple[str, ...] = (name,)
    if group_field.spec_ref is not None:
        try:
            ref = parse_ref(group_field.spec_ref)
        except ValueError as error:
            raise SpecError(f"{path}.specRef", str(error)) from error
    return Field(
        name=name,
        type=group_field.type
        or (FieldType.STRING if group_field.formatter == KEY_VALUE_MAP else None),
        ref=ref,
        is_map=group_field.formatter == KEY_VALUE_MAP,
        sensitive=group_field.sensitive or (not builtin and is_secret(ref, group_field.type)),
        having=group_field.having,
        not_below=group_field.not_below,
        not_above=group_field.not_above,
        not_with=group_field.not_with,
        not_without=group_field.not_without,
        removes=tuple(group_field.removes),
        texts=tuple(group_field.texts),
        format=group_field.format,
    )


def is_secret(names: Iterable[str], field_type: FieldType | None = None) -> bool:
    """Whether a value at a path of *names* must not be printed. Booleans tell nothing."""
    if field_type is FieldType.BOOLEAN:
        return False
    plain = [name.lower().replace("-", "").replace("_", "") for name in names]
    return any(
        name in _SECRET_NAMES or any(word in name for word in _SECRET_WORDS) for name in plain
    )


def native_groups(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, CompiledGroup]:
    """
    The field groups of the native workload types, by name in lower case, from the rows of the
    catalogue.

    Each type has one for its `spec`, named like the type, and one for each other selector:
    `distributed-master`.
    """
    paths: dict[str, list[str]] = {}
    for path, row in rows.items():
        for workload_type, selectors in row["workloads"].items():
            for selector in selectors:
                name = workload_type if selector == "spec" else f"{workload_type}-{selector}"
                paths.setdefault(name, []).append(path)
    return {
        name.lower(): CompiledGroup(
            name, {path: _native_field(path, rows[path], beside) for path in beside}
        )
        for name, beside in paths.items()
    }


def _native_field(path: str, row: Mapping[str, Any], beside: Collection[str]) -> Field:
    """One field of a group with the fields *beside*; what it says of others is left out."""
    related = {
        key: row[key]
        for key in ("notBelow", "notAbove", "notWith", "notWithout")
        if row.get(key) in beside
    }
    return Field(
        name=path,
        type=FieldType(row["type"]),
        ref=tuple(path.split(".")),
        native=True,
        sensitive=row.get("sensitive", False),
        item_key=row.get("key", ""),
        attributes={
            name: _attribute(name, attribute, sensitive=row.get("sensitive", False))
            for name, attribute in row.get("attributes", {}).items()
        },
        ruled=frozenset(row.get("ruledAttributes", ())),
        exclusive=tuple(row.get("exclusive", ())),
        not_below=related.get("notBelow"),
        not_above=related.get("notAbove"),
        not_with=related.get("notWith"),
        not_without=related.get("notWithout"),
    )


def _attribute(name: str, row: Mapping[str, Any], *, sensitive: bool) -> Field:
    """One attribute of the items of a native field, read from the item."""
    return Field(
        name=name,
        type=FieldType(row["type"]),
        ref=tuple(name.split(".")),
        native=True,
        sensitive=row.get("sensitive", sensitive),
    )
