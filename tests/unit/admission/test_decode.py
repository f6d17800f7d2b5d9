from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.admission.builders import UID, decoded, make_pod, make_review
from webhook.admission.decode import (
    MAX_NESTING,
    MAX_VALUES,
    _count_values,
    _measure_depth,
    _without_texts,
    decode_review,
)
from webhook.errors import DecodeError
from webhook.model.kinds import GroupVersionKind
from webhook.model.request import Operation


def test_a_review_is_read_with_all_that_decides() -> None:
    review = decoded(
        operation="UPDATE",
        oldObject=make_pod(priority=1),
        name="train",
        subResource="resize",
        dryRun=True,
    )

    request = review.request
    assert request.uid == UID
    assert request.kind == GroupVersionKind("", "v1", "Pod")
    assert request.operation is Operation.UPDATE
    assert request.object == make_pod()
    assert request.old_object == make_pod(priority=1)
    assert request.resource == ("", "v1", "pods")
    assert (request.name, request.namespace) == ("train", "team-a")
    assert (request.user, request.groups) == ("ada", ("system:authenticated",))
    assert request.sub_resource == "resize"
    assert request.dry_run


@pytest.mark.parametrize("api_version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_the_version_that_was_asked_is_kept_for_the_answer(api_version: str) -> None:
    assert decoded(api_version).api_version == api_version


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"null", "no JSON object", id="null"),
        pytest.param(b"[]", "no JSON object", id="list"),
        pytest.param(b"42", "no JSON object", id="number"),
        pytest.param(b'{"kind": ', "not JSON", id="broken"),
        pytest.param(b'{"a": NaN}', "not JSON", id="nan"),
        pytest.param(b'{"a": 1e999}', "not JSON", id="infinite"),
        pytest.param(b'{"a": "\xff"}', "not JSON", id="not-utf-8"),
        pytest.param('{"a": 1}'.encode("utf-16"), "not JSON", id="utf-16"),
        pytest.param(b'{"a": "\\ud800"}', "not JSON", id="half-a-surrogate-pair"),
        pytest.param(b"{}", "apiVersion", id="no-version"),
        pytest.param(
            b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
            "request is missing",
            id="no-request",
        ),
    ],
)
def test_a_body_that_is_no_review_is_an_error(body: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        decode_review(body)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"uid": None}, "request.uid is missing", id="no-uid"),
        pytest.param({"uid": ""}, "request.uid is missing", id="empty-uid"),
        pytest.param({"uid": 7}, "request.uid must be text", id="uid-number"),
        pytest.param({"kind": None}, "request.kind is missing", id="no-kind"),
        pytest.param({"kind": "Pod"}, "request.kind must be an object", id="kind-text"),
        pytest.param({"kind": {"kind": 1}}, "request.kind.kind must be text", id="kind-number"),
        pytest.param({"kind": {"version": "v1"}}, "request.kind is missing", id="kind-unnamed"),
        pytest.param({"operation": None}, "request.operation", id="no-operation"),
        pytest.param({"operation": "PATCH"}, "must be one of CREATE", id="operation-unknown"),
        pytest.param({"operation": ["CREATE"]}, "must be text", id="operation-list"),
        pytest.param({"object": None}, "request.object is missing", id="no-object"),
        pytest.param({"object": "pod"}, "request.object must be", id="object-text"),
        pytest.param({"object": [1]}, "request.object must be", id="object-list"),
        pytest.param({"oldObject": 1}, "request.oldObject must be", id="old-object-number"),
        pytest.param({"userInfo": []}, "request.userInfo must be", id="user-list"),
        pytest.param({"userInfo": {"username": {}}}, "username must be text", id="user-object"),
        pytest.param({"userInfo": {"groups": [1]}}, "groups must be a list", id="group-number"),
        pytest.param({"userInfo": {"groups": "a"}}, "groups must be a list", id="groups-text"),
        pytest.param({"resource": "pods"}, "request.resource must be", id="resource-text"),
        pytest.param({"namespace": 1}, "request.namespace must be text", id="namespace-number"),
        pytest.param({"dryRun": "yes"}, "request.dryRun must be", id="dry-run-text"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        decoded(**fields)


@pytest.mark.parametrize("request_value", [[], "text", 1, True])
def test_a_request_that_is_no_object_is_an_error(request_value: Any) -> None:
    body = orjson.dumps({**make_review(), "request": request_value})

    with pytest.raises(DecodeError, match="request must be an object"):
        decode_review(body)


@pytest.mark.parametrize("version", ["admission.k8s.io/v2", "v1", None, 1, []])
def test_an_unknown_version_is_an_error(version: Any) -> None:
    body = orjson.dumps({**make_review(), "apiVersion": version})

    with pytest.raises(DecodeError, match="apiVersion must be"):
        decode_review(body)


def test_another_kind_is_an_error() -> None:
    body = orjson.dumps({**make_review(), "kind": "TokenReview"})

    with pytest.raises(DecodeError, match="kind must be AdmissionReview"):
        decode_review(body)


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_an_object_may_be_missing_where_there_is_none(operation: str) -> None:
    assert decoded(operation=operation, object=None).request.object is None


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"object": {"metadata": {"name": "a"}}}, "a", id="name"),
        pytest.param({"object": {}, "name": "b"}, "b", id="name-of-the-request"),
        pytest.param({"object": {"metadata": {"generateName": "c-"}}}, "c-", id="generate-name"),
        pytest.param({"object": {}}, UID, id="uid"),
        pytest.param({"object": {"metadata": "text"}}, UID, id="metadata-text"),
        pytest.param({"object": {"metadata": [1]}}, UID, id="metadata-list"),
        pytest.param({"object": {"metadata": {"name": 5}}}, UID, id="name-number"),
    ],
)
def test_there_is_always_a_name_to_call_it_by(fields: dict[str, Any], want: str) -> None:
    assert decoded(**fields).request.display_name == want


@pytest.mark.parametrize("levels", [MAX_NESTING, 1000, 1024, 1025, 100_000])
def test_a_thousand_levels_are_an_error_and_no_crash(levels: int) -> None:
    body = orjson.dumps(make_review(object={"deep": "HERE"}))
    body = body.replace(b'"HERE"', b"[" * levels + b"]" * levels)

    with pytest.raises(DecodeError, match=f"{MAX_NESTING} levels"):
        decode_review(body)


# The review, its request and the object are three levels around what is nested in it.
@pytest.mark.parametrize(
    ("levels", "is_accepted"),
    [
        pytest.param(MAX_NESTING - 3, True, id="at-the-limit"),
        pytest.param(MAX_NESTING - 2, False, id="one-more"),
    ],
)
def test_the_limit_of_levels_is_exact(levels: int, is_accepted: bool) -> None:
    body = orjson.dumps(make_review(object={"deep": "HERE"}))
    body = body.replace(b'"HERE"', b"[" * levels + b"]" * levels)

    if is_accepted:
        assert decode_review(body).request.uid == UID
    else:
        with pytest.raises(DecodeError):
            decode_review(body)


TEXTS = {
    "brackets": "[{" * 3000,
    "commas": "," * (MAX_VALUES + 1),
    "quotes": '"[' * 3000,
    "backslashes": "\\" * 3001 + '"[' * 3000,
    "backslash-at-the-end": "[" * 3000 + "\\",
    "not-ascii": "é[" * 3000,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_stands_in_a_text_is_neither_depth_nor_a_value(text: str) -> None:
    fields = {"value": [text, {text: [text]}], text: text}

    assert decoded(object=fields).request.object == fields


def test_many_brackets_alone_are_not_depth() -> None:
    value: list[Any] = [{} for _ in range(3000)]

    assert decoded(object={"items": value}).request.object == {"items": value}


# Of the review and its request, less than this many are around what the object holds.
AROUND = 50


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(b"1", id="numbers"),
        pytest.param(b"{}", id="empty-objects"),
        pytest.param(b"[]", id="empty-lists"),
        pytest.param(b'"a,b"', id="texts"),
        pytest.param(b'"\\\\\\","', id="texts-with-quotes"),
    ],
)
def test_the_number_of_values_is_bounded(part: bytes) -> None:
    def body(count: int) -> bytes:
        review = orjson.dumps(make_review(object={"items": "HERE"}))
        return review.replace(b'"HERE"', b"[" + b",".join([part] * count) + b"]")

    most = MAX_VALUES // 2 if part in (b"{}", b"[]") else MAX_VALUES
    assert decode_review(body(most - AROUND)).request.uid == UID
    with pytest.raises(DecodeError, match="more than 500,000 values"):
        decode_review(body(most + AROUND))


@pytest.mark.slow
def test_members_count_as_values() -> None:
    body = orjson.dumps(make_review(object={str(n): n for n in range(MAX_VALUES)}))

    with pytest.raises(DecodeError, match="values"):
        decode_review(body)


def test_a_flood_of_texts_is_refused_before_it_is_taken_apart() -> None:
    body = b"{}" * 201 + b'""' * (2 * MAX_VALUES + 1)

    with pytest.raises(DecodeError, match="values"):
        decode_review(body)


# Texts that look like structure.
_JSON = st.recursive(
    st.sampled_from(["", '"', "\\", '\\"', "[{", ',"a":[', "é\\", 1, None, True]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["", '"[', "\\", "{,"]), inner, max_size=3)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(_JSON)
def test_the_shape_is_seen_in_the_bytes_as_it_is(value: Any) -> None:
    def depth(node: Any) -> int:
        if not isinstance(node, (dict, list)):
            return 0
        return 1 + max(map(depth, node.values() if isinstance(node, dict) else node), default=0)

    def count(node: Any) -> int:
        if not isinstance(node, (dict, list)):
            return 0
        inner = node.values() if isinstance(node, dict) else node
        return max(1, len(node)) + sum(map(count, inner))

    for body in (orjson.dumps(value), json.dumps(value, indent=1).encode()):
        frame = _without_texts(body)
        assert (_measure_depth(frame), _count_values(frame)) == (depth(value), count(value))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"token": "hunter2-canary', id="cut-off"),
        pytest.param(b'{"token": hunter2-canary}', id="no-quotes"),
        pytest.param(orjson.dumps(make_review(operation="hunter2-canary")), id="operation"),
        pytest.param(orjson.dumps(make_review(object="hunter2-canary")), id="object"),
        pytest.param(orjson.dumps({**make_review(), "apiVersion": "hunter2-canary"}), id="version"),
    ],
)
def test_an_error_never_quotes_the_body(body: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_review(body)

    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_large_integers_stay_exact() -> None:
    numbers = {"seed": 9007199254740993, "big": 18446744073709551615}

    assert decoded(object=numbers).request.object == numbers
