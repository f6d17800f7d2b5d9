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

from webhook.policy.gpu.pod import PodGpus, UnclearError, read_gpus
from webhook.reactive.decisions.amounts import EXACT

_RESTARTS = "Always"


@dataclass(frozen=True, slots=True)
class GpuAllocation:
    """
    What a pod has.

    *amounts* are by container: the regular ones in the pod's order, then the init containers that
    run beside them. None is one without a GPU, and every one of them where *reason* says why the
    pod's GPUs can't be told. A *reason* may also tell that a share is of no container that counts.
    """

    amounts: Mapping[str, Decimal | None] = field(default_factory=dict)
    reason: str = ""


def read_allocation(pod: Mapping[str, Any]) -> GpuAllocation:
    """What *pod*, a manifest, has. Zero GPUs are none."""
    names = tuple(_lasting_containers(pod))
    try:
        gpus = read_gpus(pod)
    except UnclearError as unclear:
        return GpuAllocation(dict.fromkeys(names), unclear.problem)
    known = {container.name: container for container in gpus.containers}
    amounts = {name: _decimal(gpus.asked(known[name])) for name in names}
    return GpuAllocation(amounts, _ending_share(gpus, amounts))


def _lasting_containers(pod: Mapping[str, Any]) -> Iterator[str]:
    """The names of those that run until the pod ends."""
    spec = pod.get("spec")
    for kind in ("containers", "initContainers"):
        listed = spec.get(kind) if isinstance(spec, dict) else None
        for container in listed if isinstance(listed, list) else ():
            name = container.get("name") if isinstance(container, dict) else None
            lasts = kind == "containers" or container.get("restartPolicy") == _RESTARTS
            if isinstance(name, str) and name and lasts:
                yield name


def _ending_share(gpus: PodGpus, amounts: Mapping[str, Any]) -> str:
    share = gpus.share
    if share is None or share.container in amounts:
        return ""
    return f"its share is that of {share.container}, an init container that ends"


def _decimal(amount: Fraction) -> Decimal | None:
    """*amount*, exactly: it was written as a decimal. None for nothing."""
    if not amount:
        return None
    return EXACT.divide(Decimal(amount.numerator), Decimal(amount.denominator))
