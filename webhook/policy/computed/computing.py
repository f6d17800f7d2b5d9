"""The computed fields of one object, each of the kind that it is."""

from __future__ import annotations

from webhook.policy.computed.computed import ComputedField, Spot
from webhook.policy.computed.formatted import FormattedValue
from webhook.policy.computed.formatted_items import FormattedItems
from webhook.policy.computed.plain_items import PlainItems


def computed_field(spot: Spot) -> ComputedField:
    """The field at *spot*."""
    formatter = spot.plan.field.formatter
    if formatter is None:
        return PlainItems(spot)
    if formatter.array_key is None:
        return FormattedValue(spot, formatter)
    return FormattedItems(spot, formatter, formatter.array_key)
