"""What can't hold at once at one slot, or in the items of one field, whatever the workload is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.mapping.fields import Field, read_ref
from webhook.model.decision import NOT_SHOWN, Rule
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.values import FieldType, read_value
from webhook.policy.agreement import (
    conditions_of_items,
    read_attributes,
    refused_attributes,
    with_sections,
)
from webhook.policy.conditions import NO_SOURCE, Finding
from webhook.policy.enforcement import Entry, Slot
from webhook.policy.item_names import EXCLUDE
from webhook.policy.judge import judge, show, step_from
from webhook.policy.rule_values import FLAGS
from webhook.policy.shape import Leaf, limits_of

_VALUE_RULES = frozenset(
    {Rule.REQUIRED, Rule.MIN, Rule.MAX, Rule.STEP, Rule.OPTIONS, Rule.PATTERN, Rule.BLOCKED}
)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Entries in force that can't all hold. *slot* is the one that the *text* is about."""

    slot: Slot
    text: str
    involved: tuple[Entry, ...]


# -- one slot -------------------------------------------------------------------------------


def of_slot(slot: Slot, entries: Sequence[Entry]) -> Iterator[Contradiction]:
    """*entries* by rank: of several that write, or say where steps begin, the first counts."""
    by_rule: dict[Rule, list[Entry]] = {}
    for entry in entries:
        by_rule.setdefault(entry.enforcement.rule, []).append(entry)

    def found(text: str, *involved: Entry) -> Contradiction:
        return Contradiction(slot, text, involved)

    typed = [entry for entry in entries if entry.enforcement.rule not in FLAGS]
    other_type = [entry for entry in typed if not _is_comparable(entry, typed[0])]
    if other_type:
        # Of a field whose group says no type: then each value says its own.
        yield found("the values are of different types", typed[0], other_type[0])
        return
    given = [by_rule[rule][0] for rule in (Rule.SET, Rule.DEFAULT) if rule in by_rule]
    required, fixed = by_rule.get(Rule.REQUIRED), by_rule.get(Rule.CAN_EDIT)
    derived, blocked = by_rule.get(Rule.DEFAULT_FROM), by_rule.get(Rule.BLOCKED)
    if required and blocked:
        yield found("can't be both required and blocked", required[0], blocked[0])
    if derived and blocked:
        yield found("blocked, so that its defaultFrom can't hold", derived[0], blocked[0])
    if fixed and required and not given and not derived:
        yield found(
            "canEdit: false without a default allows no value, but one is required",
            *(fixed[0], required[0]),
        )
    for low, high in itertools.product(by_rule.get(Rule.MIN, ()), by_rule.get(Rule.MAX, ())):
        if low.enforcement.meaning > high.enforcement.meaning:
            yield found(f"min {shown_value(low)} is above max {shown_value(high)}", low, high)
    minima = by_rule.get(Rule.MIN)
    base = minima[0].enforcement if minima else None
    judging = [entry for entry in entries if entry.enforcement.rule in _VALUE_RULES]
    for entry, other in itertools.product(given, judging):
        wrong = judge(other.enforcement, entry.enforcement.meaning, minimum=base)
        if wrong is not None:
            accepted = shown_accepted(entry, wrong.accepted)
            text = f"{entry.enforcement.rule} {shown_value(entry)}: {wrong.text}{accepted}"
            yield found(text, entry, other)
    yield from _without_a_value(slot, by_rule, judging, base)


def _is_comparable(one: Entry, other: Entry) -> bool:
    types = one.enforcement.type, other.enforcement.type
    return types[0] is types[1] or all(value_type.is_numeric for value_type in types)


def _without_a_value(
    slot: Slot, by_rule: dict[Rule, list[Entry]], judging: Sequence[Entry], base: Any
) -> Iterator[Contradiction]:
    """Rules, and limits of the workload API, that leave no value that could be given."""
    if not judging:
        return
    limits = limits_of(field_of(judging[0]))
    for options in by_rule.get(Rule.OPTIONS, ()):
        others = [entry for entry in judging if entry is not options]
        if not any(
            limits.judge(option) is None
            and all(judge(other.enforcement, option, minimum=base) is None for other in others)
            for option in options.enforcement.meaning
        ):
            yield Contradiction(slot, "no option satisfies the other rules", (options, *others))
    patterns = by_rule.get(Rule.PATTERN, ())
    if patterns and limits.options and Rule.OPTIONS not in by_rule:
        possible = [
            option
            for option in limits.options
            if all(judge(pattern.enforcement, option) is None for pattern in patterns)
        ]
        if not possible:
            text = f"no pattern matches a value of the field ({', '.join(limits.options)})"
            yield Contradiction(slot, text, tuple(patterns))
    for step in by_rule.get(Rule.STEP, ()):
        bounds = _bounds(by_rule, limits)
        if None in bounds:
            continue
        low, high = bounds
        first = base.meaning if base is not None else 0
        if low <= high and step_from(low, first, step.enforcement.meaning) > high:
            ends = (*by_rule.get(Rule.MIN, ()), *by_rule.get(Rule.MAX, ()))
            yield Contradiction(
                slot,
                f"step {shown_value(step)}: no step lies between the least and the most value",
                (step, *ends),
            )


def _bounds(by_rule: dict[Rule, list[Entry]], limits: Leaf) -> tuple[Any, Any]:
    """The least and the most value that rules and the workload API let the field have."""
    lows = [entry.enforcement.meaning for entry in by_rule.get(Rule.MIN, ())]
    highs = [entry.enforcement.meaning for entry in by_rule.get(Rule.MAX, ())]
    lows += [limits.least.meaning] if limits.least is not None else []
    highs += [limits.most.meaning] if limits.most is not None else []
    return max(lows, default=None), min(highs, default=None)


# -- the items of one field -----------------------------------------------------------------


def of_items(kind: GroupVersionKind, entries: Sequence[Entry]) -> Iterator[Contradiction]:
    """Items of one field that policies give, against what is asked of all items."""
    judging: dict[str, list[Entry]] = {}
    filled: dict[str, Entry] = {}
    for entry in entries:
        attribute = entry.slot.attribute
        if attribute == EXCLUDE:
            continue  # No default item excludes itself.
        if attribute is not None and entry.enforcement.rule in _VALUE_RULES:
            judging.setdefault(attribute, []).append(entry)
        elif attribute is not None and entry.enforcement.rule is Rule.DEFAULT:
            filled[attribute] = entry
    given = [
        entry
        for entry in entries
        if entry.slot.key is not None and entry.enforcement.rule in (Rule.DEFAULT, Rule.IMPOSED)
    ]
    for item in given:
        yield from _of_item(item, judging, filled)
        if kind in NATIVE_TYPE_OF or item.field.name == "tolerations":
            yield from _incomplete_item(item, filled, judging)


def _of_item(
    item: Entry, judging: dict[str, list[Entry]], filled: dict[str, Entry]
) -> Iterator[Contradiction]:
    for attribute, rules in judging.items():
        field = item.field.attributes[attribute]
        value = read_ref(item.enforcement.value, tuple(attribute.split(".")))
        if value is None and attribute in filled:
            continue  # That default is held against the rules at its own slot.
        base = next((e.enforcement for e in rules if e.enforcement.rule is Rule.MIN), None)
        for rule in rules:
            meaning = None if value is None else read_value(value, rule.enforcement.type)
            wrong = judge(rule.enforcement, meaning, minimum=base)
            if wrong is not None:
                hidden = field.sensitive or item.field.sensitive
                shown = "" if value is None else f" {NOT_SHOWN if hidden else show(value)}"
                accepted = f" ({wrong.accepted})" if wrong.accepted and not hidden else ""
                yield Contradiction(
                    replace(item.slot, attribute=attribute),
                    f"{item.enforcement.rule}{shown}: {wrong.text}{accepted}",
                    (item, rule),
                )


def _incomplete_item(
    item: Entry, filled: dict[str, Entry], judging: dict[str, list[Entry]]
) -> Iterator[Contradiction]:
    """An item that would be refused in every workload that it is added to."""
    values = {
        attribute: value
        for attribute in item.field.attributes
        if (value := read_ref(item.enforcement.value, tuple(attribute.split(".")))) is not None
    }
    defaults = {
        attribute: entry.enforcement.value
        for attribute, entry in filled.items()
        if attribute not in values
    }
    refused = refused_attributes(item.field, values, defaults)
    kept = {name: value for name, value in defaults.items() if name not in refused}
    sources = item.field.exclusive
    if sources and all(read_ref(item.enforcement.value, (name,)) is None for name in sources):
        text = f"{item.enforcement.rule}: {NO_SOURCE} (one of {', '.join(sources)})"
        yield Contradiction(item.slot, text, (item,))
    readings, _ = read_attributes(item.field, {**values, **kept})
    for condition in conditions_of_items(item.field):
        finding = condition.check(with_sections(readings))
        at = condition.field if finding is None else finding.field or condition.field
        told_already = any(e.enforcement.rule is Rule.REQUIRED for e in judging.get(at, ()))
        if finding is not None and not (told_already and at not in readings):
            yield Contradiction(
                replace(item.slot, attribute=at),
                f"{item.enforcement.rule}: {told(finding)}",
                (item, *[filled[name] for name in kept]),
            )


# -- words ----------------------------------------------------------------------------------


def told(finding: Finding) -> str:
    return f"{finding.problem} ({finding.accepted})" if finding.accepted else finding.problem


def field_of(entry: Entry) -> Field:
    """The field, or the attribute of items, that *entry* is about."""
    attribute = entry.slot.attribute
    return entry.field if attribute is None else entry.field.attributes.get(attribute, entry.field)


def is_hidden(entry: Entry) -> bool:
    return field_of(entry).sensitive


def shown_value(entry: Entry) -> str:
    """The value of *entry*, as text for people; an empty one in quotes."""
    if is_hidden(entry):
        return NOT_SHOWN
    return show(entry.enforcement.value) or '""'


def shown_accepted(entry: Entry, accepted: str) -> str:
    return f" ({accepted})" if accepted and not is_hidden(entry) else ""


def is_itemized(entry: Entry) -> bool:
    return entry.field.type is FieldType.ITEMIZED
