"""The policy in force as answers show it: each rule with where it comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from webhook.api.rest.scope_units import ScopeUnit, show_unit
from webhook.mapping.fields import is_secret
from webhook.model.decision import NOT_SHOWN, Rule, Source
from webhook.model.kinds import GroupVersionKind
from webhook.policy.effective import holds_at
from webhook.policy.explain import Explained, explain
from webhook.policy.rules.enforcement import CompiledPolicy, Slot
from webhook.store.snapshot import Snapshot

_WITHOUT_VALUE = (Rule.REQUIRED, Rule.BLOCKED)
_LISTS = (Rule.OPTIONS, Rule.PATTERN)


def policies_held(
    snapshot: Snapshot, kind: GroupVersionKind, place: ScopeUnit, *, is_strict: bool = True
) -> list[CompiledPolicy]:
    """
    The policies for *kind* that hold in all of *place*; narrower ones are left out.

    Raises:
        BadRequestError: as `ScopeUnit.branch`.
    """
    branch = place.branch(snapshot, is_strict=is_strict)
    return [
        policy
        for policy in snapshot.policies.policies_of(kind)
        if policy.scope.breadth <= place.scope.breadth and holds_at(policy, branch)
    ]


def effective_rules(
    snapshot: Snapshot, kind: GroupVersionKind, place: ScopeUnit, *, is_strict: bool = True
) -> list[dict[str, Any]]:
    """
    What is in force for *kind* in all of *place*, as rules of one enforcement or more.

    Raises:
        BadRequestError: as `ScopeUnit.branch`.
    """
    policies = policies_held(snapshot, kind, place, is_strict=is_strict)
    rules: dict[tuple[str, Slot, Source], dict[str, Any]] = {}
    for explained in explain(policies):
        name, key = field_of(explained), explained.slot.key
        rule = rules.setdefault(
            (name, replace(explained.slot, key=None), explained.source),
            {
                "field": name,
                "specSelector": explained.selector,
                **_items(explained.slot),
                "enforcements": [],
                "sourceOfRule": source_of_rule(explained.source),
            },
        )
        rule["enforcements"].append(_enforcement(explained, key))
        overridden = [source_of_rule(other.source) for other in explained.overrides]
        if overridden:
            rule.setdefault("overrides", []).extend(overridden)
    return list(rules.values())


def field_of(explained: Explained) -> str:
    """The field, for an attribute of items with the attribute behind it: `storage.nfs.readOnly`."""
    slot = explained.slot
    # What several policies gave together is told attribute by attribute, behind the slot.
    parts = (slot.field, slot.attribute, explained.field.removeprefix(str(slot)).strip("."))
    return ".".join([part for part in parts if part])


def source_of_rule(source: Source) -> dict[str, str]:
    """Scope and unit of a rule, and the policy that says it."""
    return {**show_unit(source.scope.value, source.unit), "policy": source.policy}


def _items(slot: Slot) -> dict[str, Any]:
    """Which items of a list a rule is about."""
    if slot.items is None:
        return {}
    params = {
        name: NOT_SHOWN if is_secret([name]) else value for name, value in slot.items.params.items()
    }
    found: dict[str, Any] = {"itemSelector": slot.items.selector}
    return {**found, "selectorParams": params} if params else found


def _enforcement(explained: Explained, key: str | None) -> dict[str, Any]:
    """One enforcement in the shape in which policies have it."""
    rule = explained.rule
    if key is None:
        return {rule.value: explained.value}
    if rule in _WITHOUT_VALUE:
        return {rule.value: {"key": key}}
    return {rule.value: {"key": key, "values" if rule in _LISTS else "value": explained.value}}
