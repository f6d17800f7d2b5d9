"""
How much GPU the containers of a pod have now, in whole GPUs.

Read is what a pod asks for: `nvidia.com/gpu` of its containers, or the share that KAI's annotations
give to one of them. What asks in another way (`gpu-memory`, parts of devices by MIG, claims, limits
by container) is not turned into an amount by guessing: the pod counts as one without a GPU, and it
is said why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from webhook.policy.gpu.before import GPU_BEFORE, as_stored, parse_before
from webhook.policy.gpu.pod import (
    PodGpus,
    UnclearError,
    annotations_of,
    lasting_containers,
    read_gpus,
)


@dataclass(frozen=True, slots=True)
class GpuAllocation:
    """
    What a pod has.

    *amounts* are by container: the regular ones in the pod's order, then the init containers that
    run beside them. None is one without a GPU, and every one of them where *reason* says why the
    pod's GPUs can't be told. A *reason* may also tell that a share is of no container that counts.
    *before* are what some of them would have if nothing had been written into the pod. *devices*
    is of how many devices a share of several is.
    """

    amounts: Mapping[str, Decimal | None] = field(default_factory=dict)
    reason: str = ""
    before: Mapping[str, Decimal | None] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)

    def own(self, name: str) -> Decimal | None:
        """What the container *name* was written with by whoever owns the workload."""
        return self.before[name] if name in self.before else self.amounts[name]


def read_allocation(pod: Mapping[str, Any]) -> GpuAllocation:
    """What *pod*, a manifest, has. Zero GPUs are none."""
    names = tuple(lasting_containers(pod))
    try:
        gpus = read_gpus(pod)
    except UnclearError as unclear:
        return GpuAllocation(dict.fromkeys(names), unclear.problem)
    known = {container.name: container for container in gpus.containers}
    amounts = {name: _decimal(gpus.asked(known[name])) for name in names}
    noted = parse_before(annotations_of(pod).get(GPU_BEFORE))
    before = {name: _decimal(each.amount) for name, each in noted.items() if name in amounts}
    return GpuAllocation(amounts, _ending_share(gpus, amounts), before, dict(_devices(gpus)))


def _devices(gpus: PodGpus) -> Iterator[tuple[str, int]]:
    if gpus.share is not None and gpus.share.devices > 1:
        yield gpus.share.container, gpus.share.devices


def _ending_share(gpus: PodGpus, amounts: Mapping[str, Any]) -> str:
    share = gpus.share
    if share is None or share.container in amounts:
        return ""
    return f"its share is that of {share.container}, an init container that ends"


def _decimal(amount: Fraction) -> Decimal | None:
    """*amount*, to as many places as it is stored with later. None for nothing."""
    return as_stored(amount) or None
