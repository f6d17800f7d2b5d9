"""
Scopes to the policy in force: which enforcements hold for one kind on one branch.

WorkloadPolicy: the rules of a field stand at one level of a branch; the narrowest default wins;
what the system level says gives way to any other. GVKPolicy: a rule has an identity, its slot;
the broader one holds unless it allows the narrower to replace it. Between the two, all rules
hold, and of two defaults the GVKPolicy's counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.mapping.fields import Field, read_ref
from webhook.model.decision import Rule, Source
from webhook.model.documents import Document
from webhook.model.scopes import Branch, Scope
from webhook.model.values import FieldType
from webhook.policy.rules.enforcement import (
    MUTATING,
    CompiledPolicy,
    Entry,
    Slot,
)


@dataclass(frozen=True, slots=True)
class Effective:
    """One entry in force, and what it overrode."""

    entry: Entry
    overrides: tuple[Entry, ...] = ()


def place_of(entry: Entry) -> tuple[str, tuple[str, ...]]:
    """
    Selector and path from its places to where *entry* acts.

    Two slots may be one place, if a field has one name for each kind of policy. What a formatter
    reads, and items that a selector chooses, are places of their own.
    """
    slot = entry.slot
    if entry.field.formatter is not None or slot.items is not None:
        return slot.selector, (str(slot),)
    key = () if slot.key is None else (slot.key,)
    attribute = () if slot.attribute is None else ("[]", slot.attribute)
    above = ("..",) * entry.field.home.above
    return slot.selector, (*above, *entry.field.ref, *key, *attribute)


def holds_at(policy: CompiledPolicy, branch: Branch) -> bool:
    """Whether *policy* concerns workloads on *branch*. A cluster left out is this one."""
    if not policy.scope.has_unit:
        return True
    if policy.scope is Scope.CLUSTER and not policy.unit:
        return True
    return policy.unit == branch.unit(policy.scope)


def age(document: Document) -> tuple[bool, str, str, str]:
    """Sorts the older first: by creationTimestamp, without one later, then by name and kind."""
    return not document.created, document.created, document.name, document.kind


def effective_entries(policies: Sequence[CompiledPolicy]) -> list[Effective]:
    """The entries in force where all of *policies* hold, in a fixed order."""
    hierarchical = [policy for policy in policies if not policy.is_flat]
    flat = [policy for policy in policies if policy.is_flat]
    return [*_flat_entries(flat), *_rule_entries(hierarchical), *_default_entries(hierarchical)]


def _rule_entries(policies: Sequence[CompiledPolicy]) -> Iterable[Effective]:
    """Rules of a field stand at one level. If two claim it, the older document has it."""
    for group in _by_slot(policies, lambda entry: entry.enforcement.rule not in MUTATING).values():
        wider = [item for item in group if item[0].scope is Scope.SYSTEM]
        claims = [item for item in group if item[0].scope is not Scope.SYSTEM]
        if not claims:
            # Somebody's own system policy replaces the shipped one.
            claims = [item for item in wider if not item[0].document.builtin] or wider
        # A rule that asks for nothing holds no slot: it only replaces what is shipped.
        asking = [item for item in claims if item[1].enforcement.meaning is not None]
        claims = asking or claims
        holder = min(claims, key=lambda item: age(item[0].document))[0]
        overridden = tuple([entry for policy, entry in group if policy is not holder])
        for policy, entry in claims:
            if policy is holder and asking:
                yield Effective(entry, overridden)


def _default_entries(policies: Sequence[CompiledPolicy]) -> Iterable[Effective]:
    """The narrowest default wins; in one level the older document's."""
    for group in _by_slot(policies, lambda entry: entry.enforcement.rule in MUTATING).values():
        ordered = sorted(
            group,
            key=lambda item: (
                -item[0].scope.breadth,
                item[0].document.builtin,
                age(item[0].document),
            ),
        )
        first = ordered[0][1]
        if first.enforcement.type is FieldType.ITEMIZED:
            first = _merge_items([entry for _, entry in ordered])
        yield Effective(first, tuple([entry for _, entry in ordered[1:]]))


def _merge_items(entries: Sequence[Entry]) -> Entry:
    """One default item that several scopes give: attribute by attribute the narrowest counts."""
    if entries[0].enforcement.rule is Rule.IMPOSED or len(entries) == 1:
        return entries[0]
    merged: Any = {}
    origins: dict[str, Source] = {}
    for entry in reversed(entries):
        narrow = entry.enforcement.value
        merged = overlaid(entry.field, merged, narrow)
        origins |= {
            name: entry.enforcement.source
            for name in entry.field.attributes
            if read_ref(narrow, tuple(name.split("."))) is not None
        }
    enforcement = replace(entries[0].enforcement, value=merged, origins=origins)
    return replace(entries[0], enforcement=enforcement)


def overlaid(field: Field, item: Mapping[str, Any], over: Mapping[str, Any]) -> Any:
    """An *item* of *field* with what *over* gives in the place of what it has itself."""
    exclusive = field.exclusive
    if any(name in over for name in exclusive):
        # A variable has one source: the one that counts takes the place of the other.
        item = {k: v for k, v in item.items() if k not in exclusive or k in over}
    return _merge(item, over)


def _merge(wide: Any, narrow: Any) -> Any:
    if not isinstance(wide, dict) or not isinstance(narrow, dict):
        return narrow
    return {**wide, **{key: _merge(wide.get(key), value) for key, value in narrow.items()}}


def _flat_entries(policies: Sequence[CompiledPolicy]) -> Iterable[Effective]:
    """Broad to narrow: the first holds its identity unless it lets the next replace it."""
    for group in _by_slot(policies, lambda entry: True).values():
        levels: dict[Scope, list[tuple[CompiledPolicy, Entry]]] = {}
        for policy, entry in sorted(
            group, key=lambda item: (item[0].scope.breadth, age(item[0].document))
        ):
            levels.setdefault(policy.scope, []).append((policy, entry))
        holder: list[Entry] = []
        overridden: list[Entry] = []
        for items in levels.values():
            first = items[0][0]
            entries = [entry for policy, entry in items if policy is first]
            if not holder or all(entry.allow_override for entry in holder):
                holder, replaced = entries, holder
            else:
                replaced = entries
            overridden += [*replaced, *[entry for policy, entry in items if policy is not first]]
        for entry in holder:
            yield Effective(entry, tuple(overridden))


def _by_slot(
    policies: Sequence[CompiledPolicy], wanted: Callable[[Entry], bool]
) -> dict[Slot, list[tuple[CompiledPolicy, Entry]]]:
    groups: dict[Slot, list[tuple[CompiledPolicy, Entry]]] = {}
    for policy in policies:
        for entry in policy.entries:
            if wanted(entry):
                groups.setdefault(entry.slot, []).append((policy, entry))
    return groups
