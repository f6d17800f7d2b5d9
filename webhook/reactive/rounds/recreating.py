"""Evictions of a round: of each workload that is due one pod, by what is known then."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from webhook.model.rightsizing.policies import Strategy
from webhook.model.rightsizing.recommendations import GpuRecommendation
from webhook.reactive.observation.kinds import SeenWorkload
from webhook.reactive.observation.observe import ObservedWorkload, observe
from webhook.reactive.observation.pods import SeenPod
from webhook.reactive.recreation.evicting import Evicted, KubeCalls, Outcome, evict
from webhook.reactive.recreation.recreate import Recreation, may_evict, noted
from webhook.reactive.rounds.around import Facts, strategies_of, surroundings_of
from webhook.reactive.rounds.keeping import key_of_workload
from webhook.reactive.rounds.round import do_each
from webhook.reactive.rounds.writing import Writer
from webhook.telemetry.metrics import ReconcilerMetrics

log = logging.getLogger("gatewright.reconcile")


class Recreator:
    """Evicts pods, and notes each eviction before it."""

    def __init__(self, client: KubeCalls, writer: Writer, metrics: ReconcilerMetrics) -> None:
        self._client = client
        self._writer = writer
        self._metrics = metrics

    async def evict_due(
        self, facts: Facts, due: Iterable[tuple[ObservedWorkload, GpuRecommendation]]
    ) -> None:
        """
        Of each workload that is *due* evict the pod that may be evicted by the newer *facts*.

        A workload whose policies have changed meanwhile waits for its next evaluation.
        """
        seen = {key_of_workload(each.workload): each for each in observe(facts.cluster)}

        async def one(item: tuple[ObservedWorkload, GpuRecommendation]) -> None:
            known, recommendation = item
            observed = seen.get(key_of_workload(known.workload))
            if observed is None or observed.policies != known.policies:
                return
            if observed.workload.uid != known.workload.uid:
                return
            strategies = strategies_of(facts, recommendation)
            around = surroundings_of(facts, observed, strategies)
            recreation = may_evict(observed, recommendation, around, facts.now)
            if recreation.pod is not None:
                await self._evict(observed, recommendation, recreation, strategies, facts)

        await do_each(one, due)

    async def _evict(
        self,
        observed: ObservedWorkload,
        recommendation: GpuRecommendation,
        recreation: Recreation,
        strategies: Sequence[Strategy],
        facts: Facts,
    ) -> None:
        pod = recreation.pod
        assert pod is not None
        before = recommendation.status
        present = sum([each.is_evidence for each in observed.pods])
        eviction = noted(recreation, before.eviction, present, facts.now)
        # First the note, which only one can write: a leader of before doesn't come to evict another
        # pod of this workload.
        stored = await self._writer.store(
            replace(recommendation, status=replace(before, eviction=eviction))
        )
        if stored is None:
            return
        done = await evict(self._client, pod)
        self._metrics.evictions.labels(done.outcome).inc()
        _tell(observed.workload, pod, done)
        # Where nobody knows what became of it, the note stands for itself: the pod will be gone in
        # a moment, or be due again.
        if done.problem and done.outcome is not Outcome.FAILED:
            retried = done.outcome is not Outcome.BUDGET or all(
                strategy.retry_disruption_budget for strategy in strategies
            )
            # Nothing was evicted, so that nothing is counted.
            counts = before.eviction
            eviction = replace(
                eviction,
                count=0 if counts is None else counts.count,
                misses=0 if counts is None else counts.misses,
                problem=done.problem,
                retried=retried,
            )
            text = f"pod {pod.pod_name} was not evicted: {done.problem}"
            reasons = tuple(dict.fromkeys([text, *before.reasons]))
            status = replace(before, eviction=eviction, reasons=reasons)
            await self._writer.store(replace(stored, status=status))


def _tell(workload: SeenWorkload, pod: SeenPod, done: Evicted) -> None:
    extra = {
        "workload": str(workload),
        "pod": pod.pod_name,
        "outcome": done.outcome,
        **({"problem": done.problem} if done.problem else {}),
    }
    log.log(logging.WARNING if done.problem else logging.INFO, "eviction", extra=extra)
