"""The effective policy with lineage: each value and rule, where it comes from, what it overrode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.mapping.fields import is_secret, read_ref
from webhook.model.decision import NOT_SHOWN, Rule, Source, without_credentials
from webhook.policy.effective import Effective, effective_entries, place_of
from webhook.policy.rules.enforcement import IMPOSED, MUTATING, CompiledPolicy, Entry, Slot

# What these say tells nothing of a value: yes, no, or keys of items.
_OPEN = frozenset({Rule.REQUIRED, Rule.BLOCKED, Rule.CAN_EDIT, Rule.CAN_ADD, Rule.LOCKED})
# Of two that write to one place, the rule that stands here first counts.
_RULES = tuple(Rule)


@dataclass(frozen=True, slots=True)
class Overridden:
    """An enforcement that another one keeps from acting. *value* is as printed."""

    rule: Rule
    value: Any
    source: Source


@dataclass(frozen=True, slots=True)
class Explained:
    """
    One enforcement in force, and what it overrode.

    *value* is as printed: hidden where it is a secret.
    """

    field: str
    selector: str
    rule: Rule
    value: Any
    source: Source
    slot: Slot
    overrides: tuple[Overridden, ...] = ()

    @property
    def report(self) -> dict[str, Any]:
        """
        One element of what `explain -o json` prints.

        An overridden enforcement of another rule, which nothing stands for now, has
        `{rule: value}` for its value.
        """
        return {
            "field": self.field,
            "selector": self.selector,
            "rule": self.rule.value,
            "value": self.value,
            **_where(self.source),
            "overrides": [
                {
                    **_where(other.source),
                    "value": other.value
                    if other.rule is self.rule
                    else {other.rule.value: other.value},
                }
                for other in self.overrides
            ],
        }


def _where(source: Source) -> dict[str, str]:
    return {"policy": source.policy, "scope": source.scope.value, "unit": source.unit}


def explain(policies: Sequence[CompiledPolicy]) -> list[Explained]:
    """What is in force where all of *policies* hold, by field, selector and rule."""
    groups: dict[tuple[Slot, bool, bool], list[Effective]] = {}
    for effective in effective_entries(policies):
        enforcement = effective.entry.enforcement
        is_flat = enforcement.source.kind == "GVKPolicy"
        writes = enforcement.rule in MUTATING
        # What a GVKPolicy overrides, it overrides as a whole; a WorkloadPolicy has two parts.
        key = (effective.entry.slot, is_flat, writes and not is_flat)
        groups.setdefault(key, []).append(effective)
    judging: list[Explained] = []
    writing: dict[tuple[str, tuple[str, ...]], list[Explained]] = {}
    for group in groups.values():
        for entry, explained in _explain_group(group):
            if len(set(entry.enforcement.origins.values())) > 1:
                overridden = [other for effective in group for other in effective.overrides]
                judging += _explain_merged(entry, explained, overridden)
            elif explained.rule in MUTATING:
                writing.setdefault(place_of(entry), []).append(explained)
            else:
                judging.append(explained)
    found = judging + [_first(of_place) for of_place in writing.values()]
    return sorted(found, key=lambda item: (item.field, item.selector, _order(item)))


def _explain_group(group: list[Effective]) -> Iterator[tuple[Entry, Explained]]:
    """What one policy says of a slot. What is overridden stands with its successor."""
    ordered = sorted(group, key=lambda item: _RULES.index(item.entry.enforcement.rule))
    rules = [item.entry.enforcement.rule for item in ordered]
    for index, effective in enumerate(ordered):
        entry = effective.entry
        slot = entry.slot
        if slot.attribute == IMPOSED:
            slot = replace(slot, attribute=None)
        overrides = [
            _overridden(other)
            for other in effective.overrides
            if other.enforcement.rule is entry.enforcement.rule
            or (index == 0 and other.enforcement.rule not in rules)
        ]
        yield (
            entry,
            Explained(
                field=str(slot),
                selector=slot.selector,
                rule=entry.enforcement.rule,
                value=_shown(entry),
                source=entry.enforcement.source,
                slot=slot,
                overrides=tuple(overrides),
            ),
        )


def _explain_merged(
    entry: Entry, explained: Explained, others: Sequence[Entry]
) -> Iterator[Explained]:
    """A default item that several policies gave together: each attribute has its own origin."""
    for name, source in entry.enforcement.origins.items():
        attribute = entry.field.attributes[name]
        hidden = attribute.sensitive or entry.field.sensitive
        path = tuple(name.split("."))
        values = {
            other.enforcement.source: read_ref(other.enforcement.value, path) for other in others
        }
        value = read_ref(entry.enforcement.value, path)
        yield replace(
            explained,
            field=f"{explained.field}.{name}",
            value=NOT_SHOWN if hidden else _masked(value),
            source=source,
            overrides=tuple(
                [
                    Overridden(explained.rule, NOT_SHOWN if hidden else _masked(theirs), whose)
                    for whose, theirs in values.items()
                    if theirs is not None and whose != source
                ]
            ),
        )


def _first(of_place: list[Explained]) -> Explained:
    """The one that counts of several that write to one place; it overrides the others."""
    ordered = sorted(of_place, key=_order)
    overrides = list(ordered[0].overrides)
    for other in ordered[1:]:
        overrides += [Overridden(other.rule, other.value, other.source), *other.overrides]
    return replace(ordered[0], overrides=tuple(overrides))


def _order(explained: Explained) -> tuple[int, bool, int]:
    """Sorts what counts first at one place: set before default, then as for `Enforcement.rank`."""
    source = explained.source
    return _RULES.index(explained.rule), source.kind != "GVKPolicy", -source.scope.breadth


def _overridden(entry: Entry) -> Overridden:
    return Overridden(entry.enforcement.rule, _shown(entry), entry.enforcement.source)


def _shown(entry: Entry) -> Any:
    """The value of *entry* as it may be printed."""
    if entry.enforcement.rule in _OPEN:
        return entry.enforcement.value
    value = entry.enforcement.value
    attributes = [entry.field.attributes.get(entry.slot.attribute or "")]
    if entry.slot.key is not None and isinstance(value, dict):
        # An item: all that it has is shown, or nothing.
        attributes = [a for a in entry.field.attributes.values() if read_ref(value, a.ref)]
    hidden = (
        entry.field.sensitive
        or any(attribute is not None and attribute.sensitive for attribute in attributes)
        or _holds_secret(value)
    )
    return NOT_SHOWN if hidden else _masked(value)


def _masked(value: Any) -> Any:
    match value:
        case str():
            return without_credentials(value)
        case dict():
            return {key: _masked(part) for key, part in value.items()}
        case list():
            return [_masked(part) for part in value]
        case _:
            return value


def _holds_secret(value: Any) -> bool:
    """Whether a key somewhere in *value* says that a secret stands there."""
    match value:
        case dict():
            return is_secret(value) or any(map(_holds_secret, value.values()))
        case list():
            return any(map(_holds_secret, value))
        case _:
            return False
