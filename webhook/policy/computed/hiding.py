"""Which values are hidden because of where they really stand, whatever leads there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from webhook.mapping.fields import Field, is_secret
from webhook.model.pointer import Path
from webhook.model.values import FieldType
from webhook.policy.plans import SelectorPlan

# A text of so many characters in another one is there for a reason.
_TELLING_CHARS = 4
# So much of a secret gives it away.
_PART_CHARS = 8


def is_secret_path(path: Path, field_type: FieldType | None = None) -> bool:
    """Whether what stands at *path* must not be printed."""
    return is_secret([token for token in path if isinstance(token, str)], field_type)


def hidden_part(part: SelectorPlan) -> SelectorPlan:
    """*part* at a place below which all is a secret: nothing that it finds is shown."""
    selector = part.selector
    return replace(
        part,
        selector=replace(
            selector,
            fields={name: _hidden(field) for name, field in selector.fields.items()},
            native={name: _hidden(field) for name, field in selector.native.items()},
        ),
        fields=tuple([replace(plan, field=_hidden(plan.field)) for plan in part.fields]),
        items=tuple([replace(plan, field=_hidden(plan.field)) for plan in part.items]),
        computed=tuple([replace(plan, field=_hidden(plan.field)) for plan in part.computed]),
    )


def _hidden(field: Field) -> Field:
    if field.type is FieldType.BOOLEAN:
        return field  # It tells nothing.
    attributes = {name: _hidden(attribute) for name, attribute in field.attributes.items()}
    return replace(field, sensitive=True, attributes=attributes)


def secret_texts(node: Any) -> frozenset[str]:
    """The texts and numbers, as text, that stand below keys of *node* that name a secret."""
    found: set[str] = set()
    # How deep values nest is up to whoever sends them.
    pending = [(node, False)]
    while pending:
        part, hidden = pending.pop()
        if isinstance(part, dict):
            pending += [(value, hidden or is_secret([str(key)])) for key, value in part.items()]
        elif isinstance(part, list):
            pending += [(value, hidden) for value in part]
        elif hidden and isinstance(part, (str, int, float)) and not isinstance(part, bool):
            found.add(str(part))
    found.discard("")
    return frozenset(found)


def says_one_of(value: Any, secrets: Iterable[str]) -> bool:
    """Whether a text or number in *value* is one of *secrets*, holds one or is much of one."""
    texts = list(_texts(value))
    return any(
        text == secret
        or (len(secret) >= _TELLING_CHARS and secret in text)
        or (len(text) >= _PART_CHARS and text in secret)
        for secret in secrets
        for text in texts
    )


def _texts(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, (str, int, float)) and not isinstance(part, bool):
            yield str(part)
