"""POST /mutate, /validate: bytes in, review out."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import ParamSpec, TypeVar
from urllib.parse import parse_qs

from aiohttp import web

from webhook.admission.decode import Review, decode_review
from webhook.admission.documents import is_about_documents
from webhook.admission.record import decision_record
from webhook.admission.refusals import refusal_of
from webhook.admission.response import respond
from webhook.admission.review import may_inject
from webhook.admission.review import review as decide
from webhook.admission.rightsizing import is_about_rightsizing, judge_rightsizing
from webhook.admission.texts import to_json
from webhook.api.document_reviews import judge_document
from webhook.api.limits.bodies import (
    BIG_BODY_BYTES,
    FREE_BODY_BYTES,
    BusyError,
    encoding_of,
    read_small,
)
from webhook.api.limits.line import GoneError, patience_s
from webhook.api.problems import message_of, problem, status_of
from webhook.api.runner import count_as_answered
from webhook.api.services import SERVICES, Services
from webhook.errors import EvaluationError, JqBusyError
from webhook.mapping.answers import (
    MAX_ROUNDS,
    NO_ANSWERS,
    TOO_MANY_ROUNDS,
    JqAnswers,
    UnansweredError,
)
from webhook.mapping.locate import ask_jq
from webhook.model.decision import Decision, Outcome
from webhook.model.request import AdmissionRequest, Phase
from webhook.model.rightsizing.injections import Injection
from webhook.model.scopes import Branch
from webhook.store.rightsizing import kinds_of
from webhook.store.snapshot import Snapshot
from webhook.telemetry.logs import DECISION_LOGGER

log = logging.getLogger("gatewright.api")
decisions = logging.getLogger(DECISION_LOGGER)

# An API server says in the query how long it waits: `timeout=5s`.
_TIMEOUT = re.compile(r"([0-9]{1,4})s")
# Kubernetes allows no more, and we recommend this much.
MAX_TIMEOUT_S = 30.0
DEFAULT_TIMEOUT_S = 5.0
# Of the caller's time, for waiting. A review of the largest object takes about a second.
WAITING_RATIO = 0.6
# Before a refusal is sent, and of the time for waiting at most: a tenth of the caller's. Whoever
# calls again as soon as he has it would else take the time of the others with refusals alone.
HELD_S = 0.5
HELD_RATIO = 1 / 6

_P = ParamSpec("_P")
_T = TypeVar("_T")

routes = web.RouteTableDef()


@dataclass(slots=True)
class _Caller:
    http: web.Request
    # How long he may wait for others; a time of the event loop.
    wait_until: float

    def is_gone(self) -> bool:
        """Whether there is no reason to go on for him."""
        return self.http.transport is None

    def peer(self) -> str:
        """The address that he calls from."""
        return self.http.remote or ""


@routes.post("/mutate")
async def mutate(request: web.Request) -> web.Response:
    """Answer with a patch, or a denial."""
    return await _answer_or_hold(request, Phase.MUTATE)


@routes.post("/validate")
async def validate(request: web.Request) -> web.Response:
    """Answer with yes or no."""
    return await _answer_or_hold(request, Phase.VALIDATE)


async def _answer_or_hold(http: web.Request, phase: Phase) -> web.Response:
    """As `_answer`; who is refused for want of time is told a little later."""
    try:
        return await _answer(http, phase)
    except BusyError as error:
        # What it came through holds the body.
        busy = error.with_traceback(None)
    if not http.app[SERVICES].readiness.draining:
        count_as_answered(http)
        await asyncio.sleep(min(HELD_S, HELD_RATIO * _may_wait_s(http.rel_url.raw_query_string)))
    try:
        raise busy
    finally:
        # Its traceback will hold this frame: with the name, that is a cycle for each refusal.
        del busy


async def _answer(http: web.Request, phase: Phase) -> web.Response:
    services = http.app[SERVICES]
    started = time.perf_counter()
    if services.client_certificate_required and not http.get_extra_info("peercert"):
        return problem(403, "a client certificate is required")
    if http.content_type != "application/json":
        return problem(415, "the content type must be application/json")
    encoding = encoding_of(http)
    if encoding is None:
        return problem(415, "the content encoding is not supported")
    # Of what is packed, the length says little.
    announced_bytes = http.content_length if encoding in ("", "identity") else None
    now = asyncio.get_running_loop().time()
    caller = _Caller(http, now + _may_wait_s(http.rel_url.raw_query_string))
    with services.metrics.reviews_running.track_inprogress():
        if announced_bytes is not None and announced_bytes <= min(
            FREE_BODY_BYTES, services.max_body_bytes
        ):
            body = await read_small(http.content, services.read_timeout_s)
            await _turn(services, caller)
            return await _review(decode_review(body), phase, services, started, caller)
        async with services.bodies.read(
            http.content,
            announced_bytes=announced_bytes,
            max_bytes=services.max_body_bytes,
            timeout_s=services.read_timeout_s,
            wait_until=caller.wait_until,
            peer=caller.peer(),
        ) as body:
            if len(body) <= BIG_BODY_BYTES:
                await _turn(services, caller)
                return await _review(decode_review(body), phase, services, started, caller)
            async with services.big_turns.take(wait_until=caller.wait_until):
                if caller.is_gone():
                    raise GoneError
                review = await _run(services.big_thread, decode_review, body)
                return await _review(review, phase, services, started, caller, services.big_thread)


def _turn(services: Services, caller: _Caller) -> Awaitable[None]:
    """When what takes processor time may be done for *caller*, here and now."""
    return services.line.wait_turn(
        wait_until=caller.wait_until, is_gone=caller.is_gone, peer=caller.peer
    )


@lru_cache(maxsize=64)
def _may_wait_s(query: str) -> float:
    """How long this review may wait for others, so that an answer still finds its caller."""
    found = _TIMEOUT.fullmatch(parse_qs(query).get("timeout", [""])[0])
    caller_s = float(found[1]) if found else DEFAULT_TIMEOUT_S
    return WAITING_RATIO * min(caller_s, MAX_TIMEOUT_S)


async def _review(
    review: Review,
    phase: Phase,
    services: Services,
    started: float,
    caller: _Caller,
    thread: Executor | None = None,
) -> web.Response:
    """
    Decide, answer, record. What goes wrong from here on is ours, and is recorded too.

    The work is done in *thread*, if given. What may take long has as much time as *caller*.
    """
    request = review.request
    snapshot: Snapshot | None = None
    decision: Decision | None = None
    # Names, and not the error: its traceback holds this frame, and the frame would hold it.
    error_name, failure = "", None
    try:
        snapshot = services.current.snapshot
        if is_about_rightsizing(request):
            kinds = kinds_of(snapshot.mappings)
            decision, answer = judge_rightsizing(review, phase, services.strategies(), kinds)
        elif services.own_documents is not None and is_about_documents(request):
            decision, answer = await judge_document(
                review, phase, snapshot, services.own_documents, wait_until=caller.wait_until
            )
        else:
            decision, answer = await _decide(review, phase, snapshot, services, caller, thread)
    except (BusyError, GoneError):
        # Nothing was decided, so that there is nothing to record.
        raise
    except Exception as error:
        error_name = type(error).__name__
        # The uid finds it in the log; the answer has no review that could carry it.
        failure = problem(status_of(error), f"{message_of(error)} (uid {request.uid[:64]})")
        log.exception(
            "review failed", extra={"uid": request.uid[:64], "revision": _revision(snapshot)}
        )

    duration_s = time.perf_counter() - started
    _record(request, decision, phase, services, snapshot, duration_s, error_name)
    if failure is not None:
        return failure
    return web.Response(body=answer, content_type="application/json")


async def _decide(
    review: Review,
    phase: Phase,
    snapshot: Snapshot,
    services: Services,
    caller: _Caller,
    thread: Executor | None,
) -> tuple[Decision, bytes]:
    """The decision, and the answer that tells it. Most kinds need nothing of jq."""
    injection = _find_injection(review.request, phase, services)
    decide_with = partial(_decide_now, review, phase, snapshot, injection)
    try:
        return await _run(thread, decide_with, NO_ANSWERS)
    except UnansweredError as first:
        # A traceback would hold this frame, and the frame it: a cycle for each review.
        unanswered = first.with_traceback(None)
    answers = NO_ANSWERS
    longest_s = patience_s(caller.wait_until, asyncio.get_running_loop().time())
    with services.jq_threads.one(patience_s=longest_s, peer=caller.peer()):
        for _ in range(MAX_ROUNDS - 1):
            answers = await _ask(review.request, unanswered, answers, services, caller)
            if thread is None:
                # Its turn went by while it waited.
                await services.line.return_for_turn(is_gone=caller.is_gone)
            try:
                return await _run(thread, decide_with, answers)
            except UnansweredError as more:
                unanswered = more.with_traceback(None)
    raise EvaluationError(TOO_MANY_ROUNDS)


def _find_injection(
    request: AdmissionRequest, phase: Phase, services: Services
) -> Injection | None:
    """What is recommended to a pod that is being made."""
    if services.recommendations is None or phase is not Phase.MUTATE or not may_inject(request):
        return None
    metadata = (request.object or {}).get("metadata")
    if not isinstance(metadata, dict):
        return None
    return services.recommendations.find(request.namespace, metadata, datetime.now(UTC))


def _decide_now(
    review: Review,
    phase: Phase,
    snapshot: Snapshot,
    injection: Injection | None,
    answers: JqAnswers,
) -> tuple[Decision, bytes]:
    decision = decide(review.request, phase, snapshot, answers, injection=injection)
    return decision, to_json(respond(review, decision))


async def _run(
    thread: Executor | None, work: Callable[_P, _T], *args: _P.args, **kw: _P.kwargs
) -> _T:
    """What *work* returns. Done in *thread*, if given, and else here and now."""
    if thread is None:
        return work(*args, **kw)
    return await asyncio.get_running_loop().run_in_executor(thread, partial(work, *args, **kw))


async def _ask(
    request: AdmissionRequest,
    unanswered: UnansweredError,
    answers: JqAnswers,
    services: Services,
    caller: _Caller,
) -> JqAnswers:
    """*answers* with those that jq alone can give; final ones if it can't and need not."""
    left_s = caller.wait_until - asyncio.get_running_loop().time()
    begin_until = time.monotonic() + left_s
    document = request.object or {}
    work = partial(ask_jq, services.jq, document, unanswered, answers, begin_until)
    try:
        return await services.jq_threads.run(work, is_gone=caller.is_gone, peer=caller.peer())
    except EvaluationError as error:
        if isinstance(error, JqBusyError):
            raise services.jq_threads.busy() from None
        services.metrics.query_failures.inc()
        if not unanswered.is_optional:
            raise
        return replace(answers, are_final=True)


def _record(
    request: AdmissionRequest,
    decision: Decision | None,
    phase: Phase,
    services: Services,
    snapshot: Snapshot | None,
    duration_s: float,
    error_name: str,
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
        error=error_name,
    )
    decisions.info("review answered", extra={"fields": record})
    if services.rest is not None:
        services.rest.decisions.add(record)
    if services.refusals is not None and decision is not None:
        refusal = refusal_of(request, decision)
        if refusal is not None:
            services.refusals.add(refusal)


def _revision(snapshot: Snapshot | None) -> str:
    return snapshot.revision if snapshot else ""
