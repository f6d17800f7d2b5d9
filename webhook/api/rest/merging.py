"""What a PATCH makes of what is there: pure functions on JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from webhook.api.problems import BadRequestError

# What tells rules apart, beside the keys of their enforcements.
_IDENTITY = ("field", "specSelector", "itemSelector", "selectorParams")


def merge_patch(target: Any, patch: Any) -> Any:
    """*target* after *patch* by RFC 7396: maps by name, null removes, all else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def merge_rules(rules: Any, patch: Any) -> list[Any]:
    """
    *rules* of a GVKPolicy after those of *patch*.

    A rule of the same field, selectors and parameters takes the given enforcements in, each in
    the place of one of its kind and key; `{max: null}` removes, and so does a whole rule whose
    `enforcements` are null. Other rules are added.

    Raises:
        BadRequestError: *patch* is no list of rules.
    """
    merged = [dict(rule) if isinstance(rule, Mapping) else rule for rule in rules or ()]
    if not isinstance(patch, list):
        raise BadRequestError("rules", "must be a list of rules")
    for index, given in enumerate(patch):
        if not isinstance(given, Mapping):
            raise BadRequestError(f"rules[{index}]", "must be an object")
        identity = _identity_of(given)
        same = [
            rule for rule in merged if isinstance(rule, dict) and _identity_of(rule) == identity
        ]
        enforcements = given.get("enforcements", [])
        if enforcements is None:
            merged = [rule for rule in merged if rule not in same]
        elif not isinstance(enforcements, list):
            raise BadRequestError(f"rules[{index}].enforcements", "must be a list")
        elif same:
            same[0].update({key: value for key, value in given.items() if key != "enforcements"})
            _take_in(same, enforcements)
            merged = [rule for rule in merged if rule not in same or rule["enforcements"]]
        else:
            merged.append({**given, "enforcements": _without_nulls(enforcements)})
    return merged


def _identity_of(rule: Mapping[str, Any]) -> str:
    parts = [rule.get(name) or None for name in _IDENTITY]
    return json.dumps(parts, sort_keys=True, default=str)


def _take_in(same: Sequence[dict[str, Any]], enforcements: Sequence[Any]) -> None:
    """Put *enforcements* in the place of those of their kind and key; new ones go to the first."""
    for enforcement in enforcements:
        names = _names_of(enforcement)
        is_placed = False
        for rule in same:
            kept: list[Any] = []
            for there in rule.get("enforcements") or ():
                if not _is_replaced(there, names):
                    kept.append(there)
                elif not is_placed and not _is_null(enforcement):
                    kept.append(enforcement)
                    is_placed = True
            rule["enforcements"] = kept
        if not is_placed and not _is_null(enforcement):
            same[0]["enforcements"] = [*same[0]["enforcements"], enforcement]


def _names_of(enforcement: Any) -> tuple[str, Any] | None:
    """Kind and key of an enforcement; None where it is none, which the compiler then says."""
    if not isinstance(enforcement, Mapping) or len(enforcement) != 1:
        return None
    ((kind, body),) = enforcement.items()
    return str(kind).lower(), body.get("key") if isinstance(body, Mapping) else None


def _is_replaced(there: Any, names: tuple[str, Any] | None) -> bool:
    return names is not None and _names_of(there) == names


def _is_null(enforcement: Any) -> bool:
    """`{max: null}`, or for a map `{max: {key: cpu, value: null}}`."""
    if not isinstance(enforcement, Mapping) or len(enforcement) != 1:
        return False
    (body,) = enforcement.values()
    if isinstance(body, Mapping):
        contents = [value for key, value in body.items() if key != "key"]
        return bool(contents) and all(value is None for value in contents)
    return body is None


def _without_nulls(enforcements: Sequence[Any]) -> list[Any]:
    return [enforcement for enforcement in enforcements if not _is_null(enforcement)]
