"""What an error becomes in HTTP: one table, and one shape of answer."""

from __future__ import annotations

from http import HTTPStatus

import orjson
from aiohttp import web

from webhook.admission.texts import clean
from webhook.api.auth import ForbiddenError, UnauthorizedError
from webhook.api.limits.bodies import BodyTooLargeError, BusyError, LostError, SlowBodyError
from webhook.api.limits.line import GoneError
from webhook.errors import (
    ConflictError,
    DecodeError,
    EvaluationError,
    KubeError,
    NotFoundError,
    NotReadyError,
    RefusedError,
    StoreError,
    WebhookError,
)


class BadRequestError(WebhookError):
    """
    A request of the API says something that can't be.

    *path* is the part of its query, head or body; *details* has a line for each problem.
    """

    def __init__(self, path: str, problem: str, details: str = "") -> None:
        text = f"{path}: {problem}" if path else problem
        super().__init__(text)
        self.details = details or text


class HeldError(ConflictError):
    """Other documents stand against a change; *details* has a line for each."""

    def __init__(self, problem: str, details: str) -> None:
        super().__init__(problem)
        self.details = details


class PreconditionError(WebhookError):
    """What a request asks to be so before anything is done, is not so."""


class MediaTypeError(WebhookError):
    """A body is of a type that is not read here."""


# What is looked for first stands first: of two classes the narrower.
STATUS_BY_ERROR: dict[type[Exception], int] = {
    BadRequestError: 400,
    DecodeError: 400,
    UnauthorizedError: 401,
    ForbiddenError: 403,
    NotFoundError: 404,
    SlowBodyError: 408,
    ConflictError: 409,
    RefusedError: 400,
    PreconditionError: 412,
    BodyTooLargeError: 413,
    MediaTypeError: 415,
    BusyError: 503,
    GoneError: 503,
    LostError: 503,
    StoreError: 503,
    KubeError: 503,
    # Ours: the cluster's failurePolicy decides. `allowed: false` would overrule an
    # administrator who chose Ignore.
    EvaluationError: 500,
    NotReadyError: 500,
}

# The texts of these errors are ours and show no value of the request.
_SHOWN = tuple([error for error in STATUS_BY_ERROR if error is not KubeError])

_MESSAGE_MAX_CHARS = 500
_MAX_LINES = 100


def status_of(error: Exception) -> int:
    """The HTTP status for *error*; 500 for all that nobody expected."""
    return next((s for kind, s in STATUS_BY_ERROR.items() if isinstance(error, kind)), 500)


def message_of(error: Exception) -> str:
    """What a client is told. Never the text of a foreign exception, which may hold anything."""
    if isinstance(error, DecodeError) and error.uid:
        return clean(f"{error} (uid {error.uid})", _MESSAGE_MAX_CHARS)
    if isinstance(error, _SHOWN):
        return clean(str(error), _MESSAGE_MAX_CHARS)
    if isinstance(error, KubeError):
        # Its own text may name what a caller need not know; the log has it.
        return "the Kubernetes API server could not be asked"
    return "internal error"


def details_of(error: Exception) -> str:
    """All that a client of the API is told: a line for each problem."""
    if isinstance(error, BadRequestError | HeldError):
        lines = [clean(line, _MESSAGE_MAX_CHARS) for line in error.details.split("\n")]
        return "\n".join(lines[:_MAX_LINES])
    return message_of(error)


def problem(
    status: int,
    message: str = "",
    headers: dict[str, str] | None = None,
    *,
    details: str | None = None,
) -> web.Response:
    """An answer that is no success: `{"code", "message"}`, in the API `details` as well."""
    body: dict[str, int | str] = {
        "code": status,
        "message": message or HTTPStatus(status).phrase.lower(),
    }
    if details is not None:
        body["details"] = details
    return web.Response(
        status=status,
        body=orjson.dumps(body),
        content_type="application/json",
        headers=headers,
    )
