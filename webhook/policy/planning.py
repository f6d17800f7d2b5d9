"""Entries in force to one plan for each kind, and the plans of all branches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from webhook.mapping.compiled import CompiledMapping, CompiledSelector
from webhook.mapping.fields import Field, read_ref
from webhook.mapping.patterns import EACH
from webhook.mapping.programs import Expression
from webhook.mapping.uncovering import WrittenPath, uncovering
from webhook.model.decision import Rule
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.scopes import Branch
from webhook.model.values import FieldType
from webhook.policy.effective import age, effective_entries, holds_at, overlaid
from webhook.policy.plans import (
    MAIN_CONTAINER,
    SCALARS,
    FieldPlan,
    ItemPlan,
    Plan,
    PreviewPlan,
    SelectorPlan,
)
from webhook.policy.rules.enforcement import (
    IMPOSED,
    MUTATING,
    WRITING,
    CompiledPolicy,
    Enforcement,
    Entry,
    Slot,
)
from webhook.policy.rules.item_names import EXCLUDE, EXCLUDED_AT, value_attribute


def build_plan(mapping: CompiledMapping, policies: Sequence[CompiledPolicy]) -> Plan:
    """Compile the effective policy of one kind: everything that a review would else work out."""
    slots: dict[Slot, list[Entry]] = {}
    for effective in effective_entries(policies):
        slots.setdefault(effective.entry.slot, []).append(effective.entry)
    # By selector, and by how far above its places.
    fields: dict[tuple[str, int], list[FieldPlan]] = {}
    computed: dict[tuple[str, int], list[FieldPlan]] = {}
    itemized: dict[tuple[str, int], dict[str, list[Entry]]] = {}
    for slot, entries in slots.items():
        field = entries[0].field
        at = (slot.selector, field.home.above)
        if field.type is FieldType.ITEMIZED:
            itemized.setdefault(at, {}).setdefault(slot.field, []).extend(entries)
        else:
            plan = _field_plan(mapping.selectors[slot.selector], slot, entries)
            (computed if plan.is_computed else fields).setdefault(at, []).append(plan)
    items = {
        at: [_item_plan(mapping.selectors[at[0]], entries) for entries in of_place.values()]
        for at, of_place in itemized.items()
    }
    if mapping.kind in NATIVE_TYPE_OF:
        _add_unruled(mapping, items)
    parts = [
        SelectorPlan(
            selector,
            tuple(fields.get(at, ())),
            tuple(items.get(at, ())),
            at[1],
            tuple(computed.get(at, ())),
        )
        for name, selector in mapping.selectors.items()
        for at in sorted({*fields, *items, *computed})
        if at[0] == name
    ]
    return Plan(
        mapping=mapping,
        selectors=tuple(parts),
        consulted=tuple(dict.fromkeys([policy.source for policy in policies])),
        jq_sources=_jq_sources(mapping, parts),
        expressions=_expressions(parts),
        uncovers=uncovering(
            mapping, _written(parts), [mapping.selectors[n] for n in _needed(mapping, parts)]
        ),
    )


def _expressions(parts: Iterable[SelectorPlan]) -> tuple[Expression, ...]:
    """All that the computed fields may ask, in a fixed order: one program for all objects."""
    asked = {
        expression for part in parts for plan in part.computed for expression in plan.expressions
    }
    return tuple(sorted(asked))


def _add_unruled(mapping: CompiledMapping, items: dict[tuple[str, int], list[ItemPlan]]) -> None:
    """
    Itemized fields of a native kind that no policy concerns.

    What a submitter excludes there is taken out all the same: the stored object is what runs.
    """
    for name, selector in mapping.selectors.items():
        plans = items.setdefault((name, 0), [])
        ruled = {plan.field.name for plan in plans}
        plans += [
            ItemPlan(field)
            for field in selector.fields.values()
            if field.type is FieldType.ITEMIZED and field.name not in ruled
        ]


def _jq_sources(mapping: CompiledMapping, parts: Iterable[SelectorPlan]) -> tuple[str, ...]:
    queries = [mapping.selectors[name].query for name in _needed(mapping, parts)]
    return tuple(dict.fromkeys([query.source for query in queries if query.plain is None]))


def _needed(mapping: CompiledMapping, parts: Iterable[SelectorPlan]) -> list[str]:
    """The selectors whose places *parts* depend on."""
    wanted = dict.fromkeys([part.selector.name for part in parts])
    if MAIN_CONTAINER in mapping.selectors and any(part.asks_for_main for part in parts):
        wanted[MAIN_CONTAINER] = None
    for name in list(wanted):
        parent = mapping.selectors[name].parent
        while parent is not None:
            wanted[parent] = None
            parent = mapping.selectors[parent].parent
    return list(wanted)


# In a pod spec, the lists of what mounts its volumes.
_MOUNTING = ("containers", "initContainers")


def _written(parts: Iterable[SelectorPlan]) -> Iterable[WrittenPath]:
    """Where *parts* may write."""
    for part in parts:
        selector, above = part.selector.name, part.above
        for plan in part.fields:
            given = (*plan.sets[:1], *plan.defaults[:1])
            if given or plan.derived:
                is_plain = all(type(rule.value) in SCALARS for rule in given)
                is_open = not is_plain or bool(plan.field.home.codec)
                yield WrittenPath(selector, plan.ref, above, is_open)
        for item_plan in part.items:
            field = item_plan.field
            # What a submitter excludes is taken out whatever policies say, and the rest moves up.
            yield WrittenPath(selector, field.ref, above, is_open=True)
            if field.home.items == "volumes":
                for name in _MOUNTING:
                    yield WrittenPath(selector, (name, EACH, "volumeMounts"), above, is_open=True)
        if any(item_plan.items for item_plan in part.items):
            # What is excluded of them is remembered there.
            yield WrittenPath(None, EXCLUDED_AT)
        # A formatter may write anything in its element.
        if any(plan.sets or plan.defaults for plan in part.computed):
            yield WrittenPath(selector, (EACH,), above, is_open=True)


def _field_plan(selector: CompiledSelector, slot: Slot, entries: list[Entry]) -> FieldPlan:
    field = entries[0].field
    server = selector.server_name(field)
    filled = server in selector.server_defaults
    ordered = sorted([entry.enforcement for entry in entries], key=lambda item: item.rank)
    sets = tuple([item for item in ordered if item.rule is Rule.SET])
    defaults = tuple([item for item in ordered if item.rule is Rule.DEFAULT])
    return FieldPlan(
        slot=slot,
        field=field,
        # A formatter's key is no name on a path.
        ref=field.ref if slot.key is None or field.formatter else (*field.ref, slot.key),
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
        filled=selector.server_defaults.get(server, ()),
        own_items=selector.server_items.get(server, ()),
        copy_of=_ref_beside(selector, server, slot.key),
    )


def _item_plan(selector: CompiledSelector, entries: list[Entry]) -> ItemPlan:
    field = entries[0].field
    judges: dict[str, list[Enforcement]] = {}
    keyed: dict[tuple[str, str], list[Enforcement]] = {}
    defaults: dict[str, Enforcement] = {}
    items: dict[Any, Enforcement] = {}
    sets: dict[Any, Enforcement] = {}
    set_attributes: dict[str, Enforcement] = {}
    presence: list[tuple[str | None, Enforcement]] = []
    can_add: Enforcement | None = None
    locked: dict[str, Enforcement] = {}
    imposed: dict[str, Enforcement] = {}
    derived: dict[str, Enforcement] = {}
    kept: Enforcement | None = None
    for entry in entries:
        enforcement, key, attribute = entry.enforcement, entry.slot.key, entry.slot.attribute
        is_whole = attribute is None and enforcement.type is FieldType.ITEMIZED
        # What is said of the value of an item stands at the slot of the item.
        name = attribute or value_attribute(field) or ""
        if enforcement.rule is Rule.CAN_ADD:
            can_add = enforcement
        elif enforcement.rule is Rule.LOCKED:
            locked |= dict.fromkeys(enforcement.meaning, enforcement)
        elif attribute == IMPOSED:
            imposed[enforcement.meaning] = enforcement
        elif attribute == EXCLUDE:
            kept = enforcement
        elif is_whole and enforcement.rule is Rule.DEFAULT:
            _keep_first(items, enforcement.meaning, enforcement)
        elif is_whole and enforcement.rule is Rule.SET:
            sets[enforcement.meaning] = enforcement
        elif is_whole:
            presence.append((key, enforcement))
        elif enforcement.rule is Rule.DEFAULT:
            _keep_first(defaults, name, enforcement)
        elif enforcement.rule is Rule.DEFAULT_FROM:
            derived[name] = enforcement
        elif key is not None:
            keyed.setdefault((key, name), []).append(enforcement)
        else:
            if enforcement.rule is Rule.SET:
                set_attributes[name] = enforcement
            judges.setdefault(name, []).append(enforcement)
    # Imposed last, in place of a default item of the same key; nobody may change them.
    given = {**{key: item for key, item in items.items() if key not in imposed}, **imposed}
    for attribute, enforcement in set_attributes.items():
        sets = {k: _overlaid(field, item, enforcement, attribute) for k, item in sets.items()}
        given = {k: _overlaid(field, item, enforcement, attribute) for k, item in given.items()}
    return ItemPlan(
        field=field,
        items=tuple(
            [
                _overlaid(field, item, sets[key]) if key in sets and key not in imposed else item
                for key, item in given.items()
            ]
        ),
        defaults=defaults,
        judges={attribute: tuple(rules) for attribute, rules in judges.items()},
        derived=derived,
        can_add=can_add,
        own_items=selector.server_items.get(selector.server_name(field), ()),
        locked={**locked, **imposed},
        kept=kept,
        sets=sets,
        set_attributes=set_attributes,
        keyed={place: tuple(rules) for place, rules in keyed.items()},
        presence=tuple(presence),
    )


def _keep_first(found: dict[Any, Enforcement], name: Any, enforcement: Enforcement) -> None:
    """Of a GVKPolicy's default and a WorkloadPolicy's the former counts."""
    if name not in found or enforcement.rank < found[name].rank:
        found[name] = enforcement


def _overlaid(
    field: Field, item: Enforcement, over: Enforcement, attribute: str = ""
) -> Enforcement:
    """The default *item* with the attributes, or the one *attribute*, that *over* sets."""
    value = over.value
    for part in reversed(attribute.split(".") if attribute else ()):
        value = {part: value}
    given = [n for n in field.attributes if read_ref(value, tuple(n.split("."))) is not None]
    origins = {**item.origins, **dict.fromkeys(given, over.source)}
    return replace(item, value=overlaid(field, item.value, value), origins=origins)


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

    @property
    def kinds(self) -> Set[GroupVersionKind]:
        """The kinds that some policy concerns, be it one that is only tried."""
        return self._by_kind.keys()

    def policies_of(self, kind: GroupVersionKind) -> Sequence[CompiledPolicy]:
        """The policies in force that concern *kind* on any branch, the oldest first."""
        return [policy for policy in self._by_kind.get(kind, ()) if policy.is_enforced]

    def plan(self, kind: GroupVersionKind, branch: Branch) -> Plan | None:
        """The plan for *kind* on *branch*; None where it has no mapping or no policy."""
        policies = self._by_kind.get(kind, ())
        is_native = kind in NATIVE_TYPE_OF and kind in self._mappings
        if not policies and not is_native:
            return None
        held = tuple([i for i, policy in enumerate(policies) if holds_at(policy, branch)])
        plan = self._plans.get((kind, held))
        if plan is None and (held or is_native):
            plan = _with_previews(self._mappings[kind], [policies[i] for i in held])
            self._plans[kind, held] = plan
        return plan


def _with_previews(mapping: CompiledMapping, policies: Sequence[CompiledPolicy]) -> Plan:
    """The plan of those *policies* that are in force, and one for each that is only tried."""
    plan = build_plan(mapping, [policy for policy in policies if policy.is_enforced])
    previews = [
        PreviewPlan(policy.document.spec.mode, policy.source, build_plan(mapping, [policy]))
        for policy in policies
        if not policy.is_enforced
    ]
    return replace(plan, previews=tuple(previews)) if previews else plan
