"""
Scopes to the policy in force: which enforcements hold for one kind on one branch.

WorkloadPolicy: the rules of a field stand at one level of a branch; the narrowest default wins;
what the system level says gives way to any other. GVKPolicy: a rule has an identity, its slot;
the broader one holds unless it allows the narrower to replace it. Between the two, all rules
hold, and of two defaults the GVKPolicy's counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any

from webhook.mapping.compiled import CompiledMapping, CompiledSelector
from webhook.mapping.fields import Field, read_ref
from webhook.mapping.homes import NO_HOME
from webhook.mapping.patterns import EACH
from webhook.mapping.programs import Expression
from webhook.mapping.server_items import ItemPattern
from webhook.mapping.uncovering import Uncovering, WrittenPath, uncovering
from webhook.model.decision import Rule, Source
from webhook.model.documents import Document
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.pointer import to_pointer
from webhook.model.scopes import Branch, Scope
from webhook.model.values import FieldType
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
from webhook.policy.rules.kept import KeptValues

# The selector that finds the main container of each pod template.
MAIN_CONTAINER = "mainContainer"


# As JSON has them. A value of these types is not shared with the policy when it is written.
_SCALARS = frozenset({str, int, float, bool})


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

    @property
    def is_computed(self) -> bool:
        """Whether it is read with the help of jq."""
        return self.field.formatter is not None or self.slot.items is not None

    @property
    def expressions(self) -> Iterable[Expression]:
        """What it may ask jq."""
        formatter = self.field.formatter
        if formatter is not None:
            yield from [e for e in (formatter.get, formatter.set) if e is not None]
        if self.slot.items is not None:
            selector = self.field.item_selectors[self.slot.items.selector]
            yield selector.query
            if formatter is not None:
                yield formatter.selecting(selector)

    @cached_property
    def rules(self) -> tuple[Enforcement, ...]:
        """
        All that a value is judged by.

        A default judges nothing, but it needs a value of the right type as well.
        """
        return (*self.sets[:1], *self.judges, *self.defaults[:1])

    @cached_property
    def absent_rules(self) -> tuple[Enforcement, ...]:
        """Those of *rules* that an absent value can break."""
        return tuple([rule for rule in self.rules if rule.rule in (Rule.REQUIRED, Rule.SET)])

    @cached_property
    def is_plain(self) -> bool:
        """Whether what rules look at is simply what stands at *ref*."""
        return self.field.home is NO_HOME and self.field.having is None and not self.own_items

    @cached_property
    def is_simple(self) -> bool:
        """Whether to write it is to put a text, a number or a flag at *ref*, and nothing else."""
        return (
            self.is_plain
            and len(self.filled) != 1
            and not self.field.removes
            and all(type(rule.value) in _SCALARS for rule in (*self.sets[:1], *self.defaults[:1]))
        )

    @cached_property
    def told(self) -> dict[Rule, object]:
        """A memo of the writer: what is told of the value that each rule writes, if simple."""
        return {}

    @cached_property
    def parents(self) -> tuple[str, ...]:
        """*ref* without its last token, which is *key*."""
        return self.ref[:-1]

    @cached_property
    def key(self) -> str:
        """The last token of *ref*."""
        return self.ref[-1]

    @cached_property
    def kept(self) -> KeptValues | None:
        """
        Values that were found to keep all rules; None where that depends on more than the value.

        What else `is_related` asks of a set is not among them.
        """
        depends = not self.is_plain or self.copy_of is not None or self.derived is not None
        return None if depends else KeptValues()

    def is_related(self, enforcement: Enforcement) -> bool:
        """Whether another value of the place could stand against what *enforcement* writes."""
        field, meaning = self.field, enforcement.meaning
        listed = field.item_not_without
        return bool(
            field.home.special
            or field.not_below
            or field.not_above
            or (meaning is True and field.not_without)
            or (meaning is False and (field.not_with or field.not_with_item))
            or (listed is not None and listed.item in (meaning or ()))
        )

    @cached_property
    def pointer(self) -> str:
        """*ref* as the end of a JSON pointer."""
        return to_pointer(self.ref)

    @cached_property
    def is_set_related(self) -> bool:
        return any(self.is_related(rule) for rule in self.sets[:1])

    @cached_property
    def is_default_related(self) -> bool:
        return any(self.is_related(rule) for rule in self.defaults[:1])

    @cached_property
    def minimum(self) -> Enforcement | None:
        return next((rule for rule in self.judges if rule.rule is Rule.MIN), None)

    def read_as(self, current: object) -> object:
        """What *current* counts as: an absent value is the one that the API server fills in."""
        if current is None and len(self.filled) == 1:
            return self.filled[0]
        return current


def is_own_item(item: Any, patterns: tuple[ItemPattern, ...]) -> bool:
    """Whether Kubernetes itself added *item*."""
    return any(pattern.matches(item) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class ItemPlan:
    """
    Everything that is enforced on one itemized field.

    *items* are its default items, *defaults*, *derived* (defaultFrom) and *judges* those of
    attributes of all items, by attribute. *locked* are keys, each with the rule that says so.

    A GVKPolicy can set items, by key (*sets*, which *items* of their key have taken in), and an
    attribute of all of them (*set_attributes*, also among *judges*). It can judge an attribute of
    the item with a key (*keyed*, by both), and require or block items: *presence*, each with the
    key that it is about, None for any item.
    """

    field: Field
    items: tuple[Enforcement, ...] = ()
    defaults: Mapping[str, Enforcement] = dataclass_field(default_factory=dict)
    judges: Mapping[str, tuple[Enforcement, ...]] = dataclass_field(default_factory=dict)
    derived: Mapping[str, Enforcement] = dataclass_field(default_factory=dict)
    can_add: Enforcement | None = None
    # Items that Kubernetes itself adds: no policy looks at them.
    own_items: tuple[ItemPattern, ...] = ()
    locked: Mapping[str, Enforcement] = dataclass_field(default_factory=dict)
    # A rule that no default item may be excluded.
    kept: Enforcement | None = None
    sets: Mapping[str, Enforcement] = dataclass_field(default_factory=dict)
    set_attributes: Mapping[str, Enforcement] = dataclass_field(default_factory=dict)
    keyed: Mapping[tuple[str, str], tuple[Enforcement, ...]] = dataclass_field(default_factory=dict)
    presence: tuple[tuple[str | None, Enforcement], ...] = ()


# What writes sorts by this: a share of a GPU before whole ones, which it rules out, then by rank.
Rank = tuple[bool, tuple[bool, int]]


@dataclass(frozen=True)
class SelectorPlan:
    """
    What is enforced at the places of one selector, or *above* so many levels of them: 1 for the
    pod templates of pod specs.
    """

    selector: CompiledSelector
    fields: tuple[FieldPlan, ...]
    items: tuple[ItemPlan, ...] = ()
    above: int = 0
    # Fields that are read with the help of jq.
    computed: tuple[FieldPlan, ...] = ()

    @cached_property
    def setting(self) -> tuple[tuple[Rank, FieldPlan], ...]:
        """The fields that are set, each with the rank of what counts."""
        return tuple([(_rank(plan, plan.sets[0]), plan) for plan in self.fields if plan.sets])

    @cached_property
    def defaulting(self) -> tuple[tuple[Rank, FieldPlan], ...]:
        """The fields that have a default, each with the rank of what counts."""
        return tuple(
            [(_rank(plan, plan.defaults[0]), plan) for plan in self.fields if plan.defaults]
        )

    @cached_property
    def judging(self) -> tuple[FieldPlan, ...]:
        """The fields that a value is judged at."""
        return tuple([plan for plan in self.fields if plan.rules])


def _rank(plan: FieldPlan, enforcement: Enforcement) -> Rank:
    return plan.field.home.special != "gpuShare", enforcement.rank


@dataclass(frozen=True, slots=True)
class PreviewPlan:
    """One policy that is only tried, as if it alone were in force."""

    mode: str
    source: Source
    plan: Plan


@dataclass(frozen=True, slots=True)
class Plan:
    """
    The effective policy of one kind on one branch, ready to run over an object.

    *consulted* are the policies in force; without any, the plan is there for its *previews*, or for
    what the workload API itself asks of native kinds.
    """

    mapping: CompiledMapping
    selectors: tuple[SelectorPlan, ...]
    consulted: tuple[Source, ...]
    # The queries of its selectors that only jq can answer, parents included.
    jq_sources: tuple[str, ...] = ()
    previews: tuple[PreviewPlan, ...] = ()
    # What its computed fields may ask jq.
    expressions: tuple[Expression, ...] = ()
    # Whether what it writes can be, or hold, places of its own selectors.
    uncovers: Uncovering = Uncovering.NOTHING

    @property
    def may_ask_late(self) -> bool:
        """Whether jq may have to be asked when something is written already."""
        asks_again = bool(self.jq_sources) and self.uncovers is not Uncovering.NOTHING
        return asks_again or bool(self.expressions)

    @property
    def is_enforced(self) -> bool:
        """Whether a policy in force stands behind it."""
        return bool(self.consulted)


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
    fields = [plan.field for part in parts for plan in (*part.fields, *part.computed)]
    fields += [plan.field for part in parts for plan in part.items]
    # A share of a GPU names the main container.
    if MAIN_CONTAINER in mapping.selectors and any(
        field.home.main_only or field.home.special == "gpuShare" for field in fields
    ):
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
                is_plain = all(type(rule.value) in _SCALARS for rule in given)
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
