"""What one of several replicas of `serve` does for all: which one, and what that is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from webhook.cli.process import background, take_part
from webhook.cli.stores import ServedStore
from webhook.clients.kube import KubeClient
from webhook.clients.lease import new_identity
from webhook.clients.owner import OwnDeployment
from webhook.registrations.belonging import Belongings, cluster_paths
from webhook.registrations.keeper import RegistrationsKeeper
from webhook.registrations.wanted import Configuration
from webhook.settings import ServeSettings
from webhook.store.snapshot import Current
from webhook.telemetry.metrics import Metrics, ServerMetrics
from webhook.tls.bundle import AuthorityBundle

log = logging.getLogger("gatewright.serve")

# Where no Deployment is named.
_DEFAULT_NAME = "gatewright"


def lease_name(deployment: str) -> str:
    """
    The Lease of the servers of *deployment*: two releases in one namespace have their own, as each
    has registrations of its own.
    """
    return f"{deployment or _DEFAULT_NAME}-server"


class Leading:
    """
    The work of the leader, each piece of which runs until cancelled.

    Without a namespace of its own a server is taken for the only one.
    """

    def __init__(
        self,
        client: KubeClient,
        metrics: ServerMetrics,
        *,
        namespace: str,
        deployment: str,
        purpose: str = "",
    ) -> None:
        """*purpose* names what the leader writes beside what all releases share."""
        self._client = client
        self._metrics = metrics
        self._namespace = namespace
        self._lease = lease_name(deployment)
        self._purpose = purpose
        self._deployment = OwnDeployment(client, namespace=namespace, name=deployment)
        self._identity = new_identity()
        self._work: list[tuple[str, Callable[[], Awaitable[None]]]] = []

    def add(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Have the leader do *work*: begun anew with each term, cancelled at its end."""
        self._work.append((name, work))

    @property
    def has_work(self) -> bool:
        """Whether there is anything to lead for."""
        return bool(self._work)

    async def run(self, stop: asyncio.Event) -> None:
        """
        Take part until *stop* is set. The Lease is given up then, while requests are finished:
        the next leader need not wait for that.
        """
        taking_part = asyncio.create_task(self._take_part())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((taking_part, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (taking_part, stopping):
                task.cancel()
            await asyncio.gather(taking_part, stopping, return_exceptions=True)
        if not taking_part.cancelled():
            taking_part.result()

    async def _take_part(self) -> None:
        if not self._namespace:
            log.info("leading without asking others: no own namespace is set")
            await self._lead()
            return
        await take_part(
            self._client,
            self._lead,
            namespace=self._namespace,
            lease=self._lease,
            purpose=self._purpose,
            identity=self._identity,
            deployment=self._deployment,
            on_failure=self._metrics.lease_failures.inc,
        )

    async def _lead(self) -> None:
        self._metrics.leader.set(1)
        try:
            async with background() as start:
                for name, work in self._work:
                    start(name, work)
                await asyncio.Event().wait()
        finally:
            self._metrics.leader.set(0)


def build_leading(
    settings: ServeSettings,
    client: KubeClient,
    store: ServedStore,
    current: Current,
    bundle: AuthorityBundle,
    metrics: Metrics,
) -> Leading:
    """Everything that *settings* want of a leader."""
    server_metrics = ServerMetrics(metrics)
    leading = Leading(
        client,
        server_metrics,
        namespace=settings.own_namespace,
        deployment=settings.deployment,
        purpose=f"{settings.mutating_configuration} {settings.validating_configuration}".strip(),
    )
    if store.status is not None:
        leading.add("write status", store.status.run)
    names = {
        configuration: name
        for configuration, name in (
            (Configuration.MUTATING, settings.mutating_configuration),
            (Configuration.VALIDATING, settings.validating_configuration),
        )
        if name
    }
    if names:
        keeper = RegistrationsKeeper(
            client, current, bundle, names, metrics=metrics, server_metrics=server_metrics
        )
        store.on_documents(keeper.look)
        leading.add("keep registrations", keeper.run)
    paths = cluster_paths(names, cluster_role=settings.cluster_role)
    if paths and settings.own_namespace:
        belongings = Belongings(client, namespace=settings.own_namespace, paths=paths)
        leading.add("belong to the namespace", belongings.run)
    return leading
