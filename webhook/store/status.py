"""Writes into the status of our documents in a cluster whether they are in force."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NoReturn

from webhook.clients.kube import KubeClient
from webhook.errors import KubeError
from webhook.model.documents import Document
from webhook.model.rightsizing.times import format_time
from webhook.store.cluster import API_PATH, PLURALS, ClusterStore, SeenDocument, title_of
from webhook.store.conditions import conditions_of, status_of
from webhook.store.snapshot import DocumentProblem, Snapshot
from webhook.telemetry.metrics import Metrics

log = logging.getLogger("gatewright.status")

# Calls at once: hundreds of documents after an upgrade should not hold up the API server.
_CALLS = 4
# Changes that come together are looked at together: each write is an event as well.
_GATHER_S = 0.2
# After a write that failed, unless something changes before.
_RETRY_S = 15.0


class StatusWriter:
    """
    Keeps the status of each document at what *store* made of it.

    Of several replicas only the leader does. What stands there already is not written again, and
    one that led before, and knows an older version of a document, loses against the newer.
    """

    def __init__(self, client: KubeClient, store: ClusterStore, metrics: Metrics) -> None:
        self._client = client
        self._store = store
        self._metrics = metrics
        self._wanted = asyncio.Event()
        self._told: set[tuple[int, str]] = set()
        # What was found to be as it should, and by which snapshot.
        self._settled: dict[tuple[str, str], tuple[SeenDocument, Snapshot]] = {}
        store.on_documents(self._wanted.set)

    async def run(self) -> NoReturn:
        """Write until cancelled. No failure ends it."""
        calls = asyncio.Semaphore(_CALLS)
        # Whoever wrote until now may not have come to everything.
        self._wanted.set()
        while True:
            await self._wanted.wait()
            await asyncio.sleep(_GATHER_S)
            self._wanted.clear()
            written = await asyncio.gather(
                *[self._write(seen, status, calls) for seen, status in self._due()]
            )
            if not all(written):
                asyncio.get_running_loop().call_later(_RETRY_S, self._wanted.set)

    def _due(self) -> list[tuple[SeenDocument, dict[str, Any]]]:
        """The documents whose status says something else than it should, and what it should."""
        if not self._store.current.ready:
            return []
        snapshot = self._store.current.snapshot
        problems = _by_document(snapshot.problems)
        in_force = {document.key: document for document in snapshot.documents}
        now = format_time(datetime.now(UTC).replace(microsecond=0))
        due = []
        known, self._settled = self._settled, {}
        for seen in self._store.documents():
            key = seen.kind, seen.name
            if self._store.built.get(key) != seen.change_key:
                continue  # It is being compiled.
            before = known.get(key)
            if before is None or before[0] is not seen or before[1] is not snapshot:
                own = problems.get(title_of(seen.kind, seen.name), [])
                status = _status(seen, own, in_force.get(key), now)
                if status is not None:
                    due.append((seen, status))
                    continue
            self._settled[key] = seen, snapshot
        return due

    async def _write(
        self, seen: SeenDocument, status: dict[str, Any], calls: asyncio.Semaphore
    ) -> bool:
        """True unless it has to be tried again although nothing changes."""
        path = f"{API_PATH}/{PLURALS[seen.kind]}/{seen.name}/status"
        # With the version: whoever knows an older one must not write over a newer status.
        body = {"metadata": {"resourceVersion": seen.resource_version}, "status": status}
        async with calls:
            try:
                await self._client.request(
                    "PATCH", path, body=body, content_type="application/merge-patch+json"
                )
            except KubeError as error:
                # It has changed, or is gone: the watch will say so, and then it is due again.
                is_stale = error.status in (404, 409)
                outcome = "conflict" if is_stale else "failed"
                self._metrics.status_writes.labels(outcome).inc()
                if not is_stale:
                    self._tell(seen, error)
                return is_stale
        self._metrics.status_writes.labels("written").inc()
        self._told.clear()
        return True

    def _tell(self, seen: SeenDocument, error: KubeError) -> None:
        """Each kind of failure once, until a write succeeds: there may be hundreds."""
        if (error.status, error.reason) in self._told:
            return
        self._told.add((error.status, error.reason))
        log.warning(
            "status can't be written",
            extra={
                "document": title_of(seen.kind, seen.name),
                "status": error.status,
                "reason": error.reason,
                "problem": error.message[:300],
            },
        )


def _status(
    seen: SeenDocument, problems: list[DocumentProblem], held: Document | None, now: str
) -> dict[str, Any] | None:
    """The status to write; *held* is what is in force under its name."""
    is_current = held is not None and held.revision == seen.revision
    generation = seen.metadata.get("generation")
    return status_of(
        seen.manifest.get("status"),
        conditions_of(problems, in_force=is_current, older_in_force=held is not None),
        generation if isinstance(generation, int) else 0,
        now,
    )


def _by_document(problems: Iterable[DocumentProblem]) -> dict[str, list[DocumentProblem]]:
    found: dict[str, list[DocumentProblem]] = {}
    for problem in problems:
        found.setdefault(problem.document, []).append(problem)
    return found
