"""What a document of `rightsizing.kubex.ai` may say, but hardly means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from webhook.errors import MissingReferenceError, SpecError
from webhook.model.addresses import objection_to_url
from webhook.model.documents import Spec
from webhook.model.names import did_you_mean, nearest
from webhook.model.rightsizing import specs
from webhook.model.rightsizing.policies import (
    CONTRACT,
    DocumentKey,
    Interpretation,
    Signal,
    Strategy,
)
from webhook.model.rightsizing.workload_types import SHORT_TYPES, is_short

# At and above this, a container with whole GPUs would have to use more than it has.
_WHOLE_PERCENT = 100


def doubts_about(
    spec: Spec,
    wanted: DocumentKey | None,
    strategies: Mapping[DocumentKey, Strategy | None] | None,
    kinds: Mapping[str, str] | None,
) -> Iterator[SpecError]:
    """
    Warnings about *spec*, in the order of the document. *wanted* is the strategy of a policy,
    *strategies* are all that there are (None: not known; None for one: it can't be read), *kinds*
    those that have mappings (None: not known), with the kind that their pods are of.
    """
    match spec:
        case specs.ReactivePolicySpec():
            if kinds is not None:
                yield from _type_warnings(spec.scope.workload_types, kinds)
            yield from _contract_warnings(spec.experimental, is_used=True, acts=False)
            yield from _metric_warnings(spec.metrics)
            if wanted is not None and strategies is not None:
                yield from _strategy_warnings(wanted, strategies)
        case specs.StrategySpec():
            is_used = _uses_gpus(spec)
            yield from _contract_warnings(spec.experimental, is_used=is_used, acts=True)
            yield from _limit_warnings(spec.safety_checks)
        case specs.GlobalConfigurationSpec():
            yield from _prometheus_warnings(spec.prometheus)
        case specs.PolicyEvaluationSpec():
            yield from _precedence_warnings(spec.precedence)
        case _:
            pass


def _type_warnings(types: Sequence[str], kinds: Mapping[str, str]) -> Iterator[SpecError]:
    for index, name in enumerate(types):
        path = f"spec.scope.workloadTypes[{index}]"
        if is_short(name):
            continue
        if name not in kinds:
            known = (*SHORT_TYPES, *kinds)
            near = nearest(name, known) or nearest(name.partition(".")[0], known)
            hint = f'; did you mean "{near}"?' if near is not None else ""
            yield SpecError(path, f"no mapping covers {name}: its pods are not looked at{hint}")
        elif kinds[name]:
            makes = kinds[name]
            yield SpecError(path, f"the pods of {name} are those of a {makes}: name that")


def _contract_warnings(
    spec: specs.ExperimentalSpec | None, *, is_used: bool, acts: bool
) -> Iterator[SpecError]:
    path = "spec.experimental.gpuKaiContract"
    if not is_used:
        return
    if spec is None:
        yield SpecError(path, f"GPU or KAI fields are used: set it to {CONTRACT}")
    elif spec.gpu_kai_contract != CONTRACT:
        kept = "" if acts else ", so the policy only recommends"
        yield SpecError(path, f"none: nothing is acknowledged{kept}; set it to {CONTRACT}")


def _uses_gpus(spec: specs.StrategySpec) -> bool:
    """Whether anything is said about GPUs that the API server doesn't fill in."""
    gpu = spec.enablement.gpu.requests
    return (
        bool(gpu.upsize or gpu.downsize or gpu.set_from_unspecified or gpu.containers)
        or (gpu.floor, gpu.ceiling) != (None, None)
        or spec.enablement.override_scheduler != "none"
        or spec.kai != specs.KaiStrategySpec()
    )


def _metric_warnings(metrics: specs.MetricsSpec) -> Iterator[SpecError]:
    for signal, spec in ((Signal.COMPUTE, metrics.compute), (Signal.MEMORY, metrics.memory)):
        path = f"spec.metrics.{signal}"
        upsize, scale_back = spec.upsize, spec.scale_back
        is_full_gpu = Interpretation(spec.prometheus.interpretation) is Interpretation.FULL_GPU
        if is_full_gpu and upsize.threshold_percent >= _WHOLE_PERCENT:
            yield SpecError(
                f"{path}.upsize.thresholdPercent",
                f"{upsize.threshold_percent} % of whole GPUs is never exceeded: this can fire on"
                " fractions only",
            )
        if upsize.max_percent < _WHOLE_PERCENT:
            yield SpecError(
                f"{path}.upsize.maxPercent",
                f"{upsize.max_percent} % is less than the baseline: this never asks for more",
            )
        yield from _upsize_warnings(f"{path}.upsize", upsize)
        if scale_back.threshold_percent >= upsize.threshold_percent:
            yield SpecError(
                f"{path}.scaleBack.thresholdPercent",
                f"{scale_back.threshold_percent} % is not below the upsize threshold of"
                f" {upsize.threshold_percent} %: an amount may go up and down for ever",
            )
        else:
            yield from _scale_back_warnings(f"{path}.scaleBack", upsize, scale_back)


# Usage u with headroom h comes to u·(100 + h) %, so that 10,000 / (100 + h) % of it is in use.
# That must lie between the two thresholds, or what an evaluation leads to starts the next one.


def _upsize_warnings(path: str, upsize: specs.UpsizeSpec) -> Iterator[SpecError]:
    threshold, headroom = upsize.threshold_percent, upsize.headroom_percent
    if (_WHOLE_PERCENT + headroom) * threshold < _WHOLE_PERCENT**2:
        yield SpecError(
            f"{path}.headroomPercent",
            f"{headroom} % of headroom leaves {_in_use(headroom)} % in use, above the upsize"
            f" threshold of {threshold} %: each evaluation asks for an upsize again, also where"
            f" that is less than a pod has; set it to {_least_headroom(threshold)} or more",
        )


def _scale_back_warnings(
    path: str, upsize: specs.UpsizeSpec, scale_back: specs.ScaleBackSpec
) -> Iterator[SpecError]:
    raised = _WHOLE_PERCENT + upsize.headroom_percent
    if raised * scale_back.threshold_percent > _WHOLE_PERCENT**2:
        yield SpecError(
            f"{path}.thresholdPercent",
            f"an upsize with {upsize.headroom_percent} % of headroom leaves"
            f" {_in_use(upsize.headroom_percent)} % in use, below the scale-back threshold of"
            f" {scale_back.threshold_percent} %: a scale-back follows at once; set it to"
            f" {_WHOLE_PERCENT**2 // raised} or less",
        )
    headroom = scale_back.headroom_percent
    if (_WHOLE_PERCENT + headroom) * upsize.threshold_percent < _WHOLE_PERCENT**2:
        yield SpecError(
            f"{path}.headroomPercent",
            f"{headroom} % of headroom leaves {_in_use(headroom)} % in use, above the upsize"
            f" threshold of {upsize.threshold_percent} %: an upsize follows a scale-back at once,"
            f" and pods may be evicted for ever; set it to"
            f" {_least_headroom(upsize.threshold_percent)} or more",
        )


def _in_use(headroom: int) -> str:
    return f"{_WHOLE_PERCENT**2 / (_WHOLE_PERCENT + headroom):.1f}".removesuffix(".0")


def _least_headroom(threshold: int) -> int:
    """The headroom with which not more than *threshold* % is in use."""
    return -(-(_WHOLE_PERCENT**2) // threshold) - _WHOLE_PERCENT


def _limit_warnings(checks: specs.SafetyChecksSpec) -> Iterator[SpecError]:
    switches = {
        "enableLimitRangeFilter": checks.enable_limit_range_filter,
        "enablePodLimitRangeFilter": checks.enable_pod_limit_range_filter,
    }
    for name, is_on in switches.items():
        if not is_on:
            text = "false changes nothing: a pod that a LimitRange refuses would never be made"
            yield SpecError(f"spec.safetyChecks.{name}", text)


def _strategy_warnings(
    wanted: DocumentKey, strategies: Mapping[DocumentKey, Strategy | None]
) -> Iterator[SpecError]:
    path = "spec.automationStrategyRef.name"
    strategy = strategies.get(wanted)
    if wanted not in strategies:
        hint = _strategy_hint(wanted, strategies)
        yield MissingReferenceError(path, f"there is no {wanted}{hint}")
    elif strategy is not None and not strategy.upsize and not strategy.downsize:
        yield SpecError(
            path,
            f"{wanted} enables nothing for GPUs: enablement.gpu.requests.upsize and downsize are"
            " false",
        )


def _strategy_hint(wanted: DocumentKey, strategies: Iterable[DocumentKey]) -> str:
    names = [
        key.name
        for key in strategies
        if (key.kind, key.namespace) == (wanted.kind, wanted.namespace)
    ]
    return did_you_mean(wanted.name, names)


def _prometheus_warnings(spec: specs.PrometheusSpec) -> Iterator[SpecError]:
    problem = objection_to_url(spec.url)
    if problem:
        yield SpecError("spec.prometheus.url", f"{problem}: nothing is asked")


def _precedence_warnings(precedence: Sequence[specs.PriorityOfSpec]) -> Iterator[SpecError]:
    first: dict[str, int] = {}
    for index, each in enumerate(precedence):
        if first.setdefault(each.type, each.priority) != each.priority:
            path = f"spec.precedence[{index}].type"
            yield SpecError(path, f"{each.type[:80]} is named already; its higher priority counts")
