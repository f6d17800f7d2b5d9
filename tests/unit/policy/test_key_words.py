"""Key words of policies are read in any case, wherever they stand; wrong types are told in our words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)


def test_the_words_of_a_derived_default_are_read_in_any_case() -> None:
    rules = {"compute": {"cpuCoreRequest": {"DefaultFrom": {"Field": "cpuCoreLimit", "FACTOR": 2}}}}
    snapshot = make_snapshot(make_workload_policy(rules=rules))

    assert [problem for problem in snapshot.problems if not problem.warning] == []
    answer = submit(snapshot, make_training(compute={"cpuCoreLimit": 4}))
    (left_out,) = answer.decision.not_applied
    assert left_out.reason == "8 is above compute.cpuCoreLimit 4"


@pytest.mark.parametrize(
    "option", [{"Value": "a"}, {"VALUE": "a", "Displayed": "A"}, {"value": "a"}, "a"], ids=repr
)
def test_the_words_of_an_option_are_read_in_any_case(option: Any) -> None:
    snapshot = make_snapshot(make_workload_policy(rules={"image": {"options": [option]}}))

    assert snapshot.problems == ()
    assert submit(snapshot, make_training(image="a")).allowed
    assert not submit(snapshot, make_training(image="b")).allowed


@pytest.mark.parametrize("option", [{"Value": "a", "value": "b"}, {"Valu": "a"}, {}], ids=repr)
def test_an_option_without_one_value_is_refused(option: JsonObject) -> None:
    snapshot = make_snapshot(make_workload_policy(rules={"image": {"options": [option]}}))

    (problem,) = snapshot.problems
    assert problem.problem == "must be a value or {value, displayed}"


def policy(**parts: Any) -> JsonObject:
    """One whose parts may be of any type."""
    return make_workload_policy(**parts)


def gvk_policy(enforcement: Any) -> JsonObject:
    return make_gvk_policy(make_rule("image", "podSpec", enforcement))


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        (policy(defaults=[]), "spec.defaults: must be an object, got list"),
        (policy(rules="x"), "spec.rules: must be an object, got text"),
        (policy(department=5), "spec.department: must be text, got number"),
        (gvk_policy("x"), "spec.rules[0].enforcements[0]: must be an object, got text"),
        (policy(mode="Maybe"), "spec.mode: must be Enforce, Warn or Audit, got Maybe"),
    ],
)
def test_a_part_of_the_wrong_type_is_told_in_our_words(document: JsonObject, wanted: str) -> None:
    problems = [str(problem) for problem in make_snapshot(document).problems]

    assert any(wanted in problem for problem in problems)
    assert not any("nput should" in problem for problem in problems)
