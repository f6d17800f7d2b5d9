"""What a flat rule says in the arguments of expressions: item selectors, and formatter values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from webhook.errors import SpecError
from webhook.mapping.fields import Field
from webhook.mapping.formatters import KEY, VALUE, FormatterField
from webhook.model.decision import Rule
from webhook.model.documents import GvkRule
from webhook.model.names import did_you_mean
from webhook.model.values import FieldType, json_type, read_value
from webhook.policy.rules.enforcement import Entry, ItemChoice
from webhook.policy.rules.judge import Problem, judge
from webhook.policy.rules.rule_values import read_rule

# Rules that read a value; `required` and `blocked` only ask whether there is one.
_WRITTEN = (Rule.SET, Rule.DEFAULT)
_ON_VALUES = (Rule.OPTIONS, Rule.PATTERN, Rule.MIN, Rule.MAX)


def read_choice(rule: GvkRule, field: Field) -> ItemChoice | None:
    """
    The items of a list that *rule* is about; None if it is about the whole field.

    Raises:
        SpecError: with a path relative to the rule.
    """
    if rule.item_selector is None:
        if rule.selector_params is not None:
            raise SpecError("selectorParams", "are for an itemSelector, and there is none")
        return None
    if not field.is_list:
        kind = "a map" if field.is_map else f"of type {field.type or FieldType.STRING}"
        raise SpecError("itemSelector", f"is for lists; {field.name} is {kind}")
    selector = field.item_selectors.get(rule.item_selector)
    if selector is None:
        hint = did_you_mean(rule.item_selector, field.item_selectors) or "; it has none"
        raise SpecError(
            "itemSelector", f"{field.name} has no item selector {rule.item_selector!r}{hint}"
        )
    given = rule.selector_params or {}
    for name in given:
        if name not in selector.args:
            hint = did_you_mean(name, selector.args) or "; it has none"
            raise SpecError(
                f"selectorParams.{name}", f"{selector.name} has no parameter {name!r}{hint}"
            )
    params: dict[str, Any] = {}
    for name, value_type in selector.args.items():
        if given.get(name) is None:
            raise SpecError(f"selectorParams.{name}", f"is needed by {selector.name}")
        params[name] = _read_argument(given[name], value_type, f"selectorParams.{name}")
    return ItemChoice(selector.name, json.dumps(params, sort_keys=True))


def item_type(field: Field) -> FieldType | None:
    """The type of one item of a list."""
    return field.type.element if field.type is not None else None


def written_item(field: Field, value: Any) -> Any:
    """An item with *value* as it stands in the list: of names, an object that has one."""
    if field.formatter is None and field.type is FieldType.NAMES_ARRAY:
        return {"name": value}
    return value


# --- formatters ---------------------------------------------------------------------------------


def missing_expression(formatter: FormatterField, rule: Rule) -> str:
    """Why *rule* can't be kept with the expressions that there are; ``""`` if it can."""
    needed = {"getExpr": formatter.get, "setExpr": formatter.set if rule in _WRITTEN else True}
    lacking = [name for name, expression in needed.items() if expression is None]
    if not lacking:
        return ""
    return f"{rule} needs {' and '.join(lacking)} of formatter {formatter}, which has none"


def judged_argument(formatter: FormatterField) -> FieldType | None:
    """
    The type of the argument that value rules (`options`, `max`, …) on a list look at, in each
    item: the one called `value`. None where there is none.
    """
    return formatter.args.get(VALUE) if formatter.array_key not in (None, VALUE) else None


def read_arguments(formatter: FormatterField, body: Any, *, needs_key: bool) -> dict[str, Any]:
    """
    The arguments that a policy gives, in the spelling that is written. Null is not given.

    Raises:
        SpecError: with a path relative to the value.
    """
    if not isinstance(body, dict):
        named = ", ".join(formatter.args)
        raise SpecError("", f"must be an object of arguments ({named}), got {json_type(body)}")
    values: dict[str, Any] = {}
    for name, value in body.items():
        value_type = formatter.args.get(name)
        if value_type is None:
            hint = did_you_mean(str(name), formatter.args)
            raise SpecError(f".{name}", f"{formatter} has no argument {name!r}{hint}")
        if value is not None:
            values[name] = _read_argument(value, value_type, f".{name}")
            _check_enum(formatter, name, values[name], f".{name}")
    key = formatter.array_key
    if key is not None and needs_key and values.get(key) in (None, ""):
        raise SpecError(f".{key}", "is needed: it tells the item from the others")
    if not values:
        raise SpecError("", "an argument is needed")
    return values


def check_plain(formatter: FormatterField, value: Any) -> None:
    """
    Check the value of a formatter's field that is no object of arguments.

    Raises:
        SpecError: with a path relative to the value.
    """
    _check_range(value, "")
    _check_enum(formatter, VALUE if formatter.is_map else formatter.argument, value, "")


def check_key(formatter: FormatterField, key: str) -> None:
    """
    Raises:
        SpecError: *key* is none of the texts that the formatter's key may be.
    """
    _check_enum(formatter, KEY, key, "")


def contradicting_items(entries: Sequence[Entry]) -> Iterator[SpecError]:
    """
    Items of a formatter that a policy writes and does not allow.

    They have a slot each, by key, where the rules on all items have another one.
    """
    listed = [e for e in entries if e.field.formatter and e.field.formatter.array_key]
    for entry, other in product(listed, listed):
        same_list = replace(entry.slot, key=None) == replace(other.slot, key=None)
        if not same_list or entry.enforcement.rule not in _WRITTEN or other.slot.key is not None:
            continue
        found: Problem | None = None
        if other.enforcement.rule is Rule.BLOCKED:
            found = Problem("all items are blocked", "")
        elif other.enforcement.rule in _ON_VALUES and VALUE in entry.enforcement.value:
            value = entry.enforcement.value[VALUE]
            found = judge(other.enforcement, read_value(value, other.enforcement.type))
        if found is not None:
            yield SpecError(entry.path, f"{entry.enforcement.rule} of {entry.slot}: {found.text}")


def _check_enum(formatter: FormatterField, name: str, value: Any, path: str) -> None:
    allowed = formatter.enums.get(name)
    if allowed is not None and value not in allowed:
        raise SpecError(path, f"must be one of {', '.join(allowed)} (argsEnum of {formatter})")


def _read_argument(value: Any, value_type: FieldType, path: str) -> Any:
    if value_type is FieldType.OBJECT and not isinstance(value, (dict, list)):
        raise SpecError(path, f"must be an object or a list, got {json_type(value)}")
    try:
        read, _ = read_rule(Rule.SET, value, value_type)
    except SpecError as error:
        raise SpecError(f"{path}{error.path}", error.problem) from error
    _check_range(read, path)
    return read


def _check_range(value: Any, path: str) -> None:
    if any(abs(number) >= 2**53 for number in _numbers(value)):
        raise SpecError(path, "numbers of 2^53 or more don't pass through jq unchanged")


def _numbers(value: Any) -> Iterator[int | float]:
    match value:
        case bool():
            return
        case int() | float():
            yield value
        case list():
            for part in value:
                yield from _numbers(part)
        case Mapping():
            for part in value.values():
                yield from _numbers(part)
