"""
Documents of `rightsizing.kubex.ai/v1alpha1`, read and judged.

The API server fills in the defaults of the CRDs and refuses what their schemas don't allow; a file
has no API server, so all of that is done here too. What is beyond a schema (time zones, bounds of
a container that cross with those of all, ...) is judged here only, for the webhook as for `lint`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from webhook.errors import SpecError
from webhook.model.documents import Spec, parse_spec
from webhook.model.names import did_you_mean
from webhook.model.rightsizing import specs
from webhook.model.rightsizing.doubts import doubts_about
from webhook.model.rightsizing.policies import (
    CONTRACT,
    DEFAULT_PRIORITIES,
    DEFAULT_WORKLOAD_TYPES,
    GROUP,
    GROUP_VERSION,
    Bounds,
    DocumentKey,
    GlobalSettings,
    Interpretation,
    LabelRequirement,
    MetricSource,
    Mode,
    Precedence,
    ReactivePolicy,
    SafetyChecks,
    ScaleBack,
    Scheduler,
    Signal,
    SignalSettings,
    Strategy,
    Upsize,
    WebhookHealth,
    Window,
    WorkloadScope,
)
from webhook.model.rightsizing.spec_values import WEEKDAYS
from webhook.model.rightsizing.times import read_time

RightsizingDocument: TypeAlias = ReactivePolicy | Strategy | GlobalSettings | Precedence

# The CRDs of others have no fields for these.
MODE_ANNOTATION = "gatewright.io/mode"
EVICT_JOBS_ANNOTATION = "gatewright.io/evict-jobs"
# All that are read of these documents.
READ_ANNOTATIONS = (MODE_ANNOTATION, EVICT_JOBS_ANNOTATION)

# A manifest without a namespace goes there, as with kubectl.
DEFAULT_NAMESPACE = "default"

_SPECS: Mapping[str, type[Spec]] = {
    "GpuReactivePolicy": specs.ReactivePolicySpec,
    "ClusterGpuReactivePolicy": specs.ClusterReactivePolicySpec,
    "AutomationStrategy": specs.StrategySpec,
    "ClusterAutomationStrategy": specs.StrategySpec,
    "GlobalConfiguration": specs.GlobalConfigurationSpec,
    "PolicyEvaluation": specs.PolicyEvaluationSpec,
}
KINDS = tuple(_SPECS)
POLICY_KINDS = ("GpuReactivePolicy", "ClusterGpuReactivePolicy")
STRATEGY_KINDS = ("AutomationStrategy", "ClusterAutomationStrategy")
NAMESPACED_KINDS = ("GpuReactivePolicy", "AutomationStrategy")
# There is one of each, and this is its name.
SINGLETONS = {"GlobalConfiguration": "global-config", "PolicyEvaluation": "policy-evaluation"}


def is_rightsizing(manifest: Mapping[str, Any]) -> bool:
    """Whether *manifest* is of the group that is read here, in any version."""
    api_version = manifest.get("apiVersion")
    return isinstance(api_version, str) and api_version.rpartition("/")[0] == GROUP


def key_of(manifest: Mapping[str, Any], *, namespace: str = DEFAULT_NAMESPACE) -> DocumentKey:
    """What identifies *manifest*; *namespace* is where it is if it doesn't say. Texts only."""
    kind = manifest.get("kind")
    metadata = _object(manifest.get("metadata"))
    name, own = metadata.get("name"), metadata.get("namespace")
    place = own if isinstance(own, str) and own else namespace
    return DocumentKey(
        kind if isinstance(kind, str) else "",
        place if kind in NAMESPACED_KINDS else "",
        name if isinstance(name, str) else "",
    )


def read_document(
    manifest: Mapping[str, Any], *, namespace: str = DEFAULT_NAMESPACE
) -> RightsizingDocument:
    """
    What *manifest* says, with the defaults of its CRD.

    A PolicyEvaluation gives the priorities of all kinds, those that it doesn't name included. A
    policy only recommends where its `mode` or its annotation says so, or its contract is `none`.
    *namespace* is that of a manifest of a namespaced kind that names none.

    Raises:
        ExceptionGroup: of SpecError, one for each problem, with its path.
    """
    return _build(manifest, _read_spec(manifest), key_of(manifest, namespace=namespace))


def warnings_of(
    manifest: Mapping[str, Any],
    *,
    namespace: str = DEFAULT_NAMESPACE,
    strategies: Mapping[DocumentKey, Strategy | None] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> tuple[SpecError, ...]:
    """
    What *manifest* may say, but hardly means: by path, in the order of the document.

    *strategies* are all that there are, None for one that can't be read; without them nothing is
    said about the one that a policy names. One that is not there is a MissingReferenceError.
    *kinds* are those that have mappings, as `scope.workloadTypes` names them, with the kind that
    their pods are of where they don't make these themselves; without them nothing is said of kinds.

    Raises:
        ExceptionGroup: as from `read_document`.
    """
    spec = _read_spec(manifest)
    wanted = None
    told: tuple[SpecError, ...] = ()
    if isinstance(spec, specs.ReactivePolicySpec):
        wanted = _strategy_of(key_of(manifest, namespace=namespace), spec)
        told = tuple(_mode_doubts(_object(manifest.get("metadata")), spec))
    return (*doubts_about(spec, wanted, strategies, kinds), *told)


# --- reading ---


def _read_spec(manifest: Mapping[str, Any]) -> Spec:
    problems: list[SpecError] = []
    kind = manifest.get("kind")
    spec_type = _SPECS.get(kind) if isinstance(kind, str) else None
    if spec_type is None:
        shown = repr(kind[:80]) if isinstance(kind, str) else "it"
        hint = did_you_mean(kind if isinstance(kind, str) else "", KINDS)
        raise _group([SpecError("kind", f"{shown} is no kind of {GROUP} that is read here{hint}")])
    if manifest.get("apiVersion") != GROUP_VERSION:
        problems.append(SpecError("apiVersion", f"must be {GROUP_VERSION}"))
    problems += _metadata_problems(kind, manifest.get("metadata"))
    for key in manifest:
        if key not in ("apiVersion", "kind", "metadata", "spec", "status"):
            hint = did_you_mean(str(key), ("metadata", "spec"))
            problems.append(SpecError(str(key), f"unknown field{hint}"))
    spec: Spec | None = None
    if manifest.get("spec") is None:
        problems.append(SpecError("spec", "is needed"))
    else:
        spec = parse_spec(spec_type, _without_nulls(manifest["spec"]), "spec", problems)
    if problems or spec is None:
        raise _group(problems)
    return spec


def _metadata_problems(kind: str | None, metadata: Any) -> Iterator[SpecError]:
    metadata = _object(metadata)
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        yield SpecError("metadata.name", "a name is needed")
    elif kind in SINGLETONS and name != SINGLETONS[kind]:
        only = SINGLETONS[kind]
        yield SpecError("metadata.name", f"there is one {kind}, named {only}, not {name[:80]}")
    try:
        _created(metadata)
    except ValueError as error:
        yield SpecError("metadata.creationTimestamp", str(error))
    try:
        if kind in STRATEGY_KINDS:
            _evicts_jobs(metadata)
    except ValueError as error:
        yield SpecError(f'metadata.annotations["{EVICT_JOBS_ANNOTATION}"]', str(error))
    try:
        if kind in POLICY_KINDS:
            _annotated_mode(metadata)
    except ValueError as error:
        yield SpecError(f'metadata.annotations["{MODE_ANNOTATION}"]', str(error))


def _created(metadata: Mapping[str, Any]) -> datetime | None:
    written = metadata.get("creationTimestamp")
    return None if written is None else read_time(written)


def _evicts_jobs(metadata: Mapping[str, Any]) -> bool:
    text = _object(metadata.get("annotations")).get(EVICT_JOBS_ANNOTATION, "false")
    if text not in ("true", "false"):
        raise ValueError('must be "true" or "false"')
    return bool(text == "true")


def _mode(metadata: Mapping[str, Any], spec: specs.ReactivePolicySpec) -> Mode:
    """Whether it acts: where one of the two places says that it doesn't, it doesn't."""
    is_acknowledged = spec.experimental.gpu_kai_contract == CONTRACT
    told = (spec.mode, _annotated_mode(metadata))
    return Mode.ENFORCE if is_acknowledged and Mode.RECOMMEND not in told else Mode.RECOMMEND


def _mode_doubts(
    metadata: Mapping[str, Any], spec: specs.ReactivePolicySpec
) -> Iterator[SpecError]:
    annotated = _annotated_mode(metadata)
    if spec.mode is not None and annotated is not None and annotated != spec.mode:
        text = f"{spec.mode}, and {MODE_ANNOTATION} says {annotated}: it only recommends"
        yield SpecError("spec.mode", text)


def _annotated_mode(metadata: Mapping[str, Any]) -> Mode | None:
    text = _object(metadata.get("annotations")).get(MODE_ANNOTATION)
    if text is None:
        return None
    for mode in Mode:
        if isinstance(text, str) and text.lower() == mode.lower():
            return mode
    raise ValueError(f"must be {' or '.join(Mode)}")


def _without_nulls(value: Any) -> Any:
    """The API server takes a field that is null for one that isn't there."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _group(problems: Sequence[SpecError]) -> ExceptionGroup[SpecError]:
    return ExceptionGroup("the document is wrong", problems)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# --- what was read, as the types of policies.py ---


def _build(manifest: Mapping[str, Any], spec: Spec, key: DocumentKey) -> RightsizingDocument:
    match spec:
        case specs.ReactivePolicySpec():
            return _policy(_object(manifest.get("metadata")), spec, key)
        case specs.StrategySpec():
            return _strategy(_object(manifest.get("metadata")), spec, key)
        case specs.GlobalConfigurationSpec():
            return GlobalSettings(
                automation_enabled=spec.automation_enabled,
                multi_policy=spec.multi_policy_container_rightsizing_enabled,
                check_interval=spec.gpu_reactive_check_interval,
                prometheus_url=spec.prometheus.url,
                request_timeout=spec.prometheus.request_timeout,
                scheduler_name=spec.kai.scheduler_name,
                protected_namespaces=tuple(spec.protected_namespace_patterns),
                webhook_health=_health(spec.webhook_health or specs.WebhookHealthSpec()),
            )
        case specs.PolicyEvaluationSpec():
            # Of a kind that is named twice, the higher.
            given = sorted([(each.type, each.priority) for each in spec.precedence])
            return {**DEFAULT_PRIORITIES, **dict(given)}
        case _:
            raise AssertionError("unreachable")


def _health(spec: specs.WebhookHealthSpec) -> WebhookHealth:
    return WebhookHealth(
        spec.failure_threshold, spec.success_threshold, spec.transition_check_interval
    )


def _policy(
    metadata: Mapping[str, Any], spec: specs.ReactivePolicySpec, key: DocumentKey
) -> ReactivePolicy:
    generation = metadata.get("generation")
    return ReactivePolicy(
        key=key,
        signals={
            Signal.COMPUTE: _signal(spec.metrics.compute),
            Signal.MEMORY: _signal(spec.metrics.memory),
        },
        strategy=_strategy_of(key, spec),
        scope=_scope(spec.scope),
        min_pod_age=spec.min_pod_metrics_age,
        weight=spec.weight,
        mode=_mode(metadata, spec),
        created=_created(metadata),
        generation=generation if isinstance(generation, int) else 0,
    )


def _strategy_of(key: DocumentKey, spec: specs.ReactivePolicySpec) -> DocumentKey:
    kind = "AutomationStrategy" if key.kind in NAMESPACED_KINDS else "ClusterAutomationStrategy"
    return DocumentKey(kind, key.namespace, spec.automation_strategy_ref.name)


def _signal(spec: specs.SignalSpec) -> SignalSettings:
    source, upsize, scale_back = spec.prometheus, spec.upsize, spec.scale_back
    return SignalSettings(
        source=MetricSource(
            metric=source.metric,
            namespace_label=source.namespace_label,
            pod_label=source.pod_label,
            container_label=source.container_label,
            interpretation=Interpretation(source.interpretation),
        ),
        upsize=Upsize(
            threshold_percent=upsize.threshold_percent,
            window=upsize.metrics_window,
            headroom_percent=upsize.headroom_percent,
            max_percent=upsize.max_percent,
        ),
        scale_back=ScaleBack(
            threshold_percent=scale_back.threshold_percent,
            window=scale_back.metrics_window,
            headroom_percent=scale_back.headroom_percent,
        ),
    )


def _scope(spec: specs.ScopeSpec) -> WorkloadScope:
    selector = spec.label_selector
    labels = [
        *[LabelRequirement(key, "In", (value,)) for key, value in selector.match_labels.items()],
        *[
            LabelRequirement(each.key, each.operator, tuple(each.values))
            for each in selector.match_expressions
        ],
    ]
    namespaces = spec.namespace_selector if isinstance(spec, specs.ClusterScopeSpec) else None
    return WorkloadScope(
        # To Go, an empty list is one that was left out.
        workload_types=tuple(spec.workload_types) or DEFAULT_WORKLOAD_TYPES,
        labels=tuple(labels),
        namespaces=tuple(namespaces.values) if namespaces is not None else None,
        namespaces_excluded=namespaces is not None and namespaces.operator == "NotIn",
        containers=tuple(spec.containers),
    )


def _strategy(metadata: Mapping[str, Any], spec: specs.StrategySpec, key: DocumentKey) -> Strategy:
    gpu = spec.enablement.gpu.requests
    checks = spec.safety_checks
    return Strategy(
        key=key,
        scheduler=Scheduler(spec.enablement.override_scheduler),
        upsize=bool(gpu.upsize),
        downsize=bool(gpu.downsize),
        set_from_unspecified=bool(gpu.set_from_unspecified),
        bounds=Bounds(gpu.floor, gpu.ceiling),
        container_bounds={
            name: Bounds(*gpu.bounds_of(own)) for name, own in gpu.containers.items()
        },
        queue=spec.kai.queue,
        set_queue_when_specified=spec.kai.set_queue_when_specified,
        eviction=spec.pod_eviction.enabled,
        evicts_jobs=_evicts_jobs(metadata),
        retry_disruption_budget=spec.pod_eviction.retry_pod_disruption_budget,
        inclusion_windows=tuple(map(_window, spec.scheduling.inclusion_windows)),
        exclusion_windows=tuple(map(_window, spec.scheduling.exclusion_windows)),
        safety=SafetyChecks(
            pause_until=checks.enable_pause_until_annotation_check,
            resource_quota=checks.enable_resource_quota_filter,
            hpa=checks.enable_hpa_filter,
            vpa=checks.enable_vpa_filter,
            min_ready=checks.min_ready_duration,
            owner_pods_ready=checks.require_owner_pods_ready,
            respect_max_unavailable=checks.respect_workload_max_unavailable,
            retry_interval=checks.resize_retry_interval,
        ),
    )


def _window(spec: specs.WindowSpec) -> Window:
    return Window(
        start=spec.start_minute,
        end=spec.end_minute,
        timezone=spec.timezone,
        weekdays=frozenset([WEEKDAYS[name] for name in spec.weekdays]),
        name=spec.name,
    )
