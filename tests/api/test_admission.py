from __future__ import annotations

import io
from typing import Any

import orjson
import pytest

from tests.api.gate import WIDGET, WIDGET_MAPPING, Gate, apply, make_widget, of_kind, records
from tests.builders import make_container, make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import UID, make_review
from webhook.mapping.evaluator import JqWorker

DOORS = ["/mutate", "/validate"]
VERSIONS = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]

# Fills in a priority class, wants an owner, refuses the host's network.
POLICY = make_gvk_policy(
    make_rule("priorityClassName", "podSpec", {"default": "train"}),
    make_rule("labels", "metadata", {"required": {"key": "owner"}}),
    make_rule("hostNetwork", "podSpec", {"options": [False]}),
)
OWNED = {"name": "train", "namespace": "team-a", "labels": {"owner": "ada"}}
GOOD = {**make_pod(), "metadata": OWNED}
FORGETFUL = make_pod()
GREEDY = {**make_pod(hostNetwork=True), "metadata": OWNED}

WIDGET_POLICY = make_gvk_policy(
    make_rule("priorityClassName", "parts", {"default": "train"}), kind=WIDGET, name="widgets"
)


async def test_what_is_missing_is_filled_in_and_the_result_is_allowed() -> None:
    async with Gate(POLICY) as gate:
        response = await gate.ask("/mutate", object=GOOD)
        patched = apply(response, GOOD)

        assert response["allowed"]
        assert patched["spec"] == {**GOOD["spec"], "priorityClassName": "train"}
        assert (await gate.ask("/validate", object=patched))["allowed"]


async def test_a_second_pass_has_no_patch_and_no_annotation() -> None:
    async with Gate(POLICY) as gate:
        patched = apply(await gate.ask("/mutate", object=GOOD), GOOD)

        assert await gate.ask("/mutate", object=patched) == {"uid": UID, "allowed": True}


@pytest.mark.parametrize("door", DOORS)
async def test_what_breaks_a_rule_is_refused_with_the_reason(door: str) -> None:
    async with Gate(POLICY) as gate:
        response = await gate.ask(door, object=GREEDY)

    assert not response["allowed"]
    assert response["status"]["code"] == 403
    title, *reasons = response["status"]["message"].splitlines()
    assert title == "Pod train breaks a rule:"
    assert reasons[0].startswith("hostNetwork [podSpec")
    assert "(policy baseline, tenant)" in response["status"]["message"]


async def test_what_is_only_missing_passes_mutate_and_is_refused_by_validate() -> None:
    async with Gate(POLICY) as gate:
        assert (await gate.ask("/mutate", object=FORGETFUL))["allowed"]
        response = await gate.ask("/validate", object=FORGETFUL)

    (cause,) = response["status"]["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueRequired", "metadata.labels.owner")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_other_operations_pass(door: str, operation: str) -> None:
    async with Gate(POLICY) as gate:
        response = await gate.ask(door, operation=operation, object=None, oldObject=GREEDY)

    assert response == {"uid": UID, "allowed": True}


@pytest.mark.parametrize("door", DOORS)
async def test_the_timeout_that_an_api_server_adds_to_the_path_is_no_matter(door: str) -> None:
    async with Gate(POLICY) as gate:
        answer = await gate.post(f"{door}?timeout=5s", orjson.dumps(make_review(object=GOOD)))

        assert answer.status == 200


# --- every answer is an answer to that question (B17) ---

SITUATIONS: dict[str, dict[str, Any]] = {
    "allow": of_kind({**GOOD, "spec": {**GOOD["spec"], "priorityClassName": "x"}}),
    "mutate": of_kind(GOOD),
    "deny": of_kind(GREEDY),
    "kind-without-mapping": of_kind({"apiVersion": "example.org/v2", "kind": "Unheard"}),
    "kind-of-jq": of_kind(make_widget([{"role": "main", "template": {}}])),
}


@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("api_version", VERSIONS)
@pytest.mark.parametrize("door", DOORS)
async def test_an_answer_names_the_question_and_a_patch_its_type(
    door: str, api_version: str, situation: str
) -> None:
    body = orjson.dumps(make_review(api_version, **SITUATIONS[situation]))
    async with Gate(POLICY, WIDGET_MAPPING, WIDGET_POLICY) as gate:
        got = await (await gate.post(door, body)).json()

    response = got["response"]
    assert (got["apiVersion"], got["kind"]) == (api_version, "AdmissionReview")
    assert response["uid"] == UID
    assert ("patch" in response) == ("patchType" in response)
    assert response.get("patch") != ""


async def test_jq_finds_the_places_of_a_kind_of_somebodys_own() -> None:
    parts = [{"role": "side", "template": {}}, {"role": "main", "template": {}}]
    widget = make_widget(parts)
    async with Gate(WIDGET_MAPPING, WIDGET_POLICY) as gate:
        response = await gate.ask("/mutate", **of_kind(widget))

    patched = apply(response, widget)
    assert patched["spec"]["parts"][0] == {"role": "side", "template": {}}
    assert patched["spec"]["parts"][1]["template"] == {"priorityClassName": "train"}


# --- what fails on our side is HTTP 500: the cluster's failurePolicy decides ---


class BrokenJq(JqWorker):
    """Stands for a bug: raises what nobody expects."""

    def evaluate_paths(
        self, sources: tuple[str, ...], document_json: bytes, begin_until: float | None = None
    ) -> Any:
        raise ZeroDivisionError(f"of {document_json!r}")


@pytest.mark.parametrize("door", DOORS)
async def test_a_mapping_that_fails_on_an_object_is_our_failure(
    door: str, log: io.StringIO
) -> None:
    widget = make_widget("no list")
    async with Gate(WIDGET_MAPPING, WIDGET_POLICY) as gate:
        body = orjson.dumps(make_review(**of_kind(widget)))
        answer = await gate.post(door, body)
        got = await answer.json()
        series = await gate.series()

    assert answer.status == 500
    assert got.keys() == {"code", "message"}
    assert "cannot iterate over string" in got["message"]
    assert UID in got["message"]
    (record,) = records(log.getvalue().splitlines())
    assert (record["outcome"], record["error"]) == ("failed", "EvaluationError")
    assert ("gatewright_query_failures_total", ()) in series


async def test_a_bug_is_our_failure_and_the_next_request_is_answered(log: io.StringIO) -> None:
    async with Gate(POLICY, WIDGET_MAPPING, WIDGET_POLICY, jq=BrokenJq()) as gate:
        body = orjson.dumps(make_review(**of_kind(make_widget([]))))
        answer = await gate.post("/validate", body)

        assert answer.status == 500
        assert await answer.json() == {"code": 500, "message": f"internal error (uid {UID})"}
        assert (await gate.ask("/validate", object=GOOD))["allowed"]

    (failed, _) = records(log.getvalue().splitlines())
    assert (failed["uid"], failed["error"]) == (UID, "ZeroDivisionError")
    assert "ZeroDivisionError at " in log.getvalue()


@pytest.mark.parametrize("door", DOORS)
async def test_before_anything_is_loaded_nothing_is_decided(door: str) -> None:
    async with Gate() as gate:
        answer = await gate.post(door, orjson.dumps(make_review()))

        assert answer.status == 500
        assert "no policies are loaded yet" in (await answer.json())["message"]


# --- names (B11) and dry runs (B12) ---


@pytest.mark.parametrize("door", DOORS)
async def test_an_object_without_a_name_is_called_by_something_usable(
    door: str, log: io.StringIO
) -> None:
    pod = make_pod(hostNetwork=True)
    pod["metadata"] = {
        "labels": {"owner": "ada"},
        "generateName": "train-",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}],
    }
    async with Gate(POLICY) as gate:
        response = await gate.ask(door, object=pod, name="", namespace="")

    (record,) = records(log.getvalue().splitlines())
    assert record["name"] == response["status"]["details"]["name"] == "train-"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("pod", [GOOD, GREEDY])
async def test_a_dry_run_gets_the_same_answer_and_is_marked(
    door: str, pod: dict[str, Any], log: io.StringIO
) -> None:
    async with Gate(POLICY) as gate:
        wet = await gate.ask(door, object=pod)
        dry = await gate.ask(door, object=pod, dryRun=True)

    assert dry == wet
    assert [record["dryRun"] for record in records(log.getvalue().splitlines())] == [False, True]


# --- what auditors read ---


async def test_every_review_leaves_one_record(log: io.StringIO) -> None:
    async with Gate(POLICY) as gate:
        for pod in (GOOD, GREEDY):
            await gate.ask("/mutate", object=pod)

    mutated, denied = records(log.getvalue().splitlines())
    assert (mutated["outcome"], denied["outcome"]) == ("mutated", "denied")
    assert mutated["changes"][0]["path"] == "/spec/priorityClassName"
    assert denied["violations"][0]["field"] == "hostNetwork"
    for record in (mutated, denied):
        assert record["user"] == "ada"
        assert record["project"] == "team-a"
        assert record["snapshot"]
        assert record["durationMs"] > 0
        assert record["time"].endswith("Z")


async def test_the_denial_of_many_violations_is_bounded_and_tells_the_containers() -> None:
    """Forty violations over twelve containers (B33)."""
    policy = make_gvk_policy(
        make_rule("imagePullPolicy", "allContainers", {"options": ["Always"]}),
        make_rule("tty", "allContainers", {"blocked": True}),
        make_rule("stdin", "allContainers", {"blocked": True}),
        make_rule("workingDir", "allContainers", {"pattern": ["/work/*"]}),
    )
    bad = {"imagePullPolicy": "Never", "tty": True, "stdin": True, "workingDir": "a\nb\x1b[0m\t"}
    containers = [make_container(f"c{n}", **bad) for n in range(12)]
    async with Gate(policy) as gate:
        response = await gate.ask("/validate", object=make_pod(containers=containers))

    lines = response["status"]["message"].split("\n")
    assert len(lines) == 21
    assert lines[-1] == "and 28 more"
    assert lines[0].startswith("imagePullPolicy [allContainers c0]: ")
    assert all(line.isprintable() and len(line) < 400 for line in lines)
    assert len(response["status"]["details"]["causes"]) == 48
