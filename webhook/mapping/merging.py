"""
The result of a setExpr, merged into the element that it was made for, and what that changes.

jq can't hold each number, so that an element never comes back from it: only what the result says
and the element lacks is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from webhook.errors import EvaluationError
from webhook.mapping.results import Inexact
from webhook.model.pointer import Path
from webhook.model.values import same_value

# Whether two keys of items are one.
SameKey = Callable[[Any, Any], bool]


def merge(node: Any, result: Any, key: str | None, same_key: SameKey = same_value) -> Any:
    """
    *node* with *result* in it; neither is changed.

    Objects are merged recursively. Lists of objects that all have the name *key* are merged by
    it: an item of the same key (*same_key* says of which) is completed, another one is appended.
    Everything else takes the place of what is there. Null says nothing, and so leaves no key
    behind.

    Raises:
        EvaluationError: the result has a number of 2^53 or more that is not the element's own.
    """
    if isinstance(result, dict):
        merged = dict(node) if isinstance(node, dict) else {}
        for name, part in result.items():
            if part is not None:
                merged[name] = merge(merged.get(name), part, key, same_key)
        return merged
    if isinstance(result, list) and key is not None and is_keyed(result, key):
        merged_items = list(node) if isinstance(node, list) else []
        for item in result:
            index = index_of(merged_items, key, item[key], same_key)
            if index is None:
                merged_items.append(merge(None, item, key, same_key))
            else:
                merged_items[index] = merge(merged_items[index], item, key, same_key)
        return merged_items
    return _replacement(node, result)


def is_keyed(items: list[Any], key: str) -> bool:
    """Whether all *items* are objects that say their *key*."""
    return all(isinstance(item, dict) and item.get(key) is not None for item in items)


def index_of(items: list[Any], key: str, value: Any, same_key: SameKey = same_value) -> int | None:
    """Where the first object stands whose *key* has that value; None if there is none."""
    for index, item in enumerate(items):
        if isinstance(item, dict) and key in item and same_key(item[key], value):
            return index
    return None


def _replacement(old: Any, new: Any) -> Any:
    """*new* as it takes the place of *old*, with the numbers of *old* where jq rounded them."""
    match new:
        case Inexact():
            if isinstance(old, (int, float)) and float(old) == float(new.value):
                return old
            raise EvaluationError("a setExpr gives a number of 2^53 or more, which jq rounds")
        case dict():
            before = old if isinstance(old, dict) else {}
            return {
                name: _replacement(before.get(name), part)
                for name, part in new.items()
                # What is null in the element is nobody's business.
                if part is not None or (name in before and before[name] is None)
            }
        case list():
            items = old if isinstance(old, list) else []
            return [
                _replacement(items[index] if index < len(items) else None, part)
                for index, part in enumerate(new)
            ]
        case _:
            return new


class Difference(NamedTuple):
    """One spot at which two values differ; None stands for nothing as well as for null."""

    path: Path
    old: Any
    new: Any


def differences(old: Any, new: Any, path: Path = ()) -> Iterator[Difference]:
    """
    Where *new* differs from *old*, as deep as both go; *path* leads to them.

    Of an object that is new each value is one, of a list that is new each object in it. An item
    that a list did not have is one as a whole.
    """
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name, gone in old.items():
            if name not in new and gone is not None:
                yield Difference((*path, name), gone, None)
        for name, part in new.items():
            yield from differences(old.get(name), part, (*path, name))
    elif isinstance(old, list) and isinstance(new, list):
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from differences(before, after, (*path, index))
        for index, part in enumerate(old[len(new) :], len(new)):
            yield Difference((*path, index), part, None)
        for index, part in enumerate(new[len(old) :], len(old)):
            yield Difference((*path, index), None, part)
    elif old is None and isinstance(new, dict) and new:
        yield from differences({}, new, path)
    elif old is None and isinstance(new, list) and any(isinstance(item, dict) for item in new):
        yield from differences([], new, path)
    elif not same_value(old, new):
        yield Difference(path, old, new)
