"""GET /api/openapi.json."""

from __future__ import annotations

from aiohttp import web

from webhook.api.rest.access import identify
from webhook.api.rest.answers import answer_json
from webhook.api.rest.openapi import build_openapi
from webhook.api.rest.requests import check_query

routes = web.RouteTableDef()


@routes.get("/api/openapi.json")
async def describe(request: web.Request) -> web.Response:
    """What this API can do."""
    call = await identify(request)
    await call.require_path()
    check_query(request, ())
    return answer_json(build_openapi())
