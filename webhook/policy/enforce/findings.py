"""What enforcing a plan finds out, and how values are told: bounded, and without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from webhook.mapping.codecs import Unreadable
from webhook.mapping.fields import Field
from webhook.model.decision import (
    NOT_SHOWN,
    Change,
    NotApplied,
    Violation,
    without_credentials,
)
from webhook.model.pointer import Path
from webhook.model.values import FieldType

# A printed value is cut at this length: the message has to stay readable.
_SHOWN_CHARS = 120


@dataclass(slots=True)
class Findings:
    """What enforcing a plan found out."""

    changes: list[Change] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    not_applied: list[NotApplied] = field(default_factory=list)


def as_one(earlier: Iterable[Change], later: Sequence[Change]) -> list[Change]:
    """
    *earlier* and *later* changes of one object. Of a value that was written twice, the last counts,
    beside what stood there before the first.
    """
    before: dict[Path, Any] = {}
    for change in earlier:
        before.setdefault(change.path, change.old)
    again = {change.path for change in later}
    return [
        *[change for change in earlier if change.path not in again],
        *[change._replace(old=before.get(change.path, change.old)) for change in later],
    ]


def once(violations: Iterable[Violation]) -> list[Violation]:
    """*violations* without those that say the same of one value by another selector."""
    told: dict[tuple[Any, ...], Violation] = {}
    for found in violations:
        key = (found.path, found.field, found.rule, found.problem, found.accepted, found.source)
        told.setdefault(key, found)
    return list(told.values())


def sort_key(violation: Violation) -> tuple[Any, ...]:
    """Violations are told by field, then rule, then place."""
    return violation.field, violation.rule, _order(violation.path)


def _order(path: Path) -> tuple[tuple[bool, int, str], ...]:
    """A sort key for paths: indexes by number, keys by text."""
    return tuple(
        [(False, token, "") if isinstance(token, int) else (True, 0, token) for token in path]
    )


def printable(field: Field, value: Any) -> Any:
    """*value* as it may stand in a message, record or log: hidden if secret, else bounded."""
    if value is None:
        return None
    is_open = not field.sensitive and field.type is not FieldType.OBJECT
    if is_open and type(value) is str and len(value) <= _SHOWN_CHARS and "@" not in value:
        return value  # What most values are.
    if isinstance(value, Unreadable):
        value = value.raw
        if value is None:
            return None
    if not is_open:
        return NOT_SHOWN
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # 1e3 was a number like any other to its author.
    if isinstance(value, str):
        value = without_credentials(value[: 4 * _SHOWN_CHARS])
        return value if len(value) <= _SHOWN_CHARS else f"{value[:_SHOWN_CHARS]}…"
    if isinstance(value, list):
        if all(isinstance(item, (str, int, float)) for item in value) and len(value) <= 20:
            return [printable(field, item) for item in value]
        if field.type is FieldType.NAMES_ARRAY:
            return [printable(field, name) for name in _names(value)][:20]
        return NOT_SHOWN
    return NOT_SHOWN if isinstance(value, dict) else value


def _names(value: list[Any]) -> Iterator[str]:
    for item in value:
        name = item.get("name") if isinstance(item, dict) else item
        if isinstance(name, str):
            yield name
