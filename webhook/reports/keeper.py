"""Keeps the reports: when to look, and where to write what was found."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import quote

from webhook.clients.listing import ObjectLister
from webhook.clients.owner import fetch_reference
from webhook.errors import JqUnavailableError, KubeError
from webhook.mapping.evaluator import JqWorker
from webhook.model.kinds import GroupVersionKind
from webhook.reports.documents import REPORT_APIS, ReportApi
from webhook.reports.findings import Verdict
from webhook.reports.scanning import Scanner
from webhook.reports.writing import ReportCalls, ReportWriter
from webhook.store.snapshot import Current, Snapshot
from webhook.telemetry.metrics import Metrics

log = logging.getLogger("gatewright.reports")

_REGISTRATION_API = "admissionregistration.k8s.io/v1"
_CONFIGURATIONS = f"/apis/{_REGISTRATION_API}/validatingwebhookconfigurations"


@dataclass(frozen=True, slots=True)
class ScanTiming:
    """
    When to look. All in seconds.

    Every *period*; and when a policy has changed, after *settle* without another change, but then
    for no more than a tenth of the time. Whether report CRDs have come or gone is seen every
    *check*, as is the change of a policy.
    """

    period: float = 3600.0
    settle: float = 15.0
    check: float = 30.0
    # After a look that failed; after several, up to *period*.
    retry: float = 60.0
    # Before an object is looked at again while jq is busy, which reviews need first.
    jq_waits: tuple[float, ...] = (1.0, 2.0, 4.0)

    @classmethod
    def every(cls, period: float) -> ScanTiming:
        """No wait is longer than *period*."""
        usual = cls()
        return cls(
            period,
            settle=min(usual.settle, period / 4),
            check=min(usual.check, period / 2),
            retry=min(usual.retry, period),
        )


_REST_RATIO = 10.0
_MAX_DOUBLINGS = 10
# Who leads newly knows nothing of a kind that can't be judged, and would take it out of the
# reports. That is put off for so many looks, as most troubles pass.
_PATIENT_LOOKS = 3


class ReportsKeeper:
    """
    Keeps one report per namespace with what runs there and breaks a rule, while `run` runs.

    For one replica at a time: the leader.
    """

    def __init__(
        self,
        client: ReportCalls,
        current: Current,
        jq: JqWorker,
        metrics: Metrics,
        *,
        timing: ScanTiming = ScanTiming(),
        excluded: Collection[str] = (),
        owner: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        *excluded* are namespaces that nobody judges. *owner* names the
        ValidatingWebhookConfiguration of the installation: with it, all reports go.
        """
        self._client = client
        self._current = current
        self._metrics = metrics
        self._timing = timing
        self._owner = owner
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "reports")
        self._scanner = Scanner(jq, self._thread, excluded=excluded, jq_waits_s=timing.jq_waits)
        self._writer = ReportWriter(client, metrics)
        # Of the last look that came to its end: when it ended, how long it took, what was judged
        # by, and where it was written to.
        self._ended_at = -float("inf")
        self._took_s = 0.0
        self._policies: object = None
        self._api: ReportApi | None = None
        self._changed_at: float | None = None
        self._failures = 0
        self._told = ""

    async def run(self) -> NoReturn:
        """Keep the reports until cancelled. No failure ends it."""
        # Another leader may have written meanwhile.
        self._writer = ReportWriter(self._client, self._metrics)
        self._scanner.forget()
        self._ended_at = -float("inf")
        try:
            await self._keep()
        finally:
            self._metrics.forget_scan()

    async def _keep(self) -> NoReturn:
        while True:
            wait_s = self._timing.check
            try:
                api = await self._find_api()
                if api is not None and self._is_due(api):
                    await self._look(api)
                self._api = api
                self._failures = 0
                self._told = ""
            except (KubeError, JqUnavailableError) as error:
                self._metrics.scans.labels("failed").inc()
                if str(error) != self._told:
                    self._told = str(error)
                    log.warning("what runs can't be looked at", extra={"problem": str(error)[:300]})
                wait_s = min(self._timing.period, self._timing.retry * 2.0**self._failures)
                self._failures = min(self._failures + 1, _MAX_DOUBLINGS)
            await asyncio.sleep(wait_s)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _is_due(self, api: ReportApi) -> bool:
        if not self._current.ready:
            return False
        now = self._clock()
        if api is not self._api or now - self._ended_at >= self._timing.period:
            return True
        has_rested = now - self._ended_at >= _REST_RATIO * self._took_s
        if self._scanner.is_incomplete and now - self._ended_at >= self._timing.retry:
            return has_rested
        if _policies_of(self._current.snapshot) == self._policies:
            self._changed_at = None
            return False
        if self._changed_at is None:
            self._changed_at = now
        return now - self._changed_at >= self._timing.settle and has_rested

    async def _look(self, api: ReportApi) -> None:
        snapshot = self._current.snapshot
        began_at = self._clock()
        # First, so that a look is not for nothing where reports are out of our reach.
        known = await self._writer.read(api)
        owner = await self._owner_reference()
        findings = await self._scanner.scan(
            ObjectLister(self._client), snapshot, is_patient=self._failures < _PATIENT_LOOKS
        )
        await self._writer.write(api, findings, known, owner=owner)
        self._ended_at = self._clock()
        self._took_s = self._ended_at - began_at
        self._policies = _policies_of(snapshot)
        self._changed_at = None
        metrics = self._metrics
        metrics.scans.labels("done").inc()
        metrics.scan_time.set(time.time())
        metrics.scan_seconds.set(self._took_s)
        metrics.scan_objects.set(findings.judged)
        metrics.scan_unlisted_kinds.set(self._scanner.unlisted)
        counts = findings.counts
        for verdict in Verdict:
            metrics.open_violations.labels(verdict.value).set(counts[verdict])
        log.info(
            "looked at what runs",
            extra={
                "revision": snapshot.revision,
                "objects": findings.judged,
                "violations": counts.total(),
                "seconds": round(self._took_s, 3),
            },
        )

    async def _find_api(self) -> ReportApi | None:
        """The API to write to, the first that is served; from the others our reports are taken."""
        # Asked anew each time.
        lister = ObjectLister(self._client)
        found: ReportApi | None = None
        for api in REPORT_APIS:
            kind = GroupVersionKind(api.group, api.version, api.kind)
            if await lister.find(kind) is None:
                continue
            if found is None:
                found = api
            elif self._api is not found:
                await self._writer.remove(api)
        return found

    async def _owner_reference(self) -> dict[str, Any] | None:
        """What the reports go with; None where it is not there, or not for us to see."""
        if not self._owner:
            return None
        path = f"{_CONFIGURATIONS}/{quote(self._owner, safe='')}"
        try:
            found = await fetch_reference(
                self._client, path, "ValidatingWebhookConfiguration", self._owner
            )
        except KubeError as error:
            if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                return None
            raise
        return {"apiVersion": _REGISTRATION_API, **found}


def _policies_of(snapshot: Snapshot) -> object:
    """What decisions depend on and people write; namespaces come and go all the time."""
    return frozenset([(document.key, document.revision) for document in snapshot.documents])
