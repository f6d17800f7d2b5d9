"""
What the pod will be that comes in the place of another one. Pure.

It starts from what its owner wrote, and not from what its predecessor was given.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from webhook.mapping.homes import GPU_RESOURCE
from webhook.model.rightsizing.controls import PAUSE_UNTIL, SKIP_CONTAINERS
from webhook.policy.gpu import gpu_share
from webhook.policy.gpu.before import GPU_BEFORE, format_amount, parse_before
from webhook.policy.gpu.injection import GpuPlan
from webhook.policy.gpu.pod import SHARE_ANNOTATIONS, annotations_of


def as_written(manifest: Mapping[str, Any], *, has_template: bool) -> Mapping[str, Any]:
    """
    The pod *manifest* as it was before something was written into it; the same where nothing was.

    With *has_template* the annotations that control it are known from elsewhere: its own may have
    come later, and go with it.
    """
    annotations = annotations_of(manifest)
    before = parse_before(annotations.get(GPU_BEFORE))
    own = {PAUSE_UNTIL, SKIP_CONTAINERS} & annotations.keys() if has_template else frozenset()
    if not before and not own:
        return manifest
    pod = copy.deepcopy(dict(manifest))
    found = pod["metadata"]["annotations"]
    for key in own:
        del found[key]
    if before:
        _restore(pod, found, before)
    return pod


def _restore(
    pod: dict[str, Any], annotations: dict[str, Any], before: Mapping[str, Fraction]
) -> None:
    del annotations[GPU_BEFORE]
    devices = int(annotations.get(gpu_share.DEVICES, 0))
    for key in SHARE_ANNOTATIONS:
        annotations.pop(key, None)
    for container in _containers(pod):
        name = container["name"]
        if name not in before:
            continue
        amount = before[name]
        for part in ("limits", "requests"):
            resources = container.setdefault("resources", {}).setdefault(part, {})
            resources.pop(GPU_RESOURCE, None)
            if amount and not devices and amount.denominator == 1:
                resources[GPU_RESOURCE] = str(amount)
        if amount and (devices or amount.denominator != 1):
            # Of how many devices it was a share is lost where it isn't one now.
            count = devices or math.floor(amount) + 1
            annotations[gpu_share.FRACTION] = format_amount(amount / count)
            annotations[gpu_share.CONTAINER] = name
            if count > 1:
                annotations[gpu_share.DEVICES] = str(count)


def _containers(pod: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    spec = pod["spec"]
    return [*spec.get("containers", ()), *spec.get("initContainers", ())]


def amounts_after(
    plan: GpuPlan, manifest: Mapping[str, Any], now: Mapping[str, Decimal | None]
) -> Mapping[str, Fraction]:
    """What the containers of *manifest*, which have the amounts *now*, have after *plan*."""
    found = {name: Fraction(amount or 0) for name, amount in now.items()}
    devices = int(annotations_of(manifest).get(gpu_share.DEVICES, 1))
    for change in plan.changes:
        if change.path[-1] == GPU_RESOURCE:
            found[change.item] = Fraction(change.new or 0)
        elif change.path[-1] == gpu_share.FRACTION and change.new is not None:
            found[change.item] = Fraction(change.new) * devices
    return found
