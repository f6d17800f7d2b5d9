"""
What can't hold at once at different slots: selectors that lead to one place, fields that bound one
another, and the conditions of the workload API between the values that policies give.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.patterns import EACH, Pattern
from webhook.model.decision import Rule
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.policy.checks.overlaps import covers, meet, patterns_of, place_patterns
from webhook.policy.checks.satisfiable import (
    Contradiction,
    is_itemized,
    of_slot,
    shown_value,
    told,
)
from webhook.policy.checks.satisfiable_items import is_whole_item
from webhook.policy.native.agreement import concerns, is_extended_resource, role_of, with_sections
from webhook.policy.native.conditions import Condition, Finding, Reading
from webhook.policy.rules.enforcement import IMPOSED, MUTATING, CompiledPolicy, Entry, Slot
from webhook.policy.rules.judge import judge
from webhook.policy.rules.mounts import MOUNTS, mount_path

_GIVING = (Rule.SET, Rule.DEFAULT)
_REFERENCE = re.compile(r"spec\.imposedAssets(?:\.(?P<role>[^\[]+))?\[(?P<index>\d+)\]")


class InForce:
    """The entries in force for one kind, by slot and by the places that slots lead to."""

    def __init__(
        self, kind: GroupVersionKind, mapping: CompiledMapping | None, entries: Iterable[Entry]
    ) -> None:
        self.kind = kind
        self.mapping = mapping
        self._order = {name: i for i, name in enumerate(mapping.selectors)} if mapping else {}
        self.by_slot: dict[Slot, list[Entry]] = {}
        for entry in entries:
            self.by_slot.setdefault(entry.slot, []).append(entry)
        for slot in self.by_slot:
            self.by_slot[slot] = self._ranked(self.by_slot[slot])
        self._places = {slot: self._patterns(slot) for slot in self.by_slot}
        # By length and last token: most places have nothing in common with most others.
        self._ends: dict[tuple[int, Any], list[tuple[Slot, Pattern]]] = {}
        for slot, patterns in self._places.items():
            for pattern in patterns:
                self._ends.setdefault((len(pattern), pattern[-1]), []).append((slot, pattern))

    def _ranked(self, entries: Iterable[Entry]) -> list[Entry]:
        return sorted(
            entries,
            key=lambda entry: (entry.enforcement.rank, self._order.get(entry.slot.selector, 0)),
        )

    def _patterns(self, slot: Slot) -> tuple[Pattern, ...]:
        """The patterns of the values at *slot*; none for a part of a list."""
        entry = self.by_slot[slot][0]
        is_whole = _is_whole(slot) and not is_itemized(entry)
        if self.mapping is None or not is_whole or slot.selector not in self.mapping.selectors:
            return ()
        return place_patterns(self.mapping.selectors[slot.selector], entry.field, slot.key)

    def entries_at(self, place: Pattern) -> list[Entry]:
        """What is in force wherever *place* stands for, by rank."""
        return self._ranked(
            [
                entry
                for slot in dict.fromkeys(
                    [slot for slot, near in self._near(place) if covers((near,), place)]
                )
                for entry in self.by_slot[slot]
            ]
        )

    def _near(self, place: Pattern) -> list[tuple[Slot, Pattern]]:
        """The patterns that may have something in common with *place*."""
        length = len(place)
        return [*self._ends.get((length, place[-1]), ()), *self._ends.get((length, EACH), ())]

    def meetings(self, slots: Iterable[Slot]) -> list[Pattern]:
        """Places that one of *slots* has in common with another slot."""
        found: dict[Pattern, None] = {}
        for slot in slots:
            for pattern in self._places.get(slot, ()):
                for other, other_pattern in self._near(pattern):
                    common = None if other == slot else meet(pattern, other_pattern)
                    if common is not None:
                        found[common] = None
        return list(found)

    def sites(self, one: Slot, other: Slot) -> list[Pattern]:
        """Places of selectors at which both slots are found."""
        if self.mapping is None:
            return []
        first, second = (self.mapping.selectors[slot.selector] for slot in (one, other))
        return [
            common
            for left in patterns_of(first)
            for right in patterns_of(second)
            if (common := meet(left, right)) is not None
        ]


def _is_whole(slot: Slot) -> bool:
    """Whether *slot* is a field, or a key of a map: no attribute, and not some items of a list."""
    return slot.attribute is None and slot.items is None


def writer(entries: Iterable[Entry]) -> Entry | None:
    """The one of *entries*, by rank, whose value is written."""
    ranked = list(entries)
    for rule in _GIVING:
        for entry in ranked:
            if entry.enforcement.rule is rule and not (
                rule is Rule.DEFAULT and entry.field.home.main_only
            ):
                return entry
    return None


# -- selectors that lead to one place -------------------------------------------------------


def where_selectors_meet(in_force: InForce, slots: Iterable[Slot]) -> Iterator[Contradiction]:
    for place in in_force.meetings(slots):
        entries = [
            entry
            for entry in in_force.entries_at(place)
            if not (entry.field.home.main_only and entry.enforcement.rule is Rule.DEFAULT)
        ]
        if any(entry.enforcement.rule is Rule.SET for entry in entries):
            # It decides at this place; the defaults of others count elsewhere.
            entries = [entry for entry in entries if entry.enforcement.rule is not Rule.DEFAULT]
        whole = [entry for entry in entries if entry.field.having is None]
        found = list(of_slot(whole[0].slot, whole)) if whole else []
        found += _of_parts(whole, [entry for entry in entries if entry.field.having is not None])
        for item in found:
            selectors = dict.fromkeys([entry.slot.selector for entry in item.involved])
            if (
                len({entry.slot for entry in item.involved}) < 2
                or "of different types" in item.text
            ):
                continue  # Said of the slot itself; or nothing can be said.
            at = f", where {' and '.join(selectors)} meet" if len(selectors) > 1 else ""
            yield replace(item, slot=item.involved[0].slot, text=f"{item.text}{at}")


def _of_parts(whole: Sequence[Entry], parts: Sequence[Entry]) -> Iterator[Contradiction]:
    """A list as a whole against those of its items that carry some key (`hostPathVolumes`)."""
    blocked = [entry for entry in whole if entry.enforcement.rule is Rule.BLOCKED]
    given = writer(whole)
    for part in parts:
        having = part.field.having
        if part.enforcement.rule is Rule.REQUIRED and blocked:
            text = f"required, but {blocked[0].slot} is blocked"
            yield Contradiction(part.slot, text, (part, blocked[0]))
        if given is None or not isinstance(given.enforcement.value, list):
            continue
        items = [
            item
            for item in given.enforcement.value
            if isinstance(item, dict) and item.get(having) is not None
        ]
        wrong = judge(part.enforcement, tuple(items) or None)
        if wrong is not None:
            text = f"{given.enforcement.rule} of {given.slot}: {part.slot}: {wrong.text}"
            yield Contradiction(given.slot, text, (given, part))


# -- fields that bound one another ----------------------------------------------------------


def of_bounds(in_force: InForce, slots: Iterable[Slot]) -> Iterator[Contradiction]:
    """A request and its limit, a least and a most number: values and rules that cross."""
    for low_slot, high_slot in _bounding(in_force, slots):
        places = in_force.sites(low_slot, high_slot)
        if places:
            low_ref, high_ref = (_ref(in_force, slot) for slot in (low_slot, high_slot))
            pairs = [
                (in_force.entries_at((*p, *low_ref)), in_force.entries_at((*p, *high_ref)))
                for p in places
            ]
        elif low_slot.selector == high_slot.selector:
            pairs = [(in_force.by_slot[low_slot], in_force.by_slot[high_slot])]
        else:
            continue
        for low, high in pairs:
            yield from _crossing(low, high)
    yield from _of_flags(in_force, slots)


def _ref(in_force: InForce, slot: Slot) -> tuple[str, ...]:
    ref = in_force.by_slot[slot][0].field.ref
    return ref if slot.key is None else (*ref, slot.key)


def _bounding(in_force: InForce, slots: Iterable[Slot]) -> list[tuple[Slot, Slot]]:
    """Pairs of slots, one of them of *slots*, of which the first must not be above the second."""
    by_name: dict[tuple[str, str | None, bool], list[Slot]] = {}
    for slot in in_force.by_slot:
        if _is_whole(slot):
            by_name.setdefault((slot.field, slot.key, slot.native), []).append(slot)
    pairs: dict[tuple[Slot, Slot], None] = {}
    for slot in [slot for slot in slots if slot in in_force.by_slot and _is_whole(slot)]:
        field = in_force.by_slot[slot][0].field
        for low in by_name.get((field.not_below or "", slot.key, slot.native), ()):
            pairs[low, slot] = None
        for high in by_name.get((field.not_above or "", slot.key, slot.native), ()):
            pairs[slot, high] = None
    return list(pairs)


def _crossing(low: Sequence[Entry], high: Sequence[Entry]) -> Iterator[Contradiction]:
    """What is in force for the lower field and for the upper one of a place."""
    lower, upper = writer(low), writer(high)
    if lower is not None and upper is not None:
        key = lower.slot.key
        amounts = lower.enforcement.meaning, upper.enforcement.meaning
        differs = key is not None and is_extended_resource(key) and amounts[0] != amounts[1]
        if differs or amounts[0] > amounts[1]:
            relation = "differs from" if differs else "is above"
            yield Contradiction(
                lower.slot,
                f"{lower.enforcement.rule} {shown_value(lower)} {relation}"
                f" {upper.enforcement.rule} {shown_value(upper)} of {upper.slot}",
                (lower, upper),
            )
        if lower.enforcement.rule is upper.enforcement.rule is Rule.SET:
            return
    least, most = _end(low, Rule.MIN), _end(high, Rule.MAX)
    if least and most and least[0].enforcement.meaning > most[0].enforcement.meaning:
        yield Contradiction(
            least[0].slot,
            f"{least[0].enforcement.rule} {shown_value(least[0])} is above"
            f" {most[0].enforcement.rule} {shown_value(most[0])} of {most[0].slot},"
            " and both must be there",
            (*least, *most),
        )


def _end(entries: Sequence[Entry], rule: Rule) -> tuple[Entry, ...]:
    """What keeps a field that is always there at one end, and what says that it is there."""
    for entry in entries:
        if entry.enforcement.rule is Rule.SET:
            return (entry,)
    required = [entry for entry in entries if entry.enforcement.rule is Rule.REQUIRED]
    bounds = [entry for entry in entries if entry.enforcement.rule is rule]
    if not required or not bounds:
        return ()
    best = max if rule is Rule.MIN else min
    return best(bounds, key=lambda entry: entry.enforcement.meaning), required[0]


def _of_flags(in_force: InForce, slots: Iterable[Slot]) -> Iterator[Contradiction]:
    """What doesn't go with a false flag: privileged without privilege escalation."""
    wanted = set(slots)
    for slot, entries in in_force.by_slot.items():
        given = writer(entries)
        name, shown = ("", "") if given is None else _flag_needed_by(given)
        if given is None or not name:
            continue
        other = replace(slot, field=name)
        beside = writer(in_force.by_slot.get(other, ()))
        if beside is None or beside.enforcement.meaning is not False or not wanted & {slot, other}:
            continue
        text = (
            f"{given.enforcement.rule} {shown} contradicts"
            f" {beside.enforcement.rule} false of {other}"
        )
        yield Contradiction(slot, text, (given, beside))


def _flag_needed_by(given: Entry) -> tuple[str, str]:
    """The field that must not be false beside this value, and what of the value says so."""
    meaning, field = given.enforcement.meaning, given.field
    if meaning is True and field.not_without:
        return field.not_without, "true"
    listed = field.item_not_without
    if listed is not None and isinstance(meaning, tuple) and listed.item in meaning:
        return listed.field, listed.item
    return "", ""


# -- the conditions of the workload API -----------------------------------------------------


def broken_conditions(
    in_force: InForce, selectors: Iterable[str], *, mendable: bool
) -> Iterator[Contradiction]:
    """
    Conditions that the values of the policies break by themselves in an otherwise empty workload.

    *mendable* are those that a value of the submitter can mend: until he gives one, the values
    are not written.
    """
    workload_type = NATIVE_TYPE_OF.get(in_force.kind)
    if workload_type is None:
        return
    for selector in selectors:
        role = role_of(workload_type, selector)
        if role is None:
            continue
        given: dict[str, Entry] = {}
        for slot, entries in in_force.by_slot.items():
            is_field = slot.selector == selector and slot.key is None and _is_whole(slot)
            if is_field and not is_itemized(entries[0]):
                first = writer(entries)
                if first is not None and not _is_empty(first):
                    given[slot.field] = first
        readings = with_sections(
            {name: Reading(e.enforcement.value, e.enforcement.meaning) for name, e in given.items()}
        )
        for condition in role.conditions:
            finding = condition.check(readings)
            involved = [entry for name, entry in given.items() if concerns(condition, name)]
            if finding is None or not involved:
                continue
            hindering = _hindering(in_force, selector, condition, given)
            if mendable is (hindering is None):
                yield _broken(condition, finding, involved, hindering or [])


def _hindering(
    in_force: InForce, selector: str, condition: Condition, given: dict[str, Entry]
) -> list[Entry] | None:
    """The rules that keep everybody from mending *condition*; None where somebody can."""
    found: list[Entry] = []
    for name in condition.mended_by:
        if name in given:
            continue
        rules = in_force.by_slot.get(Slot(selector, name), [])
        against = [e for e in rules if e.enforcement.rule in (Rule.BLOCKED, Rule.CAN_EDIT)]
        derived = [e for e in rules if e.enforcement.rule is Rule.DEFAULT_FROM]
        if not against or derived:
            return None
        found += against
    return found


def _broken(
    condition: Condition, finding: Finding, involved: Sequence[Entry], hindering: Sequence[Entry]
) -> Contradiction:
    at = finding.field or condition.field
    about = next((entry for entry in involved if entry.slot.field == at), involved[0])
    where = "" if about.slot.field == at else f"{at}: "
    text = f"{about.enforcement.rule} {shown_value(about)}: {where}{told(finding)}"
    others = [entry for entry in involved if entry is not about]
    return Contradiction(about.slot, text, (about, *others, *hindering))


def _is_empty(entry: Entry) -> bool:
    meaning = entry.enforcement.meaning
    return not meaning and isinstance(meaning, (str, tuple, list, dict))


# -- imposed assets -------------------------------------------------------------------------


def clashing_assets(
    policies: Sequence[CompiledPolicy], slots: Iterable[Slot]
) -> Iterator[Contradiction]:
    """Two assets that are imposed on one workload, and whose items have one key."""
    wanted = {slot for slot in slots if slot.attribute == IMPOSED}
    first: dict[Slot, tuple[CompiledPolicy, Entry]] = {}
    for policy in policies if wanted else ():
        for entry in policy.entries:
            if entry.slot not in wanted:
                continue
            other, held = first.setdefault(entry.slot, (policy, entry))
            if held.enforcement.value != entry.enforcement.value:
                names = f"{_asset_name(other, held)} and {_asset_name(policy, entry)}"
                yield Contradiction(
                    replace(entry.slot, attribute=None),
                    f"the imposed assets {names} have one {entry.field.item_key}",
                    (held, entry),
                )


def clashing_mounts(
    policies: Sequence[CompiledPolicy], in_force: InForce, slots: Iterable[Slot]
) -> Iterator[Contradiction]:
    """
    Storage that *policies* add to one workload, and mount at one path of its containers.

    Kubernetes refuses two mounts at one path, so that a workload with both could never run,
    unless its submitter leaves a default item out or moves it.
    """
    if not any(slot.field in MOUNTS for slot in slots):
        return
    given: dict[Slot, tuple[str, Entry]] = {}
    for slot, entries in in_force.by_slot.items():
        for entry in entries:
            is_given = is_whole_item(entry) and entry.enforcement.rule in MUTATING
            if slot.field in MOUNTS and slot.key is not None and is_given:
                path = mount_path(entry.enforcement.value.get(MOUNTS[slot.field]))
                # Two of one key are one item.
                given.setdefault(replace(slot, attribute=None), (path, entry))
    for (slot, (path, entry)), (other_slot, (other_path, other)) in itertools.combinations(
        given.items(), 2
    ):
        is_one_item = (slot.field, slot.key) == (other_slot.field, other_slot.key)
        if not path or path != other_path or is_one_item:
            continue
        if slot.selector == other_slot.selector or in_force.sites(slot, other_slot):
            names = f"{_item_name(policies, entry)} and {_item_name(policies, other)}"
            yield Contradiction(slot, f"{names} are both mounted at {path}", (entry, other))


def _item_name(policies: Sequence[CompiledPolicy], entry: Entry) -> str:
    """What people call an item that a policy gives."""
    if entry.enforcement.rule is not Rule.IMPOSED:
        return f"the item {entry.slot.key} of {entry.slot.field}"
    source = entry.enforcement.source
    policy = next(policy for policy in policies if policy.source == source)
    return f"the imposed asset {_asset_name(policy, entry)}"


def _asset_name(policy: CompiledPolicy, entry: Entry) -> str:
    """What the document of *policy* calls the asset that it imposes by *entry*."""
    found = _REFERENCE.fullmatch(entry.path)
    references: Any = getattr(policy.document.spec, "imposed_assets", None)
    if found is None or references is None:
        return str(entry.enforcement.meaning)
    if found["role"] is not None:
        references = references[found["role"]]
    return str(references[int(found["index"])])
