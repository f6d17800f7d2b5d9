"""Evictions of a round: of each workload that is due one pod, by what is known then."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from webhook.model.rightsizing.policies import Strategy
from webhook.model.rightsizing.recommendations import GpuRecommendation
from webhook.reactive.observation.kinds import SeenWorkload
from webhook.reactive.observation.pods import SeenPod
from webhook.reactive.observation.workloads import ObservedWorkload, observe
from webhook.reactive.recreation.counting import written_as
from webhook.reactive.recreation.evicting import Evicted, KubeCalls, Outcome, evict
from webhook.reactive.recreation.permission import Recreation, may_evict, noted
from webhook.reactive.rounds.facts import Facts, strategies_of, surroundings_of
from webhook.reactive.rounds.keeping import key_of_workload
from webhook.reactive.rounds.round import Due, Held, do_each
from webhook.reactive.rounds.writing import Writer
from webhook.reactive.rounds.written import recognise
from webhook.telemetry.metrics import ReconcilerMetrics

log = logging.getLogger("gatewright.reconcile")


# Of a round. More would keep the API server busy for minutes, and the next round waiting.
MOST_EVICTIONS = 350


class Recreator:
    """Evicts pods, and notes each eviction before it."""

    def __init__(
        self,
        client: KubeCalls,
        writer: Writer,
        metrics: ReconcilerMetrics,
        *,
        most: int = MOST_EVICTIONS,
    ) -> None:
        """*most* evictions are asked for in one round."""
        self._client = client
        self._writer = writer
        self._metrics = metrics
        self._most = most
        # The first workload that had no turn in the last round. The next one begins there.
        self._next_first = ""

    async def evict_due(self, facts: Facts, due: Iterable[Due]) -> list[Held]:
        """
        Of each workload that is *due* evict the pod that may be evicted by the newer *facts*.

        A workload whose policies or strategies have changed meanwhile waits for its next
        evaluation, and one that has no turn for the next round. Returned are those that are held
        up by something that passes.
        """
        now, later = self._turns(due)
        keys = {_key(each) for each in now}
        again = observe(facts.cluster, lambda workload: key_of_workload(workload) in keys)
        seen = {key_of_workload(each.workload): each for each in again}
        held: list[Held] = []

        async def one(item: Due) -> None:
            try:
                await take_turn(item)
            except Exception:
                # What was found out is stored, whatever becomes of the eviction.
                await self._save(item)
                raise

        async def take_turn(item: Due) -> None:
            known, recommendation = item.observed, item.recommendation
            observed = seen.get(key_of_workload(known.workload))
            strategies = strategies_of(facts, known, recommendation)
            is_same = observed is not None and observed.workload.uid == known.workload.uid
            # What somebody forbade a moment ago is not done any more.
            is_same = is_same and strategies == item.strategies
            if observed is not None and is_same and observed.policies == known.policies:
                observed = recognise(observed, recommendation.status)
                around = surroundings_of(facts, observed, strategies)
                recreation = may_evict(observed, recommendation, around, facts.now)
                retry_after = recreation.retry_after
                if recreation.pod is not None:
                    left = await self._evict(
                        observed, recommendation, recreation, strategies, facts
                    )
                    if left is not None:
                        wait = max(each.safety.retry_interval for each in strategies)
                        held.append(Held(Due(observed, left, strategies), wait))
                    return
                saved = await self._save(item)
                if retry_after is not None and saved is not None:
                    left_due = replace(item, recommendation=saved, is_unsaved=False)
                    held.append(Held(left_due, retry_after))
                return
            await self._save(item)

        await do_each(one, now)
        await do_each(self._save, later)
        return held

    async def leave(self, due: Iterable[Due]) -> None:
        """Evict nobody, and store what is not stored of those that are *due*."""
        await do_each(self._save, due)

    def _turns(self, due: Iterable[Due]) -> tuple[Sequence[Due], Sequence[Due]]:
        """Who has a turn in this round, and who has not."""
        ordered = sorted(due, key=_key)
        first = [each for each in ordered if _key(each) >= self._next_first]
        ordered = [*first, *ordered[: len(ordered) - len(first)]]
        now, later = ordered[: self._most], ordered[self._most :]
        # What is tried again between two rounds moves nobody's turn.
        self._next_first = _key(later[0]) if later else self._next_first
        return now, later

    async def _save(self, item: Due) -> GpuRecommendation | None:
        """The recommendation as it is stored then; None where it could not be."""
        if item.is_unsaved:
            return await self._writer.store(item.recommendation)
        return item.recommendation

    async def _evict(
        self,
        observed: ObservedWorkload,
        recommendation: GpuRecommendation,
        recreation: Recreation,
        strategies: Sequence[Strategy],
        facts: Facts,
    ) -> GpuRecommendation | None:
        """Evict it. Where that was refused and is to be tried again: the note as it is stored."""
        pod = recreation.pod
        assert pod is not None
        before = recommendation.status
        present = sum([each.is_evidence for each in observed.pods])
        assert before.selected is not None
        amounts = written_as(before.selected)
        eviction = noted(recreation, before.eviction, present, facts.now, amounts)
        # First the note, which only one can write: a leader of before doesn't come to evict another
        # pod of this workload.
        stored = await self._writer.store(
            replace(recommendation, status=replace(before, eviction=eviction))
        )
        if stored is None:
            return None
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
            refused = await self._writer.store(replace(stored, status=status))
            return refused if retried else None
        return None


def _key(due: Due) -> str:
    return key_of_workload(due.observed.workload)


def _tell(workload: SeenWorkload, pod: SeenPod, done: Evicted) -> None:
    extra = {
        "workload": str(workload),
        "pod": pod.pod_name,
        "outcome": done.outcome,
        **({"problem": done.problem} if done.problem else {}),
    }
    log.log(logging.WARNING if done.problem else logging.INFO, "eviction", extra=extra)
