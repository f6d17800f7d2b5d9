"""Does a policy concern a workload?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from webhook.model.globs import Glob
from webhook.model.rightsizing.policies import LabelRequirement, ReactivePolicy


@dataclass(frozen=True, slots=True)
class ScopedWorkload:
    """
    A workload as scopes see it: *kind* is as `scope.workloadTypes` names it, *labels* are its own,
    not those of its pods.
    """

    namespace: str
    kind: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


# Whatever makes them gives each pod another name. All others may keep them, as StatefulSets do.
_NEW_NAMES = frozenset(
    {
        *("Deployment", "Rollout", "DaemonSet", "ReplicaSet.apps"),
        *("Job", "CronJob", "AnalysisRun", "Model"),
    }
)


def keeps_names(kind: str) -> bool:
    """Whether a pod of that type may have the name of its predecessor."""
    return kind not in _NEW_NAMES


def concerns(
    policy: ReactivePolicy, workload: ScopedWorkload, protected_namespaces: Iterable[str]
) -> bool:
    """Whether *policy* is about *workload*. *protected_namespaces* are globs."""
    return not objection(policy, workload, protected_namespaces)


def objection(
    policy: ReactivePolicy, workload: ScopedWorkload, protected_namespaces: Iterable[str]
) -> str:
    """Why *policy* doesn't concern *workload*; ``""`` if it does."""
    namespace = workload.namespace
    scope = policy.scope
    for pattern in protected_namespaces:
        if matches(pattern, namespace):
            return f"namespace {namespace} is protected ({pattern})"
    if scope.namespaces is None:
        if namespace != policy.key.namespace:
            return f"{policy.key} is of another namespace"
    elif any(matches(pattern, namespace) for pattern in scope.namespaces) is (
        scope.namespaces_excluded
    ):
        return f"{policy.key} does not concern namespace {namespace}"
    if workload.kind not in scope.workload_types:
        return f"{policy.key} does not concern kind {workload.kind}"
    for requirement in scope.labels:
        if not requirement.is_met(workload.labels):
            return f"{policy.key} wants {_show(requirement)}"
    return ""


# Thousands of workloads are in a few namespaces.
@lru_cache(maxsize=4096)
def matches(pattern: str, namespace: str) -> bool:
    """Whether *namespace* fits *pattern*, in which only `*` has a meaning."""
    # A namespace is a DNS label: it holds no `?`, and at most 63 characters.
    if "?" in pattern:
        return False
    return _compile(pattern).match(namespace)


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> Glob:
    return Glob.compile(pattern)


def _show(requirement: LabelRequirement) -> str:
    values = f" {', '.join(requirement.values)}" if requirement.values else ""
    return f"label {requirement.key} {requirement.operator}{values}"
