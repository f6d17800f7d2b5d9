"""What can't hold at once at one slot, whatever the workload is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.mapping.fields import Field
from webhook.model.decision import NOT_SHOWN, Rule
from webhook.model.values import FieldType
from webhook.policy.native.conditions import Finding
from webhook.policy.native.shape import Leaf, limits_of
from webhook.policy.rules.enforcement import Entry, Slot
from webhook.policy.rules.judge import judge, show, step_from
from webhook.policy.rules.rule_values import FLAGS

# Rules that a value keeps or breaks.
VALUE_RULES = frozenset(
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
    judging = [entry for entry in entries if entry.enforcement.rule in VALUE_RULES]
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
