"""
What the documents of `rightsizing.kubex.ai/v1alpha1` say, once they are read.

Amounts of GPU are exact decimals in whole GPUs, percentages are whole numbers, and times are
`timedelta` or aware `datetime`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

GROUP = "rightsizing.kubex.ai"
GROUP_VERSION = f"{GROUP}/v1alpha1"

# The value of `experimental.gpuKaiContract` that this version keeps.
CONTRACT = "v1alpha1-2026-07"


class Signal(StrEnum):
    """What is measured. Both are required of every policy."""

    COMPUTE = "compute"
    MEMORY = "memory"


class Direction(StrEnum):
    """Which of a signal's two windows is looked through."""

    UPSIZE = "upsize"
    SCALE_BACK = "scaleBack"


class Interpretation(StrEnum):
    """What 100 percent of a metric is."""

    FULL_GPU = "fullGPU"
    CURRENT_ALLOCATION = "currentAllocation"


class Mode(StrEnum):
    """Whether a policy acts, or only says what it would do."""

    ENFORCE = "Enforce"
    RECOMMEND = "Recommend"


class Scheduler(StrEnum):
    """How an amount is written into a pod: `overrideScheduler` of a strategy."""

    NONE = "none"
    KAI = "kai"


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """A document: *namespace* is empty for kinds of the whole cluster."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


@dataclass(frozen=True, slots=True)
class MetricSource:
    """Where a signal's values are in Prometheus."""

    metric: str
    namespace_label: str
    pod_label: str
    container_label: str
    interpretation: Interpretation = Interpretation.FULL_GPU


@dataclass(frozen=True, slots=True)
class Upsize:
    """When a signal asks for more, and how much more."""

    threshold_percent: int = 120
    window: timedelta = timedelta(minutes=10)
    headroom_percent: int = 20
    max_percent: int = 200


@dataclass(frozen=True, slots=True)
class ScaleBack:
    """When a signal lets go of what was added, and what it keeps."""

    threshold_percent: int = 80
    window: timedelta = timedelta(minutes=10)
    headroom_percent: int = 20


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """What a policy says of one signal."""

    source: MetricSource
    upsize: Upsize = Upsize()
    scale_back: ScaleBack = ScaleBack()

    def by(self, direction: Direction) -> Upsize | ScaleBack:
        """The half that is about *direction*: threshold, window and headroom."""
        return self.upsize if direction is Direction.UPSIZE else self.scale_back


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One element of `matchExpressions`; *operator* is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def is_met(self, labels: Mapping[str, str]) -> bool:
        """As Kubernetes does: NotIn is also met where the label is not there."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                # Read by no parser of ours. Nothing is the safe number of objects.
                return False


DEFAULT_WORKLOAD_TYPES = (
    "Deployment",
    "StatefulSet",
    "CronJob",
    "Rollout",
    "Job",
    "AnalysisRun",
    "DaemonSet",
    "Model",
)


@dataclass(frozen=True, slots=True)
class WorkloadScope:
    """
    Which workloads, and which of their containers, a policy concerns.

    *namespaces* are globs (`*`), *namespaces_excluded* says that the workload must be in none of
    them; without globs (None) the policy concerns its own namespace. *containers* are exact names;
    none means every regular container and restartable init container.
    """

    workload_types: tuple[str, ...] = DEFAULT_WORKLOAD_TYPES
    labels: tuple[LabelRequirement, ...] = ()
    namespaces: tuple[str, ...] | None = None
    namespaces_excluded: bool = False
    containers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReactivePolicy:
    """A GpuReactivePolicy or ClusterGpuReactivePolicy."""

    key: DocumentKey
    signals: Mapping[Signal, SignalSettings]
    strategy: DocumentKey
    scope: WorkloadScope = WorkloadScope()
    min_pod_age: timedelta = timedelta(minutes=15)
    weight: int = 0
    mode: Mode = Mode.ENFORCE
    created: datetime | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most that may be written."""

    floor: Decimal | None = None
    ceiling: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """
    A time of the week: from *start* to before *end* (minutes of the day, up to 1,440) on
    *weekdays* (0 is Monday; none means every day), over midnight where end is before start.
    """

    start: int
    end: int
    timezone: str = "UTC"
    weekdays: frozenset[int] = frozenset()
    name: str = ""


@dataclass(frozen=True, slots=True)
class SafetyChecks:
    """`safetyChecks` of a strategy, as far as they concern GPUs."""

    pause_until: bool = True
    resource_quota: bool = True
    hpa: bool = True
    vpa: bool = True
    min_ready: timedelta = timedelta(seconds=10)
    owner_pods_ready: bool = False
    respect_max_unavailable: bool = True
    retry_interval: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Strategy:
    """
    An AutomationStrategy or ClusterAutomationStrategy: what may be done, and how.

    *eviction* is of pods that something keeps running; to those of Jobs, for which an eviction is a
    failure, *evicts_jobs* must be added.
    """

    key: DocumentKey
    scheduler: Scheduler = Scheduler.NONE
    upsize: bool = False
    downsize: bool = False
    set_from_unspecified: bool = False
    bounds: Bounds = Bounds()
    container_bounds: Mapping[str, Bounds] = field(default_factory=dict)
    queue: str = "kubex-unlimited-gpu-queue"
    set_queue_when_specified: bool = False
    eviction: bool = True
    evicts_jobs: bool = False
    retry_disruption_budget: bool = True
    inclusion_windows: tuple[Window, ...] = ()
    exclusion_windows: tuple[Window, ...] = ()
    safety: SafetyChecks = SafetyChecks()


@dataclass(frozen=True, slots=True)
class WebhookHealth:
    """
    After how many probes in a row the webhook counts as down or as healthy again, and the time
    between two of them until that is clear.
    """

    failures: int = 2
    successes: int = 3
    interval: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class GlobalSettings:
    """The GlobalConfiguration `global-config`, or its defaults where there is none."""

    automation_enabled: bool = True
    multi_policy: bool = False
    check_interval: timedelta = timedelta(minutes=1)
    prometheus_url: str = "http://prometheus.monitoring.svc:9090"
    request_timeout: timedelta = timedelta(seconds=30)
    scheduler_name: str = "kai-scheduler"
    protected_namespaces: tuple[str, ...] = ("kube-*", "openshift-*", "gmp-*")
    webhook_health: WebhookHealth = WebhookHealth()


# The PolicyEvaluation `policy-evaluation`: kinds of policies and their priorities. The higher wins.
Precedence: TypeAlias = Mapping[str, int]

# Where there is no PolicyEvaluation, and for the kinds that it doesn't name.
DEFAULT_PRIORITIES: Precedence = {
    "GpuReactivePolicy": 120,
    "ClusterGpuReactivePolicy": 110,
}
