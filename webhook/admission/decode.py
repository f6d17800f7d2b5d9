"""Bytes of a request body -> `AdmissionRequest`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import orjson

from webhook.errors import DecodeError
from webhook.model.kinds import GroupVersionKind
from webhook.model.request import AdmissionRequest, Operation

# v1beta1 differs in nothing that we read; an answer must name the version that was asked.
API_VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")

# Levels of objects and lists in a body. Objects of users nest some 20 deep; what comes after
# goes into them with several frames of the interpreter's stack a level, and it has 1,000.
MAX_NESTING = 200

# Members of objects and items of lists in a body, empty ones counting as one. The largest update,
# twice 3 MB, stays below it unless it is made of nothing but values shorter than 10 bytes. So many
# take half a second to read and compare, and 80 MB; 8 MiB of `{"":1},` would take 300 MB.
MAX_VALUES = 500_000

_BRACKETS = b"{}[]"
_NOT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
# As signed bytes: one level down, one level up.
_STEPS = bytes.maketrans(_BRACKETS, b"\x01\xff\x01\xff")


@dataclass(frozen=True, slots=True)
class Review:
    """An AdmissionReview as asked: its apiVersion is echoed in the answer."""

    api_version: str
    request: AdmissionRequest


# A uid has 36 characters; of what is none, this much is enough to find it by.
_UID_MAX_CHARS = 64


def decode_review(body: bytes) -> Review:
    """
    Read one AdmissionReview.

    Only what we use is read and checked; objects stay as received. No text of the body is
    quoted in an error, since it may hold secrets.

    Raises:
        DecodeError: *body* is no AdmissionReview that can be answered.
    """
    review = _load(body)
    if not isinstance(review, dict):
        raise DecodeError("the body is no JSON object")
    api_version = review.get("apiVersion")
    if api_version not in API_VERSIONS:
        raise DecodeError(f"apiVersion must be {' or '.join(API_VERSIONS)}")
    if review.get("kind") != "AdmissionReview":
        raise DecodeError("kind must be AdmissionReview")

    request = _map(review, "request", at="")
    if request is None:
        raise DecodeError("request is missing")
    try:
        return Review(api_version, _decode_request(request))
    except DecodeError as error:
        uid = request.get("uid")
        error.uid = uid[:_UID_MAX_CHARS] if isinstance(uid, str) else ""
        raise


def _decode_request(request: dict[str, Any]) -> AdmissionRequest:
    uid = _text(request, "uid")
    if not uid:
        raise DecodeError("request.uid is missing")
    kind = _map(request, "kind")
    if kind is None or not _text(kind, "kind", at="request.kind."):
        raise DecodeError("request.kind is missing")
    operation = _operation(request)
    obj = _map(request, "object")
    if obj is None and operation in (Operation.CREATE, Operation.UPDATE):
        raise DecodeError(f"request.object is missing, and the operation is {operation}")
    resource = _map(request, "resource") or {}
    user_info = _map(request, "userInfo") or {}

    return AdmissionRequest(
        uid=uid,
        kind=GroupVersionKind(
            _text(kind, "group", at="request.kind."),
            _text(kind, "version", at="request.kind."),
            _text(kind, "kind", at="request.kind."),
        ),
        operation=operation,
        object=obj,
        old_object=_map(request, "oldObject"),
        name=_text(request, "name"),
        namespace=_text(request, "namespace"),
        resource=(
            _text(resource, "group", at="request.resource."),
            _text(resource, "version", at="request.resource."),
            _text(resource, "resource", at="request.resource."),
        ),
        sub_resource=_text(request, "subResource"),
        user=_text(user_info, "username", at="request.userInfo."),
        groups=_texts(user_info, "groups", at="request.userInfo."),
        dry_run=_flag(request, "dryRun"),
    )


def _load(body: bytes) -> Any:
    check_shape(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as e:
        # Where, but not what: the reader's own text may quote the body.
        raise DecodeError(
            f"the body is not JSON in UTF-8 (line {e.lineno}, column {e.colno})"
        ) from None


def check_shape(body: bytes) -> None:
    """
    Refuse what is too deep or too finely cut, before it is read.

    Reading can't be interrupted, and nothing else is answered meanwhile. So this only passes
    over the bytes, in C, and is exact for whatever is JSON.

    Raises:
        DecodeError: *body* nests too deep or holds too many values.
    """
    openings = body.count(b"{") + body.count(b"[")
    if openings <= MAX_NESTING and openings + body.count(b",") <= MAX_VALUES:
        return

    frame = _without_texts(body)
    if _count_values(frame) > MAX_VALUES:
        raise _too_many()
    if _measure_depth(frame) > MAX_NESTING:
        raise DecodeError(f"the body nests deeper than {MAX_NESTING} levels")


def _count_values(frame: bytes) -> int:
    return frame.count(b",") + frame.count(b"{") + frame.count(b"[")


def _measure_depth(frame: bytes) -> int:
    steps = memoryview(frame.translate(_STEPS, delete=_NOT_BRACKETS)).cast("b")
    return max(accumulate(steps), default=0)


def _without_texts(body: bytes) -> bytes:
    """
    What of *body* stands outside of quotes.

    Raises:
        DecodeError: there are more texts than `MAX_VALUES` have room for.
    """
    if b"\\" in body:
        # Pairs first: what is left of a backslash before a quote makes that part of the text.
        body = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # A member has two texts, its key and its value.
    if body.count(b'"') > 4 * MAX_VALUES:
        raise _too_many()
    return b"".join(body.split(b'"')[::2])


def _too_many() -> DecodeError:
    return DecodeError(f"the body holds more than {MAX_VALUES:,} values")


def _operation(request: dict[str, Any]) -> Operation:
    try:
        return Operation(_text(request, "operation"))
    except ValueError:
        raise DecodeError(f"request.operation must be one of {', '.join(Operation)}") from None


# Absent and null are the same in what the API server sends, so both become empty.


def _map(node: dict[str, Any], key: str, *, at: str = "request.") -> dict[str, Any] | None:
    value = node.get(key)
    if value is not None and not isinstance(value, dict):
        raise DecodeError(f"{at}{key} must be an object")
    return value


def _text(node: dict[str, Any], key: str, *, at: str = "request.") -> str:
    value = node.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DecodeError(f"{at}{key} must be text")
    return value


def _texts(node: dict[str, Any], key: str, *, at: str) -> tuple[str, ...]:
    value = node.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DecodeError(f"{at}{key} must be a list of texts")
    return tuple(value)


def _flag(node: dict[str, Any], key: str) -> bool:
    value = node.get(key)
    if value is not None and not isinstance(value, bool):
        raise DecodeError(f"request.{key} must be true or false")
    return bool(value)
