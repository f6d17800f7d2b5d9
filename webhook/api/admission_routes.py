"""POST /mutate, /validate: bytes in, review out."""

from __future__ import annotations

import asyncio
import logging
import time

from aiohttp import web

from webhook.admission.decode import Review, decode_review
from webhook.admission.record import decision_record
from webhook.admission.response import respond
from webhook.admission.review import jq_sources
from webhook.admission.review import review as decide
from webhook.admission.texts import to_json
from webhook.api.problems import message_of, problem, status_of
from webhook.api.services import SERVICES, Services
from webhook.errors import DecodeError, EvaluationError
from webhook.mapping.locate import JqPlaces, locate_by_jq
from webhook.model.decision import Decision, Outcome
from webhook.model.request import AdmissionRequest, Phase
from webhook.model.scopes import Branch
from webhook.store.snapshot import Snapshot
from webhook.telemetry.logs import DECISION_LOGGER

log = logging.getLogger("gatewright.api")
decisions = logging.getLogger(DECISION_LOGGER)

# Those that the framework unpacks while it reads.
_ENCODINGS = ("", "identity", "gzip", "deflate")

routes = web.RouteTableDef()


@routes.post("/mutate")
async def mutate(request: web.Request) -> web.Response:
    """Answer with a patch, or a denial."""
    return await _answer(request, Phase.MUTATE)


@routes.post("/validate")
async def validate(request: web.Request) -> web.Response:
    """Answer with yes or no."""
    return await _answer(request, Phase.VALIDATE)


async def _answer(http: web.Request, phase: Phase) -> web.Response:
    services = http.app[SERVICES]
    started = time.perf_counter()
    if services.client_certificate_required and not http.get_extra_info("peercert"):
        return problem(403, "a client certificate is required")
    if http.content_type != "application/json":
        return problem(415, "the content type must be application/json")
    if http.headers.get("Content-Encoding", "").lower() not in _ENCODINGS:
        return problem(415, "the content encoding is not supported")
    # Before anything is read. What has no length is measured while it is read.
    if (http.content_length or 0) > services.max_body_bytes:
        return _too_large(services)

    with services.metrics.reviews_running.track_inprogress():
        async with services.bodies.hold(_size_bound(http, services)):
            try:
                review = decode_review(await _read(http, services))
            except TimeoutError:
                return problem(408, "the body did not arrive in time")
            except web.HTTPRequestEntityTooLarge:
                return _too_large(services)
            return await _review(review, phase, services, started)


async def _review(review: Review, phase: Phase, services: Services, started: float) -> web.Response:
    """Decide, answer, record. What goes wrong from here on is ours, and is recorded too."""
    request = review.request
    snapshot: Snapshot | None = None
    decision: Decision | None = None
    error: Exception | None = None
    try:
        snapshot = services.current.snapshot
        located = await _locate(request, snapshot, services)
        decision = decide(request, phase, snapshot, located)
        answer = to_json(respond(review, decision))
    except Exception as e:
        decision, error = None, e
        log.exception(
            "review failed", extra={"uid": request.uid[:64], "revision": _revision(snapshot)}
        )

    duration_s = time.perf_counter() - started
    _record(request, decision, phase, services, snapshot, duration_s, error)
    if error is not None:
        # The uid finds it in the log; the answer has no review that could carry it.
        return problem(status_of(error), f"{message_of(error)} (uid {request.uid[:64]})")
    return web.Response(body=answer, content_type="application/json")


async def _locate(
    request: AdmissionRequest, snapshot: Snapshot, services: Services
) -> JqPlaces | None:
    """The places that only jq can find; most mappings need none of it."""
    sources = jq_sources(request, snapshot)
    if not sources or request.object is None:
        return None
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(
            services.jq_threads, locate_by_jq, services.jq, sources, request.object
        )
    except EvaluationError:
        services.metrics.query_failures.inc()
        raise


def _record(
    request: AdmissionRequest,
    decision: Decision | None,
    phase: Phase,
    services: Services,
    snapshot: Snapshot | None,
    duration_s: float,
    error: Exception | None,
) -> None:
    services.metrics.observe_review(
        phase=phase.value,
        operation=request.operation,
        outcome=decision.outcome if decision else Outcome.FAILED,
        dry_run=request.dry_run,
        duration_s=duration_s,
        decision=decision,
    )
    record = decision_record(
        request,
        decision,
        phase=phase.value,
        branch=snapshot.branch(request.namespace) if snapshot else Branch(),
        snapshot=_revision(snapshot),
        duration_s=duration_s,
        error=type(error).__name__ if error else "",
    )
    decisions.info("review answered", extra={"fields": record})


async def _read(http: web.Request, services: Services) -> bytes:
    try:
        async with asyncio.timeout(services.read_timeout_s):
            return await http.read()
    except (web.RequestPayloadError, ConnectionError):
        # Cut off, or not what its encoding says.
        raise DecodeError("the body cannot be read to its end") from None


def _size_bound(http: web.Request, services: Services) -> int:
    """The most memory that the body may take, as far as is known before it is read."""
    is_plain = http.headers.get("Content-Encoding", "identity").lower() == "identity"
    if is_plain and http.content_length is not None:
        return http.content_length
    return services.max_body_bytes


def _too_large(services: Services) -> web.Response:
    return problem(413, f"the body is larger than {services.max_body_bytes} bytes")


def _revision(snapshot: Snapshot | None) -> str:
    return snapshot.revision if snapshot else ""
