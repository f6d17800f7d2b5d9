"""What the message about a broken rule names as accepted."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.decision import Rule, Source
from webhook.model.scopes import Scope
from webhook.model.values import FieldType, read_value
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.judge import judge
from webhook.policy.rules.rule_values import read_rule

SOURCE = Source("p", Scope.TENANT)


def rule(name: Rule, body: Any, value_type: FieldType) -> Enforcement:
    value, meaning = read_rule(name, body, value_type)
    return Enforcement(name, value, meaning, value_type, SOURCE)


def accepted(value: Any, value_type: FieldType, **rules: Any) -> str:
    """What the last of *rules* accepts instead of *value*."""
    held = [rule(Rule(name), body, value_type) for name, body in rules.items()]
    minimum = next((item for item in held if item.rule is Rule.MIN), None)
    found = judge(held[-1], read_value(value, value_type), minimum=minimum, beside=held)
    assert found is not None
    return found.accepted


@pytest.mark.parametrize(
    ("value", "bounds", "nearest"),
    [
        (4, {"min": 1, "max": 7}, "3 or 5"),
        (8, {"min": 1, "max": 7}, "7"),
        (100, {"min": 1, "max": 8}, "7"),
        (0, {"min": 1, "max": 7}, "1"),
        (-8, {"min": 1}, "1"),
        (5, {}, "4 or 6"),
        (-3, {}, "-4 or -2"),
        (9, {"max": 5}, "4"),
        (1.5, {"min": 1, "max": 7}, "1 or 3"),
    ],
)
def test_the_nearest_step_lies_within_the_bounds(
    value: Any, bounds: dict[str, Any], nearest: str
) -> None:
    text = accepted(value, FieldType.NUMBER, **bounds, step=2)

    assert text.endswith(f" plus a multiple of 2, the nearest being {nearest}")


@pytest.mark.parametrize(
    ("value", "value_type", "step", "nearest"),
    [
        ("0.3", FieldType.NUMBER, 0.25, "0.25 or 0.5"),
        ("-0.3", FieldType.NUMBER, 0.25, "-0.5 or -0.25"),
        ("1.5Gi", FieldType.QUANTITY, "1Gi", "1073741824 or 2147483648"),
        ("300m", FieldType.QUANTITY, "0.25", "250m or 500m"),
        ("123456789012345678", FieldType.NUMBER, 10, "123456789012345670 or 123456789012345680"),
    ],
)
def test_a_step_is_named_exactly(
    value: Any, value_type: FieldType, step: Any, nearest: str
) -> None:
    assert accepted(value, value_type, step=step).endswith(f"the nearest being {nearest}")


@pytest.mark.parametrize("value_type", [FieldType.NUMBER, FieldType.INTEGER, FieldType.QUANTITY])
def test_a_step_from_a_huge_value_is_a_violation_without_a_page_of_digits(
    value_type: FieldType,
) -> None:
    text = accepted("1e310", value_type, step=3)

    assert text.startswith("0 plus a multiple of 3")
    assert len(text) < 100


@pytest.mark.parametrize(
    ("value", "options", "end"),
    [
        ("ubunto", ["ubuntu", "debian"], 'ubuntu, debian; did you mean "ubuntu"?'),
        ("fedora", ["ubuntu", "debian"], "ubuntu, debian"),
        (
            "image-42x",
            [f"image-{index}" for index in range(50)],
            'image-9 and 40 more; did you mean "image-42"?',
        ),
    ],
)
def test_the_option_that_was_probably_meant_is_named(
    value: str, options: list[str], end: str
) -> None:
    assert accepted(value, FieldType.STRING, options=options).endswith(end)


@pytest.mark.parametrize(
    ("value", "end"),
    [(33, "and 40 more; the nearest is 32"), (-4, "and 40 more; the nearest is 0")],
)
def test_the_nearest_number_is_named(value: int, end: str) -> None:
    options = [2 * index for index in range(50)]

    assert accepted(value, FieldType.INTEGER, options=options).endswith(end)


def test_of_a_list_the_first_bad_element_counts() -> None:
    text = accepted(["a", "worng"], FieldType.STRINGS, options=["a", "wrong"])

    assert text == 'one of a, wrong; "worng" is none of them; did you mean "wrong"?'
