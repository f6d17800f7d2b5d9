"""Bytes of a request body -> `AdmissionRequest`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from webhook.errors import DecodeError
from webhook.model.kinds import GroupVersionKind
from webhook.model.request import AdmissionRequest, Operation

# v1beta1 differs in nothing that we read; an answer must name the version that was asked.
API_VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")

# Levels of objects and lists in a body. The JSON reader itself stops at 1,024 (orjson,
# "loads"); a lower limit of our own keeps the answer the same if that one moves, and leaves
# the code behind it room on the interpreter's stack (1,000 frames).
MAX_NESTING = 900


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
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as e:
        # Where, but not what: the reader's own text may quote the body.
        raise DecodeError(
            f"the body is not JSON in UTF-8 of at most {MAX_NESTING} levels"
            f" (line {e.lineno}, column {e.colno})"
        ) from None
    if _nests_deeper(body, document, MAX_NESTING):
        raise DecodeError(f"the body nests deeper than {MAX_NESTING} levels")
    return document


def _nests_deeper(body: bytes, document: Any, limit: int) -> bool:
    # Nearly every body has too few brackets to be deep, which costs one pass over the bytes
    # to see. The exact answer goes level by level, since a recursion would be the crash that
    # this guards against.
    if body.count(b"{") + body.count(b"[") <= limit:
        return False

    level = [document] if isinstance(document, (dict, list)) else []
    depth = 0
    while level and depth <= limit:
        depth += 1
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
    return depth > limit


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
