"""POST /api/v1/review: what the gate would answer to a submission."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from webhook.admission.trial import Submission, try_submission
from webhook.api.access import begin
from webhook.api.answers import answer_json
from webhook.api.bodies import BIG_BODY_BYTES
from webhook.api.problems import BadRequestError
from webhook.api.requests import PATIENCE_S, check_query, read_manifests
from webhook.api.services import Services
from webhook.errors import ManifestError
from webhook.mapping.evaluator import JqWorker
from webhook.model.manifests import Manifest
from webhook.store.snapshot import Snapshot

PARAMETERS = ("namespace", "project", "department", "user")

routes = web.RouteTableDef()


@routes.post("/api/v1/review")
async def review(request: web.Request) -> web.Response:
    """The JSON of `gatewright review -o json`, one element for each object in the body."""
    call = await begin(request)
    await call.may_call()
    check_query(request, PARAMETERS)
    submission = Submission(
        namespace=request.query.get("namespace"),
        project=request.query.get("project"),
        department=request.query.get("department"),
        user=request.query.get("user", ""),
    )
    async with _turn(request, call.services):
        manifests = await read_manifests(request)
        if not manifests:
            raise BadRequestError("body", "holds no object")
        reports = await call.rest.run(
            _review, manifests, submission, call.snapshot, call.services.jq
        )
        return answer_json(reports)


@asynccontextmanager
async def _turn(request: web.Request, services: Services) -> AsyncIterator[None]:
    """Few large bodies at once, those of the admission server included: see `Services`."""
    is_packed = "Content-Encoding" in request.headers
    if not is_packed and (request.content_length or 0) <= BIG_BODY_BYTES:
        yield
        return
    wait_until = asyncio.get_running_loop().time() + PATIENCE_S
    async with services.big_turns.take(wait_until=wait_until):
        yield


def _review(
    manifests: Sequence[Manifest], submission: Submission, snapshot: Snapshot, worker: JqWorker
) -> list[dict[str, Any]]:
    try:
        return [
            try_submission(manifest, submission, snapshot, worker).report for manifest in manifests
        ]
    except ManifestError as error:
        raise BadRequestError("", str(error)) from None
