"""GET /api/openapi.json."""

from __future__ import annotations

from aiohttp import web

from webhook.api.access import begin
from webhook.api.answers import answer_json
from webhook.api.openapi import build_openapi
from webhook.api.requests import check_query

routes = web.RouteTableDef()


@routes.get("/api/openapi.json")
async def describe(request: web.Request) -> web.Response:
    """What this API can do."""
    call = await begin(request)
    await call.may_call()
    check_query(request, ())
    return answer_json(build_openapi())
