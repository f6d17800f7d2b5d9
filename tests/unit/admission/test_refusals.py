"""What an Event says of a denial: who, what and by which policy, and nothing hidden."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    make_container,
    make_gvk_policy,
    make_pod,
    make_request,
    make_rule,
    make_snapshot,
)
from webhook.admission.refusals import NOTE_MAX_BYTES, refusal_of
from webhook.admission.review import review
from webhook.model.decision import Decision
from webhook.model.refusals import Refusal
from webhook.model.request import Phase

CANARY = "hunter2-canary"
POLICIES = make_snapshot(
    make_gvk_policy(
        make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}),
        make_rule("env", "allContainers", {"blocked": True}),
        make_rule("args", "allContainers", {"options": ["--fast"]}),
    )
)


def refuse(pod: dict[str, Any], **request: Any) -> Refusal | None:
    asked = make_request(pod, **request)
    return refusal_of(asked, review(asked, Phase.VALIDATE, POLICIES))


def told(pod: dict[str, Any], **request: Any) -> Refusal:
    refusal = refuse(pod, **request)
    assert refusal is not None
    return refusal


def bad_pod(name: str = "train", **metadata: Any) -> dict[str, Any]:
    pod = make_pod(containers=[make_container(image="docker.io/busybox")])
    pod["metadata"] = {"name": name, **metadata}
    return pod


def test_a_refusal_names_user_object_field_and_policy() -> None:
    refusal = told(bad_pod())

    assert refusal.namespace == "team-a"
    assert refusal.note == (
        "alice may not create Pod train: image [allContainers main]: matches no allowed pattern,"
        " got docker.io/busybox; like ghcr.io/* (policy baseline, tenant)"
    )


def test_of_several_objects_no_name_and_no_value_is_told() -> None:
    refusal = told(bad_pod())

    assert refusal.group_note == (
        "alice may not create several objects of kind Pod: image (policy baseline, tenant)"
    )


def test_what_a_controller_makes_is_told_by_its_owner() -> None:
    """A ReplicaSet tries again and again, each time with another name."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8", "controller": True}
    first, second = (
        told(bad_pod(f"web-5d8-{end}", ownerReferences=[owner])) for end in ("abc", "xyz")
    )

    assert first == second
    assert "create Pod of ReplicaSet web-5d8:" in first.note


def test_hidden_values_are_not_told() -> None:
    pod = make_pod(
        containers=[
            make_container(env=[{"name": "API_TOKEN", "value": CANARY}], args=[f"--token={CANARY}"])
        ]
    )

    refusal = told(pod)

    assert CANARY not in refusal.note + refusal.group_note
    assert "(not shown)" in refusal.note


@pytest.mark.parametrize(
    ("pod", "request_fields"),
    [
        pytest.param(make_pod(), {}, id="admitted"),
        pytest.param(bad_pod(), {"dry_run": True}, id="dry-run"),
        pytest.param(bad_pod(), {"namespace": ""}, id="in-no-namespace"),
    ],
)
def test_nothing_is_told_of_what_is(pod: dict[str, Any], request_fields: dict[str, Any]) -> None:
    assert refuse(pod, **request_fields) is None


def test_a_long_refusal_is_cut_to_what_an_event_holds() -> None:
    containers = [make_container(f"main-{n}", image="docker.io/" + "ü" * 300) for n in range(30)]

    refusal = told(make_pod(containers=containers), user="é" * 400)

    assert NOTE_MAX_BYTES - 3 <= len(refusal.note.encode()) <= NOTE_MAX_BYTES
    assert len(refusal.group_note.encode()) <= NOTE_MAX_BYTES
    assert refusal.note.endswith("…")


def test_how_many_violations_are_left_out_is_told() -> None:
    containers = [make_container(f"c{n}", image="a/b") for n in range(6)]

    assert told(make_pod(containers=containers)).note.endswith("; and 2 more")


def test_a_refused_document_is_told_by_its_reason() -> None:
    decision = Decision(False, reason="spec.mode: unknown\nspec.rules: missing")

    refusal = refusal_of(make_request(make_pod()), decision)

    assert refusal is not None
    assert refusal.note == "alice may not create Pod train: spec.mode: unknown; spec.rules: missing"
    assert refusal.group_note.endswith("of kind Pod: refused by policy")
