"""
Policies that could never be satisfied, and policies that get in one another's way.

Checked when a policy is written, by every door: the author learns it, not the submitter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.errors import SpecError
from webhook.model.decision import NOT_SHOWN, Rule
from webhook.model.scopes import Branch, Scope
from webhook.policy.effective import effective_entries, holds_at
from webhook.policy.enforcement import MUTATING, CompiledPolicy, Entry, Slot
from webhook.policy.judge import judge, show

_VALUE_RULES = (Rule.MIN, Rule.MAX, Rule.STEP, Rule.OPTIONS, Rule.PATTERN, Rule.BLOCKED)


def check_policy(candidate: CompiledPolicy, accepted: Sequence[CompiledPolicy]) -> list[SpecError]:
    """What is wrong with *candidate* beside *accepted*, which hold already (of its kind)."""
    problems = list(_conflicts(candidate, accepted))
    seen: set[str] = set()
    for branch in _branches(candidate, accepted):
        policies = [policy for policy in (*accepted, candidate) if holds_at(policy, branch)]
        for problem in _contradictions(candidate, policies):
            if str(problem) not in seen:
                seen.add(str(problem))
                problems.append(problem)
    return problems


def _conflicts(
    candidate: CompiledPolicy, accepted: Sequence[CompiledPolicy]
) -> Iterator[SpecError]:
    """Slots of *candidate* that another policy of its branch holds."""
    for other in accepted:
        if other.is_flat is not candidate.is_flat or not _share_branch(candidate, other):
            continue
        same_unit = (other.scope, other.unit) == (candidate.scope, candidate.unit)
        if not same_unit and (candidate.is_flat or Scope.SYSTEM in (candidate.scope, other.scope)):
            continue
        if same_unit and other.document.builtin:
            continue
        held = {_claim(entry, flat=candidate.is_flat) for entry in other.entries}
        reported: set[Slot] = set()
        for entry in candidate.entries:
            is_default = entry.enforcement.rule in MUTATING
            if entry.slot in reported or (not same_unit and is_default):
                continue
            if _claim(entry, flat=candidate.is_flat) in held:
                reported.add(entry.slot)
                what = "a default" if is_default and not candidate.is_flat else "rules"
                yield SpecError(
                    entry.path, f"field {entry.slot} already has {what} in {other.source}"
                )


def shadowed(policies: Sequence[CompiledPolicy]) -> Iterator[tuple[str, SpecError]]:
    """
    Rules of GVKPolicies that never act, since a broader one does not let them replace it.

    Each with the source of its document.
    """
    flat = [policy for policy in policies if policy.is_flat]
    for narrow in flat:
        reported: set[Slot] = set()
        for broad in flat:
            if broad.scope.breadth >= narrow.scope.breadth or not _share_branch(narrow, broad):
                continue
            held = {entry.slot for entry in broad.entries if not entry.allow_override}
            for entry in narrow.entries:
                if entry.slot in held and entry.slot not in reported:
                    reported.add(entry.slot)
                    problem = (
                        f"never acts: {broad.source} holds {entry.slot}"
                        " and does not say allowOverride: true"
                    )
                    yield narrow.document.source, SpecError(entry.path, problem)


def _claim(entry: Entry, *, flat: bool) -> tuple[Slot, bool]:
    """What an entry claims: of a hierarchical policy, rules and default are claims apart."""
    return entry.slot, flat or entry.enforcement.rule in MUTATING


def _share_branch(one: CompiledPolicy, other: CompiledPolicy) -> bool:
    if one.scope is other.scope:
        return one.unit == other.unit
    return not (one.scope.has_unit and other.scope.has_unit) or Scope.CLUSTER in (
        one.scope,
        other.scope,
    )


def _branches(candidate: CompiledPolicy, accepted: Sequence[CompiledPolicy]) -> Iterator[Branch]:
    """Branches on which *candidate* holds, as far as the policies tell them apart."""
    for policy in (candidate, *accepted):
        units = {Scope.CLUSTER: "", Scope.DEPARTMENT: "", Scope.PROJECT: ""}
        for named in (policy, candidate):
            if named.scope.has_unit:
                units[named.scope] = named.unit
        branch = Branch(units[Scope.CLUSTER], units[Scope.DEPARTMENT], units[Scope.PROJECT])
        if holds_at(candidate, branch):
            yield branch


def _contradictions(
    candidate: CompiledPolicy, policies: Sequence[CompiledPolicy]
) -> Iterator[SpecError]:
    slots: dict[Slot, list[Entry]] = {}
    for effective in effective_entries(policies):
        slots.setdefault(effective.entry.slot, []).append(effective.entry)
    for slot, entries in slots.items():
        if any(entry.enforcement.source == candidate.source for entry in entries):
            yield from _of_slot(candidate, slot, entries)


def _of_slot(candidate: CompiledPolicy, slot: Slot, entries: list[Entry]) -> Iterator[SpecError]:
    by_rule: dict[Rule, Entry] = {}
    for entry in entries:
        by_rule.setdefault(entry.enforcement.rule, entry)

    def problem(text: str, *involved: Entry) -> Iterator[SpecError]:
        """One problem, told from the candidate's side; none where it has no part in it."""
        own = [entry for entry in involved if entry.enforcement.source == candidate.source]
        if own:
            others = [f"; {e.enforcement.source}" for e in involved if e not in own]
            yield SpecError(own[0].path, f"{slot}: {text}{''.join(others)}")

    minimum = by_rule.get(Rule.MIN)
    given = by_rule.get(Rule.SET) or by_rule.get(Rule.DEFAULT)
    required, blocked = by_rule.get(Rule.REQUIRED), by_rule.get(Rule.BLOCKED)
    maximum, fixed = by_rule.get(Rule.MAX), by_rule.get(Rule.CAN_EDIT)
    if required and blocked:
        yield from problem("can't be both required and blocked", required, blocked)
    if minimum and maximum and minimum.enforcement.meaning > maximum.enforcement.meaning:
        low, high = show(minimum.enforcement.value), show(maximum.enforcement.value)
        yield from problem(f"min {low} is above max {high}", minimum, maximum)
    if fixed and required and not given:
        yield from problem(
            "canEdit: false without a default allows no value, but one is required", fixed, required
        )
    base = minimum.enforcement if minimum else None
    judging = [by_rule[rule] for rule in _VALUE_RULES if rule in by_rule]
    for entry in [by_rule[rule] for rule in (Rule.SET, Rule.DEFAULT) if rule in by_rule]:
        hidden = entry.field.sensitive
        value = NOT_SHOWN if hidden else show(entry.enforcement.value)
        for other in judging:
            wrong = judge(other.enforcement, entry.enforcement.meaning, minimum=base)
            if wrong is not None:
                accepted = "" if hidden else f" ({wrong.accepted})"
                text = f"{entry.enforcement.rule} {value}: {wrong.text}{accepted}"
                yield from problem(text, entry, other)
    options = by_rule.get(Rule.OPTIONS)
    others = [entry for entry in judging if entry is not options]
    if options is not None and not any(
        all(judge(other.enforcement, option, minimum=base) is None for other in others)
        for option in options.enforcement.meaning
    ):
        yield from problem("no option satisfies the other rules", options, *others)
