"""What is enforced on one kind, ready to run over an object: places, fields, items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any

from webhook.mapping.compiled import CompiledMapping, CompiledSelector
from webhook.mapping.fields import Field
from webhook.mapping.homes import NO_HOME
from webhook.mapping.programs import Expression
from webhook.mapping.server_items import ItemPattern
from webhook.mapping.uncovering import Uncovering
from webhook.model.decision import Rule, Source
from webhook.model.pointer import to_pointer
from webhook.policy.rules.enforcement import (
    Enforcement,
    Slot,
)
from webhook.policy.rules.kept import KeptValues

# The selector that finds the main container of each pod template.
MAIN_CONTAINER = "mainContainer"


# As JSON has them. A value of these types is not shared with the policy when it is written.
SCALARS = frozenset({str, int, float, bool})


@dataclass(frozen=True)
class FieldPlan:
    """
    Everything that is enforced at one slot.

    *ref* leads from the place to the value. Of *sets* and *defaults* the first counts; *derived*
    fills what they leave absent; canEdit compares with *standard*, the first of both. *filled* are
    the values that the API server fills in before it asks us: there a default or `required` never
    acts, and `blocked` and `canEdit` accept those values, and if there is only one, a field that is
    absent has it. Items of *own_items* are Kubernetes' own, and no rule looks at them. The API
    server fills the field with what stands at *copy_of*, where that is not None: `blocked` accepts
    an equal value.
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
            and all(type(rule.value) in SCALARS for rule in (*self.sets[:1], *self.defaults[:1]))
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

    @cached_property
    def asks_for_main(self) -> bool:
        """Whether anything here depends on which containers are main ones."""
        homes = [plan.field.home for plan in (*self.fields, *self.computed)]
        homes += [plan.field.home for plan in self.items]
        # A share of a GPU names the main container.
        return any(home.main_only or home.special == "gpuShare" for home in homes)


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
