"""Items that Kubernetes itself adds to a list, told from those that a user wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.errors import SpecError
from webhook.model.globs import Glob
from webhook.model.values import json_type

# Of a pattern: what a value has to be. None is any value.
_Shape = Any


@dataclass(frozen=True, slots=True)
class ItemPattern:
    """
    What one such item looks like, as a mapping's `serverItems` writes it.

    An object has the keys of the pattern and no others: a user may write any name, so an item
    with anything beside it (`hostPath`, say) is a user's. A text is a glob, a number or boolean is
    equal, null is any value, and each element of a list is like one of the pattern's list.
    """

    shape: Mapping[str, _Shape]

    def matches(self, item: Any) -> bool:
        return _matches(item, self.shape)


def compile_item(item: Mapping[str, Any], path: str) -> ItemPattern:
    """
    Raises:
        SpecError: a text is no glob, or nothing but null says what the item is.
    """
    if not any(value is not None for value in item.values()):
        raise SpecError(path, f"must say what the item is, got {json_type(dict(item))}")
    try:
        return ItemPattern({key: _compile(value) for key, value in item.items()})
    except ValueError as error:
        raise SpecError(path, str(error)) from error


def _compile(value: Any) -> _Shape:
    match value:
        case str():
            return Glob.compile(value)
        case dict():
            return {key: _compile(inner) for key, inner in value.items()}
        case list():
            return [_compile(inner) for inner in value]
        case _:
            return value


def _matches(value: Any, shape: _Shape) -> bool:
    match shape:
        case None:
            return True
        case Glob():
            return isinstance(value, str) and shape.match(value)
        case dict():
            if not isinstance(value, dict):
                return False
            given = {key for key, inner in value.items() if inner is not None}
            return given == shape.keys() and all(_matches(value[key], shape[key]) for key in shape)
        case list():
            return isinstance(value, list) and all(
                any(_matches(inner, wanted) for wanted in shape) for inner in value
            )
        case _:
            # True is not 1.
            return type(value) is type(shape) and bool(value == shape)
