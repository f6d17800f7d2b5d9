"""What has to be found out with jq about a policy before it takes effect."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.mapping.evaluator import Trial
from webhook.mapping.trials import RoundTrip, SelectsOwn
from webhook.model.decision import Rule
from webhook.policy.arguments import written_item
from webhook.policy.enforcement import CompiledPolicy, Entry


def trials_of(policy: CompiledPolicy) -> Iterator[tuple[str, Trial]]:
    """The trials of what *policy* writes, each with the path that it is about."""
    for entry in policy.entries:
        if entry.enforcement.rule in (Rule.SET, Rule.DEFAULT):
            yield from [(entry.path, trial) for trial in _trials_of(entry)]


def _trials_of(entry: Entry) -> Iterator[Trial]:
    choice, enforcement, formatter = entry.slot.items, entry.enforcement, entry.field.formatter
    if formatter is not None and (choice is None or enforcement.rule is Rule.DEFAULT):
        # A `set` of selected items is completed with what each of them has.
        key = entry.slot.key if formatter.is_map else None
        yield RoundTrip(formatter, enforcement.value, key)
    if choice is not None and enforcement.rule is Rule.DEFAULT:
        selector = entry.field.item_selectors[choice.selector]
        yield SelectsOwn(selector, choice.params, written_item(entry.field, enforcement.value))
