"""The store of `serve`: a directory or the cluster, built, begun and ended in the same way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from webhook.clients.kube import KubeClient, load_kube_client
from webhook.mapping.evaluator import JqWorker
from webhook.settings import ServeSettings
from webhook.store.build import QueryCheck
from webhook.store.cluster import ClusterStore
from webhook.store.directory import DirectoryStore
from webhook.store.snapshot import Current, Snapshot
from webhook.store.source import DocumentStore
from webhook.store.status import StatusWriter
from webhook.telemetry.metrics import Metrics

# Runs a task beside the requests, by its name.
Start = Callable[[str, Callable[[], Awaitable[None]]], None]


class Reporter(Protocol):
    """Is told what each load gave."""

    def report(self, snapshot: Snapshot) -> None: ...

    def report_failure(self) -> None: ...


class ServedStore(Protocol):
    """Where policies come from, to the one who begins and ends it."""

    @property
    def documents(self) -> DocumentStore: ...

    @property
    def client(self) -> KubeClient | None:
        """How the cluster is spoken to; None where there is none."""

    @property
    def obstacle(self) -> str:
        """What the first snapshot waits for; empty where that can't be said."""

    async def begin(self, start: Start) -> Snapshot:
        """Begin to follow what is there; the first snapshot, once it is in force."""

    async def close(self) -> None:
        """End all calls."""


class _Directory:
    client = None
    obstacle = ""

    def __init__(self, store: DirectoryStore) -> None:
        self.documents = store

    async def begin(self, start: Start) -> Snapshot:
        snapshot = await asyncio.to_thread(self.documents.load)
        start("watch policies", self.documents.watch)
        return snapshot

    async def close(self) -> None:
        pass


class _Cluster:
    def __init__(
        self, store: ClusterStore, client: KubeClient, status: StatusWriter | None
    ) -> None:
        self.documents = store
        self.client = client
        self._status = status

    @property
    def obstacle(self) -> str:
        return self.documents.obstacle

    async def begin(self, start: Start) -> Snapshot:
        start("watch cluster", self.documents.run)
        if self._status is not None:
            start("write status", self._status.run)
        return await self.documents.first()

    async def close(self) -> None:
        await self.client.close()


def query_check(jq: JqWorker) -> QueryCheck:
    """Lets *jq* try an expression."""
    return lambda source, path: jq.check(source, path=path)


def build_store(
    settings: ServeSettings,
    current: Current,
    *,
    metrics: Metrics,
    jq: JqWorker,
    reporter: Reporter,
) -> ServedStore:
    """
    The store that *settings* name. It keeps *current*.

    Raises:
        SettingsError: the cluster can't be spoken to with what is configured.
    """
    if settings.policies is not None:
        return _Directory(
            DirectoryStore(
                settings.policies,
                current,
                settings=settings.engine,
                check_query=query_check(jq),
                on_reload=reporter.report,
                on_failure=reporter.report_failure,
            )
        )
    client = load_kube_client(settings.kubeconfig)
    store = ClusterStore(
        client,
        current,
        settings=settings.engine,
        metrics=metrics,
        check_query=query_check(jq),
        on_reload=reporter.report,
    )
    status = StatusWriter(client, store, metrics) if settings.write_status else None
    return _Cluster(store, client, status)
