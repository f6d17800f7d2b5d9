"""
What all the policies that concern a workload say of it, and whose word counts.

Pure. Both the reconciler and `simulate` decide by this, each with its own memory and samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from webhook.model.rightsizing.policies import DocumentKey, Precedence, ReactivePolicy
from webhook.model.rightsizing.recommendations import Change
from webhook.reactive.decisions.choose import Opinion, Selection, contributors, select, tried
from webhook.reactive.decisions.decide import decide, narrow
from webhook.reactive.decisions.states import Baseline, ObservedPod, Readings, WorkloadState


@dataclass(frozen=True, slots=True)
class Judged:
    """
    What the policies say of a workload at one time.

    *opinions* are those of the policies that may count, by rank; *trials* those of policies that
    only recommend beside them. *states* is what each policy remembers from now on, by rank, first
    those that act; one that was passed over recommends nothing.
    """

    opinions: tuple[Opinion, ...]
    states: Mapping[DocumentKey, WorkloadState]
    selection: Selection
    trials: tuple[Opinion, ...] = ()

    @property
    def news(self) -> Opinion | None:
        """
        The opinion that explains what counts: the first by rank that changed an amount which
        does, else that of the selection's leader.
        """
        heard = {target.policy.key for target in self.selection.targets.values()}
        for policy, evaluation in self.opinions:
            has_changed = evaluation.change in (Change.UPSIZE, Change.SCALE_BACK)
            if has_changed and policy.key in heard:
                return policy, evaluation
        return self.selection.leader


def judge(
    policies: Sequence[ReactivePolicy],
    known: Mapping[DocumentKey, WorkloadState],
    pods: Sequence[ObservedPod],
    readings: Callable[[ReactivePolicy], Readings],
    precedence: Precedence,
    now: datetime,
    *,
    multi_policy: bool,
) -> Judged:
    """
    Evaluate those of the *policies*, which all concern the workload of *pods*, that may count, and
    those that are tried beside them.

    *known* is what is remembered, also by policies that concern it no longer. The baseline of a
    container is the workload's: a policy that takes over from another one goes on with it, or it
    would take for the baseline what the other one had raised.
    """
    asked = {policy.key for policy in contributors(policies, precedence, multi_policy=multi_policy)}
    acting = contributors(policies, precedence, multi_policy=True)
    beside = tried(policies, precedence, multi_policy=multi_policy)
    asked_beside = {policy.key for policy in beside}
    shared: dict[str, Baseline] = {}
    for state in known.values():
        shared = {**state.baseline, **shared}
    opinions: list[Opinion] = []
    trials: list[Opinion] = []
    states: dict[DocumentKey, WorkloadState] = {}
    # After those that act, those that only recommend beside them.
    for policy in {each.key: each for each in (*acting, *beside, *policies)}.values():
        own = known.get(policy.key, WorkloadState())
        if policy.key in asked or policy.key in asked_beside:
            before = WorkloadState({**shared, **own.baseline}, own.previous)
            evaluation = decide(policy, before, pods, readings(policy), now)
            (opinions if policy.key in asked else trials).append((policy, evaluation))
            states[policy.key] = evaluation.state
        else:
            # It keeps its baseline, in case that its turn comes.
            states[policy.key] = WorkloadState(narrow(own, policy).baseline)
    selection = select(opinions, precedence, multi_policy=multi_policy)
    return Judged(tuple(opinions), states, selection, tuple(trials))
