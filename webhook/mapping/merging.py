"""
The result of a setExpr, merged into the element that it was made for.

jq can't hold each number, so that an element never comes back from it: only what the result says
and the element lacks is taken over.
"""

from __future__ import annotations

from typing import Any

from webhook.errors import EvaluationError
from webhook.mapping.results import Inexact


def merge(node: Any, result: Any, key: str | None) -> Any:
    """
    *node* with *result* in it; neither is changed.

    Objects are merged recursively. Lists of objects that all have the name *key* are merged by
    it: an item of the same key is completed, another one is appended. Everything else takes the
    place of what is there. Null says nothing, and so leaves no key behind.

    Raises:
        EvaluationError: the result has a number of 2^53 or more that is not the element's own.
    """
    if isinstance(result, dict):
        merged = dict(node) if isinstance(node, dict) else {}
        for name, part in result.items():
            if part is not None:
                merged[name] = merge(merged.get(name), part, key)
        return merged
    if isinstance(result, list) and key is not None and is_keyed(result, key):
        merged_items = list(node) if isinstance(node, list) else []
        for item in result:
            index = index_of(merged_items, key, item[key])
            if index is None:
                merged_items.append(merge(None, item, key))
            else:
                merged_items[index] = merge(merged_items[index], item, key)
        return merged_items
    return _replacement(node, result)


def is_keyed(items: list[Any], key: str) -> bool:
    """Whether all *items* are objects that say their *key*."""
    return all(isinstance(item, dict) and item.get(key) is not None for item in items)


def index_of(items: list[Any], key: str, value: Any) -> int | None:
    """Where the first object stands whose *key* has that value; None if there is none."""
    for index, item in enumerate(items):
        if isinstance(item, dict) and item.get(key) == value:
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
