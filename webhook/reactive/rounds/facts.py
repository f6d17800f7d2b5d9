"""What is around a workload that is to be recreated, out of what is known of the cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from webhook.model.rightsizing.controls import Controls
from webhook.model.rightsizing.policies import GlobalSettings, Strategy
from webhook.model.rightsizing.recommendations import GpuRecommendation
from webhook.policy.gpu.pod import annotations_of
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.pods import SeenPod
from webhook.reactive.observation.workloads import ObservedWorkload
from webhook.reactive.recreation.holds import Surroundings
from webhook.reactive.rounds.evaluate import Rules


@dataclass(frozen=True, slots=True)
class Facts:
    """
    What one round goes by.

    *obstacle* is what keeps every pod where it is, ``""`` for nothing. *lacking* are kinds of
    policies for which nothing is evicted, with the reason.
    """

    cluster: Cluster
    rules: Rules
    now: datetime
    obstacle: str = ""
    lacking: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, cluster: Cluster, now: datetime, obstacle: str, lacking: Mapping[str, str]
    ) -> Facts:
        """The facts of a round that begins *now* with *cluster*."""
        rules = Rules(cluster.strategies, _effective(cluster), cluster.precedence)
        return cls(cluster, rules, now, obstacle, lacking)


def _effective(cluster: Cluster) -> GlobalSettings:
    """The settings; while those of the cluster can't be read, nothing is done by the defaults."""
    if any(key.kind == "GlobalConfiguration" for key in cluster.unreadable):
        return replace(cluster.settings, automation_enabled=False)
    return cluster.settings


def surroundings_of(
    facts: Facts, observed: ObservedWorkload, strategies: tuple[Strategy, ...]
) -> Surroundings:
    """*strategies* are those by which the selected amounts of *observed* come."""
    cluster, workload = facts.cluster, observed.workload
    lacking = [facts.lacking.get(policy.key.kind, "") for policy in observed.policies]
    return Surroundings(
        strategies=strategies,
        obstacle="; ".join(dict.fromkeys(filter(None, [facts.obstacle, *lacking]))),
        namespace=cluster.controls_of(workload.namespace),
        between=dict(_between(cluster, observed.pods)),
        last=dict(_last(cluster, observed.pods)),
        room=cluster.room_of(workload.namespace),
        resizer=cluster.resizer_of(workload),
        maker=cluster.maker_of(workload),
    )


def strategies_of(
    facts: Facts, observed: ObservedWorkload, recommendation: GpuRecommendation
) -> tuple[Strategy, ...]:
    """The strategies of the policies of *observed* whose amounts *recommendation* selects."""
    selected = recommendation.status.selected
    if selected is None:
        return ()
    keys = {selected.policy, *selected.policies.values()}
    wanted = [policy.strategy for policy in observed.policies if policy.key in keys]
    known = facts.rules.strategies
    return tuple([known[key] for key in dict.fromkeys(wanted) if key in known])


def _between(cluster: Cluster, pods: Iterable[SeenPod]) -> Iterator[tuple[str, Controls]]:
    """The controls of what stands between pods and their workload, by the pods' names."""
    for pod in pods:
        owner = pod.owner
        if owner is None:
            continue
        key = f"{pod.namespace}/{owner.name}"
        if owner.kind == "ReplicaSet" and key in cluster.replica_sets:
            yield pod.name, cluster.replica_sets[key].controls
        elif owner.kind == "Job":
            job = cluster.workload("Job", pod.namespace, owner.name)
            if job is not None:
                yield pod.name, job.controls


def _last(cluster: Cluster, pods: Iterable[SeenPod]) -> Iterator[tuple[str, str]]:
    """Why pods are not made again by what stands between them and their workload, by name."""
    for pod in pods:
        owner = pod.owner
        if owner is None or owner.kind not in ("ReplicaSet", "Job"):
            continue
        if owner.kind == "Job":
            job = cluster.workload("Job", pod.namespace, owner.name)
            is_ending = job is not None and job.is_ending
            retries = None if job is None else job.retries
            reason = "" if retries is None else retries.refusal(annotations_of(pod.manifest))
        else:
            replica_set = cluster.replica_sets.get(f"{pod.namespace}/{owner.name}")
            is_ending, reason = replica_set is not None and replica_set.is_ending, ""
        if is_ending:
            reason = "it is being deleted"
        if reason:
            yield pod.name, f"{owner.kind} {owner.name} makes no other pod: {reason}"
