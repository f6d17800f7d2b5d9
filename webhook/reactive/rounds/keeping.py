"""
What is stored of a workload: whether it is that workload's, whether there is something new to
write, and whether it is of any use any more. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from webhook.model.rightsizing.recommendations import (
    GpuRecommendation,
    RecommendationStatus,
    recommendation_name,
)
from webhook.model.rightsizing.workload_types import type_of
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.documents import StoredRecommendation
from webhook.reactive.observation.kinds import SeenWorkload

# What only shows how much is used is written when it is so old, so that a large cluster's etcd is
# not filled with history.
REFRESH = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Foreign:
    """
    Why what is stored under a workload's name is not to be written over.

    *is_stale*: it is of an earlier object of the same kind and name, and can go.
    """

    problem: str
    is_stale: bool = False


def key_of_workload(workload: SeenWorkload) -> str:
    """Under which key the recommendation of *workload* is stored."""
    name = recommendation_name(workload.kind, workload.workload_name)
    return f"{workload.namespace}/{name}"


def whose(known: StoredRecommendation, workload: SeenWorkload) -> Foreign | None:
    """Why *known* is not that of *workload*; None if it is."""
    if known.recommendation is None:
        return Foreign(f"it can't be read: {known.problem}")
    found, ref = known.recommendation.workload, workload.ref
    theirs = (found.api_version.rpartition("/")[0], found.kind, found.name)
    # Kinds of one name in different groups share the names of their recommendations.
    if theirs != (ref.api_version.rpartition("/")[0], ref.kind, ref.name):
        return Foreign(f"it is of {found.api_version} {found}")
    if found.uid != ref.uid:
        return Foreign("it is of an earlier workload of that name", is_stale=True)
    return None


def is_worth_writing(
    old: RecommendationStatus, new: RecommendationStatus, now: datetime, *, always_fresh: bool
) -> bool:
    """
    Whether *new* says enough that *old* doesn't say.

    What is decided, and why nothing is done, is written at once. What was measured is written each
    time with *always_fresh*, else now and then.
    """
    # Whatever is selected is a part of the essence, and soon compared.
    if always_fresh or old.selected != new.selected or _essence(old) != _essence(new):
        return True
    age = REFRESH if old.evaluated_at is None else now - old.evaluated_at
    # One of the future was written by a clock that has been set back since.
    return not timedelta(0) <= age < REFRESH


def _essence(status: RecommendationStatus) -> object:
    """What of *status* matters for what is done; the rest shows how it came about."""
    states = [
        replace(state, signals={}, reasons=(), evaluated_at=None) for state in status.policies
    ]
    return replace(status, evaluated_at=None, policies=tuple(states))


def is_abandoned(cluster: Cluster, recommendation: GpuRecommendation) -> bool:
    """
    Whether no policy concerns its workload any more, as far as is known for sure.

    For one whose workload is not among the observed ones.
    """
    workload = recommendation.workload
    type_ = type_of(workload.api_version.rpartition("/")[0], workload.kind)
    if type_ in cluster.unknown_kinds:
        return False
    if any(state.policy in cluster.unreadable for state in recommendation.status.policies):
        return False
    found = cluster.workload(type_, recommendation.namespace, workload.name)
    # Of a workload that is gone, Kubernetes takes it away; or it is not seen yet.
    return found is not None or type_ not in cluster.workloads
