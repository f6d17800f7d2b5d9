"""What the status of a document says."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.store.conditions import MESSAGE_MAX_CHARS, conditions_of, status_of
from webhook.store.snapshot import DocumentProblem, ProblemReason

NOW = "2026-02-01T00:00:00Z"
BEFORE = "2026-01-01T00:00:00Z"

ERROR = DocumentProblem("GVKPolicy x", "spec.rules[0].field", "no field 'imag'")
MISSING = DocumentProblem(
    "GVKPolicy x",
    "spec.workloadType",
    "no mapping",
    warning=True,
    reason=ProblemReason.REFERENCE_NOT_FOUND,
)
CONFLICT = DocumentProblem(
    "GVKPolicy x", "spec.rules[0]", "field image already has rules in policy y",
    reason=ProblemReason.FIELD_CONFLICT,
)  # fmt: skip
ADVICE = DocumentProblem(
    "GVKPolicy x", "spec.rules[1]", "never acts", warning=True, reason=ProblemReason.ADVICE
)


@pytest.mark.parametrize(
    ("problems", "in_force", "want"),
    [
        pytest.param(
            [],
            True,
            ["Ready True Compiled ", "Compiled True Compiled ", "Conflict False NoConflict "],
            id="good",
        ),
        pytest.param(
            [ADVICE],
            True,
            [
                "Ready True Compiled spec.rules[1]: never acts",
                "Compiled True Compiled ",
                "Conflict False NoConflict ",
            ],
            id="advice",
        ),
        pytest.param(
            [ERROR],
            False,
            [
                "Ready False CompileError spec.rules[0].field: no field 'imag'",
                "Compiled False CompileError spec.rules[0].field: no field 'imag'",
                "Conflict False NoConflict ",
            ],
            id="error",
        ),
        pytest.param(
            [MISSING],
            False,
            [
                "Ready False ReferenceNotFound spec.workloadType: no mapping",
                "Compiled False ReferenceNotFound spec.workloadType: no mapping",
                "Conflict False NoConflict ",
            ],
            id="missing",
        ),
        pytest.param(
            [MISSING],
            True,
            [
                "Ready False ReferenceNotFound spec.workloadType: no mapping",
                "Compiled True Compiled ",
                "Conflict False NoConflict ",
            ],
            id="missing-for-one-of-several-kinds",
        ),
        pytest.param(
            [CONFLICT],
            False,
            [
                "Ready False FieldConflict spec.rules[0]: field image already has rules in policy y",
                "Compiled False FieldConflict spec.rules[0]: field image already has rules in"
                " policy y",
                "Conflict True FieldConflict spec.rules[0]: field image already has rules in"
                " policy y",
            ],
            id="conflict",
        ),
    ],
)
def test_conditions_say_what_is_in_force_and_why_not(
    problems: list[DocumentProblem], in_force: bool, want: list[str]
) -> None:
    got = conditions_of(problems, in_force=in_force)

    assert [f"{c.type} {c.is_true} {c.reason} {c.message}" for c in got] == want


def test_the_last_good_version_is_mentioned() -> None:
    ready, _, _ = conditions_of([ERROR], in_force=False, older_in_force=True)

    assert ready.message.endswith("; its last good version stays in force until a restart")


def test_a_message_is_bounded() -> None:
    ready, _, _ = conditions_of([ERROR] * 1000, in_force=False)

    assert len(ready.message) == MESSAGE_MAX_CHARS


def written(old: dict[str, Any] | None, *problems: DocumentProblem, generation: int = 1) -> Any:
    return status_of(old, conditions_of(problems, in_force=not problems), generation, NOW)


def test_a_status_is_written_once() -> None:
    status = written(None)

    assert status["observedGeneration"] == 1
    assert [item["type"] for item in status["conditions"]] == ["Ready", "Compiled", "Conflict"]
    assert {item["lastTransitionTime"] for item in status["conditions"]} == {NOW}
    assert written(status) is None


def test_the_time_is_that_of_the_last_change_of_a_condition() -> None:
    old = written(None)
    for item in old["conditions"]:
        item["lastTransitionTime"] = BEFORE

    newer = written(old, generation=2)
    assert {item["lastTransitionTime"] for item in newer["conditions"]} == {BEFORE}
    assert newer["observedGeneration"] == 2

    broken = written(old, ERROR, generation=2)
    times = {item["type"]: item["lastTransitionTime"] for item in broken["conditions"]}
    assert times == {"Ready": NOW, "Compiled": NOW, "Conflict": BEFORE}


def test_conditions_of_others_stay() -> None:
    foreign = {"type": "Synced", "status": "True", "reason": "GitOps"}

    status = written({"conditions": [foreign]})

    assert status["conditions"][-1] == foreign
    assert written(status) is None


@pytest.mark.parametrize("old", ["text", {"conditions": "text"}, {"conditions": [1, None]}])
def test_a_status_of_any_shape_is_written_over(old: Any) -> None:
    assert written(old)["observedGeneration"] == 1
