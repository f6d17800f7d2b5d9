"""
What is said in the status of a policy, and in that of the GlobalConfiguration.

Pure. What stands there already is not written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from webhook.errors import PrometheusError
from webhook.model.rightsizing.policies import DocumentKey, ReactivePolicy
from webhook.model.rightsizing.recommendations import StatusCondition
from webhook.model.rightsizing.times import format_time
from webhook.reactive.observation.documents import SeenReactive

MESSAGE_MAX_CHARS = 1024
_NAMED = 3


@dataclass(slots=True)
class Tally:
    """
    What came of one policy in a round: of how many workloads with GPUs it had to judge, for how
    many it recommends something, and what the first question came to that had no answer.

    *passed_over* counts the workloads for which another policy comes first, so that this one is not
    even evaluated. *stopped* are workloads that nothing is decided for, as what is stored under
    their names is not theirs, with the reason; *failed* those of which something could not be
    worked out, by a fault of ours, with the name of what went wrong.
    """

    workloads: int = 0
    recommending: int = 0
    passed_over: int = 0
    asked: bool = False
    fault: PrometheusError | None = None
    stopped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PolicySituation:
    """
    What conditions of policies depend on.

    *lacking* are kinds whose CRD, as it is installed, does not know `scope.containers`, with the
    reason why nothing is evicted. *unknown* are types of workloads that can't be looked at, with
    the reason. *failure* is why the round came to no end, ``""`` where it did.
    """

    strategies: frozenset[DocumentKey]
    unreadable: frozenset[DocumentKey]
    lacking: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""


def policy_conditions(
    seen: SeenReactive, tally: Tally, situation: PolicySituation
) -> tuple[StatusCondition, ...]:
    """The conditions of the policy *seen*, Ready last."""
    policy = seen.document
    if not isinstance(policy, ReactivePolicy):
        return (StatusCondition("Ready", "False", "Invalid", seen.problem),)
    found = (_strategy(policy, situation), _reachable(tally, situation.failure))
    return (*found, _ready(seen, policy, tally, situation, found))


def _strategy(policy: ReactivePolicy, situation: PolicySituation) -> StatusCondition:
    kind = "AutomationStrategyResolved"
    if policy.strategy in situation.strategies:
        return StatusCondition(kind, "True", "Resolved", f"{policy.strategy}")
    if policy.strategy in situation.unreadable:
        return StatusCondition(kind, "False", "StrategyInvalid", f"{policy.strategy} can't be read")
    return StatusCondition(kind, "False", "StrategyNotFound", f"there is no {policy.strategy}")


def _reachable(tally: Tally, failure: str) -> StatusCondition:
    kind = "PrometheusReachable"
    if tally.fault is not None:
        return StatusCondition(kind, "False", tally.fault.fault.value, tally.fault.message)
    if tally.asked:
        return StatusCondition(kind, "True", "Answered")
    if failure or tally.failed:
        text = failure or "nothing came of its workloads: see Ready"
        return StatusCondition(kind, "Unknown", "NotAsked", text)
    if tally.passed_over:
        text = "it is not asked: another policy comes first for its workloads"
        return StatusCondition(kind, "Unknown", "NotAsked", text)
    text = "no pod of a workload in scope has a GPU"
    return StatusCondition(
        kind, "Unknown", "NothingToAsk", "all of them are left alone" if tally.stopped else text
    )


def _ready(
    seen: SeenReactive,
    policy: ReactivePolicy,
    tally: Tally,
    situation: PolicySituation,
    others: Sequence[StatusCondition],
) -> StatusCondition:
    if seen.problem:
        text = f"the last version that can be read is in force: {seen.problem}"
        return StatusCondition("Ready", "False", "Invalid", text)
    if situation.failure:
        return StatusCondition("Ready", "False", "RoundFailed", situation.failure)
    for other in others:
        if other.status == "False":
            return StatusCondition("Ready", "False", other.reason, other.message)
    lacking = situation.lacking.get(policy.key.kind)
    if lacking:
        return StatusCondition("Ready", "False", "ScopeContainersUnknown", lacking)
    text = f"workloads with GPUs: {tally.workloads}; with a recommendation: {tally.recommending}"
    if tally.passed_over:
        text += f"; left to policies that come first: {tally.passed_over}"
    unseen = [
        situation.unknown[type_]
        for type_ in policy.scope.workload_types
        if type_ in situation.unknown
    ]
    text += f"; not looked at: {'; '.join(dict.fromkeys(unseen))}" if unseen else ""
    troubled = tally.stopped.keys() | tally.failed.keys()
    if not troubled:
        return StatusCondition("Ready", "True", "Evaluated", text)
    reason = "WorkloadsFailed" if tally.failed else "RecommendationForeign"
    if tally.failed:
        text += f"; failed (see the log of the reconciler): {_name(tally.failed)}"
    if tally.stopped:
        text += f"; left alone: {_name(tally.stopped)}"
    # One object of a stranger does not speak for all the others.
    is_ready = len(troubled) < tally.workloads + tally.passed_over
    return StatusCondition("Ready", str(is_ready), reason, text)


def _name(workloads: Mapping[str, str]) -> str:
    told = [f"{each} ({workloads[each]})" for each in sorted(workloads)[:_NAMED]]
    more = len(workloads) - len(told)
    return "; ".join([*told, f"and {more} more"] if more else told)


def global_conditions(seen: SeenReactive, problem: str) -> tuple[StatusCondition, ...]:
    """Those of the GlobalConfiguration *seen*; *problem* is what is wrong with the webhook."""
    kind = "PodAdmissionWebhookHealthy"
    webhook = StatusCondition(kind, "True", "ProbeMutated")
    if problem:
        webhook = StatusCondition(kind, "False", "ProbeNotMutated", problem)
    ready = StatusCondition("Ready", "True", "InForce")
    if seen.problem:
        ready = StatusCondition("Ready", "False", "Invalid", seen.problem)
    return webhook, ready


def written_conditions(
    conditions: Sequence[StatusCondition],
    before: Sequence[Mapping[str, Any]],
    generation: int,
    now: datetime,
) -> list[dict[str, Any]] | None:
    """
    The list to write over *before*; None if that says the same.

    A condition whose status stays keeps its time; those of others stay.
    """
    known = {item.get("type"): item for item in before if isinstance(item, dict)}
    written: list[dict[str, Any]] = []
    for condition in conditions:
        old = known.get(condition.type, {})
        message = condition.message
        if len(message) > MESSAGE_MAX_CHARS:
            message = f"{message[: MESSAGE_MAX_CHARS - 1]}…"
        since = old.get("lastTransitionTime")
        is_same = old.get("status") == condition.status and isinstance(since, str) and since
        written.append(
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": since if is_same else format_time(now.replace(microsecond=0)),
            }
        )
    own = {condition.type for condition in conditions}
    everything = [*written, *[dict(item) for item in before if item.get("type") not in own]]
    return None if everything == list(before) else everything
