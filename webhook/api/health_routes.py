"""GET /healthz, /readyz, /metrics."""

from __future__ import annotations

from aiohttp import web
from aiohttp.hdrs import ACCEPT, CONTENT_TYPE

from webhook.api.problems import problem
from webhook.api.services import SERVICES

routes = web.RouteTableDef()


@routes.get("/healthz")
async def healthz(_request: web.Request) -> web.Response:
    """Answer as long as the event loop runs. Says nothing about policies."""
    return web.Response(text="ok\n")


@routes.get("/readyz")
async def readyz(request: web.Request) -> web.Response:
    """Answer 200 if requests should be sent here, else 503 and why not."""
    obstacle = request.app[SERVICES].readiness.obstacle
    return problem(503, obstacle) if obstacle else web.Response(text="ok\n")


@routes.get("/metrics")
async def metrics(request: web.Request) -> web.Response:
    """Answer with all metrics, in the text format of Prometheus or OpenMetrics."""
    body, content_type = request.app[SERVICES].metrics.render(request.headers.get(ACCEPT, ""))
    # As a header: the framework would take its parameters apart.
    return web.Response(body=body, headers={CONTENT_TYPE: content_type})
