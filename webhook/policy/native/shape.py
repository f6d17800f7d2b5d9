"""
The shape of a native workload type: the tree of its fields, made from the catalogue's rows.

A row says at which roles of a type its field stands; dots in its path are sections. The
attributes of an itemized field are a tree of their own, one for each item.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from webhook.mapping.fields import LIMITS, Field
from webhook.model.pointer import Path
from webhook.model.values import FieldType, read_value
from webhook.policy.native.conditions import (
    AGREEMENTS,
    CONDITIONS,
    Agreement,
    Condition,
    Finding,
    Reading,
)

Rows: TypeAlias = Mapping[str, Mapping[str, Any]]

# Where the roles of a workload type are; a role whose name is not here is no role of the type.
_ROLES: Mapping[str, Mapping[str, Path]] = {
    "distributed": {"worker": ("spec",), "master": ("masterSpec",)},
    "distributedInference": {
        "spec": ("spec",),
        "leader": ("spec", "leader"),
        "worker": ("spec", "worker"),
    },
}
_ONE_ROLE: Mapping[str, Path] = {"spec": ("spec",)}

# What an object of any kind has beside its spec; Kubernetes judges it.
_ENVELOPE = ("apiVersion", "kind", "metadata", "status")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value. *name* is what conditions call it, *field* what people do."""

    name: str
    field: str
    type: FieldType
    sensitive: bool = False
    options: tuple[str, ...] = ()
    least: Reading | None = None
    most: Reading | None = None
    max_length: int | None = None
    pattern: re.Pattern[str] | None = None
    # Whether any of these is there: most fields have none.
    is_limited: bool = False

    def judge(self, meaning: Any) -> tuple[str, Finding] | None:
        """What is wrong with a value of the right type, and the name of the limit it breaks."""
        if self.options:
            elements = meaning if isinstance(meaning, tuple) else (meaning,)
            bad = sum([element not in self.options for element in elements])
            if bad:
                accepted = f"one of {', '.join(self.options)}"
                return "enum", Finding("not an allowed value", accepted, bad)
        if self.least is not None and meaning < self.least.meaning:
            missing = self.least.meaning - meaning
            return "min", Finding("below the minimum", self._range(), missing)
        if self.most is not None and meaning > self.most.meaning:
            excess = meaning - self.most.meaning
            return "max", Finding("above the maximum", self._range(), excess)
        if self.max_length is not None and len(meaning) > self.max_length:
            excess = len(meaning) - self.max_length
            return "maxLength", Finding("too long", f"at most {self.max_length} characters", excess)
        if self.pattern is not None and not self.pattern.fullmatch(meaning):
            accepted = f"text that matches {self.pattern.pattern}"
            return "pattern", Finding("has the wrong form", accepted)
        return None

    def _range(self) -> str:
        bounds = (("≥", self.least), ("≤", self.most))
        return " and ".join([f"{sign} {bound.value}" for sign, bound in bounds if bound])


@dataclass(slots=True)
class Section:
    """An object with known fields. *name* is ``""`` for a role or an item."""

    name: str
    field: str
    children: dict[str, Node] = dataclasses.field(default_factory=dict)

    def names(self) -> Iterator[str]:
        """What conditions may call: every value, section and role below this section."""
        for child in self.children.values():
            if isinstance(child, (Leaf, Section, Role)):
                yield child.name
            if isinstance(child, Section):
                yield from child.names()

    def find(self, name: str) -> Node | None:
        """What the dotted *name* leads to from here."""
        node: Node | None = self
        for part in name.split("."):
            node = node.children.get(part) if isinstance(node, Section) else None
        return node


@dataclass(slots=True)
class Items:
    """A list of objects that are told apart by *key*."""

    field: str
    key: str
    item: Section
    # An item has one of these.
    sources: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    agreements: tuple[Agreement, ...] = ()


@dataclass(slots=True)
class Role:
    """Where a selector's fields start. An *expected* one is judged even if nothing is there."""

    name: str
    selector: str
    section: Section
    expected: bool = False
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """Not ours to judge."""


Node: TypeAlias = Leaf | Section | Items | Role | Opaque


@dataclass(frozen=True, slots=True)
class Shape:
    """
    One workload type. *roles* are by selector, *homes* the paths of each field, by the last part
    of its name.
    """

    root: Role
    roles: Mapping[str, Role]
    homes: Mapping[str, tuple[str, ...]]


# By type and identity of the rows, which are kept so that no other mapping gets theirs.
_SHAPES: dict[tuple[str, int], tuple[Rows, Shape]] = {}
_MAX_SHAPES = 64


def shape_of(workload_type: str, rows: Rows) -> Shape:
    """
    The shape of *workload_type*, compiled when the mapping *rows* is first given.

    Raises:
        ValueError: the rows don't fit together.
    """
    key = (workload_type, id(rows))
    found = _SHAPES.get(key)
    if found is None:
        if len(_SHAPES) >= _MAX_SHAPES:
            _SHAPES.clear()
        found = _SHAPES[key] = (rows, _compile(workload_type, rows))
    return found[1]


def _compile(workload_type: str, rows: Rows) -> Shape:
    paths = _ROLES.get(workload_type, _ONE_ROLE)
    root = Role("", "", Section("", ""))
    for name in _ENVELOPE:
        root.section.children[name] = Opaque()
    if workload_type == "distributed":
        same = "masterSpecSameAsWorker"
        root.section.children[same] = Leaf(same, same, FieldType.BOOLEAN)
    roles: dict[str, Role] = {}
    for selector, path in paths.items():
        parent = root if len(path) == 1 else roles["spec"]
        role = Role(str(path[-1]), selector, Section("", ""), expected=path == ("spec",))
        roles[selector] = parent.section.children[role.name] = role
    homes: dict[str, list[str]] = defaultdict(list)
    for name, row in rows.items():
        own = {**row, **row.get("differs", {}).get(workload_type, {})}
        for selector in row["workloads"].get(workload_type, ()):
            _insert(roles[selector].section, name, own, workload_type)
            home = ".".join([*map(str, paths[selector]), name])
            homes[name.rpartition(".")[2].casefold()].append(home)
    for role in (root, *roles.values()):
        role.conditions = _conditions(role.section, "", workload_type)
    return Shape(root, roles, {name: tuple(found) for name, found in homes.items()})


def _insert(section: Section, name: str, row: Mapping[str, Any], workload_type: str) -> None:
    """Put the field *name* into the tree of its role."""
    node: Node
    if row["type"] == FieldType.ITEMIZED:
        sensitive = bool(row.get("sensitive", False))
        item = Section("", name)
        key = row["key"]
        attributes = {key: {}, "exclude": {"type": "boolean"}, **row.get("attributes", {})}
        for attribute, details in attributes.items():
            # The key is how people and messages speak of an item.
            hidden = details.get("sensitive", sensitive and attribute not in (key, "exclude"))
            leaf = _leaf(attribute, f"{name}.{attribute}", {**details, "sensitive": hidden})
            _attach(item, attribute, leaf)
        node = Items(
            name,
            key,
            item,
            tuple(row.get("exclusive", ())),
            _conditions(item, name, workload_type),
            tuple(agreement for agreement in AGREEMENTS if agreement.items == name),
        )
    else:
        node = _leaf(name, name, row)
    _attach(section, name, node)


def _attach(section: Section, name: str, node: Node) -> None:
    *sections, last = name.split(".")
    for depth, part in enumerate(sections):
        below = section.children.get(part)
        if below is None:
            at = ".".join(sections[: depth + 1])
            within = f"{section.field}.{part}" if section.field else part
            below = section.children[part] = Section(at, within)
        if not isinstance(below, Section):
            raise ValueError(f"{name}: {part} is a field already")
        section = below
    if last in section.children:
        raise ValueError(f"{name} is there already")
    section.children[last] = node


def _leaf(name: str, policy_field: str, row: Mapping[str, Any]) -> Leaf:
    value_type = FieldType(row.get("type", FieldType.STRING))
    pattern = row.get("pattern")
    return Leaf(
        name=name,
        field=policy_field,
        type=value_type,
        sensitive=bool(row.get("sensitive", False)),
        options=tuple(row.get("enum", ())),
        least=_bound(row.get("min"), value_type),
        most=_bound(row.get("max"), value_type),
        max_length=row.get("maxLength"),
        pattern=None if pattern is None else re.compile(pattern),
        is_limited=any(row.get(name) is not None for name in LIMITS),
    )


def limits_of(field: Field) -> Leaf:
    """What the workload API says of the values of *field*."""
    return _leaf(field.name, field.name, {**field.limits, "type": field.type or FieldType.STRING})


def _bound(bound: Any, value_type: FieldType) -> Reading | None:
    return None if bound is None else Reading(bound, read_value(bound, value_type))


def _conditions(section: Section, items: str, workload_type: str) -> tuple[Condition, ...]:
    """The conditions on fields that are all there."""
    names = set(section.names())
    return tuple(
        condition
        for condition in CONDITIONS
        if condition.items == items
        and names.issuperset((condition.field, *condition.reads))
        and (not condition.types or workload_type in condition.types)
    )
