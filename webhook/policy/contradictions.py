"""
Policies that could never be satisfied, and policies that get in one another's way.

Checked when a policy is written, by every door: the author learns it, not the submitter. Policies
meet where there is a branch on which both hold: those of two departments never do, and those of a
department and a project do only if the project lies there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from webhook.errors import SpecError
from webhook.mapping.fields import read_ref
from webhook.model.decision import NOT_SHOWN, Rule
from webhook.model.scopes import Branch, Scope
from webhook.model.values import FieldType, read_value
from webhook.policy.effective import effective_entries, place_of
from webhook.policy.enforcement import IMPOSED, MUTATING, CompiledPolicy, Entry, Slot
from webhook.policy.judge import judge, show

_FLAGS = (Rule.REQUIRED, Rule.BLOCKED, Rule.CAN_EDIT)
_VALUE_RULES = frozenset(
    {Rule.REQUIRED, Rule.MIN, Rule.MAX, Rule.STEP, Rule.OPTIONS, Rule.PATTERN, Rule.BLOCKED}
)


# What a project that nobody has placed lies in.
_NO_DEPARTMENT = frozenset({""})


@dataclass(frozen=True, slots=True)
class Territory:
    """
    Which branches there are.

    *cluster* is this cluster's name, ``""`` where nobody said it; *departments* are those that
    each project lies in, by its namespaces and its queue.
    """

    cluster: str = ""
    departments: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: str, branches: Iterable[Branch]) -> Self:
        """The territory in which these *branches* are known."""
        departments: dict[str, set[str]] = {}
        for branch in branches:
            departments.setdefault(branch.project, set()).add(branch.department)
        return cls(cluster, {project: frozenset(of) for project, of in departments.items()})

    def departments_of(self, project: str) -> frozenset[str]:
        """Where *project* lies; ``""`` where it lies in no department, or nobody knows it."""
        return self.departments.get(project, _NO_DEPARTMENT)

    def unit(self, policy: CompiledPolicy) -> str:
        """The unit of *policy*. A cluster left out is this one."""
        own_cluster = policy.scope is Scope.CLUSTER and not policy.unit
        return self.cluster if own_cluster else policy.unit


def check_policy(
    candidate: CompiledPolicy, accepted: Sequence[CompiledPolicy], territory: Territory
) -> list[SpecError]:
    """What is wrong with *candidate* beside *accepted*, which hold already (of its kind)."""
    meetings = list(_meetings(candidate, accepted, territory))
    problems = list(_conflicts(candidate, _met(meetings, accepted), territory))
    for held in meetings:
        problems += _contradictions(candidate, held)
    return list({str(problem): problem for problem in problems}.values())


def shadowed(
    policies: Sequence[CompiledPolicy], territory: Territory
) -> Iterator[tuple[str, SpecError]]:
    """
    Enforcements that never act, since those of another policy count in their place.

    Each with the source of its document.
    """
    flat = [policy for policy in policies if policy.is_flat]
    for policy in policies if flat else ():
        reported: set[Slot] = set()
        for other in _met(list(_meetings(policy, flat, territory)), flat):
            never = _overruled if policy.is_flat else _outranked
            for entry, problem in never(policy, other):
                if entry.slot not in reported:
                    reported.add(entry.slot)
                    yield policy.document.source, SpecError(entry.path, problem)


def _overruled(narrow: CompiledPolicy, broad: CompiledPolicy) -> Iterator[tuple[Entry, str]]:
    """Of two GVKPolicies: what the broader one holds and does not let the narrower replace."""
    if broad.scope.breadth >= narrow.scope.breadth:
        return
    held = {entry.slot for entry in broad.entries if not entry.allow_override}
    for entry in narrow.entries:
        if entry.slot in held:
            yield (
                entry,
                f"never acts: {broad.source} holds {entry.slot}"
                " and does not say allowOverride: true",
            )


def _outranked(policy: CompiledPolicy, flat: CompiledPolicy) -> Iterator[tuple[Entry, str]]:
    """Defaults of a WorkloadPolicy where a GVKPolicy writes as well: the GVKPolicy's counts."""
    writing = {
        place_of(entry): entry for entry in flat.entries if entry.enforcement.rule in MUTATING
    }
    for entry in policy.entries:
        other = writing.get(place_of(entry))
        if other is not None and entry.enforcement.rule in MUTATING:
            yield (
                entry,
                f"{entry.enforcement.rule} of {entry.slot} never acts where the GVKPolicy holds too"
                f" ({flat.source}): its {other.enforcement.rule} counts",
            )


def _meetings(
    candidate: CompiledPolicy, others: Sequence[CompiledPolicy], territory: Territory
) -> Iterator[list[CompiledPolicy]]:
    """
    Those of *others* that hold together with *candidate*, for each branch that there is.

    Branches on which the same policies hold count once.
    """
    by_unit: dict[tuple[Scope, str], list[CompiledPolicy]] = {}
    for policy in others:
        if policy is not candidate:
            by_unit.setdefault((policy.scope, territory.unit(policy)), []).append(policy)
    seen: set[tuple[tuple[Scope, str], ...]] = set()
    for branch in _branches(candidate, by_unit, territory):
        units = tuple([unit for scope in Scope if (unit := (scope, branch.unit(scope))) in by_unit])
        if units not in seen:
            seen.add(units)
            yield [policy for unit in units for policy in by_unit[unit]]


def _branches(
    candidate: CompiledPolicy, named: Iterable[tuple[Scope, str]], territory: Territory
) -> Iterator[Branch]:
    """
    Branches on which *candidate* holds, as far as the *named* units tell them apart.

    A policy of another cluster is looked at as it would be there. While nobody has said which
    cluster this is, it may be any that is named.
    """
    clusters = {territory.cluster}
    if candidate.scope is Scope.CLUSTER:
        clusters = {territory.unit(candidate)}
    elif not territory.cluster:
        clusters |= {unit for scope, unit in named if scope is Scope.CLUSTER}
    projects = {unit for scope, unit in named if scope is Scope.PROJECT}
    pairs = {("", "")} | {(unit, "") for scope, unit in named if scope is Scope.DEPARTMENT}
    if candidate.scope is Scope.PROJECT:
        projects, pairs = {candidate.unit}, set()
    elif candidate.scope is Scope.DEPARTMENT:
        pairs = {(candidate.unit, "")}
    for project in projects:
        for department in territory.departments_of(project):
            if candidate.scope is not Scope.DEPARTMENT or department == candidate.unit:
                pairs.add((department, project))
    for cluster in sorted(clusters):
        for department, project in sorted(pairs):
            yield Branch(cluster, department, project)


def _met(
    meetings: Iterable[Sequence[CompiledPolicy]], policies: Sequence[CompiledPolicy]
) -> list[CompiledPolicy]:
    """Those of *policies* that are in any of *meetings*, in their own order."""
    met = {id(policy) for held in meetings for policy in held}
    return [policy for policy in policies if id(policy) in met]


def _conflicts(
    candidate: CompiledPolicy, met: Iterable[CompiledPolicy], territory: Territory
) -> Iterator[SpecError]:
    """Slots of *candidate* that another policy of its branch holds."""
    for other in met:
        if other.is_flat is not candidate.is_flat:
            continue
        same_unit = other.scope is candidate.scope
        if not same_unit and (candidate.is_flat or Scope.SYSTEM in (candidate.scope, other.scope)):
            continue
        if same_unit and other.document.builtin:
            continue
        held = {_claim(entry, flat=candidate.is_flat) for entry in other.entries}
        reported: set[Slot] = set()
        for entry in candidate.entries:
            is_default = entry.enforcement.rule in MUTATING
            if entry.slot.attribute == IMPOSED:
                continue  # Assets that several policies impose are united.
            if entry.slot in reported or (not same_unit and is_default):
                continue
            if _claim(entry, flat=candidate.is_flat) in held:
                reported.add(entry.slot)
                what = "a default" if is_default and not candidate.is_flat else "rules"
                yield SpecError(
                    entry.path,
                    f"field {entry.slot} already has {what} in {other.source};"
                    f" {candidate.source} can't have {'one' if what == 'a default' else 'any'} too"
                    f"{_why_they_meet(candidate, other)}",
                )


def _why_they_meet(one: CompiledPolicy, other: CompiledPolicy) -> str:
    """For a department and a project, whose documents don't say it."""
    units = {one.scope: one.unit, other.scope: other.unit}
    if units.keys() != {Scope.DEPARTMENT, Scope.PROJECT}:
        return ""
    return f", as project {units[Scope.PROJECT]} lies in department {units[Scope.DEPARTMENT]}"


def _claim(entry: Entry, *, flat: bool) -> tuple[Slot, bool]:
    """What an entry claims: of a hierarchical policy, rules and default are claims apart."""
    return entry.slot, flat or entry.enforcement.rule in MUTATING


@dataclass(frozen=True, slots=True)
class _Contradiction:
    """Entries in force at one slot that can't all hold."""

    slot: Slot
    text: str
    involved: tuple[Entry, ...]


def _contradictions(
    candidate: CompiledPolicy, held: Sequence[CompiledPolicy]
) -> Iterator[SpecError]:
    """What can't hold once *candidate* joins *held*."""
    paths = {entry.slot: entry.path for entry in reversed(candidate.entries)}
    found_before: set[tuple[Slot, str]] | None = None
    for found in _find_contradictions((*held, candidate), paths):
        sources = dict.fromkeys([entry.enforcement.source for entry in found.involved])
        own = [e for e in found.involved if e.enforcement.source == candidate.source]
        if not own:
            # Others contradict one another: its doing only if they did not before.
            if found_before is None:
                before = _find_contradictions(held, paths)
                found_before = {(item.slot, item.text) for item in before}
            if (found.slot, found.text) in found_before:
                continue
        others = [str(source) for source in sources if source != candidate.source]
        against = f"; {', and '.join(others)}, against {candidate.source}" if others else ""
        path = own[0].path if own else _path_to(found.slot, paths)
        yield SpecError(path, f"{found.slot}: {found.text}{against}")


def _path_to(slot: Slot, paths: Mapping[Slot, str]) -> str:
    """Where the candidate speaks about *slot*, else about its field."""
    beside = [path for other, path in paths.items() if _field_of(other) == _field_of(slot)]
    return paths.get(slot, beside[0])


def _field_of(slot: Slot) -> tuple[str, str]:
    return slot.selector, slot.field


def _find_contradictions(
    policies: Sequence[CompiledPolicy], slots: Iterable[Slot]
) -> Iterator[_Contradiction]:
    in_force: dict[Slot, list[Entry]] = {slot: [] for slot in slots}
    itemized: dict[tuple[str, str], list[Entry]] = {_field_of(slot): [] for slot in slots}
    for effective in effective_entries(policies):
        entry = effective.entry
        if entry.slot in in_force:
            in_force[entry.slot].append(entry)
        if entry.field.type is FieldType.ITEMIZED and _field_of(entry.slot) in itemized:
            itemized[_field_of(entry.slot)].append(entry)
    for slot, entries in in_force.items():
        yield from _of_slot(slot, sorted(entries, key=lambda entry: entry.enforcement.rank))
    for entries in itemized.values():
        yield from _of_items(entries)


def _of_items(entries: Sequence[Entry]) -> Iterator[_Contradiction]:
    """Items of one field that policies give, against the rules on the attributes of all items."""
    judging: dict[str, list[Entry]] = {}
    filled: set[str] = set()
    for entry in entries:
        attribute = entry.slot.attribute
        if attribute is not None and entry.enforcement.rule in _VALUE_RULES:
            judging.setdefault(attribute, []).append(entry)
        elif attribute is not None and entry.enforcement.rule is Rule.DEFAULT:
            filled.add(attribute)
    given = [
        entry
        for entry in entries
        if entry.slot.key is not None and entry.enforcement.rule in (Rule.DEFAULT, Rule.IMPOSED)
    ]
    for item, (attribute, rules) in itertools.product(given, judging.items()):
        field = item.field.attributes[attribute]
        value = read_ref(item.enforcement.value, field.ref)
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
                yield _Contradiction(
                    replace(item.slot, attribute=attribute),
                    f"{item.enforcement.rule}{shown}: {wrong.text}{accepted}",
                    (item, rule),
                )


def _of_slot(slot: Slot, entries: Sequence[Entry]) -> Iterator[_Contradiction]:
    """*entries* by rank: of several that write, or say where steps begin, the first counts."""
    by_rule: dict[Rule, list[Entry]] = {}
    for entry in entries:
        by_rule.setdefault(entry.enforcement.rule, []).append(entry)

    def found(text: str, *involved: Entry) -> _Contradiction:
        return _Contradiction(slot, text, involved)

    typed = [entry for entry in entries if entry.enforcement.rule not in _FLAGS]
    other_type = [e for e in typed if e.enforcement.type is not typed[0].enforcement.type]
    if other_type:
        # Of a field whose group says no type: then each value says its own.
        yield found("the values are of different types", typed[0], other_type[0])
        return
    given = [by_rule[rule][0] for rule in (Rule.SET, Rule.DEFAULT) if rule in by_rule]
    required, fixed = by_rule.get(Rule.REQUIRED), by_rule.get(Rule.CAN_EDIT)
    minima, maxima = by_rule.get(Rule.MIN, []), by_rule.get(Rule.MAX, [])
    if required and Rule.BLOCKED in by_rule:
        yield found("can't be both required and blocked", required[0], by_rule[Rule.BLOCKED][0])
    for low, high in itertools.product(minima, maxima):
        if low.enforcement.meaning > high.enforcement.meaning:
            yield found(f"min {_shown(low)} is above max {_shown(high)}", low, high)
    if fixed and required and not given:
        yield found(
            "canEdit: false without a default allows no value, but one is required",
            *(fixed[0], required[0]),
        )
    base = minima[0].enforcement if minima else None
    judging = [entry for entry in entries if entry.enforcement.rule in _VALUE_RULES]
    for entry, other in itertools.product(given, judging):
        wrong = judge(other.enforcement, entry.enforcement.meaning, minimum=base)
        if wrong is not None:
            shown = bool(wrong.accepted) and not entry.field.sensitive
            accepted = f" ({wrong.accepted})" if shown else ""
            yield found(
                f"{entry.enforcement.rule} {_shown(entry)}: {wrong.text}{accepted}", entry, other
            )
    for options in by_rule.get(Rule.OPTIONS, ()):
        others = [entry for entry in judging if entry is not options]
        if not any(
            all(judge(other.enforcement, option, minimum=base) is None for other in others)
            for option in options.enforcement.meaning
        ):
            yield found("no option satisfies the other rules", options, *others)


def _shown(entry: Entry) -> str:
    """The value of *entry*, as text for people; an empty one in quotes."""
    if entry.field.sensitive:
        return NOT_SHOWN
    return show(entry.enforcement.value) or '""'
