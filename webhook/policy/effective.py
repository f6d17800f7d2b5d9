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
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any

from webhook.mapping.compiled import CompiledMapping, CompiledSelector, ItemPattern
from webhook.mapping.fields import Field
from webhook.model.decision import Rule, Source
from webhook.model.documents import Document
from webhook.model.kinds import GroupVersionKind
from webhook.model.scopes import Branch, Scope
from webhook.model.values import FieldType
from webhook.policy.enforcement import (
    IMPOSED,
    MUTATING,
    WRITING,
    CompiledPolicy,
    Enforcement,
    Entry,
    Slot,
)


@dataclass(frozen=True)
class FieldPlan:
    """
    Everything that is enforced at one slot.

    *ref* leads from the place to the value. Of *sets* and *defaults* the first counts; *derived*
    fills what they leave absent; canEdit
    compares with *standard*, the first of both. *filled* are the values that the API server fills
    in before it asks us: there a default or `required` never acts, and `blocked` and `canEdit`
    accept those values, and if there is only one, a field that is absent has it. Items of
    *own_items* are Kubernetes' own, and no rule looks at them. The API server fills the field with
    what stands at *copy_of*, where that is not None: `blocked` accepts an equal value.
    """

    slot: Slot
    field: Field
    ref: tuple[str, ...]
    sets: tuple[Enforcement, ...] = ()
    defaults: tuple[Enforcement, ...] = ()
    judges: tuple[Enforcement, ...] = ()
    derived: Enforcement | None = None
    standard: Enforcement | None = None
    filled: tuple[object, ...] = ()
    own_items: tuple[ItemPattern, ...] = ()
    copy_of: tuple[str, ...] | None = None

    @cached_property
    def label(self) -> str:
        """The field as messages name it."""
        return str(self.slot)

    @cached_property
    def rules(self) -> tuple[Enforcement, ...]:
        """
        All that a value is judged by.

        A default judges nothing, but it needs a value of the right type as well.
        """
        return (*self.sets[:1], *self.judges, *self.defaults[:1])

    @cached_property
    def minimum(self) -> Enforcement | None:
        return next((rule for rule in self.judges if rule.rule is Rule.MIN), None)

    def read_as(self, current: object) -> object:
        """What *current* counts as: an absent value is the one that the API server fills in."""
        if current is None and len(self.filled) == 1:
            return self.filled[0]
        return current


@dataclass(frozen=True, slots=True)
class ItemPlan:
    """
    Everything that is enforced on one itemized field.

    *items* are its default items, *defaults* and *judges* those of attributes of all items, by
    attribute. *locked* are keys, each with the rule that says so.
    """

    field: Field
    items: tuple[Enforcement, ...] = ()
    defaults: Mapping[str, Enforcement] = dataclass_field(default_factory=dict)
    judges: Mapping[str, tuple[Enforcement, ...]] = dataclass_field(default_factory=dict)
    can_add: Enforcement | None = None
    locked: Mapping[str, Enforcement] = dataclass_field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SelectorPlan:
    """What is enforced at the places of one selector."""

    selector: CompiledSelector
    fields: tuple[FieldPlan, ...]
    items: tuple[ItemPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The effective policy of one kind on one branch, ready to run over an object."""

    mapping: CompiledMapping
    selectors: tuple[SelectorPlan, ...]
    consulted: tuple[Source, ...]
    # The queries of its selectors that only jq can answer, parents included.
    jq_sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Effective:
    """One entry in force, and what it overrode."""

    entry: Entry
    overrides: tuple[Entry, ...] = ()


def place_of(entry: Entry) -> tuple[str, tuple[str, ...]]:
    """
    Selector and path from its places to where *entry* acts.

    Two slots may be one place, if a field has one name for each kind of policy.
    """
    slot = entry.slot
    key = () if slot.key is None else (slot.key,)
    attribute = () if slot.attribute is None else ("[]", slot.attribute)
    return slot.selector, (*entry.field.ref, *key, *attribute)


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
        holder = min(claims, key=lambda item: age(item[0].document))[0]
        overridden = tuple([entry for policy, entry in group if policy is not holder])
        for policy, entry in claims:
            if policy is holder:
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
    merged: Any = {}
    for entry in reversed(entries):
        narrow = entry.enforcement.value
        exclusive = entry.field.exclusive
        if any(name in narrow for name in exclusive):
            # A variable has one source: the narrower one takes the place of the other.
            merged = {k: v for k, v in merged.items() if k not in exclusive or k in narrow}
        merged = _merge(merged, narrow)
    return replace(entries[0], enforcement=replace(entries[0].enforcement, value=merged))


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


def build_plan(mapping: CompiledMapping, policies: Sequence[CompiledPolicy]) -> Plan:
    """Compile the effective policy of one kind: everything that a review would else work out."""
    slots: dict[Slot, list[Entry]] = {}
    for effective in effective_entries(policies):
        slots.setdefault(effective.entry.slot, []).append(effective.entry)
    by_selector: dict[str, list[FieldPlan]] = {}
    itemized: dict[str, dict[str, list[Entry]]] = {}
    for slot, entries in slots.items():
        selector = mapping.selectors[slot.selector]
        plans = by_selector.setdefault(slot.selector, [])
        if entries[0].field.type is FieldType.ITEMIZED:
            of_selector = itemized.setdefault(slot.selector, {})
            of_selector.setdefault(slot.field, []).extend(entries)
        else:
            plans.append(_field_plan(selector, slot, entries))
    return Plan(
        mapping=mapping,
        selectors=tuple(
            [
                SelectorPlan(
                    selector,
                    tuple(by_selector[name]),
                    tuple([_item_plan(entries) for entries in itemized.get(name, {}).values()]),
                )
                for name, selector in mapping.selectors.items()
                if name in by_selector
            ]
        ),
        consulted=tuple(dict.fromkeys([policy.source for policy in policies])),
        jq_sources=_jq_sources(mapping, by_selector),
    )


def _jq_sources(mapping: CompiledMapping, names: Iterable[str]) -> tuple[str, ...]:
    wanted = dict.fromkeys(names)
    for name in list(wanted):
        parent = mapping.selectors[name].parent
        while parent is not None:
            wanted[parent] = None
            parent = mapping.selectors[parent].parent
    queries = [mapping.selectors[name].query for name in wanted]
    return tuple(dict.fromkeys([query.source for query in queries if query.plain is None]))


def _field_plan(selector: CompiledSelector, slot: Slot, entries: list[Entry]) -> FieldPlan:
    field = entries[0].field
    filled = field.name in selector.server_defaults
    ordered = sorted([entry.enforcement for entry in entries], key=lambda item: item.rank)
    sets = tuple([item for item in ordered if item.rule is Rule.SET])
    defaults = tuple([item for item in ordered if item.rule is Rule.DEFAULT])
    return FieldPlan(
        slot=slot,
        field=field,
        ref=field.ref if slot.key is None else (*field.ref, slot.key),
        sets=sets,
        # A default can't act where the API server has filled the field; `lint` says so.
        defaults=() if filled else defaults,
        judges=tuple(
            [
                item
                for item in ordered
                if item.rule not in (*MUTATING, *WRITING)
                and not (filled and item.rule is Rule.REQUIRED)
            ]
        ),
        derived=next(iter([item for item in ordered if item.rule is Rule.DEFAULT_FROM]), None),
        standard=next(iter((*sets, *defaults)), None),
        filled=selector.server_defaults.get(field.name, ()),
        own_items=selector.server_items.get(field.name, ()),
        copy_of=_ref_beside(selector, field.name, slot.key),
    )


def _item_plan(entries: list[Entry]) -> ItemPlan:
    judges: dict[str, list[Enforcement]] = {}
    defaults: dict[str, Enforcement] = {}
    items: list[Enforcement] = []
    can_add: Enforcement | None = None
    locked: dict[str, Enforcement] = {}
    imposed: dict[str, Enforcement] = {}
    for entry in entries:
        enforcement, attribute = entry.enforcement, entry.slot.attribute
        if enforcement.rule is Rule.CAN_ADD:
            can_add = enforcement
        elif enforcement.rule is Rule.LOCKED:
            locked |= dict.fromkeys(enforcement.meaning, enforcement)
        elif attribute == IMPOSED:
            imposed[enforcement.meaning] = enforcement
        elif attribute is None:
            items.append(enforcement)
        elif enforcement.rule is Rule.DEFAULT:
            defaults[attribute] = enforcement
        else:
            judges.setdefault(attribute, []).append(enforcement)
    return ItemPlan(
        field=entries[0].field,
        # Imposed last, in place of a default item of the same key; nobody may change them.
        items=(*[item for item in items if item.meaning not in imposed], *imposed.values()),
        defaults=defaults,
        judges={attribute: tuple(rules) for attribute, rules in judges.items()},
        can_add=can_add,
        locked={**locked, **imposed},
    )


def _ref_beside(
    selector: CompiledSelector, field_name: str, key: str | None
) -> tuple[str, ...] | None:
    other = selector.server_copies.get(field_name)
    if other is None:
        return None
    ref = selector.fields[other].ref
    return ref if key is None else (*ref, key)


class PolicySet:
    """
    Every policy in force, by kind.

    A plan is built at its first use and kept: it depends on nothing that changes. There is one
    for each kind and set of units that some policy names, however many namespaces there are.
    """

    def __init__(
        self,
        mappings: Mapping[GroupVersionKind, CompiledMapping],
        policies: Iterable[CompiledPolicy],
    ) -> None:
        self._mappings = mappings
        self._by_kind: dict[GroupVersionKind, list[CompiledPolicy]] = {}
        for policy in sorted(policies, key=lambda policy: age(policy.document)):
            self._by_kind.setdefault(policy.kind, []).append(policy)
        self._plans: dict[tuple[GroupVersionKind, tuple[int, ...]], Plan] = {}

    def policies_of(self, kind: GroupVersionKind) -> Sequence[CompiledPolicy]:
        """The policies that concern *kind* on any branch, the oldest first."""
        return self._by_kind.get(kind, ())

    def plan(self, kind: GroupVersionKind, branch: Branch) -> Plan | None:
        """The plan for *kind* on *branch*; None where it has no mapping or no policy."""
        policies = self._by_kind.get(kind)
        if policies is None:
            return None
        held = tuple([i for i, policy in enumerate(policies) if holds_at(policy, branch)])
        plan = self._plans.get((kind, held))
        if plan is None and held:
            plan = build_plan(self._mappings[kind], [policies[i] for i in held])
            self._plans[kind, held] = plan
        return plan
