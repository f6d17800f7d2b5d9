from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.unit.admission.builders import (
    SOURCE,
    UID,
    decoded,
    denied,
    make_change,
    make_not_applied,
    make_violation,
    mutated,
)
from webhook.admission.record import (
    ANNOTATION_MAX_BYTES,
    RECORD_MAX_BYTES,
    audit_annotation,
    decision_record,
)
from webhook.admission.texts import to_json
from webhook.model.decision import Decision
from webhook.model.scopes import Branch

BRANCH = Branch("prod", "research", "team-a")


def record(decision: Decision | None, error: str = "", **fields: Any) -> dict[str, Any]:
    return decision_record(
        decoded(**fields).request,
        decision,
        phase="mutate",
        branch=BRANCH,
        snapshot="f00d",
        duration_s=0.0012345,
        error=error,
    )


def test_a_record_says_who_did_what_where_under_which_policies() -> None:
    got = record(Decision(True), dryRun=True, subResource="scale")

    assert got == {
        "uid": UID,
        "phase": "mutate",
        "operation": "CREATE",
        "dryRun": True,
        "user": "ada",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "subResource": "scale",
        "namespace": "team-a",
        "name": "train",
        "project": "team-a",
        "department": "research",
        "outcome": "allowed",
        "snapshot": "f00d",
        "durationMs": 1.234,
    }


def test_a_mutation_is_recorded_with_old_and_new_values() -> None:
    got = record(mutated([make_change(old="low", new="train")]))

    assert got["outcome"] == "mutated"
    assert got["changes"] == [
        {
            "path": "/spec/priorityClassName",
            "field": "priorityClass",
            "rule": "default",
            "old": "low",
            "new": "train",
            "policy": "guardrails",
            "scope": "project",
            "unit": "team-a",
        }
    ]


def test_a_denial_is_recorded_with_every_violation() -> None:
    got = record(denied([make_violation()]))

    assert got["outcome"] == "denied"
    assert got["violations"] == [
        {
            "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu",
            "field": "compute.gpuDevicesRequest",
            "rule": "max",
            "problem": "above the maximum",
            "value": 16,
            "accepted": "≤ 8",
            "policy": "guardrails",
            "scope": "project",
            "unit": "team-a",
        }
    ]


def test_a_default_that_was_left_out_is_recorded_with_its_reason() -> None:
    got = record(Decision(True, not_applied=(make_not_applied("above the request"),)))

    assert got["notApplied"][0]["reason"] == "above the request"


def test_why_nothing_was_judged_is_recorded() -> None:
    assert record(Decision(True, reason="no mapping covers it"))["reason"] == "no mapping covers it"


def test_a_failure_of_ours_is_recorded_without_a_decision() -> None:
    got = record(None, error="EvaluationError")

    assert (got["outcome"], got["error"]) == ("failed", "EvaluationError")
    assert "changes" not in got


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
def test_an_object_without_a_name_gets_a_usable_one(operation: str) -> None:
    obj = {"metadata": {"generateName": "train-"}}

    assert record(None, operation=operation, object=obj)["name"] == "train-"


@pytest.mark.slow
@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(mutated([make_change(new="x" * 10_000)] * 5000), id="changes"),
        pytest.param(denied([make_violation(value="é" * 10_000)] * 5000), id="violations"),
        pytest.param(
            Decision(True, not_applied=(make_not_applied("r" * 10_000),) * 5000), id="not-applied"
        ),
        pytest.param(Decision(True, consulted=(SOURCE,) * 5000), id="policies"),
        pytest.param(
            replace(
                denied([make_violation(path=("\x00" * 5000,), problem="\x01" * 5000)] * 300),
                changes=(make_change(("a/b~" * 5000,)),) * 300,
                reason="y" * 10_000,
            ),
            id="everything",
        ),
    ],
)
def test_a_record_is_bounded_and_counts_what_it_left_out(decision: Decision) -> None:
    got = record(decision, namespace="n" * 10_000, userInfo={"username": "\x00" * 10_000})

    assert len(to_json(got)) <= RECORD_MAX_BYTES
    counted = {
        "changes": len(decision.changes),
        "violations": len(decision.violations),
        "notApplied": len(decision.not_applied),
        "policies": len(decision.consulted),
    }
    kept = {key: len(got.get(key, ())) for key in counted}
    assert got["omitted"]
    for key, total in counted.items():
        assert kept[key] + got["omitted"].get(key, 0) == total


def test_a_record_of_moderate_size_is_whole() -> None:
    got = record(denied([make_violation()] * 30))

    assert len(got["violations"]) == 30
    assert "omitted" not in got


def test_a_record_holds_no_object() -> None:
    pod = {"metadata": {"name": "train"}, "spec": {"env": [{"value": "hunter2-canary"}]}}

    assert b"hunter2" not in to_json(record(mutated([make_change()]), object=pod))


# --- the audit annotation ---


def test_an_annotation_names_policies_violations_and_changes() -> None:
    decision = replace(denied([make_violation()]), changes=(make_change(),))

    got = orjson.loads(audit_annotation(decision))

    assert got.keys() == {"policies", "violations", "changes"}
    assert got["policies"] == [
        {
            "kind": "GVKPolicy",
            "policy": "guardrails",
            "scope": "project",
            "unit": "team-a",
            "revision": "1a2b3c",
        }
    ]


def test_nothing_changed_and_nothing_broken_needs_no_annotation() -> None:
    """The API server keeps the first annotation of a key; a second pass must not be it."""
    decision = Decision(True, mapped=True, consulted=(SOURCE,), warnings=("w",))

    assert audit_annotation(decision) == ""


@pytest.mark.parametrize("count", [10, 200, 5000])
@pytest.mark.parametrize("text", ["x", "é" * 500, '"\\' * 500])
def test_an_annotation_has_at_most_four_kibibytes(count: int, text: str) -> None:
    violations = [make_violation(value=text, item=text, field=text, problem=text)] * count
    decision = replace(denied(violations), changes=(make_change(new=text),) * count)

    got = audit_annotation(decision)

    assert len(got.encode()) <= ANNOTATION_MAX_BYTES
    found = orjson.loads(got)
    for key in ("violations", "changes"):
        assert len(found.get(key, ())) + found.get("omitted", {}).get(key, 0) == count
    assert found["policies"]
