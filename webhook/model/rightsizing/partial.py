"""Reading of what somebody may have spoilt in part: the rest of it counts all the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from webhook.errors import SpecError

# Where a problem is: keys of maps, and places in lists.
Location: TypeAlias = tuple[str | int, ...]

_ReadT = TypeVar("_ReadT")

# What is left after one removal may show more; nothing that is written here needs two.
_MAX_REMOVALS = 3


def read_all(
    adapter: TypeAdapter[_ReadT], value: Mapping[str, Any], path: str, problems: list[SpecError]
) -> _ReadT | None:
    """*value*, or None, with a problem more for each that it has, with its path below *path*."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        problems += _problems(error, path)
        return None


def read_parts(
    adapter: TypeAdapter[_ReadT],
    value: Mapping[str, Any],
    path: str,
    problems: list[SpecError],
    *,
    part_of: Callable[[Location], Location],
) -> _ReadT:
    """
    What of *value* can be read; the rest is as if it weren't there, and a problem more for each.

    *part_of* says for the location of a problem which part of *value* goes with it. Nothing of
    *value* is needed by *adapter*.
    """
    rest: Any = value
    for _ in range(_MAX_REMOVALS):
        try:
            return adapter.validate_python(rest)
        except ValidationError as error:
            problems += _problems(error, path)
            parts = {part_of(item["loc"]) for item in error.errors(include_url=False)}
            rest = _without(rest, parts)
    return adapter.validate_python({})


def _problems(error: ValidationError, path: str) -> list[SpecError]:
    found = []
    for item in error.errors(include_url=False, include_input=False):
        where = path + "".join(
            [f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"]]
        )
        message = item["msg"].removeprefix("Value error, ")
        found.append(SpecError(where, message[:1].lower() + message[1:]))
    return found


def _without(value: Any, parts: Iterable[Location]) -> Any:
    """A copy of *value* without *parts*."""
    rest = copy.deepcopy(value)
    # The last of a list first, so that the places of the others stay what they are.
    for part in sorted(parts, key=_order, reverse=True):
        _remove(rest, part)
    return rest


def _order(part: Location) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in part]


def _remove(value: Any, part: Location) -> None:
    *above, last = part
    for step in above:
        value = _item(value, step)
    if isinstance(value, dict):
        value.pop(last, None)
    elif isinstance(value, list) and isinstance(last, int) and last < len(value):
        del value[last]


def _item(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None
