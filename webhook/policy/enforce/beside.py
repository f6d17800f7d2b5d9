"""What the other values at a place mean for a field: what contradicts it, what it comes from."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.mapping.fields import Field, RefMismatchError, read_ref
from webhook.model.values import FieldType, ValueTypeError, read_value
from webhook.policy.enforce.findings import printable
from webhook.policy.enforce.homes import obstacle_at_home
from webhook.policy.enforce.sites import Site, Sites
from webhook.policy.native.agreement import is_extended_resource
from webhook.policy.plans import FieldPlan
from webhook.policy.rules.enforcement import Derivation, Enforcement, derive
from webhook.policy.rules.judge import show


@dataclass(frozen=True, slots=True)
class _Beside:
    """Another field at the same place: its value as printed, and its meaning."""

    value: Any
    meaning: Any


def contradiction(sites: Sites, site: Site, plan: FieldPlan, enforcement: Enforcement) -> str:
    """Why *enforcement* and another value of the same place can't both stand; else ``""``."""
    field = plan.field
    if field.home.special:
        return obstacle_at_home(sites.document, site.path, field, enforcement.meaning)
    node = sites.node(site)
    fields = site.plan.selector.native if plan.slot.native else site.plan.selector.fields
    key = plan.slot.key
    for other_name, keeps, relation in (
        (field.not_below, operator.ge, "is below"),
        (field.not_above, operator.le, "is above"),
    ):
        other = None if other_name is None else _read_beside(node, fields, other_name, key)
        if other is None:
            continue
        exact = key is not None and is_extended_resource(key)
        if exact and enforcement.meaning == other.meaning:
            continue
        if not exact and keeps(enforcement.meaning, other.meaning):
            continue
        name = other_name if key is None else f"{other_name}[{key}]"
        own = show(printable(field, enforcement.value))
        return f"{own} {'differs from' if exact else relation} {name} {show(other.value)}"
    if enforcement.meaning is True and field.not_without:
        other = _read_beside(node, fields, field.not_without, None)
        if other is not None and other.meaning is False:
            return f"true contradicts {field.not_without} false"
    if enforcement.meaning is False:
        other = None if not field.not_with else _read_beside(node, fields, field.not_with, None)
        if other is not None and other.meaning is True:
            return f"false contradicts {field.not_with} true"
        listed = field.not_with_item
        other = None if listed is None else _read_beside(node, fields, listed.field, None)
        if listed is not None and other is not None and listed.item in other.meaning:
            return f"false contradicts {listed.item} in {listed.field}"
    flag = field.item_not_without
    if flag is not None and flag.item in (enforcement.meaning or ()):
        other = _read_beside(node, fields, flag.field, None)
        if other is not None and other.meaning is False:
            return f"{flag.item} contradicts {flag.field} false"
    return ""


def _read_beside(
    node: Any, fields: Mapping[str, Field], name: str | None, key: str | None
) -> _Beside | None:
    """The field *name* of the place *node*; None if there is none, or no readable value."""
    if name is None:
        return None
    field = fields[name]
    try:
        value = read_ref(node, field.ref if key is None else (*field.ref, key))
        if value is None:
            return None
        return _Beside(printable(field, value), read_value(value, field.type or FieldType.STRING))
    except (RefMismatchError, ValueTypeError):
        return None


def derived_from(sites: Sites, site: Site, plan: FieldPlan) -> Enforcement | None:
    """
    What the `defaultFrom` of *plan* gives here; None without one, or without a source.

    Its value is None where the field can't hold it.
    """
    if plan.derived is None:
        return None
    derivation: Derivation = plan.derived.meaning
    try:
        source = read_ref(sites.node(site), derivation.ref)
        if source is None:
            return None
        return derive(plan.derived, source)
    except (RefMismatchError, ValueTypeError):
        return None
