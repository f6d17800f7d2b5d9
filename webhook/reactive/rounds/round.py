"""One round: every workload is evaluated, and what came of it is written."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from webhook.errors import PrometheusError
from webhook.model.rightsizing.policies import DocumentKey, ReactivePolicy, Strategy
from webhook.model.rightsizing.recommendations import GpuRecommendation
from webhook.reactive.decisions.states import Readings
from webhook.reactive.observation.asking import unforeseen
from webhook.reactive.observation.sampling import NOTHING_TO_ASK, NamespaceSamples, Sampler
from webhook.reactive.observation.wanted import wanted_of
from webhook.reactive.observation.workloads import ObservedWorkload, observe
from webhook.reactive.recreation.permission import Recreation, may_evict
from webhook.reactive.rounds.evaluate import Judgement, Samples, evaluate, switched
from webhook.reactive.rounds.facts import Facts, strategies_of, surroundings_of
from webhook.reactive.rounds.keeping import is_abandoned, is_worth_writing, key_of_workload, whose
from webhook.reactive.rounds.ownership import follow_owner
from webhook.reactive.rounds.policy_status import Tally
from webhook.reactive.rounds.writing import Writer
from webhook.reactive.rounds.written import recognise
from webhook.telemetry.metrics import ReconcilerMetrics

log = logging.getLogger("gatewright.reconcile")

_T = TypeVar("_T")

_NO_READINGS = Readings.of({})

# Calls at a time: hundreds of workloads that change at once should not hold up the API server.
_CALLS = 8
# Of so many workloads everything is written each time, so that people see what is measured now.
_ALWAYS_FRESH = 100


class _NothingAsked:
    """For a workload that has no pods now."""

    def readings(self, policy: ReactivePolicy) -> Readings:
        return NOTHING_TO_ASK

    def fault(self, policy: ReactivePolicy) -> PrometheusError | None:
        return None

    def reasons(self, policy: ReactivePolicy, pods: Iterable[str]) -> tuple[str, ...]:
        return ()


class _NotAnswered:
    """For workloads about which nothing could be asked, by *error*."""

    def __init__(self, error: PrometheusError) -> None:
        self._error = error

    def readings(self, policy: ReactivePolicy) -> Readings:
        return _NO_READINGS

    def fault(self, policy: ReactivePolicy) -> PrometheusError | None:
        return self._error

    def reasons(self, policy: ReactivePolicy, pods: Iterable[str]) -> tuple[str, ...]:
        return (f"Prometheus: {self._error}",)


async def do_each(
    act: Callable[[_T], Awaitable[Any]], items: Iterable[_T], *, calls: int = _CALLS
) -> None:
    """*act* on each of *items*, a few at a time. One that fails is said, and holds up no other."""
    left = iter(items)

    async def take_turns() -> None:
        for item in left:
            try:
                await act(item)
            except Exception:
                log.exception("a part of the round failed")

    await asyncio.gather(*[take_turns() for _ in range(calls)])


@dataclass(frozen=True, slots=True)
class Held:
    """A workload of which a pod is due and can't be evicted yet; it is looked at again *after*."""

    due: Due
    after: timedelta


@dataclass(frozen=True, slots=True)
class Due:
    """
    A workload of which a pod may be evicted, and what was found out about it.

    *strategies* are those that it was found out with. With *is_unsaved* the amounts are stored, and
    the rest is still to be.
    """

    observed: ObservedWorkload
    recommendation: GpuRecommendation
    strategies: tuple[Strategy, ...]
    is_unsaved: bool = False


class Round:
    """
    One round by *facts*.

    After `look`, *tallies* say what came of each policy, *due* are the workloads of which a pod
    may be evicted, and *held* those of which one is to be when something has passed.
    """

    def __init__(self, facts: Facts, writer: Writer, metrics: ReconcilerMetrics) -> None:
        self.facts = facts
        self.tallies: dict[DocumentKey, Tally] = defaultdict(Tally)
        self.due: list[Due] = []
        self.held: list[Held] = []
        self._writer = writer
        self._metrics = metrics
        self._always_fresh = False
        # Workloads that are in the tallies.
        self._counted: set[str] = set()

    async def look(self, sampler: Sampler) -> None:
        """Look at all workloads that have to do with GPUs, or had; and withdraw from the rest."""
        facts = self.facts
        known = facts.cluster.recommendations
        observed = [
            each
            for each in observe(facts.cluster)
            if each.has_gpus or key_of_workload(each.workload) in known
        ]
        self._metrics.workloads.set(len(observed))
        self._always_fresh = len(observed) <= _ALWAYS_FRESH
        nothing = [each for each in observed if not each.evidence]
        await do_each(partial(self._look_at, samples=_NothingAsked()), nothing)
        await self._look_at_pods([each for each in observed if each.evidence], sampler)
        await self._withdraw({key_of_workload(each.workload) for each in observed})

    async def _look_at_pods(self, observed: Sequence[ObservedWorkload], sampler: Sampler) -> None:
        by_namespace: dict[str, list[ObservedWorkload]] = defaultdict(list)
        for each in observed:
            by_namespace[each.workload.namespace].append(each)
        try:
            # Closed here and now: whoever ends us ends the questions that are under way as well.
            async with contextlib.aclosing(self._sample(observed, sampler)) as sampling:
                async for samples in sampling:
                    own = by_namespace.pop(samples.namespace)
                    await do_each(partial(self._look_at, samples=samples), own)
        except Exception as error:
            # Whatever keeps us from asking, what was switched off meanwhile is to be off.
            log.exception("Prometheus can't be asked")
            unanswered = _NotAnswered(unforeseen(error))
            left = [each for own in by_namespace.values() for each in own]
            await do_each(partial(self._look_at, samples=unanswered), left)

    async def _sample(
        self, observed: Sequence[ObservedWorkload], sampler: Sampler
    ) -> AsyncGenerator[NamespaceSamples, None]:
        rules = self.facts.rules
        # The next round is due then.
        within_s = rules.settings.check_interval.total_seconds()
        wanted = wanted_of(observed, rules.precedence, multi_policy=rules.settings.multi_policy)
        sampling = sampler.sample(wanted, self.facts.now, within_s=within_s)
        async with contextlib.aclosing(sampling):
            async for samples in sampling:
                yield samples

    async def _look_at(self, observed: ObservedWorkload, samples: Samples) -> None:
        """Evaluate one workload, and write what came of it. A failure is its own alone."""
        try:
            await self._look_closely(observed, samples)
        except Exception as error:
            log.exception("a workload can't be looked at", extra=_named(observed))
            if str(observed.workload) not in self._counted:
                self._metrics.evaluations.labels("failed").inc(len(observed.policies))
            self._note_failure(observed, error)
            await self._store_switches(observed)

    def _note_failure(self, observed: ObservedWorkload, error: Exception) -> None:
        workload = str(observed.workload)
        is_counted = workload in self._counted
        for policy in observed.policies:
            tally = self.tallies[policy.key]
            tally.workloads += not is_counted
            tally.failed[workload] = type(error).__name__
        self._counted.add(workload)

    async def _store_switches(self, observed: ObservedWorkload) -> None:
        """What was switched off is off, also where nothing else is known of a workload."""
        known = self.facts.cluster.recommendations.get(key_of_workload(observed.workload))
        before = None if known is None else known.recommendation
        if known is None or before is None or whose(known, observed.workload) is not None:
            return
        status = switched(before.status, observed.policies, self.facts.rules.settings)
        if status is not before.status:
            await self._writer.store(replace(before, status=status))

    async def _look_closely(self, observed: ObservedWorkload, samples: Samples) -> None:
        facts, workload = self.facts, observed.workload
        known = facts.cluster.recommendations.get(key_of_workload(workload))
        foreign = None if known is None else whose(known, workload)
        if known is not None and foreign is not None:
            if foreign.is_stale and known.recommendation is not None:
                # The next round begins anew.
                await self._writer.delete(known.recommendation)
            else:
                extra = {"recommendation": known.name, "problem": foreign.problem}
                log.warning("a recommendation is not ours to write", extra=extra)
                for policy in observed.policies:
                    tally = self.tallies[policy.key]
                    tally.workloads += 1
                    name = known.name.partition("/")[2]
                    tally.stopped[str(workload)] = f"GpuRecommendation {name}: {foreign.problem}"
            return
        before = None if known is None else known.recommendation
        stored = before or GpuRecommendation(workload.namespace, workload.ref)
        observed = recognise(observed, stored.status)
        status = follow_owner(stored.status, observed, facts.now)
        stored_now = stored if status is stored.status else replace(stored, status=status)
        judgement = evaluate(observed, stored_now, samples, facts.rules, facts.now)
        self._count(observed, judgement, samples)
        new = replace(stored, status=judgement.status)
        recreation = self._recreation(observed, new, judgement.strategies)
        new = _with_reasons(new, recreation.reasons)
        is_due = recreation.pod is not None
        # What somebody spoilt is written over.
        is_news = (
            before is None
            or bool(before.unread)
            or is_worth_writing(
                before.status, new.status, facts.now, always_fresh=self._always_fresh
            )
        )
        if is_due and before is not None and before.status.selected == new.status.selected:
            # What pods are given is stored already; the note of the eviction tells the rest.
            self.due.append(
                Due(observed, new, strategies_of(facts, observed, new), is_unsaved=is_news)
            )
            return
        if is_news:
            written = await self._writer.store(new)
            if written is None:
                return
            new = written
        found = Due(observed, new, strategies_of(facts, observed, new))
        if is_due:
            self.due.append(found)
        elif recreation.retry_after is not None:
            self.held.append(Held(found, recreation.retry_after))

    def _recreation(
        self, observed: ObservedWorkload, new: GpuRecommendation, strategies: tuple[Strategy, ...]
    ) -> Recreation:
        """Which pod may be evicted. A failure here keeps nobody from what was recommended."""
        facts = self.facts
        try:
            around = surroundings_of(facts, observed, strategies)
            return may_evict(observed, new, around, facts.now)
        except Exception as error:
            log.exception("a workload can't be recreated", extra=_named(observed))
            self._note_failure(observed, error)
            text = f"nothing is evicted, as that failed: {type(error).__name__}"
            return Recreation(reasons=(f"{text} (see the log of the reconciler)",))

    def _count(self, observed: ObservedWorkload, judgement: Judgement, samples: Samples) -> None:
        heard = (*judgement.opinions, *judgement.trials)
        self._counted.add(str(observed.workload))
        for policy, evaluation in heard:
            outcome = evaluation.change.value if evaluation.evaluated else "not_evaluated"
            self._metrics.evaluations.labels(outcome).inc()
            tally = self.tallies[policy.key]
            tally.workloads += 1
            tally.recommending += evaluation.recommendation is not None
        asked = {policy.key for policy, _ in heard}
        for policy in observed.policies:
            tally = self.tallies[policy.key]
            if policy.key not in asked:
                tally.passed_over += 1
            elif observed.evidence:
                tally.asked = True
                tally.fault = tally.fault or samples.fault(policy)

    async def _withdraw(self, kept: set[str]) -> None:
        """
        Take away what no policy is about any more, baselines included.

        Nobody is evicted for it: pods get what their template says when they are made anew.
        """
        gone = [
            known.recommendation
            for key, known in self.facts.cluster.recommendations.items()
            if key not in kept
            and known.recommendation is not None
            and is_abandoned(self.facts.cluster, known.recommendation)
        ]
        await do_each(self._take_away, gone)

    async def _take_away(self, recommendation: GpuRecommendation) -> None:
        if await self._writer.delete(recommendation):
            log.info(
                "a recommendation is withdrawn: no policy concerns its workload",
                extra={"recommendation": f"{recommendation.namespace}/{recommendation.name}"},
            )


def _named(observed: ObservedWorkload) -> dict[str, str]:
    return {"workload": str(observed.workload)}


def _with_reasons(recommendation: GpuRecommendation, more: tuple[str, ...]) -> GpuRecommendation:
    status = recommendation.status
    reasons = tuple(dict.fromkeys([*more, *status.reasons]))
    if reasons == status.reasons:
        return recommendation
    return replace(recommendation, status=replace(status, reasons=reasons))
