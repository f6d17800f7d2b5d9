"""
Defaults beside what a submitter gives: do they go together?

A default must not make a workload wrong that is right without it: not by contradicting a value
that is there, and not by needing one that isn't. Such a default is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from webhook.catalog import native_rows_of
from webhook.mapping.fields import Field, RefMismatchError, read_ref
from webhook.model.decision import Rule
from webhook.model.values import ValueTypeError, read_value
from webhook.policy.native.conditions import (
    CONDITIONS,
    Condition,
    Finding,
    Reading,
    Readings,
    quote,
)
from webhook.policy.native.shape import Leaf, Role, limits_of, shape_of
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.judge import judge, show


def settle(
    conditions: Iterable[Condition], given: Readings, candidates: Readings
) -> dict[str, str]:
    """
    Which of *candidates* must not join *given*, each with the reason.

    A condition that breaks once they are all there takes back each candidate that it looks at, if
    it holds without them. One that only goes with another goes where that one does.
    """
    left = dict(candidates)
    refused: dict[str, str] = {}
    while left:
        found = next(_breaks(conditions, given, left), None)
        if found is None:
            break
        condition, finding, names = found
        told = finding.field or condition.field
        for name in names:
            refused[name] = finding.problem if name == told else f"{told}: {finding.problem}"
            del left[name]
        for name, reason in _abandoned(conditions, candidates, refused, left):
            refused[name] = reason
            del left[name]
    return refused


def _breaks(
    conditions: Iterable[Condition], given: Readings, left: Readings
) -> Iterator[tuple[Condition, Finding, list[str]]]:
    """Conditions that break by what is *left*, and the names of what breaks them."""
    joined = with_sections({**given, **left})
    for condition in conditions:
        finding = condition.check(joined)
        names = [name for name in left if concerns(condition, name)] if finding else []
        if finding is None or not names:
            continue
        others = {name: reading for name, reading in left.items() if name not in names}
        if condition.check(with_sections({**given, **others})) is None:
            yield condition, finding, names


def _abandoned(
    conditions: Iterable[Condition],
    candidates: Readings,
    refused: Mapping[str, str],
    left: Readings,
) -> list[tuple[str, str]]:
    """Candidates that go with one that is refused: a portion without its type says nothing."""
    found: dict[str, str] = {}
    for condition in conditions:
        other, value = condition.goes_with
        if condition.field not in left or other not in refused:
            continue
        if value is None or candidates[other].meaning == value:
            shown = quote(candidates[other].value)
            found[condition.field] = f"it goes with {other} {shown}, which is not applied"
    return list(found.items())


def concerns(condition: Condition, name: str) -> bool:
    """Whether *condition* looks at *name*, or at a section that it is in."""
    return any(
        name == looked_at or name.startswith(f"{looked_at}.")
        for looked_at in (condition.field, *condition.reads)
    )


def with_sections(given: Readings) -> Readings:
    """*given*, and for each dotted name the sections that it is in."""
    sections = {
        name.rpartition(".")[0]: Reading(None, None)
        for name in given
        if "." in name and name.rpartition(".")[0] not in given
    }
    return {**sections, **given} if sections else given


def broken_rule(rules: Sequence[Enforcement], field: Field, derived: Enforcement) -> str:
    """
    Why a derived value is none that *field*, or the *rules* beside it, let it have; else ``""``.

    Nobody wrote it, so nobody is to be refused for it. Derived values are numbers, and no secrets.
    """
    shown = show(derived.value)
    minimum = next((rule for rule in rules if rule.rule is Rule.MIN), None)
    for rule in rules:
        if rule.rule in (Rule.REQUIRED, Rule.CAN_EDIT):
            continue
        found = judge(rule, derived.meaning, minimum=minimum, beside=rules)
        if found is not None:
            return f"{shown} is no value that the policy accepts: {found.accepted}"
    limit = limits_of(field).judge(derived.meaning) if field.limits else None
    return "" if limit is None else f"{shown}: {limit[1].problem}; {limit[1].accepted}"


# -- at the roles of a native workload ------------------------------------------------------


@cache
def role_of(workload_type: str, selector: str) -> Role | None:
    """What stands at *selector* of a native type; None where it is no role (`metadata`)."""
    return shape_of(workload_type, native_rows_of(workload_type)).roles.get(selector)


@cache
def _conditions_about(role_key: tuple[str, str], names: frozenset[str]) -> tuple[Condition, ...]:
    role = role_of(*role_key)
    if role is None:
        return ()
    return tuple(
        [
            condition
            for condition in role.conditions
            if any(concerns(condition, name) for name in names) or condition.goes_with[0] in names
        ]
    )


def refused_defaults(
    workload_type: str, selector: str, node: Any, candidates: Mapping[str, Reading]
) -> dict[str, str]:
    """
    Which defaults must not be filled in at a role of a native workload, each with the reason.

    *node* is the role as it is, *candidates* the defaults of fields that are absent there. What
    can't be read takes part in no condition, as when the workload is judged.
    """
    conditions = _conditions_about((workload_type, selector), frozenset(candidates))
    role = role_of(workload_type, selector)
    if not conditions or role is None:
        return {}
    given: dict[str, Reading] = {}
    bad: set[str] = set()
    for name in dict.fromkeys([n for c in conditions for n in (c.field, *c.reads)]):
        leaf = role.section.find(name)
        _read(name, node, leaf.type if isinstance(leaf, Leaf) else None, given, bad)
    return settle([c for c in conditions if bad.isdisjoint((c.field, *c.reads))], given, candidates)


def _read(name: str, node: Any, value_type: Any, given: dict[str, Reading], bad: set[str]) -> None:
    """Add what stands at *name* of *node* to *given*, or its name to *bad*."""
    try:
        value = read_ref(node, tuple(name.split(".")))
        if value is None:
            return
        meaning = value if value_type is None else read_value(value, value_type)
    except (RefMismatchError, ValueTypeError):
        bad.add(name)
        return
    if meaning or not isinstance(meaning, (str, tuple, list, dict)):
        given[name] = Reading(value, meaning)


# -- in the items of an itemized field ------------------------------------------------------


def conditions_of_items(field: Field) -> tuple[Condition, ...]:
    """The conditions on attributes that the items of *field* all have."""
    return _item_conditions(field.name, frozenset(field.attributes))


@cache
def _item_conditions(name: str, attributes: frozenset[str]) -> tuple[Condition, ...]:
    sections = {part.rpartition(".")[0] for part in attributes}
    known = attributes | sections
    return tuple(
        [
            condition
            for condition in CONDITIONS
            if condition.items == name and known.issuperset((condition.field, *condition.reads))
        ]
    )


def refused_attributes(
    field: Field, given: Mapping[str, Any], candidates: Mapping[str, Any]
) -> dict[str, str]:
    """
    Which of *candidates* must not be filled into an item of *field*, each with the reason.

    *given* are the values that the item has, by attribute, as policies write them.
    """
    conditions = conditions_of_items(field)
    if not conditions or not candidates:
        return {}
    readings, bad = read_attributes(field, given)
    wanted, _ = read_attributes(field, candidates)
    return settle([c for c in conditions if bad.isdisjoint((c.field, *c.reads))], readings, wanted)


def read_attributes(
    field: Field, values: Mapping[str, Any]
) -> tuple[dict[str, Reading], frozenset[str]]:
    """What *values* of attributes mean, and the names of those that can't be read."""
    given: dict[str, Reading] = {}
    bad: set[str] = set()
    for name, value in values.items():
        if name in field.attributes:
            _read(name, _nested(name, value), field.attributes[name].type, given, bad)
    return given, frozenset(bad)


def _nested(name: str, value: Any) -> Any:
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


def is_extended_resource(name: str) -> bool:
    """Whether Kubernetes wants request and limit of this resource equal (`nvidia.com/gpu`)."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not domain.endswith("kubernetes.io")
