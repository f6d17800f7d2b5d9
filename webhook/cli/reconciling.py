"""The process of `reconcile`: what is wired to what, for as long as it leads and while it waits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

from webhook.api.app import build_ops_app
from webhook.api.services import Readiness, Services
from webhook.cli.process import (
    Listener,
    background,
    calm_collector,
    listen,
    loop_factory,
    shown,
    stop_event,
    take_part,
)
from webhook.clients.kube import KubeClient, load_kube_client
from webhook.clients.lease import new_identity
from webhook.clients.owner import OwnDeployment
from webhook.errors import PrometheusError, SettingsError
from webhook.mapping.evaluator import JqWorker
from webhook.reactive.observation.prometheus import PrometheusSource
from webhook.reactive.observation.watches import Watches
from webhook.reactive.rounds.loop import Reconciler
from webhook.settings import ReconcileSettings
from webhook.store.snapshot import Current
from webhook.telemetry.logs import configure_logging, log_loop_error
from webhook.telemetry.metrics import Metrics, ReconcilerMetrics

log = logging.getLogger("gatewright.reconcile")

LEASE = "gatewright-reconciler"


def reconcile(settings: ReconcileSettings) -> int:
    """
    Take part until SIGTERM or SIGINT. Returns the exit code.

    Raises:
        WebhookError: the cluster, a file or an address cannot be used.
    """
    configure_logging(settings.log_level)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_reconcile(settings))
    return 0


class _Term:
    """
    What is there while this replica leads.

    Nothing is watched before: a replica that waits costs the API server nothing, and begins with
    what the cluster holds then.
    """

    def __init__(
        self,
        settings: ReconcileSettings,
        client: KubeClient,
        metrics: Metrics,
        reconciler_metrics: ReconcilerMetrics,
    ) -> None:
        self._settings = settings
        self._client = client
        self._metrics = metrics
        self._reconciler_metrics = reconciler_metrics
        self._reconciler: Reconciler | None = None

    @property
    def obstacle(self) -> str:
        """What a leader waits for; empty where nothing is waited for, and while others lead."""
        return "" if self._reconciler is None else self._reconciler.obstacle

    async def lead(self) -> None:
        """Reconcile until cancelled."""
        prometheus = build_source(self._settings, self._reconciler_metrics)
        self._reconciler = Reconciler(
            self._client,
            Watches(self._client, metrics=self._metrics),
            prometheus,
            namespace=self._settings.namespace,
            metrics=self._reconciler_metrics,
        )
        self._reconciler_metrics.leader.set(1)
        try:
            await self._reconciler.run()
        finally:
            self._reconciler_metrics.leader.set(0)
            self._reconciler = None
            await prometheus.close()


class _Readiness(Readiness):
    @property
    def obstacle(self) -> str:
        """A replica that waits for its turn is as ready as one can be."""
        return "shutting down" if self.draining else self.waiting_for()


def build_source(settings: ReconcileSettings, metrics: ReconcilerMetrics) -> PrometheusSource:
    """
    The Prometheus that *settings* name.

    Raises:
        SettingsError: what they say of it can't be used.
    """
    try:
        return PrometheusSource(
            metrics=metrics,
            url=settings.prometheus_url,
            token_file=settings.prometheus_token_file,
            ca_file=settings.prometheus_ca,
            device_label=settings.device_label,
        )
    except PrometheusError as error:
        raise SettingsError(f"--prometheus-url: {error.message}") from None


async def _reconcile(settings: ReconcileSettings) -> None:
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    stop = stop_event()
    metrics = Metrics()
    reconciler_metrics = ReconcilerMetrics(metrics)
    build_source(settings, reconciler_metrics)  # what is wrong with it is said before we begin
    client = load_kube_client(settings.kubeconfig)
    term = _Term(settings, client, metrics, reconciler_metrics)
    readiness = _Readiness(Current(), waiting_for=lambda: term.obstacle)
    services = Services(Current(), metrics, readiness, JqWorker())
    electing = partial(
        take_part,
        client,
        term.lead,
        namespace=settings.namespace,
        lease=LEASE,
        identity=new_identity(),
        deployment=OwnDeployment(client, namespace=settings.namespace, name=settings.deployment),
        on_failure=reconciler_metrics.lease_failures.inc,
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(services.close)
        stack.push_async_callback(client.close)
        ops = await listen(stack, build_ops_app(services), settings.ops_listen)
        calm_collector()
        async with background() as start:
            start("reconcile", electing)
            _announce(ops)
            await stop.wait()
            log.info("shutting down")
            readiness.draining = True


def _announce(ops: Listener) -> None:
    address = shown(ops.address)
    # Nobody may be reading.
    with contextlib.suppress(OSError):
        print(f"health and metrics: http://{address}/readyz, http://{address}/metrics", flush=True)
