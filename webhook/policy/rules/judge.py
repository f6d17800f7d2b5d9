"""
The rules themselves: one function for each, from a value to what is wrong with it.

They know no object and no policy set, so the same functions judge a workload, a default that a
policy gives, and the old value of an update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from webhook.model.decision import Rule, without_credentials
from webhook.model.names import nearest
from webhook.model.quantity import format_quantity
from webhook.model.values import FieldType, same_value
from webhook.policy.rules.enforcement import Enforcement

# A list of accepted values longer than this is cut in messages; the count says how many are left.
_LISTED = 10

# An element of a list that is named in a message is cut here.
_ELEMENT_CHARS = 40

# An amount with more digits tells nobody where the nearest step is.
_MAX_DIGITS = 24
# Amounts are exact to nano, as Kubernetes has them.
_NANO_DIGITS = 9

# What YAML 1.1 or a person takes for a boolean, and JSON for text.
_BOOLEAN_WORDS = frozenset({"true", "false", "yes", "no", "on", "off"})


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
    beside: Sequence[Enforcement] = (),
) -> Problem | None:
    """
    Judge a value by one rule.

    *meaning* is what `read_value` made of it, None if absent. *default* is the effective default
    of the slot (for canEdit), *minimum* its min rule (the base of step). A step that a message
    names keeps the min and max rules that are *beside* it.
    """
    rule = enforcement.rule
    if rule is Rule.REQUIRED:
        missing = meaning is None or _is_empty(meaning)
        return Problem("a value is required", "") if missing else None
    if rule is Rule.SET:
        if keeps_set(enforcement, meaning):
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
        return _judge_step(enforcement, meaning, minimum, beside)
    return _JUDGES[rule](enforcement, meaning)


def keeps_set(enforcement: Enforcement, meaning: Any) -> bool:
    """Whether a value is the one that *enforcement* sets. *meaning* is as `judge` has it."""
    if meaning is None:
        # The API server leaves empty values out of what it sends.
        return _is_empty(enforcement.meaning)
    return _equals(meaning, enforcement)


def judge_mistyped(
    enforcement: Enforcement, value: Any, *, default: Enforcement | None = None
) -> Problem | None:
    """
    What is wrong with *value*, which is of the wrong type, beside that.

    Only what would be so with any value: whoever mends the type must not be refused again for it.
    *default* is as `judge` has it.
    """
    if enforcement.rule is Rule.CAN_EDIT and default is not None:
        return None
    if enforcement.rule in (Rule.BLOCKED, Rule.CAN_EDIT):
        return judge(enforcement, value)
    return None


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
    enforcement: Enforcement,
    meaning: Any,
    minimum: Enforcement | None,
    beside: Sequence[Enforcement],
) -> Problem | None:
    base = minimum.meaning if minimum is not None else 0
    step = enforcement.meaning
    if (meaning - base) % step == 0:
        return None
    start = show(minimum.value) if minimum is not None else "0"
    accepted = f"{start} plus a multiple of {show(enforcement.value)}"
    rules = (*beside, minimum) if minimum is not None else beside
    steps = [_amount(amount, enforcement) for amount in _steps_near(meaning, base, step, rules)]
    if steps and all(len(text) <= _MAX_DIGITS for text in steps):
        accepted += f", the nearest being {' or '.join(steps)}"
    return Problem("not one of the steps", accepted)


def _steps_near(meaning: Any, base: Any, step: Any, rules: Iterable[Enforcement]) -> list[Any]:
    """The steps below and above *meaning*, within all min and max of *rules*; one, or none."""
    bounds = [(rule.rule, rule.meaning) for rule in rules]
    low = max([bound for rule, bound in bounds if rule is Rule.MIN], default=None)
    high = min([bound for rule, bound in bounds if rule is Rule.MAX], default=None)
    below = meaning - (meaning - base) % step
    near = [below, below + step]
    if low is not None:
        near = [max(amount, step_from(low, base, step)) for amount in near]
    if high is not None:
        near = [min(amount, high - (high - base) % step) for amount in near]
    return sorted({amount for amount in near if low is None or amount >= low})


def step_from(lowest: Any, base: Any, step: Any) -> Any:
    """The least step, counted from *base*, that is not below *lowest*."""
    return lowest + (base - lowest) % step


def _amount(amount: Any, enforcement: Enforcement) -> str:
    """*amount* in full, whatever its size: no float can hold `1e310`."""
    if enforcement.type is FieldType.QUANTITY:
        return format_quantity(amount)
    exact = Fraction(amount)
    if exact.denominator == 1:
        return str(exact.numerator)
    nanos = round(abs(exact) * 10**_NANO_DIGITS)
    digits = f"{nanos:0{_NANO_DIGITS + 1}d}"
    text = f"{digits[:-_NANO_DIGITS]}.{digits[-_NANO_DIGITS:].rstrip('0')}"
    return f"-{text}" if exact < 0 else text


def _judge_options(enforcement: Enforcement, meaning: Any) -> Problem | None:
    elements = meaning if isinstance(meaning, tuple) else (meaning,)
    bad = [element for element in elements if element not in enforcement.meaning]
    if not bad:
        return None
    which = _which(bad, "none of them") if isinstance(meaning, tuple) else ""
    accepted = f"one of {_listed(enforcement.value)}{which}{_nearest_option(bad[0], enforcement)}"
    return Problem("not an allowed value", accepted, len(bad))


def _nearest_option(element: Any, enforcement: Enforcement) -> str:
    """The end of a message: the option that was probably meant, where one is near."""
    options = list(zip(enforcement.meaning, enforcement.value, strict=True))
    if isinstance(element, str):
        near = nearest(element, [option for option, _ in options if isinstance(option, str)])
        return "" if near is None else f'; did you mean "{show(near)}"?'
    if isinstance(element, bool) or not isinstance(element, (int, Fraction)) or len(options) < 2:
        return ""
    amounts = [(abs(option - element), show(shown)) for option, shown in options]
    return f"; the nearest is {min(amounts, key=lambda pair: pair[0])[1]}"


def _judge_pattern(enforcement: Enforcement, meaning: Any) -> Problem | None:
    elements = meaning if isinstance(meaning, tuple) else (meaning,)
    bad = [
        element
        for element in elements
        if not any(glob.match(str(element)) for glob in enforcement.meaning)
    ]
    if not bad:
        return None
    which = _which(bad, "not") if isinstance(meaning, tuple) else ""
    accepted = f"like {_listed(enforcement.value, ' or ')}{which}"
    return Problem("matches no allowed pattern", accepted, len(bad))


def _which(bad: Sequence[Any], what: str) -> str:
    """
    Of a list: which elements are the bad ones.

    It stands with what is accepted, which is not printed where the value is a secret.
    """
    first = f'"{_cut(bad[0])}"' if isinstance(bad[0], str) else show(bad[0])
    return f"; {first} is {what}" if len(bad) == 1 else f"; {first} and others are {what}"


def _cut(text: str) -> str:
    text = show(text)
    return text if len(text) <= _ELEMENT_CHARS else f"{text[:_ELEMENT_CHARS]}…"


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


def expected_type(expected: str, got: Any) -> str:
    """What a value of the wrong type should be; text that looks like it is told apart."""
    if expected == "true or false" and isinstance(got, str) and got.lower() in _BOOLEAN_WORDS:
        return f'{expected}, not the text "{got}"'
    return expected


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
            return without_credentials(str(value))


def _listed(values: Iterable[Any], joint: str = ", ") -> str:
    shown = [show(value) for value in values]
    left = len(shown) - _LISTED
    return joint.join(shown[:_LISTED]) + (f" and {left} more" if left > 0 else "")
