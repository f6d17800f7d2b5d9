"""
The rules themselves: one function for each, from a value to what is wrong with it.

They know no object and no policy set, so the same functions judge a workload, a default that a
policy gives, and the old value of an update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from webhook.model.decision import Rule
from webhook.model.quantity import format_quantity
from webhook.model.values import FieldType, same_value
from webhook.policy.enforcement import Enforcement

# A list of accepted values longer than this is cut in messages; the count says how many are left.
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """
    What is wrong with a value.

    *badness* is how far it is off, so that an update can be told to make it less bad: the
    distance from a bound, the number of bad elements, else 1.
    """

    text: str
    accepted: str
    badness: Any = 1


def judge(
    enforcement: Enforcement,
    meaning: Any,
    *,
    default: Enforcement | None = None,
    minimum: Enforcement | None = None,
) -> Problem | None:
    """
    Judge a value by one rule.

    *meaning* is what `read_value` made of it, None if absent. *default* is the effective default
    of the slot (for canEdit), *minimum* its min rule (the base of step).
    """
    rule = enforcement.rule
    if rule is Rule.REQUIRED:
        missing = meaning is None or _is_empty(meaning)
        return Problem("a value is required", "") if missing else None
    if rule is Rule.SET:
        # The API server leaves empty values out of what it sends.
        left_out = meaning is None and _is_empty(enforcement.meaning)
        if left_out or (meaning is not None and _equals(meaning, enforcement)):
            return None
        return Problem("the policy sets this value", f"exactly {show(enforcement.value)}")
    if meaning is None:
        return None
    if rule is Rule.BLOCKED:
        if _is_empty(meaning):
            return None
        count = len(meaning) if isinstance(meaning, (tuple, list)) else 1
        return Problem("blocked by the policy", "no value", count)
    if rule is Rule.CAN_EDIT:
        return _judge_can_edit(meaning, default)
    if rule is Rule.STEP:
        return _judge_step(enforcement, meaning, minimum)
    return _JUDGES[rule](enforcement, meaning)


def _equals(meaning: Any, enforcement: Enforcement) -> bool:
    if enforcement.type is FieldType.OBJECT:
        return same_value(meaning, enforcement.meaning)
    return bool(meaning == enforcement.meaning)


def _is_empty(meaning: Any) -> bool:
    return isinstance(meaning, (str, tuple, list, dict)) and not meaning


def _judge_min(enforcement: Enforcement, meaning: Any) -> Problem | None:
    if meaning >= enforcement.meaning:
        return None
    accepted = f"≥ {show(enforcement.value)}"
    return Problem("below the minimum", accepted, enforcement.meaning - meaning)


def _judge_max(enforcement: Enforcement, meaning: Any) -> Problem | None:
    if meaning <= enforcement.meaning:
        return None
    accepted = f"≤ {show(enforcement.value)}"
    return Problem("above the maximum", accepted, meaning - enforcement.meaning)


def _judge_step(
    enforcement: Enforcement, meaning: Any, minimum: Enforcement | None
) -> Problem | None:
    base = minimum.meaning if minimum is not None else 0
    step = enforcement.meaning
    offset = (meaning - base) % step
    if offset == 0:
        return None
    below, above = meaning - offset, meaning - offset + step
    start = show(minimum.value) if minimum is not None else "0"
    near = f"{_amount(below, enforcement)} or {_amount(above, enforcement)}"
    return Problem(
        "not one of the steps",
        f"{start} plus a multiple of {show(enforcement.value)}, the nearest being {near}",
    )


def _amount(amount: Any, enforcement: Enforcement) -> str:
    if enforcement.type is FieldType.QUANTITY:
        return format_quantity(amount)
    return str(int(amount)) if amount == int(amount) else str(float(amount))


def _judge_options(enforcement: Enforcement, meaning: Any) -> Problem | None:
    elements = meaning if isinstance(meaning, tuple) else (meaning,)
    bad = sum([element not in enforcement.meaning for element in elements])
    if not bad:
        return None
    return Problem("not an allowed value", f"one of {_listed(enforcement.value)}", bad)


def _judge_pattern(enforcement: Enforcement, meaning: Any) -> Problem | None:
    elements = meaning if isinstance(meaning, tuple) else (meaning,)
    bad = sum(
        [not any(glob.match(str(element)) for glob in enforcement.meaning) for element in elements]
    )
    if not bad:
        return None
    return Problem("matches no allowed pattern", f"like {_listed(enforcement.value, ' or ')}", bad)


def _judge_can_edit(meaning: Any, default: Enforcement | None) -> Problem | None:
    if default is None:
        return Problem("the policy does not allow a value here", "no value")
    if _equals(meaning, default):
        return None
    return Problem(
        "the policy does not allow a change of its default", f"only {show(default.value)}"
    )


_JUDGES: dict[Rule, Callable[[Enforcement, Any], Problem | None]] = {
    Rule.MIN: _judge_min,
    Rule.MAX: _judge_max,
    Rule.OPTIONS: _judge_options,
    Rule.PATTERN: _judge_pattern,
}


def show(value: Any) -> str:
    """A policy's own value, as text for people."""
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return f"[{', '.join([show(item) for item in value])}]"
        case dict():
            return "an object"
        case _:
            return str(value)


def _listed(values: Iterable[Any], joint: str = ", ") -> str:
    shown = [show(value) for value in values]
    left = len(shown) - _LISTED
    return joint.join(shown[:_LISTED]) + (f" and {left} more" if left > 0 else "")
