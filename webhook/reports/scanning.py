"""One look at all that runs, judged by one snapshot, at a pace that leaves room for reviews."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Sequence
from concurrent.futures import Executor
from http import HTTPStatus
from typing import Any, Protocol

from webhook.admission.existing import kinds_to_judge
from webhook.admission.trial import Reviewed, try_existing
from webhook.clients.listing import ListedResource, group_versions
from webhook.errors import JqUnavailableError, KubeError
from webhook.mapping.evaluator import JqWorker
from webhook.model.kinds import GroupVersionKind
from webhook.reports.findings import Findings, Subject, failure_of, results_of
from webhook.store.snapshot import Snapshot

log = logging.getLogger("gatewright.reports")

# After so much work at a stretch others get their turn, and then most of the time.
_STRETCH_S = 0.02
_WORK_RATIO = 0.2

# The status of a KubeError where no API server answered.
_NO_ANSWER = 0


class Lister(Protocol):
    """What is needed of an `ObjectLister`."""

    async def find_preferred(
        self, versions: Collection[GroupVersionKind]
    ) -> ListedResource | None: ...

    def objects(self, resource: ListedResource) -> AsyncIterator[dict[str, Any]]: ...


class Scanner:
    """Looks for open violations."""

    def __init__(
        self,
        jq: JqWorker,
        thread: Executor,
        *,
        excluded: Collection[str] = (),
        jq_waits_s: Sequence[float] = (),
    ) -> None:
        """
        Namespaces that are *excluded* are none of our business. Judging is done in *thread*. While
        jq has no time it is asked again after each of *jq_waits_s*.
        """
        self._jq = jq
        self._thread = thread
        self._excluded = frozenset(excluded)
        self._jq_waits_s = jq_waits_s
        # Of each kind what was found the last time that all of its objects were judged.
        self._last: dict[str, Findings] = {}
        # Kinds that could not be judged by the last look, and why, as far as that was said.
        self._problems: dict[str, str] = {}
        self.is_incomplete = False

    @property
    def unlisted(self) -> int:
        """How many kinds could not be judged by the last look."""
        return len(self._problems)

    def forget(self) -> None:
        """Begin anew: what was found before may be long ago."""
        self._last.clear()

    async def scan(
        self, lister: Lister, snapshot: Snapshot, *, is_patient: bool = True
    ) -> Findings:
        """
        What *snapshot* finds wrong with what *lister* lists. One object is held at a time, beside
        the chunk that it is in.

        Of a kind that can't be judged now stays what was found before, and `is_incomplete` says
        so. One that may not be listed is left out, and so is one of which nothing is known if
        nobody *is_patient*.

        Raises:
            KubeError, JqUnavailableError: the API server is not there; or nothing is known of a
                kind, and somebody is patient.
        """
        findings = Findings()
        last: dict[str, Findings] = {}
        problems: dict[str, str] = {}
        self.is_incomplete = False
        pace = _Pace()
        for versions in group_versions(kinds_to_judge(snapshot)):
            kind = f"{versions[0].kind}.{versions[0].group}".rstrip(".")
            found = Findings(findings.room)
            try:
                await self._scan_kind(lister, versions, snapshot, found, pace)
            except (KubeError, JqUnavailableError) as error:
                status = error.status if isinstance(error, KubeError) else None
                if status == HTTPStatus.NOT_FOUND:
                    continue  # It was served a moment ago.
                problems[kind] = str(error)[:300]
                if status == HTTPStatus.FORBIDDEN:
                    continue
                before = self._last.get(kind)
                if status == _NO_ANSWER or (before is None and is_patient):
                    raise
                self.is_incomplete = True
                found = before or Findings()
            last[kind] = found
            findings.merge(found)
        self._last = last
        self._tell(problems)
        return findings

    async def _scan_kind(
        self,
        lister: Lister,
        versions: Collection[GroupVersionKind],
        snapshot: Snapshot,
        findings: Findings,
        pace: _Pace,
    ) -> None:
        resource = await lister.find_preferred(versions)
        if resource is None:
            return
        async for document in lister.objects(resource):
            await self._judge(document, snapshot, findings)
            await pace.rest()

    async def _judge(
        self, document: dict[str, Any], snapshot: Snapshot, findings: Findings
    ) -> None:
        subject = Subject.of(document)
        if subject.namespace in self._excluded:
            return
        reviewed = await self._try(document, snapshot)
        if reviewed.error:
            findings.add(failure_of(subject))
        else:
            for result in results_of(subject, reviewed.decision):
                findings.add(result)
        findings.judged += 1

    async def _try(self, document: dict[str, Any], snapshot: Snapshot) -> Reviewed:
        """
        In the thread: one object may take a second, and jq is waited for there.

        Raises:
            JqUnavailableError: jq has no time for it.
        """
        loop = asyncio.get_running_loop()
        for wait_s in (*self._jq_waits_s, None):
            reviewed = await loop.run_in_executor(
                self._thread, try_existing, document, "", snapshot, self._jq
            )
            if not reviewed.error or reviewed.is_mapping_fault:
                return reviewed
            if wait_s is not None:
                await asyncio.sleep(wait_s)
        raise JqUnavailableError(reviewed.error)

    def _tell(self, problems: dict[str, str]) -> None:
        """Say each problem once, until it is another one."""
        if new := {
            kind: text for kind, text in problems.items() if self._problems.get(kind) != text
        }:
            log.warning("what runs can't be judged", extra={"kinds": new})
        self._problems = problems


class _Pace:
    """Keeps the work to a share of the time, so that reviews are answered meanwhile."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def rest(self) -> None:
        """Wait, if it is time to."""
        worked_s = time.perf_counter() - self._since
        if worked_s >= _STRETCH_S:
            # A chunk that was waited for counts as work: then the API server was at it.
            await asyncio.sleep(worked_s * (1 / _WORK_RATIO - 1))
            self._since = time.perf_counter()
