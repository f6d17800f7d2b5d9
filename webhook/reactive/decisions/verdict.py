"""
What becomes of what the signals ask for: the higher total, if it may replace the one before.

A signal owns the recommendation that it drove. Another one raises it freely, and lowers it only
when the owner lets go as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from webhook.model.rightsizing.policies import Direction, Signal
from webhook.model.rightsizing.recommendations import Change
from webhook.reactive.decisions.amounts import format_gpus, share_out
from webhook.reactive.decisions.signals import Finding
from webhook.reactive.decisions.states import Baseline, Recommendation, WorkloadState
from webhook.reactive.decisions.usage import IncludedPod


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is remembered and recommended from now on, and how that came about."""

    baseline: Mapping[str, Baseline]
    recommendation: Recommendation | None
    change: Change
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Winner:
    """The higher of the candidates: *driver* is the signal that it comes from."""

    driver: Signal
    wants: Direction
    pod: IncludedPod
    total: Decimal


def settle(
    findings: Mapping[Signal, Finding],
    state: WorkloadState,
    pods: Sequence[IncludedPod],
    now: datetime,
    *,
    is_measured: bool,
) -> Verdict:
    """
    Choose among *findings*. *pods* are all that have a GPU in scope, also those too young; with
    *is_measured* False all of them are, and nothing is withdrawn.

    A container's baseline is recorded with the first recommendation for it, from the pod that
    called for it: before that nothing can have been raised, and after it everything is held
    against it.
    """
    winner = _winner(findings, state.previous)
    if winner is None:
        return _reuse(state, pods, is_measured=is_measured)
    objection = _objection(winner, findings, state, pods)
    if objection:
        return _reuse(state, pods, objection, is_measured=is_measured)
    baseline = dict(state.baseline)
    for name in winner.pod.allocations:
        own = winner.pod.owned(name)
        baseline.setdefault(name, Baseline(own, now, f"pod {winner.pod.name}"))
    return _accept(winner, state, baseline)


def _winner(findings: Mapping[Signal, Finding], previous: Recommendation | None) -> _Winner | None:
    """The higher total. Of equal ones that of the previous driver, else the first signal's."""
    best: _Winner | None = None
    for signal in Signal:
        finding = findings[signal]
        if finding.pod is None or finding.candidate is None or finding.report.wants is None:
            continue
        rival = _Winner(signal, finding.report.wants, finding.pod, finding.candidate)
        is_owner = previous is not None and signal is previous.driver
        if best is None or rival.total > best.total or (rival.total == best.total and is_owner):
            best = rival
    return best


def _objection(
    winner: _Winner,
    findings: Mapping[Signal, Finding],
    state: WorkloadState,
    pods: Sequence[IncludedPod],
) -> str:
    """Why the winner isn't accepted; ``""`` if it is."""
    if not winner.pod.allocation:
        return (
            f"pod {winner.pod.name} has 0 GPUs, so that {format_gpus(winner.total)} can't be"
            " shared out in proportion"
        )
    ambiguity = _ambiguity(winner, state.baseline, pods)
    previous = state.previous
    if ambiguity or previous is None:
        return ambiguity
    before = winner.pod.previous(previous)
    if winner.total >= before:
        return ""
    lower = f"{format_gpus(winner.total)} by {winner.driver} does not replace {format_gpus(before)}"
    if previous.driver is None:
        return f"{lower}: it is not known which signal that was owed to"
    if winner.driver is not previous.driver and findings[previous.driver].candidate is None:
        return f"{lower}: that was owed to {previous.driver}, which asks for nothing now"
    return ""


def _ambiguity(
    winner: _Winner, baseline: Mapping[str, Baseline], pods: Sequence[IncludedPod]
) -> str:
    """
    Why a scale-back has no baseline to go back to; ``""`` if it has.

    Without a recorded one it is what their owner gave the pods. Where that differs, as in a
    rollout, that of the hottest would be held against the new one.
    """
    if winner.wants is not Direction.SCALE_BACK:
        return ""
    for name in winner.pod.allocations:
        own = winner.pod.owned(name)
        rivals = [pod.name for pod in pods if name in pod.allocations and pod.owned(name) != own]
        if name not in baseline and rivals:
            return (
                f"no baseline of {name} is known, and pods {winner.pod.name} and {rivals[0]} were"
                " made with different amounts of it"
            )
    return ""


def _accept(winner: _Winner, state: WorkloadState, baseline: Mapping[str, Baseline]) -> Verdict:
    own = winner.pod.allocations
    # No scale-back takes from a container what its owner gave it: by its proportion alone one that
    # was rounded up when it was written would keep a part of what another one had.
    is_back = winner.wants is Direction.SCALE_BACK
    least = {name: baseline[name].amount for name in own} if is_back else {}
    shares = share_out(winner.total, own, least)
    recommendation = Recommendation(shares, winner.driver)
    before = {} if state.previous is None else state.previous.containers
    if shares == {name: before[name] for name in own if name in before}:
        reason = f"the recommendation of {format_gpus(winner.total)} stays"
        return Verdict(baseline, recommendation, Change.KEPT, (reason,))
    reason = f"{format_gpus(winner.total)} recommended, owed to {winner.driver}"
    # By the rule that the total comes from, whichever way it goes.
    change = Change.SCALE_BACK if is_back else Change.UPSIZE
    return Verdict(baseline, recommendation, change, (reason,))


def keep(state: WorkloadState, why: str) -> Verdict:
    """Everything stays as it is."""
    if state.previous is None:
        return Verdict(state.baseline, None, Change.NONE, (why,))
    reason = f"the previous recommendation stays: {why}"
    return Verdict(state.baseline, state.previous, Change.KEPT, (reason,))


def _reuse(
    state: WorkloadState,
    pods: Sequence[IncludedPod],
    objection: str = "",
    *,
    is_measured: bool,
) -> Verdict:
    """
    The previous recommendation again while a pod differs from its baseline, else nothing.

    Something else than the baseline also while no pod can be measured yet: a new one that was not
    given its amount has its baseline, and what it should have had must not be lost.
    """
    said = (objection,) if objection else ()
    if state.previous is None:
        return Verdict(state.baseline, None, Change.NONE, said)
    present = {name for pod in pods for name in pod.allocations}
    amounts = {
        name: amount for name, amount in state.previous.containers.items() if name in present
    }
    baseline = state.baseline
    # What its owner gave a container without a baseline is its baseline, as in sums.
    differing = next(
        (
            pod.name
            for pod in pods
            for name, amount in pod.allocations.items()
            if (baseline[name].amount if name in baseline else pod.owned(name)) != amount
        ),
        None,
    )
    is_more = any(
        name not in baseline or baseline[name].amount != amount for name, amount in amounts.items()
    )
    if not amounts or (differing is None and (is_measured or not is_more)):
        why = "every pod has its baseline" if amounts else "none of its containers has a GPU now"
        reason = f"the previous recommendation is withdrawn: {why}"
        return Verdict(state.baseline, None, Change.NONE, (*said, reason))
    why = f"pod {differing} differs from its baseline" if differing else "no pod is measured yet"
    reason = f"the previous recommendation stays: {why}"
    kept = Recommendation(amounts, state.previous.driver)
    return Verdict(state.baseline, kept, Change.KEPT, (*said, reason))
