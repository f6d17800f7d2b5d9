"""
What a `GpuRecommendation` says, in sentences: what is recommended, why, what comes next, and what
is in the way. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from webhook.model.rightsizing.amounts import format_amount
from webhook.model.rightsizing.durations import format_duration
from webhook.model.rightsizing.recommendations import (
    GpuRecommendation,
    PolicyState,
    SignalEvaluation,
    write_recommendation,
)
from webhook.model.rightsizing.times import format_time
from webhook.reactive.decisions.amounts import sum_of

_DIRECTIONS = {"upsize": "upsize above", "scaleBack": "scale-back below"}


def next_step(recommendation: GpuRecommendation) -> str:
    """What happens next, if nothing changes."""
    status = recommendation.status
    selected, eviction = status.selected, status.eviction
    if selected is None or not selected.amounts:
        return "nothing: pods are made as they were written"
    if status.reasons:
        return "nothing is evicted while something is in the way"
    if eviction is not None and not eviction.problem:
        at = format_time(eviction.at)
        return f"pod {eviction.pod} was evicted at {at}; new pods are given what is recommended"
    return "new pods are given what is recommended; those that differ are evicted, one at a time"


def to_json(recommendation: GpuRecommendation) -> dict[str, Any]:
    """The recommendation for scripts: the stored object's own words, and what comes next."""
    manifest = write_recommendation(recommendation)
    status: dict[str, Any] = manifest["status"]
    workload = recommendation.workload
    return {
        "namespace": recommendation.namespace,
        "kind": workload.kind,
        "name": workload.name,
        "summary": status["summary"],
        "selected": status.get("selected"),
        "policies": status.get("policies", []),
        "eviction": status.get("eviction"),
        "evaluatedAt": status.get("evaluatedAt"),
        "blocks": list(recommendation.status.reasons),
        "next": next_step(recommendation),
    }


def lines_of(recommendation: GpuRecommendation) -> Iterator[str]:
    """The recommendation for people; what somebody else wrote into it is not cleaned."""
    status, workload = recommendation.status, recommendation.workload
    yield f"{workload.kind} {recommendation.namespace}/{workload.name}"
    selected = status.selected
    if selected is None or not selected.amounts:
        yield "  recommended: nothing"
    else:
        yield f"  recommended: {_amounts(selected.amounts)}, by {selected.policy}"
        yield f"  written as: {selected.strategy} says ({selected.scheduler})"
    for state in status.policies:
        yield from _policy_lines(state)
    for reason in status.reasons:
        yield f"  in the way: {reason}"
    yield f"  next: {next_step(recommendation)}"
    if status.evaluated_at is not None:
        yield f"  as of {format_time(status.evaluated_at)}"


def _policy_lines(state: PolicyState) -> Iterator[str]:
    yield f"  {state.policy}: {_change(state)}"
    if state.current:
        yield f"    pods have: {_amounts(state.current)}"
    for name, base in state.baseline.items():
        origin = f", seen in {base.origin}" if base.origin else ""
        since = format_time(base.since)
        yield f"    baseline: {name} {format_amount(base.amount)} since {since}{origin}"
    for signal, found in state.signals.items():
        for direction, evaluation in (("upsize", found.upsize), ("scaleBack", found.scale_back)):
            if evaluation is not None:
                yield f"    {signal}: {_evaluation(direction, evaluation)}"
    for reason in state.reasons:
        yield f"    why: {reason}"


def _change(state: PolicyState) -> str:
    if not state.recommendation:
        return "recommends nothing"
    owner = f", owed to {state.driver}" if state.driver else ""
    return f"recommends {_amounts(state.recommendation)}{owner} ({state.change})"


def _evaluation(direction: str, found: SignalEvaluation) -> str:
    window = format_duration(found.window)
    border = f"{_DIRECTIONS[direction]} {found.threshold_percent} %"
    parts = []
    if found.usage is None or found.allocation is None:
        parts.append(f"no samples over {window}")
    else:
        used = f"{format_amount(found.usage)} of {format_amount(found.allocation)}"
        parts.append(f"pod {found.pod} uses {used} over {window} ({border})")
    if found.candidate is not None:
        parts.append(f"asks for {format_amount(found.candidate)}")
    if found.missing:
        more = found.missing_count - len(found.missing)
        rest = f" and {more} more" if more > 0 else ""
        parts.append(f"without samples: {', '.join(found.missing)}{rest}")
    return "; ".join(parts)


def _amounts(amounts: Mapping[str, Decimal]) -> str:
    each = ", ".join([f"{name} {format_amount(amount)}" for name, amount in amounts.items()])
    return f"{format_amount(sum_of(amounts.values()))} ({each})"
