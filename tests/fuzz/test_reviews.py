"""Bodies of reviews: whatever comes, an answer that fits, or an error that quotes nothing."""

from __future__ import annotations

import base64
import copy
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import JsonObject, as_stored
from tests.e2e.gate import EXAMPLES
from tests.fuzz.budget import budget
from tests.fuzz.mutations import damaged, mutated
from tests.unit.admission.builders import UID, make_pod, make_review
from webhook.admission.decode import decode_review
from webhook.admission.record import decision_record
from webhook.admission.response import respond
from webhook.admission.review import review
from webhook.admission.texts import to_json
from webhook.errors import DecodeError
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.locate import answer_by_jq
from webhook.model.decision import Decision
from webhook.model.manifests import load_file
from webhook.model.request import Phase
from webhook.model.settings import EngineSettings
from webhook.store.compile.inputs import SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.snapshot import Snapshot

pytestmark = pytest.mark.slow

SECRET = "hunter2hunter2"


def workloads() -> list[JsonObject]:
    files = [
        *sorted((EXAMPLES / "workloads").glob("*.yaml")),
        *sorted((EXAMPLES / "native").glob("*.yaml")),
        *sorted((EXAMPLES / "one-policy").glob("*.yaml")),
    ]
    return [manifest.value for file in files for manifest in load_file(file)]


def review_of(document: JsonObject, **fields: Any) -> JsonObject:
    group, _, version = document["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    return make_review(kind=kind, object=document, **fields)


def reviews() -> list[JsonObject]:
    made = [review_of(each) for each in (*workloads(), as_stored(make_pod()))]
    old = [
        review_of(each, oldObject=copy.deepcopy(each), operation="UPDATE") for each in workloads()
    ]
    return [*made, *old]


REVIEWS = reviews()
HIDING = orjson.dumps(
    make_review(object=make_pod(env=[{"name": "TOKEN", "value": SECRET}], x=2**60))
)


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    files = [
        SourceFile(str(path), tuple(load_file(path)))
        for directory in ("policies", "mappings")
        for path in sorted((EXAMPLES / directory).rglob("*.yaml"))
    ]
    snapshot = build_snapshot(files, EngineSettings())
    assert [str(problem) for problem in snapshot.problems if not problem.is_harmless] == []
    return snapshot


@pytest.fixture(scope="module")
def jq() -> Any:
    with JqWorker() as worker:
        yield worker


@budget(400)
@given(damaged([HIDING, *map(orjson.dumps, REVIEWS)]))
def test_damaged_bytes_are_a_review_or_an_error_that_quotes_none_of_them(body: bytes) -> None:
    try:
        read = decode_review(body)
    except DecodeError as error:
        text = str(error)
        assert SECRET[:4] not in text
        assert text.isprintable()
        return

    # Nothing is read into a body that is not there.
    sent = orjson.loads(body)["request"]
    assert read.request.object == sent.get("object")
    assert read.request.old_object == sent.get("oldObject")
    assert read.request.uid == sent["uid"]


@budget(200)
@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_an_error(body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_review(body)


@budget(300)
@given(mutated(REVIEWS, below=("request",)))
def test_a_request_of_any_shape_is_a_review_or_an_error_that_names_the_place(
    sent: JsonObject,
) -> None:
    try:
        decode_review(orjson.dumps(sent))
    except DecodeError as error:
        text = str(error)
        assert "request" in text


@budget(250)
@given(
    mutated(REVIEWS, below=("request", "object")) | mutated(REVIEWS, below=("request", "oldObject"))
)
def test_an_object_of_any_shape_is_judged_and_its_patch_fits(
    snapshot: Snapshot, jq: JqWorker, sent: JsonObject
) -> None:
    """Both doors as the API server goes through them: its library, a second pass, the record."""
    document = sent["request"]["object"]
    decision, answer = judged(sent, Phase.MUTATE, snapshot, jq)
    if not decision.allowed:
        assert "patch" not in answer
        return

    patch = orjson.loads(base64.b64decode(answer.get("patch", base64.b64encode(b"[]"))))
    patched = jsonpatch.apply_patch(document, patch)
    sent["request"]["object"] = patched
    assert judged(sent, Phase.MUTATE, snapshot, jq)[0].patch == []
    assert judged(sent, Phase.VALIDATE, snapshot, jq)[0].patch == []


def judged(
    sent: JsonObject, phase: Phase, snapshot: Snapshot, jq: JqWorker
) -> tuple[Decision, JsonObject]:
    """The decision about a review, and the answer to it as the caller reads it."""
    read = decode_review(orjson.dumps(sent))
    decision = answer_by_jq(
        jq,
        read.request.object or {},
        lambda answers: review(read.request, phase, snapshot, answers),
    )
    answer = orjson.loads(to_json(respond(read, decision)))
    assert answer["response"]["uid"] == UID
    assert answer["response"]["allowed"] is decision.allowed
    record = decision_record(
        read.request,
        decision,
        phase=phase.value,
        branch=snapshot.branch(read.request.namespace),
        snapshot=snapshot.revision,
        duration_s=0.0,
    )
    assert b"\n" not in to_json(record)
    response: JsonObject = answer["response"]
    return decision, response
