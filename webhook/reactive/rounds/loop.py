"""
When workloads are looked at: one round after the other, as long as this replica leads.

A round reads what is known of the cluster, asks Prometheus, writes what it found out, and evicts at
most one pod of each workload. Nothing that matters is kept between rounds: the next leader goes on
from what the cluster holds.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NoReturn, Protocol

from webhook.errors import NotReadyError
from webhook.model.rightsizing.documents import POLICY_KINDS
from webhook.model.rightsizing.policies import GlobalSettings
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.crd_check import fetch_lacking_kinds
from webhook.reactive.observation.documents import SeenReactive
from webhook.reactive.observation.sampling import Sampler
from webhook.reactive.recreation.evicting import KubeCalls
from webhook.reactive.recreation.probing import WebhookProbe
from webhook.reactive.rounds.evictions import Recreator
from webhook.reactive.rounds.facts import Facts
from webhook.reactive.rounds.policy_status import (
    PolicySituation,
    global_conditions,
    policy_conditions,
    written_conditions,
)
from webhook.reactive.rounds.round import Due, Held, Round, do_each
from webhook.reactive.rounds.writing import Write, Writer
from webhook.telemetry.metrics import ReconcilerMetrics

log = logging.getLogger("gatewright.reconcile")

# Changes that come together, as from `kubectl apply -f dir/`, are looked at together.
_GATHER_S = 1.0
# After a round that could not begin, or failed.
_RETRY_S = 2.0
# Between the last write and the first eviction: the servers that write the amount into the next pod
# watch what was written. They need some milliseconds.
_SETTLE_S = 2.0
# Workloads that are held up are looked at again together: each time takes a view of the cluster.
_RETRY_STEP_S = 5.0
# The CRDs are looked at again after that, and whenever a document changes.
_CRD_CHECK_S = 300.0


class ClusterView(Protocol):
    """What is known of the cluster: `Watches`."""

    @property
    def policies_changed(self) -> asyncio.Event: ...

    @property
    def obstacle(self) -> str: ...

    async def run(self) -> NoReturn: ...

    async def settled(self) -> None: ...

    def take(self) -> Cluster: ...


class SamplerSource(Protocol):
    """Gives the sampler of the Prometheus that is configured now."""

    def sampler(self, settings: GlobalSettings) -> Sampler: ...


class Reconciler:
    """
    Keeps the GPUs of a cluster's workloads as their policies want them, while `run` runs.

    Only one may run at a time in a cluster.
    """

    def __init__(
        self,
        client: KubeCalls,
        view: ClusterView,
        prometheus: SamplerSource,
        *,
        namespace: str,
        metrics: ReconcilerMetrics,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        settle_s: float = _SETTLE_S,
    ) -> None:
        """*namespace* is our own, for probes. *clock* gives the wall time: ages count by it."""
        self._client = client
        self._view = view
        self._prometheus = prometheus
        self._metrics = metrics
        self._clock = clock
        self._settle_s = settle_s
        self._settings = GlobalSettings()
        self._writer = Writer(client, self._count_write)
        self._recreator = Recreator(client, self._writer, metrics)
        self._woken = asyncio.Event()
        # The cluster as the last round saw it.
        self._known = Cluster()
        # What the last round could not evict yet, by when it is looked at again (the loop's time).
        self._held: list[tuple[float, Due]] = []
        self._lacking: Mapping[str, str] = {}
        self._lacking_known_until = 0.0
        self.probe = WebhookProbe(
            client,
            namespace=namespace,
            settings=lambda: self._settings.webhook_health,
            on_probe=self._count_probe,
            on_change=self._webhook_changed,
        )

    @property
    def obstacle(self) -> str:
        """What is waited for before the first round; empty once it was seen."""
        return self._view.obstacle

    async def run(self) -> NoReturn:
        """Look at the workloads again and again, until cancelled. No failure ends it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._view.run(), name="watch the cluster")
            group.create_task(self.probe.run(), name="probe the webhook")
            await self._view.settled()
            while True:
                done = await self._try_round()
                interval_s = self._settings.check_interval.total_seconds()
                await self._pause(interval_s * random.uniform(1.0, 1.05) if done else _RETRY_S)
        raise AssertionError("unreachable")

    async def _try_round(self) -> bool:
        began = time.monotonic()
        outcome = "failed"
        try:
            await self.round()
            outcome = "done"
        except NotReadyError as error:
            outcome = "not_ready"
            log.info("the round waits", extra={"problem": str(error)})
        except Exception:
            log.exception("a round failed")
        self._metrics.round_seconds.observe(time.monotonic() - began)
        self._metrics.rounds.labels(outcome).inc()
        return outcome == "done"

    async def _pause(self, seconds: float) -> None:
        """Wait for the next round, and evict meanwhile what was held up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (now := loop.time()) < end:
            first = min([at for at, _ in self._held], default=end)
            if await self._wait(max(0.0, min(first, end) - now)):
                return
            if first < end:
                await self._try_held(loop.time())

    async def _try_held(self, now: float) -> None:
        due = [item for at, item in self._held if at <= now]
        self._held = [(at, item) for at, item in self._held if at > now]
        try:
            if due:
                await self._evict(due)
        except NotReadyError as error:
            log.info("what was held up waits", extra={"problem": str(error)})
        except Exception:
            log.exception("what was held up can't be looked at")

    def _hold(self, held: Iterable[Held]) -> None:
        now = asyncio.get_running_loop().time()
        for each in held:
            at = now + each.after.total_seconds()
            self._held.append((math.ceil(at / _RETRY_STEP_S) * _RETRY_STEP_S, each.due))

    async def _wait(self, seconds: float) -> bool:
        """
        For the next round: by the monotonic clock, or until a document says something new, or the
        webhook comes or goes. True for these.
        """
        causes = [self._view.policies_changed, self._woken]
        waiting = [asyncio.create_task(cause.wait()) for cause in causes]
        try:
            done, _ = await asyncio.wait(
                waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if done:
                await asyncio.sleep(_GATHER_S)
        finally:
            for task in waiting:
                task.cancel()
        self._woken.clear()
        return bool(done)

    async def round(self) -> None:
        """
        Look at all workloads once.

        Raises:
            NotReadyError: not enough of the cluster is known yet.
        """
        view = self._view
        has_news = view.policies_changed.is_set()
        view.policies_changed.clear()
        if has_news:
            # New kinds of workloads may have to be listed first.
            await view.settled()
        cluster = view.take()
        self._settings = cluster.settings
        await self._check_crds(has_news=has_news)
        facts = Facts.of(cluster, self._clock(), self.probe.problem, self._lacking)
        current = Round(facts, self._writer, self._metrics)
        self._held.clear()
        try:
            await current.look(self._prometheus.sampler(self._settings))
        except Exception as error:
            failure = f"the round failed: {type(error).__name__} (see the log of the reconciler)"
            await self._write_statuses(current, failure)
            raise
        self._hold(current.held)
        await self._write_statuses(current)
        self._known = current.facts.cluster
        if current.due:
            await asyncio.sleep(self._settle_s)
            await self._evict(current.due)

    async def _evict(self, due: Sequence[Due]) -> None:
        """What was found out is stored, whatever becomes of the evictions."""
        try:
            await self._try_evictions(due)
        except Exception:
            await self._recreator.leave(due)
            raise

    async def _try_evictions(self, due: Sequence[Due]) -> None:
        # Once more, now: the webhook may have gone a moment ago.
        await self.probe.check()
        problem = self.probe.problem
        if problem:
            log.warning("nothing is evicted", extra={"problem": problem})
        cluster, known = self._view.take(), self._known
        if problem or (cluster.settings, cluster.precedence) != (known.settings, known.precedence):
            # With other settings, the next round is due already.
            await self._recreator.leave(due)
            return
        facts = Facts.of(cluster, self._clock(), problem, self._lacking)
        self._hold(await self._recreator.evict_due(facts, due))

    async def _write_statuses(self, current: Round, failure: str = "") -> None:
        facts = current.facts
        cluster = facts.cluster
        situation = PolicySituation(
            frozenset(facts.rules.strategies),
            cluster.unreadable,
            facts.lacking,
            cluster.unknown_kinds,
            failure,
        )
        write = partial(self._write_status, current, situation)
        await do_each(write, list(cluster.documents.values()))

    async def _write_status(
        self, current: Round, situation: PolicySituation, seen: SeenReactive
    ) -> None:
        more: Mapping[str, object] = {}
        if seen.key.kind in POLICY_KINDS:
            conditions = policy_conditions(seen, current.tallies[seen.key], situation)
        elif seen.key.kind == "GlobalConfiguration":
            conditions = global_conditions(seen, "" if self.probe.healthy else self.probe.problem)
            more = self.probe.report()
        else:
            return
        now = current.facts.now
        written = written_conditions(conditions, seen.conditions, seen.generation, now)
        if written is not None:
            await self._writer.write_conditions(seen, written, more)

    async def _check_crds(self, *, has_news: bool) -> None:
        now = time.monotonic()
        if has_news or now >= self._lacking_known_until:
            found = await fetch_lacking_kinds(self._client)
            self._lacking = found.reasons
            self._lacking_known_until = now + (_CRD_CHECK_S if found.is_known else 0.0)

    def _webhook_changed(self) -> None:
        self._metrics.webhook_healthy.set(self.probe.healthy)
        self._woken.set()

    def _count_write(self, outcome: Write) -> None:
        self._metrics.writes.labels(outcome).inc()

    def _count_probe(self, passed: bool) -> None:
        self._metrics.probes.labels("passed" if passed else "failed").inc()
