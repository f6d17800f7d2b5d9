"""What a pod is to be given when it is made: a recommendation, and all that says how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from webhook.model.rightsizing.controls import Controls
from webhook.model.rightsizing.policies import DocumentKey, Mode, Scheduler
from webhook.model.rightsizing.recommendations import GpuRecommendation, WorkloadRef

# Of an injection that nobody has looked up yet.
_BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class GpuLimit:
    """
    One item of a LimitRange that is about `nvidia.com/gpu`, for each `Container` or `Pod`.

    *least* and *most* are None where it gives none. With any of its values Kubernetes wants, or
    itself fills in, whole GPUs, so that no pod of the namespace can have a share in their place.
    """

    type: str
    least: Fraction | None = None
    most: Fraction | None = None


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """
    What a namespace leaves to one more pod: *free* whole GPUs by its ResourceQuotas (None: no
    bound), and the *limits* of its LimitRanges.
    """

    free: Fraction | None = None
    limits: tuple[GpuLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class Injection:
    """
    The recommendation of one workload, for a pod of it that is being made.

    *policy* is the policy that the recommendation for a container comes from, unless *policies*
    names another one for it. *amounts* are exact, by container, in whole GPUs, within the bounds
    of the strategy and before they are rounded for writing; *ceilings* bound what is written too.
    *baselines* are what they were computed from: a container that comes with another amount was
    changed by its owner, and is left to him.

    Of the strategy: how to write (*scheduler*; with KAI its *scheduler_name*, and the *queue*,
    ``""`` for none, that replaces one that the pod names only with *set_queue_when_specified*),
    and which changes it allows (*upsize*, *downsize*, and *set_from_unspecified* where a
    container asks for no GPU now).

    *controls* are those of the pod's owners, nearest first, then its namespace's; they pause only
    where *respects_pause*. *room* is what the namespace leaves; without *respects_quota* its quotas
    don't count. *now* is the time of the lookup.
    """

    workload: WorkloadRef
    policy: DocumentKey
    amounts: Mapping[str, Decimal]
    policies: Mapping[str, DocumentKey] = field(default_factory=dict)
    ceilings: Mapping[str, Decimal] = field(default_factory=dict)
    baselines: Mapping[str, Decimal] = field(default_factory=dict)
    scheduler: Scheduler = Scheduler.NONE
    upsize: bool = False
    downsize: bool = False
    set_from_unspecified: bool = False
    queue: str = ""
    set_queue_when_specified: bool = False
    scheduler_name: str = "kai-scheduler"
    respects_pause: bool = True
    respects_quota: bool = True
    controls: tuple[Controls, ...] = ()
    room: GpuRoom = GpuRoom()
    now: datetime = _BEFORE_ALL


def injection_of(recommendation: GpuRecommendation) -> Injection | None:
    """What pods of a workload are to be given; None where they are to be left alone."""
    selected = recommendation.status.selected
    if selected is None or not selected.amounts:
        return None
    if selected.mode is not Mode.ENFORCE or not selected.automation_enabled:
        return None
    return Injection(
        workload=recommendation.workload,
        policy=selected.policy,
        policies=selected.policies,
        amounts=selected.amounts,
        ceilings=selected.ceilings,
        baselines=selected.baselines,
        scheduler=selected.scheduler,
        upsize=selected.upsize,
        downsize=selected.downsize,
        set_from_unspecified=selected.set_from_unspecified,
        queue=selected.queue,
        set_queue_when_specified=selected.set_queue_when_specified,
        scheduler_name=selected.scheduler_name,
        respects_pause=selected.respects_pause,
        respects_quota=selected.respects_quota,
        controls=(Controls(selected.pause_until, selected.skip_containers),),
    )
