"""The server process: what is wired to what, from the first listener to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from webhook.api.app import build_app, build_ops_app
from webhook.api.services import OwnDocuments, Readiness, Services
from webhook.cli.auditing import build_event_writer, build_reports_keeper
from webhook.cli.certificates import build_certificates
from webhook.cli.leading import build_leading
from webhook.cli.process import (
    Listener,
    background,
    calm_collector,
    end_threads,
    listen,
    loop_factory,
    shown,
    stop_event,
    unless,
)
from webhook.cli.rest import build_rest
from webhook.cli.stores import build_store, query_check
from webhook.mapping.evaluator import JqWorker
from webhook.settings import Address, ServeSettings
from webhook.store.snapshot import Current, DocumentProblem, Snapshot
from webhook.telemetry.logs import configure_logging, log_loop_error
from webhook.telemetry.metrics import Metrics

log = logging.getLogger("gatewright.serve")

# After the last listener is closed: for requests that are on their way through the kernel.
LAST_CALL_S = 0.2


def serve(settings: ServeSettings) -> int:
    """
    Serve until SIGTERM or SIGINT. Returns the exit code.

    Raises:
        WebhookError: the policies, a certificate or an address cannot be used.
    """
    configure_logging(settings.log_level)
    threads = ThreadPoolExecutor(thread_name_prefix="work")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.get_loop().set_default_executor(threads)
        runner.run(_serve(settings))
        end_threads(threads)
    return 0


async def _serve(settings: ServeSettings) -> None:
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    stop = stop_event()
    current, metrics = Current(), Metrics()
    jq = JqWorker(settings.jq_limits)
    store = build_store(settings, current, metrics=metrics, jq=jq, reporter=_Reporter(metrics))
    certificates = build_certificates(settings, metrics, store.client)
    readiness = Readiness(current, lambda: store.obstacle, lambda: certificates.obstacle)
    events = build_event_writer(settings, store, metrics)
    own = OwnDocuments(lambda: store.documents.sources, query_check(jq), store.look_around)
    services = Services(
        current,
        metrics,
        readiness,
        jq,
        max_body_bytes=settings.max_body_bytes,
        client_certificate_required=settings.client_ca is not None,
        own_documents=own if store.client is not None else None,
        strategies=store.strategies.known if store.strategies is not None else lambda: None,
        recommendations=store.recommendations,
        refusals=events,
        rest=build_rest(settings, store, jq),
    )

    # Closed in reverse: the admission listener drains while the other still answers.
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(services.close)
        ops = await listen(stack, build_ops_app(services), settings.ops_listen)
        stack.push_async_callback(store.close)
        async with background() as start:
            beginning = asyncio.gather(store.begin(start), certificates.begin(start))
            if (begun := await unless(stop, beginning)) is None:
                return
            snapshot, tls = begun
            admission = await listen(
                stack,
                build_app(services),
                settings.listen,
                tls.context,
                most=settings.max_connections,
            )
            if events is not None:
                start("write events", events.run)
            calm_collector()
            readiness.listening = True
            if store.client is not None:
                # Not before: what is registered is called at once.
                leading = build_leading(
                    settings, store.client, store, current, certificates.bundle, metrics
                )
                reports = build_reports_keeper(settings, store.client, current, jq, metrics)
                if reports is not None:
                    stack.callback(reports.close)
                    leading.add("keep reports", reports.run)
                if leading.has_work:
                    start("lead", partial(leading.run, stop))
            _announce(
                admission.address,
                ops.address,
                certificates.ca,
                snapshot,
                api=services.rest is not None,
            )

            await stop.wait()
            log.info("shutting down")
            readiness.draining = True
            certificates.drain()
            await asyncio.sleep(settings.shutdown_delay_seconds)
            await _drain(admission, services, settings.shutdown_grace_seconds)


# --- listeners ---


async def _drain(listener: Listener, services: Services, grace_s: float) -> None:
    """
    Accept no more, and wait for what runs, handshakes too: for *grace_s* in all.

    The framework's own shutdown waits for handlers as well, but reads nothing more meanwhile,
    so that a request whose body is on its way would never be finished.
    """
    begun = time.monotonic()
    await listener.stop_accepting(grace_s)
    left_s = max(0.0, grace_s - (time.monotonic() - begun))
    await asyncio.sleep(LAST_CALL_S)
    if not await services.running.wait_idle(left_s):
        log.warning("requests were cut off", extra={"requests": services.running.count})


# --- beside the requests ---


class _Reporter:
    """Tells log and metrics what each load gave. Called from the thread that loads."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._known: frozenset[DocumentProblem] = frozenset()

    def report_failure(self) -> None:
        """Nothing could be read: what was in force stays, and counts one problem more."""
        self._metrics.load_failures.inc()
        errors = sum(not problem.warning for problem in self._known)
        self._metrics.document_problems.labels("error").set(errors + 1)

    def report(self, snapshot: Snapshot) -> None:
        warnings = sum(problem.warning for problem in snapshot.problems)
        self._metrics.show_snapshot(
            snapshot.revision,
            time_s=time.time(),
            documents=Counter(document.kind for document in snapshot.documents),
            errors=len(snapshot.problems) - warnings,
            warnings=warnings,
        )
        # Each problem once, and not again with every other change of the directory.
        for problem in snapshot.problems:
            if problem not in self._known:
                level = logging.WARNING if problem.warning else logging.ERROR
                place = {"document": problem.document, "path": problem.path}
                log.log(level, "document: %s", problem.problem, extra=place)
        self._known = frozenset(snapshot.problems)
        count = len(snapshot.documents)
        log.info("policies loaded", extra={"revision": snapshot.revision, "documents": count})


def _announce(
    admission: Address, ops: Address, ca: Path | None, snapshot: Snapshot, *, api: bool
) -> None:
    lines = [
        f"admission: https://{shown(admission)}/mutate, https://{shown(admission)}/validate",
        *([f"REST API: https://{shown(admission)}/api/openapi.json"] if api else []),
        f"health and metrics: http://{shown(ops)}/readyz, http://{shown(ops)}/metrics",
        *([f"CA certificate: {ca}"] if ca is not None else []),
        f"ready: {len(snapshot.documents)} documents in force",
    ]
    log.info("ready", extra={"listen": str(admission), "opsListen": str(ops)})
    # Nobody may be reading.
    with contextlib.suppress(OSError):
        print("\n".join(lines), flush=True)
