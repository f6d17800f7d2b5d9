"""
Which amounts of pods are ours, also where the note on them is gone.

Pure. A pod into which something was written carries a note of what it asked for before. Whatever
takes that note away must not make the amount look like its owner's: it would become the baseline,
and the cap would grow with it, again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import msgspec

from webhook.model.rightsizing.policies import Mode
from webhook.model.rightsizing.recommendations import RecommendationStatus, Selected
from webhook.policy.gpu.before import (
    GPU_BEFORE,
    Asked,
    asked_for,
    format_before,
    parse_before,
)
from webhook.policy.gpu.pod import annotations_of, devices_of
from webhook.policy.gpu.rounding import written_amount
from webhook.reactive.observation.allocations import GpuAllocation
from webhook.reactive.observation.kinds import SeenWorkload
from webhook.reactive.observation.pods import PodShape, SeenPod, with_note
from webhook.reactive.observation.workloads import ObservedWorkload

# Of one container. Pods of more than a few amounts at a time are not seen: they are replaced one
# after the other.
_MOST = 16
_NOTHING = Decimal(-1)


def remember_written(
    known: Mapping[str, tuple[Decimal, ...]], selected: Selected | None, pods: Iterable[SeenPod]
) -> Mapping[str, tuple[Decimal, ...]]:
    """*known* with what pods are given from now on, and what some of *pods* were given."""
    pods = [pod for pod in pods if pod.is_evidence]
    found = {name: dict.fromkeys(amounts) for name, amounts in known.items()}
    for name, amount in (*_given(pods), *_to_give(selected, pods)):
        own = found.setdefault(name, {})
        # The newest last: the oldest are forgotten.
        own.pop(amount, None)
        own[amount] = None
    return {name: tuple(amounts)[-_MOST:] for name, amounts in sorted(found.items()) if amounts}


def _given(pods: Iterable[SeenPod]) -> Iterator[tuple[str, Decimal]]:
    for allocation in _alike(pods):
        for name, before in allocation.before.items():
            amount = allocation.amounts[name]
            if amount is not None and amount != before:
                yield name, amount


def _alike(pods: Iterable[SeenPod]) -> Iterable[GpuAllocation]:
    return {id(pod.allocation): pod.allocation for pod in pods}.values()


def _to_give(selected: Selected | None, pods: Iterable[SeenPod]) -> Iterator[tuple[str, Decimal]]:
    if selected is None or selected.mode is not Mode.ENFORCE:
        return
    shapes = {id(pod.shape): pod.shape for pod in pods}.values()
    devices = {1, *[count for shape in shapes for count in _devices_of(shape)]}
    for name, amount in selected.amounts.items():
        for count in sorted(devices):
            ceiling = selected.ceilings.get(name)
            written = written_amount(amount, selected.scheduler, ceiling, devices=count)
            if written != selected.baselines.get(name):
                yield name, written


def _devices_of(shape: PodShape) -> Iterator[int]:
    """Of how many devices a share in such a pod is, or was before something was written."""
    annotations = annotations_of(shape.manifest)
    # What is no number is no share either, and nothing is known of such a pod.
    yield devices_of(annotations) or 1
    yield from (asked.devices for asked in parse_before(annotations.get(GPU_BEFORE)).values())


def recognise(observed: ObservedWorkload, known: RecommendationStatus) -> ObservedWorkload:
    """
    *observed* with the note put back where a pod has an amount that was written into it.

    An amount that the workload's own template asks for is its owner's. So is one of a template that
    was copied from a pod, note and all, whatever that says. Where neither a baseline nor a template
    tells what a container had before, the pod's GPUs can't be told.
    """
    template = observed.workload.template_gpus
    if not known.written and not (template is not None and template.before):
        return observed
    baselines = {
        name: base.amount for state in known.policies for name, base in state.baseline.items()
    }
    shapes: dict[int, PodShape] = {}
    pods = []
    for pod in observed.pods:
        shape = shapes.get(id(pod.shape))
        if shape is None:
            # Pods that are alike go on sharing what is known of them.
            shape = _recognised(pod.shape, observed.workload, known.written, baselines)
            shapes[id(pod.shape)] = shape
        pods.append(pod if shape is pod.shape else msgspec.structs.replace(pod, shape=shape))
    if all(new is old for new, old in zip(pods, observed.pods, strict=True)):
        return observed
    return replace(observed, pods=tuple(pods))


def _recognised(
    shape: PodShape,
    workload: SeenWorkload,
    written: Mapping[str, tuple[Decimal, ...]],
    baselines: Mapping[str, Decimal],
) -> PodShape:
    allocation = shape.allocation
    template = workload.template_gpus or GpuAllocation()
    lost: dict[str, Asked] = {}
    copied: set[str] = set()
    unknown: list[str] = []
    for name, amount in allocation.amounts.items():
        is_owners = template.amounts.get(name) == amount
        if name in allocation.before:
            if is_owners and template.before.get(name, _NOTHING) == allocation.before[name]:
                copied.add(name)
            continue
        # A baseline is forgotten where its container leaves the scope for a while.
        baseline = baselines.get(name, template.amounts.get(name))
        if amount is None or is_owners or amount not in written.get(name, ()):
            continue
        if baseline is None:
            unknown.append(name)
        elif amount != baseline:
            lost[name] = asked_for(Fraction(baseline))
    if unknown:
        problem = f"what {', '.join(unknown)} has was written into it, and nothing tells over what"
        return shape._replace(allocation=GpuAllocation(dict.fromkeys(allocation.amounts), problem))
    if not lost and not copied:
        return shape
    noted = parse_before(annotations_of(shape.manifest).get(GPU_BEFORE))
    kept = {name: asked for name, asked in noted.items() if name not in copied}
    return with_note(shape, format_before({**kept, **lost}))
