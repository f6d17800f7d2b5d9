"""What has to be found out with jq about a policy before it takes effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.mapping.evaluator import Trial
from webhook.mapping.formatters import FormatterField
from webhook.mapping.samples import ARGUMENT_SAMPLES
from webhook.mapping.trials import RoundTrip, SelectsOwn, Writes
from webhook.model.decision import Rule
from webhook.policy.compile.joint_trials import joint_trials
from webhook.policy.rules.arguments import written_item
from webhook.policy.rules.enforcement import CompiledPolicy, Entry


def trials_of(policy: CompiledPolicy) -> Iterator[tuple[str, Trial]]:
    """The trials of what *policy* writes, each with the path that it is about."""
    for entry in policy.entries:
        if entry.enforcement.rule in (Rule.SET, Rule.DEFAULT):
            yield from [(entry.path, trial) for trial in _trials_of(entry)]
    yield from joint_trials(policy)


def _trials_of(entry: Entry) -> Iterator[Trial]:
    choice, enforcement, formatter = entry.slot.items, entry.enforcement, entry.field.formatter
    if entry.field.home.judged:
        return  # Nothing is written there.
    is_hidden = entry.field.sensitive
    if formatter is not None and (choice is None or enforcement.rule is Rule.DEFAULT):
        key = entry.slot.key if formatter.is_map else None
        yield RoundTrip(formatter, enforcement.value, key, is_hidden)
    elif formatter is not None:
        # It is completed with what each of the selected items has.
        yield Writes(formatter, _completed(formatter, enforcement.value), is_hidden=is_hidden)
    if choice is not None and enforcement.rule is Rule.DEFAULT:
        selector = entry.field.item_selectors[choice.selector]
        yield SelectsOwn(selector, choice.params, written_item(entry.field, enforcement.value))


def _completed(formatter: FormatterField, given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What of an item is *given*, alone and with samples of the other arguments."""
    samples = {name: ARGUMENT_SAMPLES[value_type][0] for name, value_type in formatter.args.items()}
    return [given, {**samples, **given}]
