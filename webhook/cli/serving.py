"""The server process: what is wired to what, from the first listener to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from typing import NoReturn

from webhook.api.app import build_app, build_ops_app
from webhook.api.services import OwnDocuments, Readiness, Services
from webhook.cli.process import (
    Listener,
    background,
    end_threads,
    listen,
    loop_factory,
    shown,
    stop_event,
    unless,
)
from webhook.cli.rest import build_rest
from webhook.cli.stores import build_store, query_check
from webhook.errors import SettingsError
from webhook.mapping.evaluator import JqWorker
from webhook.settings import Address, ServeSettings
from webhook.store.snapshot import Current, DocumentProblem, Snapshot
from webhook.telemetry.logs import configure_logging, log_loop_error
from webhook.telemetry.metrics import Metrics
from webhook.tls.context import ServerTls
from webhook.tls.issue import DEVELOPMENT_HOSTS, ensure_development_certificate

log = logging.getLogger("gatewright.serve")

# After the last listener is closed: for requests that are on their way through the kernel.
LAST_CALL_S = 0.2

_RENEWAL_CHECK_S = 6 * 3600.0

# How many objects may be made before the collector looks for cycles. Decoding makes many objects
# and no cycles: a review of 2.6 MB in small parts took 0.48 s with Python's 700, 0.35 s with this.
_GC_THRESHOLD = 50_000


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
    readiness = Readiness(current, waiting_for=lambda: store.obstacle)
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
        rest=build_rest(settings, store, jq),
    )

    # Closed in reverse: the admission listener drains while the other still answers.
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(services.close)
        tls, ca = _load_certificate(settings, metrics)
        ops = await listen(stack, build_ops_app(services), settings.ops_listen)
        stack.push_async_callback(store.close)
        async with background() as start:
            snapshot = await unless(stop, store.begin(start))
            if snapshot is None:
                return
            admission = await listen(stack, build_app(services), settings.listen, tls.context)
            start("watch certificate", tls.watch)
            if ca is not None:
                start("renew certificate", lambda: _renew(settings))
            # What is here now stays: the collector need not look at it ever again.
            gc.collect()
            gc.freeze()
            gc.set_threshold(_GC_THRESHOLD, 20, 50)
            readiness.listening = True
            _announce(admission.address, ops.address, ca, snapshot, api=services.rest is not None)

            await stop.wait()
            log.info("shutting down")
            readiness.draining = True
            await asyncio.sleep(settings.shutdown_delay_seconds)
            await _drain(admission, services, settings.shutdown_grace_seconds)


# --- listeners ---


async def _drain(listener: Listener, services: Services, grace_s: float) -> None:
    """
    Accept no more, and wait for what runs.

    The framework's own shutdown waits for handlers as well, but reads nothing more meanwhile,
    so that a request whose body is on its way would never be finished.
    """
    await listener.stop_accepting()
    await asyncio.sleep(LAST_CALL_S)
    if not await services.running.wait_idle(grace_s):
        log.warning("requests were cut off", extra={"requests": services.running.count})


# --- certificates ---


def _load_certificate(settings: ServeSettings, metrics: Metrics) -> tuple[ServerTls, Path | None]:
    """The TLS of the admission listener, and the authority if it is a development one."""
    ca: Path | None = None
    if settings.tls_cert is not None and settings.tls_key is not None:
        certificate, key = settings.tls_cert, settings.tls_key
    else:
        ca, certificate, key = _ensure_certificate(settings)
    tls = ServerTls(
        certificate,
        key,
        client_ca=settings.client_ca,
        on_change=lambda end: metrics.certificate_not_after.set(end.timestamp()),
        on_failure=metrics.certificate_failures.inc,
    )
    return tls, ca


def _ensure_certificate(settings: ServeSettings) -> tuple[Path, Path, Path]:
    if settings.cert_dir is None:
        raise SettingsError("where to keep a certificate must be given: --cert-dir DIR")
    try:
        paths = ensure_development_certificate(
            settings.cert_dir, (*DEVELOPMENT_HOSTS, *_own_hosts(settings.listen))
        )
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else e
        raise SettingsError(f"cannot make a certificate in {settings.cert_dir}: {reason}") from e
    return paths.ca, paths.certificate, paths.key


def _own_hosts(listen: Address) -> tuple[str, ...]:
    """The host of *listen*, unless it means every address of the machine."""
    try:
        is_everywhere = ip_address(listen.host).is_unspecified
    except ValueError:
        is_everywhere = not listen.host
    return () if is_everywhere else (listen.host,)


async def _renew(settings: ServeSettings) -> NoReturn:
    """Make the development certificate anew when it is due; the watch takes it over."""
    while True:
        await asyncio.sleep(_RENEWAL_CHECK_S)
        await asyncio.to_thread(_ensure_certificate, settings)


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
