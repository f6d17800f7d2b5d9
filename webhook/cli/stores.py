"""The store of `serve`: a directory or the cluster, built, begun and ended in the same way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from webhook.clients.kube import KubeClient, load_kube_client
from webhook.mapping.evaluator import JqWorker
from webhook.settings import ServeSettings
from webhook.store.cluster import ClusterStore
from webhook.store.compile.inputs import QueryCheck
from webhook.store.directory import DirectoryStore
from webhook.store.recommendations import RecommendationStore
from webhook.store.snapshot import Current, Snapshot
from webhook.store.source import DocumentStore
from webhook.store.status import StatusWriter
from webhook.store.strategies import StrategyWatch
from webhook.telemetry.metrics import Metrics

# Runs a task beside the requests, by its name.
Start = Callable[[str, Callable[[], Awaitable[None]]], None]

# How long the first review waits for recommendations. They may be out of our reach, and pods are
# made as their owners wrote them then.
_RECOMMENDATIONS_WAIT_S = 5.0


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
    def recommendations(self) -> RecommendationStore | None:
        """What pods are recommended; None where there is no cluster."""

    @property
    def strategies(self) -> StrategyWatch | None:
        """The strategies for GPUs; None where there is no cluster."""

    @property
    def status(self) -> StatusWriter | None:
        """What a leader keeps the status of documents with; None where nobody is to."""

    @property
    def obstacle(self) -> str:
        """What the first snapshot waits for; empty where that can't be said."""

    def on_documents(self, listener: Callable[[], None]) -> None:
        """Have *listener* called when a document of a cluster has changed, or what is in force."""

    async def look_around(self, manifest: dict[str, Any]) -> None:
        """Find out, before *manifest* is judged, what it is judged by beside other documents."""

    async def begin(self, start: Start) -> Snapshot:
        """Begin to follow what is there; the first snapshot, once it is in force."""

    async def close(self) -> None:
        """End all calls."""


class _Directory:
    client = None
    recommendations = None
    strategies = None
    status = None
    obstacle = ""

    def __init__(self, store: DirectoryStore) -> None:
        self.documents = store

    def on_documents(self, listener: Callable[[], None]) -> None:
        pass

    async def look_around(self, manifest: dict[str, Any]) -> None:
        pass

    async def begin(self, start: Start) -> Snapshot:
        snapshot = await asyncio.to_thread(self.documents.load)
        start("watch policies", self.documents.watch)
        return snapshot

    async def close(self) -> None:
        pass


class _Cluster:
    def __init__(
        self,
        store: ClusterStore,
        client: KubeClient,
        status: StatusWriter | None,
        recommendations: RecommendationStore,
        strategies: StrategyWatch,
    ) -> None:
        self.documents = store
        self.client = client
        self.recommendations = recommendations
        self.strategies = strategies
        self.status = status

    @property
    def obstacle(self) -> str:
        return self.documents.obstacle

    def on_documents(self, listener: Callable[[], None]) -> None:
        self.documents.on_documents(listener)

    async def look_around(self, manifest: dict[str, Any]) -> None:
        await self.documents.look_around(manifest)

    async def begin(self, start: Start) -> Snapshot:
        start("watch cluster", self.documents.run)
        start("watch recommendations", self.recommendations.run)
        start("watch strategies", self.strategies.run)
        snapshot = await self.documents.first()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RECOMMENDATIONS_WAIT_S):
                await self.recommendations.settled()
        return snapshot

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
    recommendations = RecommendationStore(client, metrics=metrics, controls_of=store.controls_of)
    strategies = StrategyWatch(client, metrics=metrics)
    return _Cluster(store, client, status, recommendations, strategies)
