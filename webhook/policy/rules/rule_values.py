"""The rules that a field of each type has, and what the value of a rule means."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

from webhook.errors import SpecError
from webhook.mapping.fields import Field
from webhook.model.decision import Rule
from webhook.model.globs import Glob
from webhook.model.names import did_you_mean
from webhook.model.quantity import canonical
from webhook.model.values import FieldType, ValueTypeError, json_type, read_value

_BOUNDS = (Rule.MIN, Rule.MAX)
LISTS = (Rule.OPTIONS, Rule.PATTERN)
FLAGS = (Rule.REQUIRED, Rule.BLOCKED, Rule.CAN_EDIT)

_ALWAYS = (Rule.REQUIRED, Rule.BLOCKED)
# An option may say how it is displayed.
_OPTION_WORDS = frozenset({"value", "displayed"})

# Rules that a native field of each type has (rule table of the policy reference; `pattern` is
# ours). A rule that is not here is an error, never ignored.
_NATIVE_RULES: dict[FieldType, tuple[Rule, ...]] = {
    FieldType.BOOLEAN: (Rule.CAN_EDIT, *_ALWAYS),
    FieldType.STRING: (Rule.CAN_EDIT, *_ALWAYS, *LISTS),
    FieldType.IPADDRESS: (Rule.CAN_EDIT, *_ALWAYS, *LISTS),
    FieldType.INTEGER: (Rule.CAN_EDIT, *_ALWAYS, *_BOUNDS, Rule.STEP, Rule.DEFAULT_FROM),
    FieldType.NUMBER: (Rule.CAN_EDIT, *_ALWAYS, *_BOUNDS, Rule.STEP, Rule.DEFAULT_FROM),
    FieldType.QUANTITY: (Rule.CAN_EDIT, *_ALWAYS, *_BOUNDS, Rule.DEFAULT_FROM),
    FieldType.STRINGS: (Rule.CAN_EDIT, *_ALWAYS, *LISTS),
    FieldType.INTEGERS: (Rule.CAN_EDIT, *_ALWAYS, Rule.OPTIONS),
    FieldType.NUMBERS: (Rule.CAN_EDIT, *_ALWAYS, Rule.OPTIONS),
    FieldType.NAMES_ARRAY: (Rule.CAN_EDIT, *_ALWAYS, *LISTS),
    FieldType.OBJECT: (Rule.CAN_EDIT, *_ALWAYS),
}

_FLAT_NUMERIC = (Rule.OPTIONS, *_BOUNDS, Rule.STEP)
_FLAT_RULES: dict[FieldType, tuple[Rule, ...]] = {
    FieldType.BOOLEAN: (Rule.OPTIONS,),
    FieldType.STRING: LISTS,
    FieldType.IPADDRESS: LISTS,
    FieldType.INTEGER: _FLAT_NUMERIC,
    FieldType.NUMBER: _FLAT_NUMERIC,
    FieldType.QUANTITY: _FLAT_NUMERIC,
    FieldType.STRINGS: LISTS,
    FieldType.INTEGERS: (Rule.OPTIONS,),
    FieldType.NUMBERS: (Rule.OPTIONS,),
    FieldType.NAMES_ARRAY: LISTS,
    FieldType.OBJECT: (),
}


def in_any_case(body: Mapping[str, Any], words: Collection[str]) -> dict[str, Any]:
    """*body* with its key *words* in lower case; a second spelling of one stays as it is."""
    known = {word: part for word, part in body.items() if word in words}
    for word, part in body.items():
        if word in known:
            continue
        plain = word.lower()
        known[plain if plain in words and plain not in known else word] = part
    return known


def rule_named(word: str) -> Rule | None:
    for rule in Rule:
        if rule.lower() == word.lower() and rule.is_policy_rule:
            return rule
    return None


def native_rules_of(field: Field) -> tuple[Rule, ...]:
    return _NATIVE_RULES[field.home.rules_as or field.type or FieldType.STRING]


def flat_rules_of(field: Field) -> tuple[Rule, ...]:
    if field.having is not None:
        return (Rule.REQUIRED, Rule.BLOCKED)
    common = (Rule.DEFAULT, Rule.SET, *_ALWAYS)
    if field.type is None:
        return (*common, *LISTS, *_BOUNDS, Rule.STEP)
    return (*common, *_FLAT_RULES[field.type])


def _nearest_float(amount: Fraction) -> float | None:
    try:
        return float(amount)
    except OverflowError:
        return None


def _has_wide_integer(value: Any) -> bool:
    match value:
        case bool():
            return False
        case int():
            return not -(2**63) <= value < 2**64
        case list():
            return any(map(_has_wide_integer, value))
        case dict():
            return any(map(_has_wide_integer, value.values()))
        case _:
            return False


def no_such_rule(word: str, allowed: tuple[Rule, ...], field: Field) -> str:
    known = rule_named(word)
    kind = field.type.value if field.type else "untyped"
    article = "an" if kind[0] in "aeiou" else "a"
    if known is Rule.DEFAULT and Rule.CAN_EDIT in allowed:
        return "a default is no rule: it stands in spec.defaults, as the value itself"
    if known is not None:
        return f"{article} {kind} field has no rule {known}; it has {', '.join(allowed)}"
    return f"unknown rule{did_you_mean(word, [*allowed])}"


def guess_type(rule: Rule, body: Any) -> FieldType:
    """The type of a field whose group's author gave none: that of the enforcement's value."""
    if rule in (Rule.MIN, Rule.MAX, Rule.STEP):
        return FieldType.QUANTITY
    sample = body[0] if rule in LISTS and isinstance(body, list) and body else body
    if isinstance(sample, dict):
        sample = in_any_case(sample, _OPTION_WORDS).get("value", sample)
    match sample:
        case bool():
            return FieldType.STRING if rule in FLAGS else FieldType.BOOLEAN
        case int() | float():
            return FieldType.NUMBER
        case list():
            return FieldType.STRINGS
        case dict():
            return FieldType.OBJECT
        case _:
            return FieldType.STRING


def read_rule(rule: Rule, body: Any, value_type: FieldType) -> tuple[Any, Any]:
    """
    Value and meaning of *rule*; the meaning is None where it asks for nothing.

    Raises:
        SpecError: with a path relative to the rule.
    """
    if rule in FLAGS:
        if not isinstance(body, bool):
            whole = "; the field is ruled as a whole, not by item or key"
            hint = whole if isinstance(body, dict) and value_type is FieldType.OBJECT else ""
            raise SpecError("", f"must be true or false, got {json_type(body)}{hint}")
        # `required: false`, `blocked: false` and `canEdit: true` are what holds without them.
        asks = body is not (rule is Rule.CAN_EDIT)
        return body, True if asks else None
    if rule is Rule.OPTIONS:
        values = [_read_one(item, value_type.element, f"[{i}]") for i, item in _items(body)]
        return [value for value, _ in values], tuple([meaning for _, meaning in values])
    if rule is Rule.PATTERN:
        return _read_patterns(body)
    if body is None:
        raise SpecError("", "a value is needed")
    if rule in (Rule.MIN, Rule.MAX, Rule.STEP):
        value, meaning = _read_one(body, value_type, "")
        if rule is Rule.STEP and meaning <= 0:
            raise SpecError("", "a step is greater than 0")
        return value, meaning
    return _read_one(body, value_type, "", written=True)


def _items(body: Any) -> list[tuple[int, Any]]:
    if not isinstance(body, list) or not body:
        raise SpecError("", "must be a list with at least one value")
    items = []
    for index, item in enumerate(body):
        if isinstance(item, dict):
            option = in_any_case(item, _OPTION_WORDS)
            if "value" not in option or set(option) - _OPTION_WORDS:
                raise SpecError(f"[{index}]", "must be a value or {value, displayed}")
            items.append((index, option["value"]))
        else:
            items.append((index, item))
    return items


def _read_patterns(body: Any) -> tuple[Any, Any]:
    patterns = []
    globs = []
    for index, item in _items(body):
        if not isinstance(item, str):
            raise SpecError(f"[{index}]", f"must be text, got {json_type(item)}")
        try:
            globs.append(Glob.compile(item))
        except ValueError as error:
            raise SpecError(f"[{index}]", str(error)) from error
        patterns.append(item)
    return patterns, tuple(globs)


def _read_one(
    value: Any, value_type: FieldType, path: str, *, written: bool = False
) -> tuple[Any, Any]:
    """*value* in the spelling that we write, and its meaning."""
    if value is None:
        raise SpecError(path, "a value is needed")
    try:
        meaning = read_value(value, value_type)
    except ValueTypeError as error:
        quote = (
            "; put it in quotes"
            if value_type is FieldType.STRING and isinstance(value, (bool, int, float))
            else ""
        )
        raise SpecError(path, f"must be {error.expected}, got {json_type(value)}{quote}") from error
    return _canonical_value(value, meaning, value_type, path, written=written), meaning


def _canonical_value(
    value: Any, meaning: Any, value_type: FieldType, path: str, *, written: bool
) -> Any:
    if written and _has_wide_integer(value):
        raise SpecError(path, "whole numbers of an object have at most 64 bits")
    match value_type:
        case FieldType.QUANTITY:
            return canonical(value)
        case FieldType.INTEGER:
            return meaning
        case FieldType.NUMBER if isinstance(value, str):
            if meaning.denominator == 1:
                return meaning.numerator
            number = _nearest_float(meaning)
            if number is None or Fraction(repr(number)) != meaning:
                raise SpecError(path, "has more digits than a number of an object can hold")
            return number
        case FieldType.NAMES_ARRAY if written:
            return [{"name": name} for name in meaning]
        case _:
            return value
