"""The web applications: routes, and what is done around every handler."""

from __future__ import annotations

import logging

from aiohttp import web
from aiohttp.typedefs import Handler

from webhook.api import admission_routes, health_routes
from webhook.api.auth import UnauthorizedError
from webhook.api.limits.bodies import BusyError, LostError
from webhook.api.limits.line import GoneError
from webhook.api.problems import details_of, message_of, problem, status_of
from webhook.api.rest import (
    decision_routes,
    mapping_routes,
    native_policy_routes,
    openapi_routes,
    policy_routes,
    registry_routes,
    review_routes,
)
from webhook.api.services import SERVICES, Services
from webhook.telemetry.metrics import Rejection

log = logging.getLogger("gatewright.api")

_REST_ROUTES = (
    registry_routes.routes,
    mapping_routes.routes,
    native_policy_routes.routes,
    decision_routes.routes,
    review_routes.routes,
    openapi_routes.routes,
    policy_routes.routes,
)
API_PREFIX = "/api/"

_REJECTION_BY_STATUS = {
    400: Rejection.MALFORMED,
    403: Rejection.CERTIFICATE,
    404: Rejection.PATH,
    405: Rejection.METHOD,
    408: Rejection.SLOW,
    413: Rejection.TOO_LARGE,
    415: Rejection.CONTENT_TYPE,
}


def build_app(services: Services) -> web.Application:
    """What the cluster calls: `/mutate` and `/validate`; and the API, if there is one."""
    app = _build(services, admission_routes.routes)
    if services.rest is not None:
        for routes in _REST_ROUTES:
            app.add_routes(routes)
    return app


def build_ops_app(services: Services) -> web.Application:
    """The application for the kubelet and Prometheus: `/healthz`, `/readyz`, `/metrics`."""
    return _build(services, health_routes.routes)


def _build(services: Services, routes: web.RouteTableDef) -> web.Application:
    app = web.Application(middlewares=[count_and_contain], client_max_size=services.max_body_bytes)
    app[SERVICES] = services
    app.on_response_prepare.append(_finish_headers)
    app.add_routes(routes)
    return app


@web.middleware
async def count_and_contain(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever a handler raises into an answer, and count the answer."""
    services = request.app[SERVICES]
    metrics = services.metrics
    is_api = request.path.startswith(API_PREFIX)
    response: web.StreamResponse
    try:
        with services.running.one():
            response = await handler(request)
    except web.HTTPException as e:
        # Raised by the framework: no such path, no such method, body too large.
        allowed = {"Allow": e.headers["Allow"]} if "Allow" in e.headers else None
        response = problem(e.status, headers=allowed, details="" if is_api else None)
    except (BusyError, GoneError, LostError) as e:
        response = _refuse(e, is_api=is_api)
        # Not by its status, which `/readyz` answers as well.
        reason = Rejection.BUSY if isinstance(e, BusyError) else Rejection.GONE
        metrics.rejected.labels(reason).inc()
    except Exception as e:
        response = _refuse(e, is_api=is_api)
        if response.status >= 500:
            log.exception("a handler failed")

    if response.status in _REJECTION_BY_STATUS and not is_api:
        metrics.rejected.labels(_REJECTION_BY_STATUS[response.status]).inc()
    resource = request.match_info.route.resource
    canonical = resource.canonical if resource else ""
    # One series for the whole API: it has some forty paths.
    metrics.observe_http(
        API_PREFIX if canonical.startswith(API_PREFIX) else canonical, response.status
    )
    return response


def _refuse(error: Exception, *, is_api: bool) -> web.Response:
    """The answer that *error* becomes; in the API it has details."""
    headers = {}
    if isinstance(error, UnauthorizedError):
        headers["WWW-Authenticate"] = error.challenge
    # An API server that is told so repeats the call until its time is up: five times the load,
    # and its user waits for all of it.
    if isinstance(error, BusyError) and is_api:
        headers["Retry-After"] = "1"
    details = details_of(error) if is_api else None
    return problem(status_of(error), message_of(error), headers, details=details)


async def _finish_headers(request: web.Request, response: web.StreamResponse) -> None:
    # The framework would name itself and its version.
    response.headers["Server"] = "gatewright"
    if request.app[SERVICES].readiness.draining:
        # The caller opens its next connection elsewhere. The framework has written its own
        # headers by now, and would close without saying so.
        response.headers["Connection"] = "close"
        response.force_close()
