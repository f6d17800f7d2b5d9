"""
The specs of `rightsizing.kubex.ai/v1alpha1` as their authors write them.

Pydantic stands at the border only: `documents.py` makes the types of `policies.py` out of these.
Fields that have no meaning for GPUs are known and otherwise left alone; the defaults are those
of the CRDs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from webhook.model.documents import Spec
from webhook.model.labels import is_label_key, is_label_value
from webhook.model.rightsizing.policies import DEFAULT_WORKLOAD_TYPES
from webhook.model.rightsizing.spec_values import (
    DAY_MINUTES,
    MINUTE,
    Amount,
    Clock,
    Containers,
    Contract,
    EndClock,
    Filled,
    FilledGlobs,
    FreePercent,
    Globs,
    Headroom,
    Interval,
    Label,
    Lookback,
    Metric,
    Percent,
    PodAge,
    ProbeInterval,
    Timeout,
    TimeZone,
    Wait,
    Weekdays,
    Weight,
    WorkloadType,
)

# --- GpuReactivePolicy, ClusterGpuReactivePolicy ---


class LabelRequirementSpec(Spec):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fits(self) -> LabelRequirementSpec:
        if not is_label_key(self.key):
            raise ValueError(f"{self.key[:80]!r} is no key of a label")
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"{self.operator} needs values")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"{self.operator} takes no values")
        wrong = [value[:80] for value in self.values if not is_label_value(value)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no value of a label")
        return self


def _labels(labels: dict[str, str]) -> dict[str, str]:
    for key, value in labels.items():
        if not is_label_key(key):
            raise ValueError(f"{key[:80]!r} is no key of a label")
        if not is_label_value(value):
            raise ValueError(f"{value[:80]!r} is no value of a label")
    return labels


class LabelSelectorSpec(Spec):
    match_labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default_factory=dict)
    match_expressions: list[LabelRequirementSpec] = Field(default_factory=list)


class ScopeSpec(Spec):
    label_selector: LabelSelectorSpec = LabelSelectorSpec()
    workload_types: list[WorkloadType] = Field(default_factory=lambda: list(DEFAULT_WORKLOAD_TYPES))
    containers: Containers = Field(default_factory=list)


class NamespaceSelectorSpec(Spec):
    operator: Literal["In", "NotIn"]
    values: FilledGlobs


class ClusterScopeSpec(ScopeSpec):
    namespace_selector: NamespaceSelectorSpec


class MetricSourceSpec(Spec):
    metric: Metric
    interpretation: Literal["fullGPU", "currentAllocation"] = "fullGPU"
    namespace_label: Label
    pod_label: Label
    container_label: Label


class UpsizeSpec(Spec):
    threshold_percent: Percent = 120
    metrics_window: Lookback = timedelta(minutes=10)
    headroom_percent: Headroom = 20
    max_percent: Percent = 200


class ScaleBackSpec(Spec):
    threshold_percent: Percent = 80
    metrics_window: Lookback = timedelta(minutes=10)
    headroom_percent: Headroom = 20


class SignalSpec(Spec):
    prometheus: MetricSourceSpec
    upsize: UpsizeSpec = UpsizeSpec()
    scale_back: ScaleBackSpec = ScaleBackSpec()


class MetricsSpec(Spec):
    compute: SignalSpec
    memory: SignalSpec


class NameSpec(Spec):
    """A reference: the kind is given by the kind of the policy."""

    name: Filled


class ExperimentalSpec(Spec):
    gpu_kai_contract: Contract


class ReactivePolicySpec(Spec):
    scope: ScopeSpec = ScopeSpec()
    experimental: ExperimentalSpec
    metrics: MetricsSpec
    automation_strategy_ref: NameSpec
    min_pod_metrics_age: PodAge = timedelta(minutes=15)
    weight: Weight = 0
    # Ours; somebody else's CRD doesn't have it.
    mode: Literal["Enforce", "Recommend"] | None = None


class ClusterReactivePolicySpec(ReactivePolicySpec):
    scope: ClusterScopeSpec


# --- AutomationStrategy, ClusterAutomationStrategy ---

# Of one container. A unit too much (10P) would have every pod evicted for one that no node takes.
MAX_GPUS = 10_000


class BoundsSpec(Spec):
    floor: Amount | None = None
    ceiling: Amount | None = None


class UsageSpec(BoundsSpec):
    """
    What may be done to one kind of amount. Where nothing is said, it depends on the resource: for
    GPUs nothing may be done.
    """

    upsize: bool | None = None
    downsize: bool | None = None
    set_from_unspecified: bool | None = None
    containers: dict[str, BoundsSpec] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _bounds_fit(self) -> UsageSpec:
        problems = list(self._crossed())
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _crossed(self) -> Iterator[str]:
        if _are_crossed(self.floor, self.ceiling):
            yield f"the floor {self.floor} is above the ceiling {self.ceiling}"
        for name, own in sorted(self.containers.items()):
            floor, ceiling = self.bounds_of(own)
            if _are_crossed(floor, ceiling) and (own.floor is not None or own.ceiling is not None):
                yield f"container {name}: the floor {floor} is above the ceiling {ceiling}"

    def bounds_of(self, own: BoundsSpec) -> tuple[Decimal | None, Decimal | None]:
        """Those of a container: what it doesn't say is that of all."""
        return (
            self.floor if own.floor is None else own.floor,
            self.ceiling if own.ceiling is None else own.ceiling,
        )


def _are_crossed(floor: Decimal | None, ceiling: Decimal | None) -> bool:
    return floor is not None and ceiling is not None and floor > ceiling


class GpuUsageSpec(UsageSpec):
    @model_validator(mode="after")
    def _floors_are_sane(self) -> GpuUsageSpec:
        floors = {"": self.floor}
        floors |= {f"container {name}: ": own.floor for name, own in self.containers.items()}
        problems = [
            f"{where}the floor {floor} is above {MAX_GPUS} GPUs, more than any node has"
            for where, floor in floors.items()
            if floor is not None and floor > MAX_GPUS
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self


class GpuSpec(Spec):
    requests: GpuUsageSpec = GpuUsageSpec()


class OtherResourceSpec(Spec):
    """CPU or memory, with which nothing is done here."""

    requests: UsageSpec | None = None
    limits: UsageSpec | None = None


class EnablementSpec(Spec):
    gpu: GpuSpec = GpuSpec()
    cpu: OtherResourceSpec | None = None
    memory: OtherResourceSpec | None = None
    override_scheduler: Literal["none", "kai"] = "none"


class VllmSpec(Spec):
    """How vLLM is tuned, which is not done here."""

    gpu_memory_utilization_buffer_percent: FreePercent | None = None


class KaiStrategySpec(Spec):
    queue: Filled = "kubex-unlimited-gpu-queue"
    set_queue_when_specified: bool = False
    vllm: VllmSpec | None = None


class InPlaceResizeSpec(Spec):
    enabled: bool = True
    container_restart: bool = False


class PodEvictionSpec(Spec):
    enabled: bool = True
    retry_pod_disruption_budget: bool = True


class SafetyChecksSpec(Spec):
    enable_pause_until_annotation_check: bool = True
    enable_resource_quota_filter: bool = True
    enable_hpa_filter: bool = True
    enable_vpa_filter: bool = True
    block_resize_on_vpa_controlled_resources: bool = False
    enable_limit_range_filter: bool = True
    enable_pod_limit_range_filter: bool = True
    retain_guaranteed_qos: bool = Field(default=False, alias="retainGuaranteedQOS")
    min_cpu_change_percent: Headroom = 5
    min_memory_change_percent: Headroom = 5
    min_ready_duration: Wait = timedelta(seconds=10)
    require_owner_pods_ready: bool = False
    respect_workload_max_unavailable: bool = True
    resize_retry_interval: Timeout = timedelta(seconds=30)
    require_node_allocatable: bool = True
    node_cpu_headroom: str = "10%"
    node_memory_headroom: str = "200Mi"


class WindowSpec(Spec):
    name: Annotated[str, Field(max_length=128)] = ""
    timezone: TimeZone = "UTC"
    weekdays: Weekdays = Field(default_factory=list)
    start: Clock = ""
    end: EndClock = ""

    @model_validator(mode="after")
    def _borders_differ(self) -> WindowSpec:
        if self.start_minute == self.end_minute:
            raise ValueError(f"start and end are the same: {self.start or self.end}")
        return self

    @property
    def start_minute(self) -> int:
        return _minute(self.start) if self.start else 0

    @property
    def end_minute(self) -> int:
        return _minute(self.end) if self.end else DAY_MINUTES


def _minute(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


class SchedulingSpec(Spec):
    inclusion_windows: list[WindowSpec] = Field(default_factory=list, max_length=32)
    exclusion_windows: list[WindowSpec] = Field(default_factory=list, max_length=32)


class StrategySpec(Spec):
    enablement: EnablementSpec = EnablementSpec()
    kai: KaiStrategySpec = KaiStrategySpec()
    experimental: ExperimentalSpec | None = None
    in_place_resize: InPlaceResizeSpec = InPlaceResizeSpec()
    pod_eviction: PodEvictionSpec = PodEvictionSpec()
    scheduling: SchedulingSpec = SchedulingSpec()
    safety_checks: SafetyChecksSpec = SafetyChecksSpec()


# --- GlobalConfiguration ---


class PrometheusSpec(Spec):
    url: str = "http://prometheus.monitoring.svc:9090"
    request_timeout: Timeout = timedelta(seconds=30)


class KaiSettingsSpec(Spec):
    scheduler_name: Filled = "kai-scheduler"


class WebhookHealthSpec(Spec):
    failure_threshold: Percent = 2
    success_threshold: Percent = 3
    transition_check_interval: ProbeInterval = timedelta(seconds=10)


class GlobalConfigurationSpec(Spec):
    automation_enabled: bool = True
    multi_policy_container_rightsizing_enabled: bool = False
    gpu_reactive_check_interval: Interval = MINUTE
    prometheus: PrometheusSpec = PrometheusSpec()
    kai: KaiSettingsSpec = KaiSettingsSpec()
    protected_namespace_patterns: Globs = Field(
        default_factory=lambda: ["kube-*", "openshift-*", "gmp-*"]
    )
    webhook_health: WebhookHealthSpec | None = None
    # What is left has no meaning here, beyond being what it says.
    webhook_probe: dict[str, Any] | None = None
    webhook_owner_resolution_retry_timeout: Timeout | None = None
    rescan_interval: Interval | None = None
    recommendation_reload_interval: Interval | None = None
    mutation_log_interval: Interval | None = None
    snapshot_interval: Interval | None = None
    heartbeat_interval: Interval | None = None
    proposal_sync_interval: Interval | None = None
    proposal_sync_enabled: bool | None = None
    kubex_api_request_timeout: Timeout | None = Field(default=None, alias="kubexAPIRequestTimeout")
    suppress_fetch_recommendations: bool | None = None
    respect_kubex_automation: bool | None = None


# --- PolicyEvaluation ---


class PriorityOfSpec(Spec):
    type: Filled
    priority: Weight


class PolicyEvaluationSpec(Spec):
    precedence: list[PriorityOfSpec] = Field(default_factory=list)
