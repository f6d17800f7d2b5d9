"""Which policies ask for what, in which namespace. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from webhook.model.rightsizing.policies import DocumentKey, Precedence, ReactivePolicy
from webhook.reactive.decisions.choose import contributors, tried
from webhook.reactive.observation.workloads import ObservedWorkload


@dataclass(frozen=True, slots=True)
class Asker:
    """
    A policy and the *pods* (names) that it wants to know about.

    One that *is_tried* only recommends beside others: what it asks must not keep them waiting.
    """

    policy: ReactivePolicy
    pods: frozenset[str]
    is_tried: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be known about a namespace. Each policy is there once."""

    namespace: str
    askers: tuple[Asker, ...]


def wanted_of(
    workloads: Iterable[ObservedWorkload], precedence: Precedence, *, multi_policy: bool
) -> tuple[Wanted, ...]:
    """
    What is to be known to decide on *workloads*, by namespace.

    Policies that are passed over ask nothing. Pods that ended are left out.
    """
    policies: dict[str, dict[DocumentKey, ReactivePolicy]] = {}
    pods: dict[tuple[str, DocumentKey], set[str]] = {}
    urgent: set[tuple[str, DocumentKey]] = set()
    for observed in workloads:
        names = [pod.pod_name for pod in observed.pods if pod.is_evidence]
        if not names:
            continue
        namespace = observed.workload.namespace
        counting = contributors(observed.policies, precedence, multi_policy=multi_policy)
        urgent.update([(namespace, policy.key) for policy in counting])
        beside = tried(observed.policies, precedence, multi_policy=multi_policy)
        for policy in (*counting, *beside):
            policies.setdefault(namespace, {})[policy.key] = policy
            pods.setdefault((namespace, policy.key), set()).update(names)
    return tuple(
        [
            Wanted(
                namespace,
                tuple(
                    [
                        Asker(
                            policy, frozenset(pods[namespace, key]), (namespace, key) not in urgent
                        )
                        for key, policy in policies[namespace].items()
                    ]
                ),
            )
            for namespace in sorted(policies)
        ]
    )
