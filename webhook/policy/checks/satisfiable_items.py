"""What can't hold at once of the items of one field, whatever the workload is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.mapping.fields import read_ref
from webhook.model.decision import NOT_SHOWN, Rule
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.values import FieldType, read_value
from webhook.policy.checks.satisfiable import VALUE_RULES, Contradiction, of_slot, told
from webhook.policy.effective import overlaid
from webhook.policy.native.agreement import (
    conditions_of_items,
    read_attributes,
    refused_attributes,
    with_sections,
)
from webhook.policy.native.conditions import NO_SOURCE
from webhook.policy.rules.enforcement import IMPOSED, Entry
from webhook.policy.rules.item_names import EXCLUDE, value_attribute
from webhook.policy.rules.judge import judge, show

_GIVING = (Rule.SET, Rule.DEFAULT)

# What is said of an attribute: of the item with a key, or of every item.
_Place = tuple[str | None, str]


def of_items(kind: GroupVersionKind, entries: Sequence[Entry]) -> Iterator[Contradiction]:
    """Items of one field that policies give, against what is asked of all items."""
    spoken: dict[_Place, list[Entry]] = {}
    for entry in entries:
        # No default item excludes itself.
        if entry.slot.attribute != EXCLUDE and not is_whole_item(entry):
            attribute = entry.slot.attribute or value_attribute(entry.field) or ""
            at = replace(entry, slot=replace(entry.slot, attribute=attribute))
            spoken.setdefault((entry.slot.key, attribute), []).append(at)
    filled = {
        attribute: entry
        for (_, attribute), rules in spoken.items()
        for entry in sorted(rules, key=lambda entry: entry.enforcement.rank, reverse=True)
        if entry.enforcement.rule is Rule.DEFAULT
    }
    ranked = sorted(entries, key=lambda entry: entry.enforcement.rank)
    by_item: dict[tuple[Rule, str | None], Entry] = {}
    for entry in ranked:
        if is_whole_item(entry) and entry.enforcement.rule in (*_GIVING, Rule.IMPOSED):
            # Of a GVKPolicy's default and a WorkloadPolicy's the former counts.
            by_item.setdefault((entry.enforcement.rule, entry.slot.key), entry)
    counting = {id(entry) for entry in by_item.values()}
    given = [entry for entry in entries if id(entry) in counting]
    sets = {entry.slot.key: entry for entry in given if entry.enforcement.rule is Rule.SET}
    for item in given:
        rules = _rules_of(item.slot.key, spoken)
        yield from _of_item(item, rules, filled)
        yield from _not_as_set(item, rules, sets)
        if kind in NATIVE_TYPE_OF or item.field.name == "tolerations":
            yield from _incomplete_item(item, given, filled, rules)
    yield from _of_presence(entries, given)
    for place in spoken:
        yield from _of_value(place, spoken)


def is_whole_item(entry: Entry) -> bool:
    """Whether *entry* is about items as such, and not about a value of theirs."""
    is_item = entry.slot.attribute in (None, IMPOSED)
    return is_item and entry.enforcement.type is FieldType.ITEMIZED


def _rules_of(key: str | None, spoken: Mapping[_Place, Sequence[Entry]]) -> dict[str, list[Entry]]:
    """The rules on each attribute of the item with *key*: its own, then those of all items."""
    found: dict[str, list[Entry]] = {}
    for wanted in dict.fromkeys((key, None)):
        for (of_key, attribute), rules in spoken.items():
            if of_key == wanted:
                found.setdefault(attribute, []).extend(rules)
    return found


def _of_value(place: _Place, spoken: Mapping[_Place, Sequence[Entry]]) -> Iterator[Contradiction]:
    """What is said of one attribute of an item, by slots of it and of all items."""
    key, attribute = place
    rules = sorted(_rules_of(key, spoken)[attribute], key=lambda entry: entry.enforcement.rank)
    for found in of_slot(spoken[place][0].slot, rules):
        if key is None or any(entry.slot.key == key for entry in found.involved):
            yield found


def _of_presence(entries: Sequence[Entry], given: Sequence[Entry]) -> Iterator[Contradiction]:
    """Items that are blocked, and given or required all the same."""
    asking = [entry for entry in entries if is_whole_item(entry)]
    blocked = {e.slot.key: e for e in asking if e.enforcement.rule is Rule.BLOCKED}
    required = [entry for entry in asking if entry.enforcement.rule is Rule.REQUIRED]
    closed = next((e for e in asking if e.enforcement.rule is Rule.CAN_ADD), None)
    known = {item.slot.key for item in given}
    for entry in (*given, *required):
        rule = entry.enforcement.rule
        other = blocked.get(entry.slot.key) or blocked.get(None)
        if other is not None:
            what = "blocked" if other.slot.key is not None else "all items are blocked"
            told_as = "an imposed asset" if rule is Rule.IMPOSED else str(rule)
            slot = replace(entry.slot, attribute=None)
            yield Contradiction(slot, f"{told_as}, but {what}", (entry, other))
    for entry in required if closed is not None else ():
        is_given = entry.slot.key in known if entry.slot.key is not None else bool(known)
        if closed is not None and not is_given:
            text = "required, but canAdd: false lets nobody add it, and no policy gives it"
            yield Contradiction(entry.slot, text, (entry, closed))


def _not_as_set(
    item: Entry, rules: Mapping[str, Sequence[Entry]], sets: Mapping[str | None, Entry]
) -> Iterator[Contradiction]:
    """An imposed asset, which nobody may change, and another value that a policy sets in it."""
    if item.enforcement.rule is not Rule.IMPOSED:
        return
    setting = [
        (attribute, entry.enforcement.value, entry)
        for attribute, of_attribute in rules.items()
        for entry in of_attribute
        if entry.enforcement.rule is Rule.SET
    ]
    if item.slot.key in sets:
        entry = sets[item.slot.key]
        setting += [
            (attribute, value, entry)
            for attribute in item.field.attributes
            if (value := read_ref(entry.enforcement.value, tuple(attribute.split(".")))) is not None
        ]
    for attribute, wanted, entry in setting:
        value = read_ref(item.enforcement.value, tuple(attribute.split(".")))
        field = item.field.attributes[attribute]
        value_type = field.type or FieldType.STRING
        is_whole = entry.slot.attribute is None
        if value is None and not is_whole:
            continue  # It is filled in.
        if value is None or read_value(value, value_type) != read_value(wanted, value_type):
            shown = "" if field.sensitive else f" {show(wanted)}"
            yield Contradiction(
                replace(item.slot, attribute=attribute),
                f"set{shown}, but an imposed asset stays as it is",
                (entry, item),
            )


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
            if rule.enforcement.rule not in VALUE_RULES:
                continue  # A set takes the place of what the item says.
            if value is None and item.enforcement.rule is Rule.SET:
                continue  # The submitter may have given it.
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
    item: Entry,
    given: Sequence[Entry],
    filled: dict[str, Entry],
    judging: dict[str, list[Entry]],
) -> Iterator[Contradiction]:
    """An item that would be refused in every workload that it is added to."""
    content: Any = item.enforcement.value
    what = str(item.enforcement.rule)
    if item.enforcement.rule is Rule.SET:
        what = "set, which adds the item where it is missing"
        # It is added with all that a default item of its key gives.
        for other in given:
            if other.slot.key == item.slot.key and other is not item:
                content = overlaid(item.field, other.enforcement.value, content)
    values = {
        attribute: value
        for attribute in item.field.attributes
        if (value := read_ref(content, tuple(attribute.split(".")))) is not None
    }
    defaults = {
        attribute: entry.enforcement.value
        for attribute, entry in filled.items()
        if attribute not in values
    }
    set_values = {
        attribute: rule.enforcement.value
        for attribute, rules in judging.items()
        for rule in rules
        if rule.enforcement.rule is Rule.SET
    }
    values = {**values, **set_values}
    defaults = {name: value for name, value in defaults.items() if name not in set_values}
    refused = refused_attributes(item.field, values, defaults)
    kept = {name: value for name, value in defaults.items() if name not in refused}
    sources = item.field.exclusive
    if sources and all(read_ref(content, (name,)) is None for name in sources):
        text = f"{what}: {NO_SOURCE} (one of {', '.join(sources)})"
        yield Contradiction(item.slot, text, (item,))
    readings, _ = read_attributes(item.field, {**values, **kept})
    for condition in conditions_of_items(item.field):
        finding = condition.check(with_sections(readings))
        at = condition.field if finding is None else finding.field or condition.field
        told_already = any(e.enforcement.rule is Rule.REQUIRED for e in judging.get(at, ()))
        if finding is not None and not (told_already and at not in readings):
            yield Contradiction(
                replace(item.slot, attribute=at),
                f"{what}: {told(finding)}",
                (item, *[filled[name] for name in kept]),
            )
