"""POST /api/v1/review: what the gate would answer to a submission."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from webhook.admission.texts import to_json
from webhook.admission.trial import Submission, try_submission
from webhook.api.problems import BadRequestError
from webhook.api.rest.access import identify
from webhook.api.rest.requests import check_query, read_manifests
from webhook.errors import ManifestError
from webhook.mapping.evaluator import JqWorker
from webhook.model.manifests import Manifest
from webhook.store.snapshot import Snapshot

PARAMETERS = ("namespace", "project", "department", "user")

routes = web.RouteTableDef()


@routes.post("/api/v1/review")
async def review(request: web.Request) -> web.Response:
    """The JSON of `gatewright review -o json`, one element for each object in the body."""
    call = await identify(request)
    await call.require_path()
    check_query(request, PARAMETERS)
    submission = Submission(
        namespace=request.query.get("namespace"),
        project=request.query.get("project"),
        department=request.query.get("department"),
        user=request.query.get("user", ""),
    )
    async with read_manifests(request) as manifests:
        if not manifests:
            raise BadRequestError("body", "holds no object")
        # All of them by what is in force now; one after the other, so that what others ask comes in
        # between.
        snapshot = call.snapshot
        reports = [
            await call.rest.run(_review, manifest, submission, snapshot, call.services.jq)
            for manifest in manifests
        ]
        # They hold the objects, so that this too may take its time.
        answer = await call.rest.run(to_json, reports)
        return web.Response(body=answer, content_type="application/json")


def _review(
    manifest: Manifest, submission: Submission, snapshot: Snapshot, worker: JqWorker
) -> dict[str, Any]:
    """The report of one."""
    try:
        return try_submission(manifest, submission, snapshot, worker).report
    except ManifestError as error:
        raise BadRequestError("", str(error)) from None
