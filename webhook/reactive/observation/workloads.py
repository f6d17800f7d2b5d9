"""
Which workloads are looked at, for which policies, and what their pods show.

Pure: the same view of the cluster gives the same answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from decimal import Decimal

from webhook.model.rightsizing.policies import ReactivePolicy
from webhook.reactive.decisions.scopes import keeps_names, objection
from webhook.reactive.decisions.states import ObservedPod
from webhook.reactive.decisions.texts import name_pods
from webhook.reactive.observation.cluster import Cluster, is_made_by_another
from webhook.reactive.observation.kinds import SeenWorkload
from webhook.reactive.observation.pods import SeenPod


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """
    A workload that at least one policy concerns.

    *policies* are all of them, by kind, namespace and name. *pods* are all that it has, by name,
    those that end or have ended included; *evidence* are those that a decision is made from.

    *own* is what containers would have without us, so far as all of these pods agree about it:
    while a roll-out is under way, or stopped half-way, they don't. One whose owner gives it no GPU
    any more has none as evidence, whatever was written into its pods.
    """

    workload: SeenWorkload
    policies: tuple[ReactivePolicy, ...]
    pods: tuple[SeenPod, ...] = ()
    evidence: tuple[ObservedPod, ...] = field(init=False)
    own: Mapping[str, Decimal | None] = field(init=False)

    def __post_init__(self) -> None:
        pods = [pod for pod in self.pods if pod.is_evidence]
        own = _own(pods)
        gone = {name for name, amount in own.items() if amount is None}
        # It is frozen for everybody else.
        object.__setattr__(self, "own", own)
        keeps_name = keeps_names(self.workload.type)
        evidence = [_evidence(pod, gone, keeps_name=keeps_name) for pod in pods]
        object.__setattr__(self, "evidence", tuple(evidence))

    @property
    def has_gpus(self) -> bool:
        """Whether any of its pods has a GPU, or asks for one in a way that can't be told."""
        return any(
            pod.allocation.reason or any(pod.allocation.amounts.values()) for pod in self.pods
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why some of its pods don't count, each group of them in one sentence."""
        groups: dict[str, list[str]] = {}
        for pod in self.pods:
            reason = _objection(pod)
            if reason:
                groups.setdefault(reason, []).append(pod.pod_name)
        return tuple(
            [f"left out, as {reason}: {name_pods(names)}" for reason, names in groups.items()]
        )


def _own(pods: Iterable[SeenPod]) -> Mapping[str, Decimal | None]:
    found: dict[str, set[Decimal | None]] = defaultdict(set)
    # Pods that are alike share what is known of them.
    for allocation in {id(pod.allocation): pod.allocation for pod in pods}.values():
        for name in allocation.amounts if not allocation.reason else ():
            found[name].add(allocation.own(name))
    return {name: amounts.pop() for name, amounts in found.items() if len(amounts) == 1}


def _evidence(pod: SeenPod, gone: Set[str], *, keeps_name: bool) -> ObservedPod:
    observed = pod.observed
    if keeps_name:
        observed = replace(observed, keeps_name=True)
    if not any(observed.allocations.get(name) for name in gone):
        return observed
    left = {n: None if n in gone else amount for n, amount in observed.allocations.items()}
    return replace(observed, allocations=left)


def observe(
    cluster: Cluster, is_wanted: Callable[[SeenWorkload], bool] = lambda workload: True
) -> tuple[ObservedWorkload, ...]:
    """
    All workloads that a policy concerns, by namespace, kind and name; of these the wanted ones.

    A workload without a pod is one, too: it may have had some a moment ago.
    """
    pods = _pods_of(cluster)
    protected = cluster.settings.protected_namespaces
    candidates = _Candidates(cluster.policies)
    found = []
    for workload in filter(is_wanted, _workloads(cluster)):
        scoped = workload.scoped
        policies = tuple(
            [
                policy
                for policy in candidates.of(workload.namespace, workload.type)
                if not objection(policy, scoped, protected)
            ]
        )
        if policies:
            own = sorted(pods.get((workload.type, workload.name), ()), key=_by_name)
            found.append(ObservedWorkload(workload, policies, tuple(own)))
    return tuple(found)


def _workloads(cluster: Cluster) -> Iterator[SeenWorkload]:
    everything = [
        workload
        for workloads in cluster.workloads.values()
        for workload in workloads.values()
        if not is_made_by_another(workload)
    ]
    yield from sorted(
        everything,
        key=lambda workload: (workload.namespace, workload.type, workload.workload_name),
    )


def _pods_of(cluster: Cluster) -> Mapping[tuple[str, str], Sequence[SeenPod]]:
    """The pods by the type and key of their workload."""
    found: dict[tuple[str, str], list[SeenPod]] = defaultdict(list)
    for pod in cluster.pods.values():
        workload = cluster.owner_of(pod)
        if workload is not None:
            found[workload.type, workload.name].append(pod)
    return found


class _Candidates:
    """Policies by what is cheap to compare: there may be one in each of a thousand namespaces."""

    def __init__(self, policies: Iterable[ReactivePolicy]) -> None:
        self._everywhere: list[ReactivePolicy] = []
        self._within: dict[str, list[ReactivePolicy]] = defaultdict(list)
        for policy in policies:
            is_wide = policy.scope.namespaces is not None
            (self._everywhere if is_wide else self._within[policy.key.namespace]).append(policy)

    def of(self, namespace: str, type_: str) -> Iterator[ReactivePolicy]:
        """Those that may concern a workload, those of the whole cluster first."""
        for policies in (self._everywhere, self._within.get(namespace, ())):
            for policy in policies:
                if type_ in policy.scope.workload_types:
                    yield policy


def _objection(pod: SeenPod) -> str:
    """Why *pod* doesn't count; ``""`` if it does."""
    if pod.is_terminating:
        return "it is being deleted"
    if pod.is_finished:
        return f"it has ended ({pod.phase})"
    if pod.allocation.reason:
        return f"its GPUs can't be told ({pod.allocation.reason})"
    return ""


def _by_name(pod: SeenPod) -> str:
    return pod.name
