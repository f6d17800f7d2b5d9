"""What has to be found out with jq about values that a policy writes at one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from webhook.mapping.evaluator import Trial
from webhook.mapping.homes import NO_HOME
from webhook.mapping.joint_trials import Step, Together
from webhook.model.decision import Rule
from webhook.model.values import FieldType
from webhook.policy.rules.enforcement import CompiledPolicy, Entry


def joint_trials(policy: CompiledPolicy) -> Iterator[tuple[str, Trial]]:
    """The trials of what *policy* writes at one place, each with the path that it is about."""
    for steps in _steps_by_place(policy.entries).values():
        if len(steps) > 1 and any(step.field is not None for step in steps):
            yield "spec.rules", Together(tuple(steps))


def _steps_by_place(entries: Sequence[Entry]) -> dict[str, list[Step]]:
    """What is written at the places of each selector, in the order in which a review does so."""
    written = [
        entry
        for entry in entries
        if entry.enforcement.rule in (Rule.SET, Rule.DEFAULT)
        # What is written into items that a selector chooses depends on the object.
        and entry.slot.items is None
        and entry.field.type is not FieldType.ITEMIZED
        and entry.field.home is NO_HOME
    ]
    set_slots = {entry.slot for entry in written if entry.enforcement.rule is Rule.SET}
    steps: dict[str, list[Step]] = {}
    for rule, is_computed in product((Rule.SET, Rule.DEFAULT), (False, True)):
        for entry in written:
            is_next = entry.enforcement.rule is rule
            is_next = is_next and (entry.field.formatter is not None) is is_computed
            # Where something is set, nothing is missing.
            if is_next and (rule is Rule.SET or entry.slot not in set_slots):
                steps.setdefault(entry.slot.selector, []).append(_step(entry))
    return steps


def _step(entry: Entry) -> Step:
    field, slot, enforcement = entry.field, entry.slot, entry.enforcement
    formatter = field.formatter
    return Step(
        str(slot),
        enforcement.value,
        is_default=enforcement.rule is Rule.DEFAULT,
        field=formatter,
        map_key=slot.key if formatter is not None and formatter.is_map else None,
        ref=() if formatter is not None else (*field.ref, *filter(None, [slot.key])),
    )
