"""The schema of an AutomationStrategy's spec: what may be done, when, and how."""

from __future__ import annotations

from webhook.catalog.crd_parts import Schema, entries, fields, flag, integer, items, rule, text
from webhook.model.rightsizing import spec_values

_BOUNDS_FIT = rule(
    "!has(self.floor) || !has(self.ceiling) ||"
    " quantity(self.floor).compareTo(quantity(self.ceiling)) <= 0",
    "floor must be less than or equal to ceiling",
)
_BORDERS_DIFFER = rule(
    "!has(self.start) || !has(self.end) || self.start != self.end",
    "start and end must not be the same",
)
_LIMITS = "No effect: what a LimitRange would refuse is never done, as that pod could not be made."
_CPU_AND_MEMORY = "Kept as it is; nothing is done with it here."


def strategy_spec(experimental: Schema) -> Schema:
    """The whole spec, with *experimental* as the field of that name."""
    return fields(
        "What is left out has its default.",
        {
            "enablement": _enablement(),
            "kai": _kai(),
            "experimental": experimental,
            "inPlaceResize": fields(
                "Resizing without a new pod. GPUs can't be resized so.",
                {
                    "enabled": flag("Whether it may be done.", default=True),
                    "containerRestart": flag("Whether containers may restart.", default=False),
                },
                default={},
            ),
            "podEviction": fields(
                "Resizing by a new pod: the old one is evicted.",
                {
                    "enabled": flag("Whether it may be done.", default=True),
                    "retryPodDisruptionBudget": flag(
                        "Whether one that a PodDisruptionBudget forbids is tried again.",
                        default=True,
                    ),
                },
                default={},
            ),
            "scheduling": _scheduling(),
            "safetyChecks": _safety_checks(),
        },
    )


def _enablement() -> Schema:
    return fields(
        "Which changes are allowed.",
        {
            "gpu": fields(
                "GPUs. Nothing is allowed unless it is said.",
                {
                    "requests": _usage(
                        "GPU requests.", upsize=False, downsize=False, set_from_unspecified=False
                    )
                },
                default={},
            ),
            "cpu": _other_resource(limits_from_unspecified=False),
            "memory": _other_resource(limits_from_unspecified=True),
            "overrideScheduler": text(
                "How an amount of GPU is written into a pod. none: whole nvidia.com/gpu. kai: a"
                " fraction for the KAI scheduler.",
                default="none",
                enum=["none", "kai"],
            ),
        },
        default={},
    )


def _other_resource(*, limits_from_unspecified: bool) -> Schema:
    return fields(
        _CPU_AND_MEMORY,
        {
            "requests": _usage(
                _CPU_AND_MEMORY, upsize=True, downsize=True, set_from_unspecified=True
            ),
            "limits": _usage(
                _CPU_AND_MEMORY,
                upsize=True,
                downsize=True,
                set_from_unspecified=limits_from_unspecified,
            ),
        },
        default={},
    )


def _usage(description: str, *, upsize: bool, downsize: bool, set_from_unspecified: bool) -> Schema:
    bounds = {
        "floor": text("The least that is written (a quantity)."),
        "ceiling": text("The most that is written (a quantity)."),
    }
    return fields(
        description,
        {
            "upsize": flag("Whether it may become more.", default=upsize),
            "downsize": flag("Whether it may become less.", default=downsize),
            "setFromUnspecified": flag(
                "Whether it may be given where there is none.", default=set_from_unspecified
            ),
            **bounds,
            "containers": entries(
                "Other bounds for single containers. One that is not given is that of all.",
                fields("The bounds of one container.", bounds),
            ),
        },
        rules=[_BOUNDS_FIT],
        default={},
    )


def _kai() -> Schema:
    return fields(
        "The KAI scheduler.",
        {
            "queue": text("The queue of pods that name none.", default="kubex-unlimited-gpu-queue"),
            "setQueueWhenSpecified": flag(
                "Whether it also replaces the queue that a pod names.", default=False
            ),
            "vllm": fields(
                "Kept as it is; nothing is done with it here.",
                {
                    "gpuMemoryUtilizationBufferPercent": integer(
                        "GPU memory that vLLM leaves free.", maximum=100
                    )
                },
            ),
        },
        default={},
    )


def _scheduling() -> Schema:
    window = fields(
        "A time of the week.",
        {
            "name": text("What it is called in messages.", maxLength=128),
            "timezone": text("The time zone of the rest.", default="UTC", maxLength=64),
            "weekdays": items(
                "Days on which it begins; none means every day.",
                text("A day.", enum=list(spec_values.WEEKDAYS)),
                maxItems=7,
                **{"x-kubernetes-list-type": "set"},
            ),
            "start": text(
                "HH:MM, from which on it counts; 00:00 if left out.",
                maxLength=5,
                pattern=f"^$|^(?:{spec_values.START})$",
            ),
            "end": text(
                "HH:MM, before which it ends; up to 24:00, which it is if left out. Before the"
                " start, it is that of the next day.",
                maxLength=5,
                pattern=f"^$|^(?:{spec_values.END})$",
            ),
        },
        rules=[_BORDERS_DIFFER],
    )
    return fields(
        "When pods may be evicted. Pods that are made anyhow get their amounts at any time.",
        {
            "inclusionWindows": items("Only then; none means always.", window, maxItems=32),
            "exclusionWindows": items("Never then, whatever else is said.", window, maxItems=32),
        },
        default={},
    )


def _safety_checks() -> Schema:
    unused = "Not used for GPUs."
    return fields(
        "What is looked at before anything is done.",
        {
            "enablePauseUntilAnnotationCheck": flag(
                "Nothing while an annotation pauses it.", default=True
            ),
            "enableResourceQuotaFilter": flag(
                "Nothing that a ResourceQuota would refuse.", default=True
            ),
            "enableHpaFilter": flag("Nothing that an autoscaler of pods scales by.", default=True),
            "enableVpaFilter": flag("Nothing that a vertical autoscaler manages.", default=True),
            "blockResizeOnVpaControlledResources": flag(unused, default=False),
            "enableLimitRangeFilter": flag(_LIMITS, default=True),
            "enablePodLimitRangeFilter": flag(_LIMITS, default=True),
            "retainGuaranteedQOS": flag(unused, default=False),
            "minCpuChangePercent": _percent(unused),
            "minMemoryChangePercent": _percent(unused),
            "minReadyDuration": text("How long a pod must have been ready.", default="10s"),
            "requireOwnerPodsReady": flag(
                "Nothing while a pod of the workload is not ready.", default=False
            ),
            "respectWorkloadMaxUnavailable": flag(
                "Nothing that would make more pods unavailable than the workload allows.",
                default=True,
            ),
            "resizeRetryInterval": text(
                "After how long a refused eviction is tried again, and a pod is looked at again"
                " that is not ready, or too many of whose kind are not.",
                default="30s",
            ),
            "requireNodeAllocatable": flag(unused, default=True),
            "nodeCpuHeadroom": text(unused, default="10%"),
            "nodeMemoryHeadroom": text(unused, default="200Mi"),
        },
        default={},
    )


def _percent(description: str) -> Schema:
    return integer(description, default=5)
