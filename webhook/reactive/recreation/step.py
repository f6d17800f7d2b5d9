"""
From what a pod has to what its successor would have, and what of that was measured speaks against
it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from webhook.model.rightsizing.injections import Injection
from webhook.model.rightsizing.recommendations import GpuRecommendation
from webhook.policy.gpu import gpu_share
from webhook.policy.gpu.injection import plan_injection
from webhook.policy.gpu.pod import annotations_of
from webhook.reactive.decisions.amounts import format_gpus
from webhook.reactive.observation.pods import SeenPod
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.recreation.next_pod import amounts_after, as_written

_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Step:
    """From what a pod has to what its successor would have (*after*), or the *reason* why not."""

    after: Mapping[str, Fraction] = field(default_factory=dict)
    is_due: bool = False
    reason: str = ""


def step_of(pod: SeenPod, injection: Injection, *, has_template: bool) -> Step:
    """
    What would be written into *pod*, if its successor is given the same.

    A share of several devices is rounded by each of them, and only the successor is one again: what
    it would have counts then, if the strategy lets the pod go there.
    """
    plan = plan_injection(pod.manifest, injection)
    allocation = pod.allocation
    wanted = amounts_after(plan, pod.manifest, allocation.amounts)
    manifest = as_written(pod.manifest, has_template=has_template)
    if manifest is pod.manifest:
        return Step(wanted, bool(plan.changes), "" if plan.changes else plan.reason)
    theirs = plan_injection(manifest, injection)
    written = {name: allocation.own(name) for name in allocation.amounts}
    after = amounts_after(theirs, manifest, written)
    if after == wanted:
        return Step(after, bool(plan.changes), "" if plan.changes else plan.reason)
    if plan.obstacles or theirs.obstacles or not _is_share(manifest):
        if not plan.changes:
            return Step(reason=plan.reason)
        reason = theirs.reason or "it would be made with another amount"
        return Step(reason=f"the next pod would not be given what is recommended: {reason}")
    now = {name: Fraction(amount or 0) for name, amount in allocation.amounts.items()}
    for name, amount in after.items():
        has = now.get(name, amount)
        if (amount > has and not injection.upsize) or (amount < has and not injection.downsize):
            direction = "upsize" if amount > has else "downsize"
            return Step(reason=f"the strategy allows no {direction}")
    return Step(after, after != now)


def _is_share(manifest: Mapping[str, Any]) -> bool:
    return gpu_share.FRACTION in annotations_of(manifest)


def objection(
    observed: ObservedWorkload, recommendation: GpuRecommendation, pod: SeenPod, step: Step
) -> str:
    """What speaks against *step* of *pod* in what was measured; ``""`` if nothing does."""
    return _blind(recommendation, pod, step) or _again(observed, recommendation, pod, step)


def _blind(recommendation: GpuRecommendation, pod: SeenPod, step: Step) -> str:
    """
    Why nothing is known now that speaks for *step*; ``""`` if something is.

    Where Prometheus did not answer everything stays, and without the samples of all pods nothing is
    taken away.
    """
    status = recommendation.status
    selected = status.selected
    assert selected is not None
    for name, after in step.after.items():
        if name not in selected.amounts:
            continue
        state = status.state_of(selected.policies.get(name, selected.policy))
        if state is None or state.evaluated_at != status.evaluated_at:
            return "everything stays, as Prometheus did not answer"
        if after >= Fraction(pod.allocation.amounts.get(name) or 0):
            continue
        found = [each.upsize or each.scale_back for each in state.signals.values()]
        measured = [each for each in found if each is not None and each.usage is not None]
        if not measured:
            return "nothing is taken away, as no pod is measured"
        for each in found:
            if each is not None and each.missing:
                more = each.missing_count - 1
                pods = f"pod {each.missing[0]}" + (f" and {more} more" if more > 0 else "")
                return f"nothing is taken away, as samples are missing of {pods}"
    return ""


def _again(
    observed: ObservedWorkload, recommendation: GpuRecommendation, pod: SeenPod, step: Step
) -> str:
    """Why what *step* takes away would be asked for again at once; ``""`` if it would not."""
    now = {name: Fraction(amount or 0) for name, amount in pod.allocation.amounts.items()}
    after = step.after
    if sum(after.values()) >= sum(now.values()):
        return ""
    status = recommendation.status
    selected = status.selected
    assert selected is not None
    # Others that are tried, or passed over, ask for nothing.
    asking = {selected.policy, *selected.policies.values()}
    for policy in observed.policies:
        state = status.state_of(policy.key)
        if policy.key not in asking or state is None or not state.recommendation:
            continue
        total = sum([after.get(name, Fraction(0)) for name in state.recommendation])
        for signal, seen in state.signals.items():
            evaluation = seen.upsize or seen.scale_back
            usage = None if evaluation is None else evaluation.usage
            percent = policy.signals[signal].upsize.threshold_percent
            if usage is not None and Fraction(usage) * _PERCENT > total * percent:
                return (
                    f"{signal} uses {format_gpus(usage)}, above {percent} % of what it would have:"
                    " more would be asked for again"
                )
    return ""
