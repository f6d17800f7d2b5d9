"""What enforcing an itemized field found out: values written, and rules that items break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webhook.mapping.codecs import Unreadable
from webhook.mapping.fields import Field
from webhook.model.decision import Rule, Source
from webhook.model.pointer import Path
from webhook.policy.plans import ItemPlan
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.judge import Problem


@dataclass(frozen=True, slots=True)
class ItemChange:
    """
    A value that was written: where, of which item, by which enforcement, from which policy.

    *old* is what a `set` found there. Without a *value*, what was there was taken out.
    """

    path: Path
    attribute: str
    item: str
    value: Any
    field: Field
    enforcement: Enforcement
    source: Source
    old: Any = None


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """A rule that an item, or the list as a whole, breaks."""

    path: Path
    attribute: str
    item: str
    rule: Rule
    problem: Problem
    value: Any
    field: Field
    source: Source


def written_item(
    plan: ItemPlan,
    path: Path,
    attribute: str,
    key: str,
    value: Any,
    enforcement: Enforcement,
    old: Any = None,
) -> ItemChange:
    """The change of an item by the name *key*, or of one *attribute* of it."""
    field = plan.field.attributes[attribute] if attribute else plan.field
    source = enforcement.source_of(attribute)
    return ItemChange(path, attribute, key, value, field, enforcement, source, old)


def broken_item(
    plan: ItemPlan,
    path: Path,
    attribute: str,
    key: str,
    rule: Enforcement,
    problem: Problem,
    value: Any,
    told: Rule | None = None,
) -> ItemProblem:
    """The break of *rule*, *told* as another one where that says it better."""
    field = plan.field.attributes.get(attribute, plan.field)
    if not attribute:
        # The key of an item tells no secret, whatever its values are.
        field = plan.field.attributes.get(plan.field.item_key, field)
    if told is None:
        told = Rule.LOCKED if rule.rule is Rule.IMPOSED else rule.rule
    if isinstance(value, Unreadable):
        value = value.raw
    return ItemProblem(path, attribute, key, told, problem, value, field, rule.source)
