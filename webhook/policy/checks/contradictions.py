"""
Policies that could never be satisfied, and policies that get in one another's way.

Checked when a policy is written, by every door: the author learns it, not the submitter. Policies
meet where there is a branch on which both hold: those of two departments never do, and those of a
department and a project do only if the project lies there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from webhook.errors import FieldConflictError, SpecError
from webhook.model.decision import Rule
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.scopes import Branch, Scope
from webhook.model.values import same_value
from webhook.policy.checks.satisfiable import Contradiction, is_itemized, of_slot
from webhook.policy.checks.satisfiable_items import is_whole_item, of_items
from webhook.policy.checks.together import (
    InForce,
    broken_conditions,
    clashing_assets,
    clashing_mounts,
    of_bounds,
    where_selectors_meet,
)
from webhook.policy.effective import effective_entries, overlaid, place_of
from webhook.policy.rules.enforcement import IMPOSED, MUTATING, CompiledPolicy, Entry, Slot

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
    # One that is only tried stands beside those in force, to replace one of them later.
    acting = [policy for policy in accepted if policy.is_enforced and candidate.is_enforced]
    meetings = list(_meetings(candidate, acting, territory))
    problems = list(_conflicts(candidate, _met(meetings, acting), territory))
    for held in meetings:
        problems += _contradictions(candidate, held)
    return list({str(problem): problem for problem in problems}.values())


def shadowed(
    policies: Sequence[CompiledPolicy], territory: Territory
) -> Iterator[tuple[str, SpecError]]:
    """
    Enforcements that never act, since those of another policy count in their place, or that act
    only where a submitter gives what they need.

    Each with the source of its document.
    """
    policies = [policy for policy in policies if policy.is_enforced]
    for policy in policies:
        for waiting in _waiting(policy, policies, territory):
            yield policy.document.source, waiting
    flat = [policy for policy in policies if policy.is_flat]
    for policy in policies if flat else ():
        reported: set[Slot] = set()
        for other in _met(list(_meetings(policy, flat, territory)), flat):
            never = _overruled if policy.is_flat else _outranked
            for entry, problem, path in never(policy, other):
                if entry.slot not in reported:
                    reported.add(entry.slot)
                    # Of two, of which one is shipped, the author can only change the other.
                    told = other if policy.document.builtin else policy
                    yield told.document.source, SpecError(path, problem)


def _waiting(
    policy: CompiledPolicy, policies: Sequence[CompiledPolicy], territory: Territory
) -> Iterator[SpecError]:
    """Values of *policy* that the workload API refuses without another one, which is not given."""
    if policy.document.builtin or policy.kind not in NATIVE_TYPE_OF:
        return
    selectors = dict.fromkeys([entry.slot.selector for entry in policy.entries])
    told: set[tuple[Slot, str]] = set()
    for held in _meetings(policy, policies, territory):
        together = (*held, policy)
        entries = [effective.entry for effective in effective_entries(together)]
        in_force = _in_force(policy.kind, together, entries)
        for found in broken_conditions(in_force, selectors, mendable=True):
            own = _own(found, policy)
            if own and (found.slot, found.text) not in told:
                told.add((found.slot, found.text))
                yield SpecError(
                    own[0].path,
                    f"acts only where the submitter gives what it needs: {found.slot}:"
                    f" {found.text}{_against(found, policy)}",
                )


def _overruled(narrow: CompiledPolicy, broad: CompiledPolicy) -> Iterator[tuple[Entry, str, str]]:
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
                entry.path,
            )


def _outranked(policy: CompiledPolicy, flat: CompiledPolicy) -> Iterator[tuple[Entry, str, str]]:
    """Defaults of a WorkloadPolicy where a GVKPolicy writes as well: the GVKPolicy's counts."""
    writing = {
        place_of(entry): entry for entry in flat.entries if entry.enforcement.rule in MUTATING
    }
    for entry in policy.entries:
        other = writing.get(place_of(entry))
        if other is None or entry.enforcement.rule not in MUTATING:
            continue
        if other.enforcement.rule is Rule.SET and _completes(entry, other):
            continue
        if policy.document.builtin:
            yield (
                entry,
                f"counts in place of the shipped {entry.enforcement.rule} of {entry.slot}"
                f" ({policy.source}); rules that are shipped hold on beside a GVKPolicy",
                other.path,
            )
        else:
            yield (
                entry,
                f"{entry.enforcement.rule} of {entry.slot} never acts where the GVKPolicy holds too"
                f" ({flat.source}): its {other.enforcement.rule} counts",
                entry.path,
            )


def _completes(item: Entry, other: Entry) -> bool:
    """Whether the default *item* gives attributes that *other*, which sets it, does not."""
    if not is_whole_item(item):
        return False
    both = overlaid(item.field, item.enforcement.value, other.enforcement.value)
    return not same_value(both, other.enforcement.value)


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
        held = {
            _claim(entry, flat=candidate.is_flat)
            for entry in other.entries
            if entry.enforcement.meaning is not None
        }
        reported: set[Slot] = set()
        for entry in candidate.entries:
            is_default = entry.enforcement.rule in MUTATING
            if entry.slot.attribute == IMPOSED:
                continue  # Assets that several policies impose are united.
            if entry.enforcement.meaning is None:
                continue  # It asks for nothing.
            if entry.slot in reported or (not same_unit and is_default):
                continue
            if _claim(entry, flat=candidate.is_flat) in held:
                reported.add(entry.slot)
                what = "a default" if is_default and not candidate.is_flat else "rules"
                yield FieldConflictError(
                    entry.path,
                    f"field {entry.slot} already has {what} in {other.source};"
                    f" {candidate.source} can't have {'one' if what == 'a default' else 'any'} too"
                    f"{_why_they_meet(candidate, other)}",
                    cost=f". Nothing of {candidate.source} is enforced until the field is taken"
                    " out of one of the two",
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


def _contradictions(
    candidate: CompiledPolicy, held: Sequence[CompiledPolicy]
) -> Iterator[SpecError]:
    """What can't hold once *candidate* joins *held*."""
    paths = {entry.slot: entry.path for entry in reversed(candidate.entries)}
    found_before: set[tuple[Slot, str]] | None = None
    for found in _find_contradictions(candidate.kind, (*held, candidate), paths):
        own = _own(found, candidate)
        if not own:
            # Others contradict one another: its doing only if they did not before.
            if found_before is None:
                before = _find_contradictions(candidate.kind, held, paths)
                found_before = {(item.slot, item.text) for item in before}
            if (found.slot, found.text) in found_before:
                continue
        path = own[0].path if own else _path_to(found.slot, paths)
        against = _against(found, candidate)
        about = f"{found.slot}: " if against else _about(found.slot, path)
        yield SpecError(path, f"{about}{found.text}{against}")


def _about(slot: Slot, path: str) -> str:
    """Which slot a message is about, unless the *path* before it names the field already."""
    is_named = str(slot) == slot.field and f".{slot.field}" in path
    return "" if is_named else f"{slot}: "


def _own(found: Contradiction, candidate: CompiledPolicy) -> list[Entry]:
    return [entry for entry in found.involved if entry.enforcement.source == candidate.source]


def _against(found: Contradiction, candidate: CompiledPolicy) -> str:
    """The end of a message: whose values and rules these are, where not all are its own."""
    sources = dict.fromkeys([entry.enforcement.source for entry in found.involved])
    others = [str(source) for source in sources if source != candidate.source]
    return f"; {', and '.join(others)}, against {candidate.source}" if others else ""


def _path_to(slot: Slot, paths: Mapping[Slot, str]) -> str:
    """Where the candidate speaks about *slot*, else about its field, else at all."""
    beside = [path for other, path in paths.items() if _field_of(other) == _field_of(slot)]
    return paths.get(slot) or next(iter((*beside, *paths.values())))


def _field_of(slot: Slot) -> tuple[str, str]:
    return slot.selector, slot.field


def _find_contradictions(
    kind: GroupVersionKind, policies: Sequence[CompiledPolicy], slots: Iterable[Slot]
) -> Iterator[Contradiction]:
    """What can't hold where *policies* do, as far as *slots* have a part in it."""
    wanted = dict.fromkeys(slots)
    entries = [effective.entry for effective in effective_entries(policies)]
    in_force = _in_force(kind, policies, entries)
    for slot in wanted:
        held = in_force.by_slot.get(slot, [])
        # What is said of an item at its slot are its value and it as such.
        if not (held and is_itemized(held[0]) and slot.attribute in (None, IMPOSED)):
            yield from of_slot(slot, held)
    itemized: dict[tuple[str, str], list[Entry]] = {_field_of(slot): [] for slot in wanted}
    for entry in entries:
        if is_itemized(entry) and _field_of(entry.slot) in itemized:
            itemized[_field_of(entry.slot)].append(entry)
    for of_field in itemized.values():
        yield from of_items(kind, of_field)
    yield from clashing_assets(policies, wanted)
    yield from clashing_mounts(policies, in_force, wanted)
    yield from where_selectors_meet(in_force, wanted)
    crossing = list(of_bounds(in_force, wanted))
    yield from crossing
    told = [_identities(item) for item in crossing]
    selectors = dict.fromkeys([slot.selector for slot in wanted])
    for item in broken_conditions(in_force, selectors, mendable=False):
        if _identities(item) not in told:
            yield item


def _identities(found: Contradiction) -> frozenset[int]:
    return frozenset(map(id, found.involved))


def _in_force(
    kind: GroupVersionKind, policies: Sequence[CompiledPolicy], entries: Iterable[Entry]
) -> InForce:
    mapping = next((policy.mapping for policy in policies if policy.mapping is not None), None)
    return InForce(kind, mapping, entries)
