"""What requests of the API say: their bodies and queries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from webhook.admission.decode import check_shape
from webhook.api.limits.bodies import BIG_BODY_BYTES, encoding_of
from webhook.api.problems import BadRequestError, MediaTypeError
from webhook.api.rest_services import RestServices
from webhook.api.services import SERVICES
from webhook.errors import ManifestError, NotFoundError
from webhook.model.manifests import Manifest, load_documents
from webhook.model.names import did_you_mean

# etcd takes requests of 1.5 MiB, and what is around a document in one is our own.
DOCUMENT_MAX_BYTES = 2**20

# How messages and reports name a body.
_SOURCE = "body"

_CONTENT_TYPES = ("application/json", "application/merge-patch+json")

# How long a body may wait for room. People wait here, and not an API server.
PATIENCE_S = 10.0


def rest_of(request: web.Request) -> RestServices:
    """
    What handlers of the API share.

    Raises:
        NotFoundError: there is no API.
    """
    rest = request.app[SERVICES].rest
    if rest is None:
        raise NotFoundError("there is no API here")
    return rest


async def read_object(request: web.Request, *, optional: bool = False) -> dict[str, Any]:
    """
    The body of *request*, which is to be one JSON object of at most `DOCUMENT_MAX_BYTES`.

    An *optional* one that is not there is empty: what is needed in it is then said by its name.

    Raises:
        BadRequestError: it is something else.
        MediaTypeError, BodyTooLargeError, SlowBodyError, BusyError, DecodeError: as they say.
    """
    if optional and not request.body_exists:
        return {}
    async with _parsed(request, max_bytes=DOCUMENT_MAX_BYTES) as (manifests, is_list):
        value = manifests[0].value if len(manifests) == 1 and not is_list else None
    if not isinstance(value, dict):
        raise BadRequestError("body", "must be one JSON object")
    return value


@asynccontextmanager
async def read_manifests(request: web.Request) -> AsyncIterator[list[Manifest]]:
    """
    The objects in the body of *request*: one, an array of them, or a `List`.

    What they take of memory is accounted for to the end of the block.

    Raises:
        as `read_object`; the body may be as large as an admission review.
    """
    async with _parsed(request) as (manifests, _):
        yield manifests


@asynccontextmanager
async def _parsed(
    request: web.Request, *, max_bytes: int | None = None
) -> AsyncIterator[tuple[list[Manifest], bool]]:
    """
    As `_load`. Large bodies take turns to be objects, which they are to the end of the block. By
    then all of the body is here, however its sender announced it: who sends slowly holds up nobody.
    """
    rest = rest_of(request)
    async with _reading(request, rest) as body:
        if max_bytes is not None and len(body) > max_bytes:
            raise BadRequestError("body", f"is larger than {max_bytes // 2**20} MiB")
        if len(body) <= BIG_BODY_BYTES:
            yield _load(body)
            return
        wait_until = asyncio.get_running_loop().time() + PATIENCE_S
        shared = request.app[SERVICES].big_turns
        async with rest.big_turns.take(wait_until=wait_until), shared.take(wait_until=wait_until):
            yield await asyncio.to_thread(_load, body)


def _reading(request: web.Request, rest: RestServices) -> AbstractAsyncContextManager[bytes]:
    services = request.app[SERVICES]
    if not request.body_exists:
        raise BadRequestError("body", "is needed")
    if request.content_type not in _CONTENT_TYPES:
        raise MediaTypeError("the content type must be application/json")
    encoding = encoding_of(request)
    if encoding is None:
        raise MediaTypeError("the content encoding is not supported")
    return rest.bodies.read(
        request.content,
        announced_bytes=request.content_length if encoding in ("", "identity") else None,
        max_bytes=services.max_body_bytes,
        timeout_s=services.read_timeout_s,
        wait_until=asyncio.get_running_loop().time() + PATIENCE_S,
        peer=request.remote or "",
    )


def _load(body: bytes) -> tuple[list[Manifest], bool]:
    """The objects in *body*, and whether they stood in an array or a `List`."""
    check_shape(body)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # Where, but not what: the reader's own text may quote the body.
        where = f"line {error.lineno}, column {error.colno}"
        raise BadRequestError("body", f"is not JSON in UTF-8 ({where})") from None
    try:
        # Again, by the reader of documents: it knows keys that are there twice, and keeps
        # integers beyond 64 bits.
        manifests = load_documents(body, _SOURCE)
    except ManifestError as error:
        raise BadRequestError("body", error.problem) from None
    if isinstance(value, list):
        items = [item for manifest in manifests for item in manifest.value]
        return [Manifest(_SOURCE, index, 1, item) for index, item in enumerate(items)], True
    return manifests, isinstance(value, dict) and value.get("kind") == "List"


def check_query(request: web.Request, known: Collection[str]) -> None:
    """
    Raises:
        BadRequestError: the query has a parameter that is not among *known*, or one twice.
            Whoever misspells a filter would get everything.
    """
    for name in request.query:
        if name not in known:
            hint = did_you_mean(name, known) or "; there are none here"
            raise BadRequestError("query", f"no parameter {name!r}{hint}")
        if name != "filterBy" and len(request.query.getall(name)) > 1:
            raise BadRequestError(name, "is there twice")


def check_keys(body: Mapping[str, Any], *known: str, at: str = "") -> None:
    """
    Raises:
        BadRequestError: *body*, which stands at the path *at*, has a key that is not *known*.
    """
    for key in body:
        if key not in known:
            raise BadRequestError(f"{at}{key}", f"unknown field{did_you_mean(key, known)}")


def read_flag(request: web.Request, name: str) -> bool:
    """
    Raises:
        BadRequestError: the parameter *name* is neither true nor false.
    """
    text = request.query.get(name, "false").lower()
    if text not in ("true", "false"):
        raise BadRequestError(name, "must be true or false")
    return text == "true"
