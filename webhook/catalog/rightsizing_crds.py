"""
The CustomResourceDefinitions of `rightsizing.kubex.ai/v1alpha1`, as far as they concern GPUs.

A cluster may have them from elsewhere. So these take the same manifests: same names, fields,
defaults and limits. Fields that mean nothing for GPUs are there too, or the API server would prune
them. Unlike our own kinds, theirs are structural throughout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.catalog.crd_parts import (
    AT_LEAST_1M,
    CEL,
    Schema,
    column,
    conditions,
    define_crd,
    entries,
    fields,
    integer,
    items,
    rule,
    text,
)
from webhook.catalog.settings_schema import (
    global_configuration_spec,
    global_configuration_status,
    policy_evaluation_spec,
)
from webhook.catalog.strategy_schema import strategy_spec
from webhook.model.rightsizing import spec_values, workload_types
from webhook.model.rightsizing.documents import MODE_ANNOTATION, SINGLETONS
from webhook.model.rightsizing.policies import CONTRACT, DEFAULT_WORKLOAD_TYPES, GROUP

_READY = column("Ready", '.status.conditions[?(@.type=="Ready")].status')
_REASON = column("Reason", '.status.conditions[?(@.type=="Ready")].reason')


def build_rightsizing_crds() -> list[dict[str, Any]]:
    """All of them, policies first, in a fixed order."""
    return [
        _policy_crd("GpuReactivePolicy", "gpureactivepolicies", namespaced=True),
        _policy_crd("ClusterGpuReactivePolicy", "clustergpureactivepolicies", namespaced=False),
        _strategy_crd("AutomationStrategy", "automationstrategies", namespaced=True),
        _strategy_crd("ClusterAutomationStrategy", "clusterautomationstrategies", namespaced=False),
        _crd(
            "GlobalConfiguration",
            "globalconfigurations",
            "Settings of the whole cluster. There is one, named global-config.",
            global_configuration_spec(),
            global_configuration_status(),
            [
                column("Automation", ".spec.automationEnabled"),
                column("Interval", ".spec.gpuReactiveCheckInterval"),
                column("Prometheus", ".spec.prometheus.url"),
                _READY,
                _REASON,
            ],
        ),
        _crd(
            "PolicyEvaluation",
            "policyevaluations",
            "Which kind of policy counts where several concern a workload. There is one, named"
            " policy-evaluation.",
            policy_evaluation_spec(),
            _status("Ready"),
            [_READY, _REASON],
        ),
    ]


def _crd(
    kind: str,
    plural: str,
    description: str,
    spec: Schema,
    status: Schema,
    columns: list[dict[str, Any]],
    *,
    namespaced: bool = False,
) -> dict[str, Any]:
    name = SINGLETONS.get(kind)
    return define_crd(
        group=GROUP,
        kind=kind,
        plural=plural,
        # Short names could be those of somebody else's kinds.
        short=[],
        categories=["gatewright"],
        namespaced=namespaced,
        description=description,
        properties={"spec": spec},
        columns=columns,
        status=status,
        required=["spec"],
        rules=[rule(f"self.metadata.name == '{name}'", f"its name is {name}")] if name else (),
    )


def _status(types: str) -> Schema:
    return fields("What was made of the object.", {"conditions": conditions(types)})


# --- GpuReactivePolicy, ClusterGpuReactivePolicy ---


def _policy_crd(kind: str, plural: str, *, namespaced: bool) -> dict[str, Any]:
    where = "of its namespace" if namespaced else "of the namespaces that it selects"
    mode = MODE_ANNOTATION.replace(".", r"\.")
    return _crd(
        kind,
        plural,
        f"Resizes the GPU allocation of workloads {where} by how much of it they use. With mode"
        f" Recommend, or the annotation {MODE_ANNOTATION} of that value, it says what it would do"
        " and does nothing.",
        _policy_spec(namespaced=namespaced),
        _status("AutomationStrategyResolved, PrometheusReachable or Ready"),
        [
            column("Strategy", ".spec.automationStrategyRef.name"),
            {"name": "Weight", "type": "integer", "jsonPath": ".spec.weight"},
            column("Mode", ".spec.mode", priority=1),
            column("Annotated mode", f".metadata.annotations.{mode}", priority=1),
            _READY,
            _REASON,
        ],
        namespaced=namespaced,
    )


def _policy_spec(*, namespaced: bool) -> Schema:
    strategy = "AutomationStrategy of this namespace" if namespaced else "ClusterAutomationStrategy"
    needed = ["automationStrategyRef", "experimental", "metrics"]
    return fields(
        "Which workloads are resized, when, and by how much.",
        {
            "scope": _scope(namespaced=namespaced),
            "experimental": experimental("Needed, since GPU policies may still change."),
            "minPodMetricsAge": text(
                "How old a pod must be for its usage to count: empty, 0s, or at least 1m.",
                default="15m",
                **{
                    CEL: [
                        rule(
                            "self == '' || duration(self) == duration('0s') ||"
                            " duration(self) >= duration('1m')",
                            "must be zero or at least 1 minute",
                        )
                    ]
                },
            ),
            "metrics": fields(
                "The two signals that usage is read from.",
                {
                    "compute": _signal("How busy the GPUs are."),
                    "memory": _signal("How much of the GPUs' memory is taken."),
                },
                required=["compute", "memory"],
            ),
            "automationStrategyRef": fields(
                f"The {strategy} that says what may be done.",
                {"name": text("Its name.", minLength=1)},
                required=["name"],
            ),
            "weight": integer(
                "Of several policies of this kind for one workload, the heaviest counts; of equals"
                " the oldest.",
                default=0,
            ),
            "mode": text(
                "Recommend says what would be done and does nothing. Enforce, or nothing, acts,"
                f" unless the annotation {MODE_ANNOTATION} says Recommend.",
                enum=["Enforce", "Recommend"],
            ),
        },
        required=needed if namespaced else [*needed, "scope"],
    )


def experimental(description: str) -> Schema:
    """The acknowledgement of a contract."""
    return fields(
        description,
        {
            "gpuKaiContract": text(
                f"The contract that is acknowledged: {CONTRACT}, or none.", enum=["none", CONTRACT]
            )
        },
        required=["gpuKaiContract"],
    )


def _scope(*, namespaced: bool) -> Schema:
    parts: dict[str, Schema] = {
        "workloadTypes": items(
            "Kinds of workloads. Nine are named by their kind alone, all others with their group:"
            " any kind that has a mapping and makes its pods itself.",
            text(
                "A kind, such as Deployment or PyTorchJob.kubeflow.org.",
                maxLength=workload_types.TYPE_MAX_CHARS,
                pattern=f"^(?:{'|'.join(workload_types.SHORT_TYPES)}|{workload_types.LONG_TYPE})$",
            ),
            default=list(DEFAULT_WORKLOAD_TYPES),
        ),
        "labelSelector": _label_selector(),
        "containers": items(
            "Exact names of the containers that count. None means every regular container and"
            " every init container that restarts.",
            text(
                "A container.",
                minLength=1,
                maxLength=63,
                pattern=f"^{spec_values.CONTAINER_NAME}$",
            ),
            **{"x-kubernetes-list-type": "set"},
        ),
    }
    if namespaced:
        return fields("Which workloads are concerned; without it all of the namespace.", parts)
    parts["namespaceSelector"] = fields(
        "In which namespaces.",
        {
            "operator": text("In: those named. NotIn: all others.", enum=["In", "NotIn"]),
            "values": items(
                "Names of namespaces; * stands for any characters.",
                text("A name or pattern."),
                minItems=1,
            ),
        },
        required=["operator", "values"],
    )
    return fields("Which workloads are concerned.", parts, required=["namespaceSelector"])


def _label_selector() -> Schema:
    """As metav1.LabelSelector."""
    return fields(
        "Labels of the workload itself, not of its pods. All conditions must hold.",
        {
            "matchLabels": entries("Labels and their values.", text("A value.")),
            "matchExpressions": items(
                "More conditions.",
                fields(
                    "A condition on one label.",
                    {
                        "key": text("The label."),
                        "operator": text("In, NotIn, Exists or DoesNotExist."),
                        "values": items(
                            "Of In and NotIn only.",
                            text("A value."),
                            **{"x-kubernetes-list-type": "atomic"},
                        ),
                    },
                    required=["key", "operator"],
                ),
                **{"x-kubernetes-list-type": "atomic"},
            ),
        },
        atomic=True,
    )


def _signal(description: str) -> Schema:
    upsize = {"thresholdPercent": 120, "metricsWindow": "10m", "headroomPercent": 20}
    scale_back = {"thresholdPercent": 80, "metricsWindow": "10m", "headroomPercent": 20}
    return fields(
        description,
        {
            "prometheus": _metric_source(),
            "upsize": fields(
                "When to ask for more.",
                {
                    **_direction(
                        upsize,
                        "A pod that uses more than this share of its allocation asks for it.",
                    ),
                    "maxPercent": integer(
                        "The most that is asked for, in percent of the baseline.",
                        least=1,
                        default=200,
                    ),
                },
                default={**upsize, "maxPercent": 200},
            ),
            "scaleBack": fields(
                "When to give back what was added. Never goes below the baseline.",
                _direction(scale_back, "All pods must stay below this share of their allocation."),
                default=scale_back,
            ),
        },
        required=["prometheus"],
    )


def _direction(defaults: Mapping[str, Any], threshold: str) -> dict[str, Schema]:
    return {
        "thresholdPercent": integer(threshold, least=1, default=defaults["thresholdPercent"]),
        "metricsWindow": text(
            "How far back usage is looked at: at least 1m.",
            default=defaults["metricsWindow"],
            **{CEL: AT_LEAST_1M},
        ),
        "headroomPercent": integer(
            "What is added to the usage of the hottest pod.", default=defaults["headroomPercent"]
        ),
    }


def _metric_source() -> Schema:
    label = {"minLength": 1, "pattern": f"^{spec_values.LABEL_NAME}$"}
    return fields(
        "Where the values are, and what they mean.",
        {
            "metric": text("The metric.", minLength=1, pattern=f"^{spec_values.METRIC_NAME}$"),
            "interpretation": text(
                "What 100 is: one whole GPU, or what the container has now.",
                default="fullGPU",
                enum=["fullGPU", "currentAllocation"],
            ),
            "namespaceLabel": text("The metric's label that names the namespace.", **label),
            "podLabel": text("The metric's label that names the pod.", **label),
            "containerLabel": text("The metric's label that names the container.", **label),
        },
        required=["metric", "namespaceLabel", "podLabel", "containerLabel"],
    )


# --- AutomationStrategy, ClusterAutomationStrategy ---


def _strategy_crd(kind: str, plural: str, *, namespaced: bool) -> dict[str, Any]:
    gpu = ".spec.enablement.gpu.requests"
    return _crd(
        kind,
        plural,
        "What may be done to workloads, when, and how. Nothing may be done to GPUs until it says"
        " so.",
        strategy_spec(experimental("Needed where something is said about GPUs or KAI.")),
        _status("Ready"),
        [
            column("Scheduler", ".spec.enablement.overrideScheduler"),
            column("Upsize", f"{gpu}.upsize"),
            column("Downsize", f"{gpu}.downsize"),
            column("Eviction", ".spec.podEviction.enabled", priority=1),
        ],
        namespaced=namespaced,
    )
