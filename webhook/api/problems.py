"""What an error becomes in HTTP: one table, and one shape of answer."""

from __future__ import annotations

from http import HTTPStatus

import orjson
from aiohttp import web

from webhook.admission.texts import clean
from webhook.api.bodies import BodyTooLargeError, BusyError, SlowBodyError
from webhook.errors import DecodeError, EvaluationError, NotReadyError

STATUS_BY_ERROR: dict[type[Exception], int] = {
    DecodeError: 400,
    SlowBodyError: 408,
    BodyTooLargeError: 413,
    BusyError: 503,
    # Ours: the cluster's failurePolicy decides. `allowed: false` would overrule an
    # administrator who chose Ignore.
    EvaluationError: 500,
    NotReadyError: 500,
}

# The texts of these errors are ours and show no value of the request.
_SHOWN = tuple(STATUS_BY_ERROR)

_MESSAGE_MAX_CHARS = 500


def status_of(error: Exception) -> int:
    """The HTTP status for *error*; 500 for all that nobody expected."""
    return next((s for kind, s in STATUS_BY_ERROR.items() if isinstance(error, kind)), 500)


def message_of(error: Exception) -> str:
    """What a client is told. Never the text of a foreign exception, which may hold anything."""
    if isinstance(error, DecodeError) and error.uid:
        return clean(f"{error} (uid {error.uid})", _MESSAGE_MAX_CHARS)
    if isinstance(error, _SHOWN):
        return clean(str(error), _MESSAGE_MAX_CHARS)
    return "internal error"


def problem(status: int, message: str = "", headers: dict[str, str] | None = None) -> web.Response:
    """An answer that is no success: `{"code", "message"}`."""
    body = {"code": status, "message": message or HTTPStatus(status).phrase.lower()}
    return web.Response(
        status=status,
        body=orjson.dumps(body),
        content_type="application/json",
        headers=headers,
    )
