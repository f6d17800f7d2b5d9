"""
Which policy's recommendation counts for a workload.

By default one policy of each kind contributes, and of these one is chosen. With
`multiPolicyContainerRightsizingEnabled` every policy contributes, and each container's GPUs are
chosen for by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

from webhook.model.rightsizing.policies import (
    DEFAULT_PRIORITIES,
    Mode,
    Precedence,
    ReactivePolicy,
)
from webhook.reactive.decisions.states import Evaluation

# So many policies of a workload are evaluated beside those that count: each may ask Prometheus four
# questions more. A guess; who tries several at a time tries them with `simulate`.
TRIED_MAX = 2

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

# What a policy says of the workload.
Opinion: TypeAlias = tuple[ReactivePolicy, Evaluation]


@dataclass(frozen=True, slots=True)
class Target:
    """What one container is to have, in whole GPUs before any rounding, and whose word that is."""

    amount: Decimal
    policy: ReactivePolicy


@dataclass(frozen=True, slots=True)
class Selection:
    """
    What counts for a workload: its *targets* by container, none where nobody recommends anything.

    *leader* is the policy whose evaluation explains it: of several that were chosen from, and of
    those that recommend nothing, the first in rank. With *acts* False the policies only
    recommend (`Mode.RECOMMEND`). *reasons* say who was passed over.
    """

    targets: Mapping[str, Target]
    leader: Opinion | None = None
    acts: bool = True
    reasons: tuple[str, ...] = ()


def contributors(
    policies: Iterable[ReactivePolicy], precedence: Precedence, *, multi_policy: bool
) -> tuple[ReactivePolicy, ...]:
    """
    Those of the *policies* that concern a workload whose recommendation can count, by rank.

    Policies that only recommend contribute where there is none that acts.
    """
    everybody = sorted(policies, key=lambda policy: _rank(policy, precedence))
    acting = [policy for policy in everybody if policy.mode is Mode.ENFORCE]
    ranked = acting or everybody
    if multi_policy:
        return tuple(ranked)
    first: dict[str, ReactivePolicy] = {}
    for policy in ranked:
        first.setdefault(policy.key.kind, policy)
    return tuple(first.values())


def tried(
    policies: Iterable[ReactivePolicy], precedence: Precedence, *, multi_policy: bool
) -> tuple[ReactivePolicy, ...]:
    """
    Those of the *policies* that only recommend, and are evaluated beside the `contributors`.

    What they say is shown, and counts for nothing. They are the first by rank, `TRIED_MAX` at most.
    """
    everybody = sorted(policies, key=lambda policy: _rank(policy, precedence))
    counting = contributors(everybody, precedence, multi_policy=multi_policy)
    keys = {policy.key for policy in counting}
    beside = [
        policy for policy in everybody if policy.mode is Mode.RECOMMEND and policy.key not in keys
    ]
    return tuple(beside[:TRIED_MAX])


def select(opinions: Iterable[Opinion], precedence: Precedence, *, multi_policy: bool) -> Selection:
    """
    Choose among the *opinions* of the contributors.

    The rank is by the kind's priority (PolicyEvaluation), weight, kind, age (older first) and
    name. A policy that recommends nothing leaves the place to the next.
    """
    ranked = sorted(opinions, key=lambda opinion: _rank(opinion[0], precedence))
    acting = [opinion for opinion in ranked if opinion[0].mode is Mode.ENFORCE]
    field = acting or ranked
    if not field:
        return Selection({})
    speaking = [opinion for opinion in field if opinion[1].recommendation is not None]
    chosen = speaking if multi_policy else speaking[:1]
    targets: dict[str, Target] = {}
    for policy, evaluation in chosen:
        containers = evaluation.recommendation.containers if evaluation.recommendation else {}
        for name, amount in containers.items():
            targets.setdefault(name, Target(amount, policy))
    reasons = _passed_over(speaking, targets)
    return Selection(targets, (speaking or field)[0], bool(acting), reasons)


def _passed_over(speaking: Sequence[Opinion], targets: Mapping[str, Target]) -> tuple[str, ...]:
    winners = {target.policy.key for target in targets.values()}
    lines = []
    for policy, evaluation in speaking:
        containers = evaluation.recommendation.containers if evaluation.recommendation else {}
        lost = [
            name for name in containers if name not in targets or targets[name].policy is not policy
        ]
        if lost:
            names = ", ".join(sorted(str(key) for key in winners if key != policy.key))
            lines.append(f"{policy.key} is passed over for {', '.join(lost)}: {names} comes first")
    return tuple(lines)


def _rank(policy: ReactivePolicy, precedence: Precedence) -> tuple[object, ...]:
    """What sorts first counts. One without a time of creation is the oldest."""
    kind = policy.key.kind
    priority = precedence.get(kind, DEFAULT_PRIORITIES.get(kind, 0))
    created = policy.created or _LONG_AGO
    return (-priority, -policy.weight, kind, created, policy.key.name, policy.key.namespace)
