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
from webhook.reactive.decisions.amounts import format_gpus, share_out, sum_of
from webhook.reactive.decisions.signals import Finding
from webhook.reactive.decisions.states import Baseline, Change, Recommendation, WorkloadState
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
) -> Verdict:
    """
    Choose among *findings*. *pods* are all that have a GPU in scope, also those too young.

    A container's baseline is recorded with the first upsize, from the pod that called for it.
    """
    winner = _winner(findings, state.previous)
    if winner is None:
        return _reuse(state, pods)
    objection = _objection(winner, findings, state, pods)
    if objection:
        return _reuse(state, pods, objection)
    baseline = dict(state.baseline)
    if winner.wants is Direction.UPSIZE:
        for name, amount in winner.pod.allocations.items():
            baseline.setdefault(name, Baseline(amount, now, f"pod {winner.pod.name}"))
    return _accept(winner, state.previous, baseline)


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
    if winner.total and not winner.pod.allocation:
        return (
            f"pod {winner.pod.name} has 0 GPUs, so that {format_gpus(winner.total)} can't be"
            " shared out in proportion"
        )
    previous = state.previous
    if previous is None:
        return _is_needless(winner, state.baseline, pods)
    before = winner.pod.previous(previous)
    if winner.total >= before:
        return ""
    lower = f"{format_gpus(winner.total)} by {winner.driver} does not replace {format_gpus(before)}"
    if previous.driver is None:
        return f"{lower}: it is not known which signal that was owed to"
    if winner.driver is not previous.driver and findings[previous.driver].candidate is None:
        return f"{lower}: that was owed to {previous.driver}, which asks for nothing now"
    return ""


def _is_needless(
    winner: _Winner, baseline: Mapping[str, Baseline], pods: Sequence[IncludedPod]
) -> str:
    """
    Why a first recommendation would say nothing; ``""`` if it says something.

    To recommend to a workload what it has by itself would hold it there when its owner changes
    it.
    """
    own = winner.pod.allocations
    if winner.wants is Direction.SCALE_BACK:
        was_raised = any(
            amount > baseline[name].amount
            for pod in pods
            for name, amount in pod.allocations.items()
            if name in baseline
        )
        if not was_raised or any(name not in baseline for name in own):
            return "nothing to scale back: no pod has more than its baseline"
    elif winner.total == winner.pod.allocation == winner.pod.baseline(baseline):
        return "nothing to add: the baseline is all that is allowed"
    return ""


def _accept(
    winner: _Winner, previous: Recommendation | None, baseline: Mapping[str, Baseline]
) -> Verdict:
    own = winner.pod.allocations
    if previous is not None:
        same = {name: previous.containers[name] for name in own if name in previous.containers}
        if len(same) == len(own) and sum_of(same.values()) == winner.total:
            reason = f"the recommendation of {format_gpus(winner.total)} stays"
            kept = Recommendation(same, winner.driver)
            return Verdict(baseline, kept, Change.KEPT, (reason,))
    shares = share_out(winner.total, own) if winner.total else dict.fromkeys(own, winner.total)
    recommendation = Recommendation(shares, winner.driver)
    change = Change.UPSIZE if winner.wants is Direction.UPSIZE else Change.SCALE_BACK
    reason = f"{format_gpus(winner.total)} recommended, owed to {winner.driver}"
    return Verdict(baseline, recommendation, change, (reason,))


def keep(state: WorkloadState, why: str) -> Verdict:
    """Everything stays as it is."""
    if state.previous is None:
        return Verdict(state.baseline, None, Change.NONE, (why,))
    reason = f"the previous recommendation stays: {why}"
    return Verdict(state.baseline, state.previous, Change.KEPT, (reason,))


def _reuse(state: WorkloadState, pods: Sequence[IncludedPod], objection: str = "") -> Verdict:
    """The previous recommendation again while a pod differs from its baseline, else nothing."""
    said = (objection,) if objection else ()
    if state.previous is None:
        return Verdict(state.baseline, None, Change.NONE, said)
    present = {name for pod in pods for name in pod.allocations}
    amounts = {
        name: amount for name, amount in state.previous.containers.items() if name in present
    }
    # Without a baseline nothing says that a pod has what it would have without us.
    differing = next(
        (
            pod.name
            for pod in pods
            for name, amount in pod.allocations.items()
            if name not in state.baseline or state.baseline[name].amount != amount
        ),
        None,
    )
    if not amounts or differing is None:
        why = "every pod has its baseline" if amounts else "none of its containers has a GPU now"
        reason = f"the previous recommendation is withdrawn: {why}"
        return Verdict(state.baseline, None, Change.NONE, (*said, reason))
    reason = f"the previous recommendation stays: pod {differing} differs from its baseline"
    kept = Recommendation(amounts, state.previous.driver)
    return Verdict(state.baseline, kept, Change.KEPT, (*said, reason))
