"""Reviews of our own documents, over HTTP, as an API server asks for them."""

from __future__ import annotations

import copy
import io
from typing import Any

import orjson
import pytest

from tests.api.gate import Gate, of_kind, records
from tests.builders import (
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    make_workload_policy,
)
from tests.gpu_documents import make_policy as make_gpu_policy
from tests.unit.admission.builders import make_review
from tests.unit.store.test_changes import (
    files_of,
    make_group,
    make_mapping,
    make_policy,
)
from webhook.api.services import OwnDocuments
from webhook.errors import EvaluationError
from webhook.store.compile.inputs import SourceFile, Surroundings

DOCUMENTS = (make_group(), make_mapping(), make_policy())
BAD = make_gvk_policy(
    make_rule("imag", "allContainers", {"required": True}),
    make_rule("image", "allContainers", {"max": 3}),
    name="new",
)


def open_gate(*documents: JsonObject, check_query: Any = lambda _query, _path: None) -> Gate:
    """A gate whose store is a cluster that holds *documents*."""
    documents = documents or DOCUMENTS
    files = files_of(*documents)
    return Gate(*documents, own_documents=OwnDocuments(lambda: files, check_query))


async def create(gate: Gate, document: JsonObject, **fields: Any) -> JsonObject:
    return await gate.ask("/validate", **of_kind(document, **fields))


async def delete(gate: Gate, document: JsonObject) -> JsonObject:
    name = document["metadata"]["name"]
    fields = of_kind(document, operation="DELETE", name=name, oldObject=document)
    return await gate.ask("/validate", **{**fields, "object": None})


def lint(document: JsonObject) -> list[str]:
    """What is wrong with *document*, each with its path."""
    return [f"{item.path}: {item.problem}" for item in make_snapshot(document).problems]


async def test_a_good_document_is_allowed_without_a_word() -> None:
    async with open_gate() as gate:
        got = await create(gate, make_workload_policy(rules={"image": {"required": True}}))

    assert got == {"uid": got["uid"], "allowed": True}


async def test_a_bad_one_is_refused_with_everything_that_is_wrong() -> None:
    async with open_gate() as gate:
        got = await create(gate, BAD)

    assert not got["allowed"]
    status = got["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].splitlines() == lint(BAD)
    assert len(lint(BAD)) == 2
    assert [(cause["field"], cause["reason"]) for cause in status["details"]["causes"]] == [
        ("spec.rules[0].field", "FieldValueInvalid"),
        ("spec.rules[1].enforcements[0].max", "FieldValueInvalid"),
    ]
    assert status["details"]["kind"] == "GVKPolicy"
    assert status["details"]["name"] == "new"


async def test_a_missing_reference_is_a_warning() -> None:
    async with open_gate(make_group()) as gate:
        got = await create(gate, make_policy())

    assert got["allowed"]
    (warning,) = got["warnings"]
    assert warning.startswith("spec.workloadType: no mapping for acme.io/v1/AcmeJob")
    assert warning.endswith("; until it is there, nothing of this document is enforced")


async def test_a_kind_that_is_not_served_is_a_warning_by_what_is_known_then() -> None:
    """What is served is asked before the document is judged: its CRD may have come just now."""
    served: list[Surroundings] = []

    async def look_around(manifest: JsonObject) -> None:
        kind = manifest["spec"]["workloadType"]
        served.append(Surroundings({}, {}, {kind["group"]: {kind["kind"]: ["v9"]}}))

    own = OwnDocuments(
        lambda: [
            *[SourceFile("cluster", surroundings=around) for around in served],
            *files_of(make_group()),
        ],
        lambda _query, _path: None,
        look_around,
    )
    async with Gate(make_group(), own_documents=own) as gate:
        got = await create(gate, make_mapping())

    assert got["allowed"]
    assert got["warnings"] == [
        "spec.workloadType: acme.io/v1 AcmeJob is not served here (served: v9);"
        " nothing is judged by this mapping until it is"
    ]


async def test_a_conflict_says_who_holds_the_field() -> None:
    rules = {"image": {"required": True}}
    async with open_gate(make_workload_policy(rules=rules, name="holder")) as gate:
        got = await create(gate, make_workload_policy(rules=rules, name="a-late-one"))

    assert "already has rules in policy holder, tenant" in got["status"]["message"]
    (cause,) = got["status"]["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.rules.image.required", "FieldValueDuplicate")


async def test_an_update_that_breaks_another_document_names_that() -> None:
    old = make_mapping()
    async with open_gate() as gate:
        got = await create(
            gate, make_mapping(selector="workers"), operation="UPDATE", oldObject=old
        )

    assert got["status"]["message"].startswith(
        "GVKPolicy acme-baseline: spec.rules[0].specSelector: AcmeJob has no selector 'pods'"
    )


@pytest.mark.slow
async def test_what_is_in_use_is_not_deleted() -> None:
    async with open_gate() as gate:
        got = await delete(gate, make_mapping())
        policy = await delete(gate, make_policy())

    assert (got["status"]["code"], got["status"]["reason"]) == (409, "Conflict")
    assert got["status"]["message"] == "it is in use by GVKPolicy acme-baseline"
    assert policy["allowed"]


def changed(document: JsonObject, **parts: Any) -> JsonObject:
    made = copy.deepcopy(document)
    for key, value in parts.items():
        made[key] = value
    return made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            BAD, changed(BAD, metadata={"name": "new", "labels": {"a": "b"}}), id="metadata"
        ),
        pytest.param(BAD, changed(BAD, status={"conditions": []}), id="status"),
    ],
)
async def test_what_is_bad_may_change_in_what_is_not_judged(
    old: JsonObject, new: JsonObject
) -> None:
    async with open_gate() as gate:
        got = await create(gate, new, operation="UPDATE", oldObject=old)

    assert got == {"uid": got["uid"], "allowed": True}


async def test_true_in_place_of_one_is_a_change() -> None:
    """To Python they are equal."""
    old = make_policy()
    old["spec"]["rules"][0]["enforcements"] = [{"max": 1}]
    new = copy.deepcopy(old)
    new["spec"]["rules"][0]["enforcements"] = [{"max": True}]

    async with open_gate() as gate:
        got = await create(gate, new, operation="UPDATE", oldObject=old)

    assert "spec.rules[0].enforcements[0].max" in got["status"]["message"]


async def test_a_name_that_is_still_to_be_made_is_no_problem() -> None:
    document = make_policy(scope="project", unit="red")
    document["metadata"] = {"generateName": "acme-"}

    async with open_gate() as gate:
        assert (await create(gate, document))["allowed"]


@pytest.mark.parametrize(
    ("door", "fields"),
    [
        pytest.param("/mutate", {}, id="mutate"),
        pytest.param("/validate", {"subResource": "status"}, id="status-subresource"),
        pytest.param("/validate", {"operation": "CONNECT"}, id="connect"),
    ],
)
async def test_all_else_passes_untouched(door: str, fields: Any) -> None:
    async with open_gate() as gate:
        got = await gate.ask(door, **of_kind(BAD, **fields))

    assert got == {"uid": got["uid"], "allowed": True}


async def test_without_a_cluster_documents_are_none_of_our_business() -> None:
    async with Gate(*DOCUMENTS) as gate:
        assert (await create(gate, BAD))["allowed"]


async def test_an_expression_that_can_not_be_tried_now_is_not_a_denial() -> None:
    def busy(_query: object, _path: str) -> None:
        raise EvaluationError("jq is busy")

    mapping = make_mapping()
    mapping["metadata"]["name"] = "other"
    mapping["spec"]["workloadType"] = {"version": "v1", "kind": "Other"}
    mapping["spec"]["specSelectors"]["pods"]["query"] = ".spec | first(.pods[])"
    body = orjson.dumps(make_review(**of_kind(mapping)))

    async with open_gate(check_query=busy) as gate:
        answer = await gate.post("/validate", body)

        assert answer.status == 500
        assert "expressions can't be tried now" in (await answer.json())["message"]


async def test_each_review_is_recorded(log: io.StringIO) -> None:
    async with open_gate() as gate:
        await create(gate, BAD)
        await create(gate, make_policy(name="second", scope="project", unit="red"))

    denied, allowed = records(log.getvalue().splitlines())
    assert (denied["outcome"], denied["name"]) == ("denied", "new")
    assert denied["reason"].startswith("spec.rules[0].field: no field 'imag'")
    assert denied["reason"].endswith("(and 1 more)")
    assert allowed["outcome"] == "allowed"


@pytest.mark.parametrize("own_documents", [True, False], ids=["cluster", "directory"])
async def test_documents_for_gpus_are_judged_wherever_policies_are_kept(
    own_documents: bool,
) -> None:
    bad = make_gpu_policy(weight=-1)
    async with open_gate() if own_documents else Gate(*DOCUMENTS) as gate:
        got = await create(gate, bad, namespace="default")
        mutated = await gate.ask("/mutate", **of_kind(bad, namespace="default"))

    assert got["status"]["message"] == "spec.weight: must be at least 0, not -1"
    assert mutated == {"uid": mutated["uid"], "allowed": True}


async def test_what_the_reconciler_keeps_is_not_judged() -> None:
    kept = {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "GpuRecommendation",
        "metadata": {"name": "deployment.llm", "namespace": "default"},
        "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm"}},
    }
    async with open_gate() as gate:
        got = await create(gate, kept)

    assert got == {"uid": got["uid"], "allowed": True}
