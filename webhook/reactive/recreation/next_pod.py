"""
What the pod will be that comes in the place of another one. Pure.

It starts from what its owner wrote, and not from what its predecessor was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from webhook.mapping.homes import GPU_RESOURCE
from webhook.model.rightsizing.controls import PAUSE_UNTIL, SKIP_CONTAINERS
from webhook.policy.gpu import gpu_share
from webhook.policy.gpu.injection import GpuPlan
from webhook.policy.gpu.pod import annotations_of, devices_of
from webhook.policy.gpu.restoring import has_note, restore


def as_written(manifest: Mapping[str, Any], *, has_template: bool) -> Mapping[str, Any]:
    """
    The pod *manifest* as it was before something was written into it; the same where nothing was.

    With *has_template* the annotations that control it are known from elsewhere: its own may have
    come later, and go with it.
    """
    own = {PAUSE_UNTIL, SKIP_CONTAINERS} if has_template else frozenset()
    pod = restore(manifest) if has_note(manifest) else manifest
    annotations = annotations_of(pod)
    if own.isdisjoint(annotations):
        return pod
    kept = {key: text for key, text in annotations.items() if key not in own}
    return {**pod, "metadata": {**pod["metadata"], "annotations": kept}}


def amounts_after(
    plan: GpuPlan, manifest: Mapping[str, Any], now: Mapping[str, Decimal | None]
) -> Mapping[str, Fraction]:
    """
    What the containers of *manifest*, which have the amounts *now*, have after *plan*; exactly,
    but for what stays as it is, which has six places.
    """
    found = {name: Fraction(amount or 0) for name, amount in now.items()}
    # Where it is no number, there is no share that anything could be written into.
    devices = devices_of(annotations_of(manifest)) or 1
    for change in plan.changes:
        if change.path[-1] == GPU_RESOURCE:
            found[change.item] = Fraction(change.new or 0)
        elif change.path[-1] == gpu_share.FRACTION and change.new is not None:
            found[change.item] = Fraction(change.new) * devices
    return found
