"""Enforcements: one rule on one field, compiled, and where it acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.fields import Field, is_secret
from webhook.model.decision import NOT_SHOWN, Rule, Source
from webhook.model.documents import Document
from webhook.model.kinds import GroupVersionKind
from webhook.model.scopes import Scope
from webhook.model.values import FieldType, ValueTypeError, as_value, read_value

# Rules that give a literal value; `set` judges as well.
MUTATING = frozenset({Rule.SET, Rule.DEFAULT, Rule.IMPOSED})

# Stands as the attribute in the slot of an imposed item, which is beside a default item of its
# key and not instead of it.
IMPOSED = "imposedAssets"
# Rules that ask for a value, and don't only judge the one that is there.
ASKING = frozenset({Rule.REQUIRED, Rule.CAN_EDIT})
# Rules that judge nothing.
WRITING = frozenset({Rule.DEFAULT, Rule.DEFAULT_FROM, Rule.IMPOSED})


@dataclass(frozen=True, slots=True)
class ItemChoice:
    """Some items of a list: by which selector, and its parameters as JSON with sorted keys."""

    selector: str
    given: str = "{}"

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = json.loads(self.given)
        return params

    def __str__(self) -> str:
        shown = [
            f"{name}={NOT_SHOWN if is_secret([name]) else _shown(value)}"
            for name, value in self.params.items()
        ]
        return " ".join([self.selector, *shown])


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True, slots=True)
class Slot:
    """
    Where enforcements act: a field at the places of a selector, for map fields one *key* of it.

    Of an itemized field the key is that of an item, and *attribute* is one of all its items. Of
    a list, *items* are those that it is about; None means all. With
    *native*, the field is one that only hierarchical policies name there. Two slots are the same
    if all parts are; that is the identity of a GVKPolicy's rule.
    """

    selector: str
    field: str
    key: str | None = None
    attribute: str | None = None
    native: bool = False
    items: ItemChoice | None = None

    def __str__(self) -> str:
        name = self.field if self.attribute is None else f"{self.field}.{self.attribute}"
        if self.items is not None:
            name = f"{name}({self.items})"
        return name if self.key is None else f"{name}[{self.key}]"


@dataclass(frozen=True, slots=True)
class Derivation:
    """Where a `defaultFrom` takes its value from: another field of the place, times *factor*."""

    field: str
    ref: tuple[str, ...]
    type: FieldType
    factor: Fraction


@dataclass(frozen=True, slots=True)
class Enforcement:
    """
    One rule with its value.

    *value* is what is written or said to people, *meaning* what is compared (`read_value` of it;
    for options and pattern a tuple, for defaultFrom a `Derivation`, for an item its key). *type*
    is that of the value at the slot.
    """

    rule: Rule
    value: Any
    meaning: Any
    type: FieldType
    source: Source
    # Of a default item that several scopes gave together: whose each attribute is.
    origins: Mapping[str, Source] = field(default_factory=dict)

    def source_of(self, attribute: str) -> Source:
        """The policy that gives *attribute* of a default item; the item's own for others."""
        return self.origins.get(attribute, self.source)

    @property
    def rank(self) -> tuple[bool, int]:
        """Of two that write to one place the lower counts: GVKPolicy first, then the narrower."""
        return self.source.kind != "GVKPolicy", -self.source.scope.breadth


def derive(rule: Enforcement, source: Any) -> Enforcement:
    """
    What the defaultFrom *rule* gives where *source* is the value that it is taken from.

    Its value is None where the field can't hold it.

    Raises:
        ValueTypeError: the source is no number.
    """
    derivation: Derivation = rule.meaning
    value = as_value(
        read_value(source, derivation.type) * derivation.factor, rule.type, like=source
    )
    try:
        meaning = None if value is None else read_value(value, rule.type)
    except ValueTypeError:
        value = meaning = None  # A number with more digits than we read.
    return replace(rule, value=value, meaning=meaning)


@dataclass(frozen=True, slots=True)
class Entry:
    """One enforcement at one slot. *path* is where its document says so."""

    slot: Slot
    field: Field
    enforcement: Enforcement
    path: str
    allow_override: bool = False


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """One policy document for one kind."""

    document: Document
    kind: GroupVersionKind
    scope: Scope
    unit: str
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...] = ()
    # Where the kind has its parts; tells which selectors lead to one place.
    mapping: CompiledMapping | None = field(default=None, compare=False, repr=False)

    @property
    def is_enforced(self) -> bool:
        """Whether it acts; with `mode: Warn` or `Audit` it is only tried."""
        return bool(self.document.spec.mode == "Enforce")

    @property
    def is_flat(self) -> bool:
        """Whether it is a GVKPolicy."""
        return self.document.kind == "GVKPolicy"

    @property
    def source(self) -> Source:
        return Source(
            policy=self.document.name,
            scope=self.scope,
            unit=self.unit,
            kind=self.document.kind,
            revision=self.document.revision,
        )
