"""One policy for five kinds: the same denial, but for where each kind has the field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.golden.test_golden import HERE, load_one

CASES = sorted(HERE.glob("one-policy-*"))
POLICY = Path(__file__).parents[2] / "examples" / "one-policy" / "policy.yaml"
WORKLOADS = POLICY.parent

_PLACE = re.compile(r" \[[^\]]*\]")


def denial_of(case: Path) -> tuple[Any, ...]:
    """What `/mutate` says of a case, without the object, and the selector, item and path of each."""
    answer = load_one(case / "response.yaml")["mutate"]
    lines = [_PLACE.sub("", line) for line in answer["message"][1:]]
    causes = [(cause["reason"], cause["message"]) for cause in answer["causes"]]
    return answer["allowed"], answer["code"], lines, causes


def test_there_is_a_case_of_each_kind_of_the_policy() -> None:
    kinds = {load_one(case / "request.yaml")["object"]["kind"] for case in CASES}

    assert kinds == {"Training", "Job", "PyTorchJob", "RayJob", "Deployment"}
    assert len(load_one(POLICY)["spec"]["workloadType"]) == len(kinds) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_five_denials_are_the_same(case: Path) -> None:
    assert denial_of(case) == denial_of(CASES[0])
    assert len(denial_of(case)[3]) == 5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cases_are_the_examples(case: Path) -> None:
    example = WORKLOADS / f"{case.name.removeprefix('one-policy-')}.yaml"

    assert (case / "policies.yaml").read_text() == POLICY.read_text()
    assert load_one(case / "request.yaml")["object"] == load_one(example)
