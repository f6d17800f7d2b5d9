"""Enforcements: one rule on one field, compiled, and where it acts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from webhook.mapping.fields import Field
from webhook.model.decision import Rule, Source
from webhook.model.documents import Document
from webhook.model.kinds import GroupVersionKind
from webhook.model.scopes import Scope
from webhook.model.values import FieldType

# Rules that give a literal value; `set` judges as well.
MUTATING = frozenset({Rule.SET, Rule.DEFAULT, Rule.IMPOSED})

# Stands as the attribute in the slot of an imposed item, which is beside a default item of its
# key and not instead of it.
IMPOSED = "imposedAssets"
# Rules that judge nothing.
WRITING = frozenset({Rule.DEFAULT, Rule.DEFAULT_FROM, Rule.IMPOSED})


@dataclass(frozen=True, slots=True)
class Slot:
    """
    Where enforcements act: a field at the places of a selector, for map fields one *key* of it.

    Of an itemized field the key is that of an item, and *attribute* is one of all its items. Two
    slots are the same if all parts are; that is the identity of a GVKPolicy's rule.
    """

    selector: str
    field: str
    key: str | None = None
    attribute: str | None = None

    def __str__(self) -> str:
        name = self.field if self.attribute is None else f"{self.field}.{self.attribute}"
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

    @property
    def rank(self) -> tuple[bool, int]:
        """Of two that write to one place the lower counts: GVKPolicy first, then the narrower."""
        return self.source.kind != "GVKPolicy", -self.source.scope.breadth


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
