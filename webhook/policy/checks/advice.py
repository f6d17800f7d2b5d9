"""What an author may not have meant in policies that are sound: told by `gatewright lint`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.errors import SpecError
from webhook.model.decision import Rule
from webhook.model.names import nearest
from webhook.policy.rules.enforcement import MUTATING, CompiledPolicy, Entry, Slot
from webhook.policy.rules.judge import show


def advise(policies: Sequence[CompiledPolicy]) -> Iterator[tuple[str, SpecError]]:
    """
    Advice on *policies*, which are all of one kind that are enforced.

    Each with the source of the document that it is about.
    """
    own = [policy for policy in policies if not policy.is_flat and not policy.document.builtin]
    shipped = [policy for policy in policies if policy.document.builtin]
    held = _rules_by_slot(shipped)
    given = _keys_given(policies)
    for policy in own:
        found = [*_dropped(policy, held), *_locking_nothing(policy, given)]
        for problem in {str(problem): problem for problem in found}.values():
            yield policy.document.source, problem


def _rules_by_slot(policies: Sequence[CompiledPolicy]) -> dict[Slot, list[Entry]]:
    found: dict[Slot, list[Entry]] = {}
    for policy in policies:
        for entry in policy.entries:
            if entry.enforcement.rule not in MUTATING:
                found.setdefault(entry.slot, []).append(entry)
    return found


def _dropped(policy: CompiledPolicy, shipped: dict[Slot, list[Entry]]) -> Iterator[SpecError]:
    """Shipped rules that go because *policy* has another rule on their field."""
    for slot, entries in _rules_by_slot([policy]).items():
        own = {entry.enforcement.rule for entry in entries}
        gone = [entry for entry in shipped.get(slot, ()) if entry.enforcement.rule not in own]
        if gone:
            rules = [f"{e.enforcement.rule}: {show(e.enforcement.value)}" for e in gone]
            yield SpecError(
                entries[0].path,
                f"replaces the rules of {slot.field} in {gone[0].enforcement.source}:"
                f" {', '.join(rules)} holds no more; write it here too to keep it",
            )


def _keys_given(policies: Sequence[CompiledPolicy]) -> dict[tuple[str, str], set[str]]:
    """The keys of default and imposed items, by selector and field."""
    found: dict[tuple[str, str], set[str]] = {}
    for policy in policies:
        for entry in policy.entries:
            slot = entry.slot
            if slot.key is not None and entry.enforcement.rule in MUTATING:
                found.setdefault((slot.selector, slot.field), set()).add(slot.key)
    return found


def _locking_nothing(
    policy: CompiledPolicy, given: dict[tuple[str, str], set[str]]
) -> Iterator[SpecError]:
    """Keys that are locked, and that no item has which a policy gives: often misspelt."""
    for entry in policy.entries:
        if entry.enforcement.rule is not Rule.LOCKED:
            continue
        known = given.get((entry.slot.selector, entry.slot.field), set())
        for index, key in enumerate(entry.enforcement.meaning):
            if key not in known:
                near = nearest(key, known)
                hint = "" if near is None else f'; did you mean "{near}"?'
                yield SpecError(
                    f"{entry.path}[{index}]",
                    f"locks nothing: no policy gives {entry.slot.field} a default or imposed item"
                    f" {key!r}{hint}",
                )
