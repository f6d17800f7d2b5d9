"""
What a pod asks for in GPUs: whole ones of its containers, or one container's share.

A pod that asks in another way as well, or in a way that means nothing, is left alone: what it has
can't be compared with a recommendation, and what would be written might not go with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from webhook.errors import QuantityError, WebhookError
from webhook.mapping.homes import GPU_RESOURCE
from webhook.model.counts import read_count
from webhook.model.pointer import Path, lookup
from webhook.model.quantity import parse_quantity
from webhook.policy.gpu import gpu_share
from webhook.policy.gpu.before import PORTION, PORTION_MAX_CHARS, Asked

# With a share only; asks for NVIDIA's Multi-Process Service.
MPS = "mps"

# What KAI reads of a pod that has a share, or refuses where it has none.
SHARE_ANNOTATIONS = (
    gpu_share.FRACTION,
    gpu_share.MEMORY,
    gpu_share.DEVICES,
    gpu_share.CONTAINER,
    MPS,
)

# Parts of devices, and devices handed out by name: MIG, time-slicing, HAMi.
_OTHER_RESOURCES = ("nvidia.com/mig-", GPU_RESOURCE)
# Limits of single containers (kai-gpu-fractioning, in both orders), and KAI's old form of MIG.
_OTHER_ANNOTATIONS = ("nvidia.com/container.", "nvidia.com/gpu-memory.", "nvidia.com/mig-")

_PORTION = re.compile(PORTION, re.ASCII)
# Objects that an injection may write into.
_WRITTEN_OBJECTS: tuple[Path, ...] = (
    ("metadata",),
    ("metadata", "annotations"),
    ("metadata", "labels"),
)


class UnclearError(WebhookError):
    """A pod's GPUs can't be told, for the reason *problem*; *path* says where."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class GpuContainer:
    """
    A container of a pod. *whole* is what it asks for of `nvidia.com/gpu`, None where it names
    none. One that *ends* is an init container that doesn't go on beside the others.
    """

    name: str
    path: Path
    whole: int | None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Share:
    """The portion that one *container* has of each of so many devices, as it is *asked* for."""

    container: str
    asked: Asked

    @property
    def devices(self) -> int:
        return self.asked.devices


@dataclass(frozen=True, slots=True)
class PodGpus:
    """*containers* are the app containers, then the init containers, in the pod's order."""

    containers: tuple[GpuContainer, ...]
    share: Share | None = None

    def asked(self, container: GpuContainer) -> Fraction:
        """What it asks for, in whole GPUs; 0 for none."""
        if self.share is not None and self.share.container == container.name:
            return self.share.asked.amount
        return Fraction(container.whole or 0)

    def as_asked(self, container: GpuContainer) -> Asked:
        """The same, as it is written."""
        if self.share is not None and self.share.container == container.name:
            return self.share.asked
        return Asked(str(container.whole or 0))

    def total(self, written: Mapping[str, int] | None = None) -> int:
        """
        The whole GPUs that the pod is counted with, with those *written* by container.

        As the kubelet counts: init containers run one by one beside the sidecars that began
        before them, then all others run together.
        """
        counts = {c.name: c.whole or 0 for c in self.containers} | dict(written or {})
        together = sum([counts[c.name] for c in self.containers if not c.ends])
        most = beside = 0
        for container in self.containers:
            if "initContainers" not in container.path:
                continue
            if container.ends:
                most = max(most, beside + counts[container.name])
            else:
                beside += counts[container.name]
        return max(together, most)


def read_gpus(pod: Mapping[str, Any]) -> PodGpus:
    """
    What *pod* asks for.

    Raises:
        UnclearError: that can't be told.
    """
    _require_objects(pod)
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        raise UnclearError(("spec",), "its containers can't be read")
    if spec.get("resourceClaims"):
        raise UnclearError(("spec", "resourceClaims"), "the GPUs of its claims can't be counted")
    containers = tuple(_containers(spec))
    annotations = annotations_of(pod)
    for key in annotations:
        if key.startswith(_OTHER_ANNOTATIONS):
            path = ("metadata", "annotations", key)
            raise UnclearError(path, "it limits GPU memory or compute by container")
    return PodGpus(containers, _share(annotations, containers))


def _require_objects(pod: Mapping[str, Any]) -> None:
    """Raise an `UnclearError` where metadata could not be written to."""
    for path in _WRITTEN_OBJECTS:
        found = lookup(pod, path)
        if found is not None and not isinstance(found, dict):
            raise UnclearError(path, f"its {path[-1]} can't be read")


def annotations_of(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations of *pod*; empty where there are none."""
    metadata = pod.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _containers(spec: dict[str, Any]) -> Iterator[GpuContainer]:
    for kind in ("containers", "initContainers"):
        found = spec.get(kind)
        for index, container in enumerate(found if isinstance(found, list) else ()):
            path: Path = ("spec", kind, index)
            name = container.get("name") if isinstance(container, dict) else None
            if not isinstance(name, str) or not name:
                raise UnclearError(path, "its containers can't be read")
            yield GpuContainer(name, path, _whole(container, path, name), _ends(kind, container))


def lasting_containers(pod: Mapping[str, Any]) -> Iterator[str]:
    """The names of those that run until *pod* ends, so far as they can be read."""
    spec = pod.get("spec")
    for kind in ("containers", "initContainers"):
        listed = spec.get(kind) if isinstance(spec, dict) else None
        for container in listed if isinstance(listed, list) else ():
            name = container.get("name") if isinstance(container, dict) else None
            if isinstance(name, str) and name and not _ends(kind, container):
                yield name


def _ends(kind: str, container: Mapping[str, Any]) -> bool:
    return kind == "initContainers" and container.get("restartPolicy") != "Always"


def _whole(container: dict[str, Any], path: Path, name: str) -> int | None:
    """What a container asks for of `nvidia.com/gpu`; None where it names none."""
    resources = container.get("resources")
    if resources is None:
        return None
    path = (*path, "resources")
    if not isinstance(resources, dict):
        raise UnclearError(path, f"the resources of {name} can't be read")
    counts: list[int] = []
    for part in ("limits", "requests"):
        listed = resources.get(part)
        if listed is None:
            continue
        if not isinstance(listed, dict):
            raise UnclearError((*path, part), f"the {part} of {name} can't be read")
        for key in listed:
            if key.startswith(_OTHER_RESOURCES) and key != GPU_RESOURCE:
                raise UnclearError((*path, part, key), f"{name} asks for {key[:60]}")
        if listed.get(GPU_RESOURCE) is not None:
            at = (*path, part, GPU_RESOURCE)
            counts.append(_read_count(listed[GPU_RESOURCE], at, name))
    if len(set(counts)) > 1:
        problem = f"limit and request of {name} differ in {GPU_RESOURCE}"
        raise UnclearError((*path, "limits", GPU_RESOURCE), problem)
    return counts[0] if counts else None


def _read_count(value: Any, path: Path, name: str) -> int:
    try:
        amount = parse_quantity(value)
    except QuantityError:
        amount = Fraction(-1)
    if amount < 0 or amount.denominator != 1:
        raise UnclearError(path, f"{name} asks for no whole number of {GPU_RESOURCE}")
    return int(amount)


def _share(annotations: Mapping[str, Any], containers: tuple[GpuContainer, ...]) -> Share | None:
    def unclear(key: str, problem: str) -> UnclearError:
        return UnclearError(("metadata", "annotations", key), problem)

    if gpu_share.MEMORY in annotations:
        problem = "what part of a GPU its gpu-memory is, depends on the node"
        raise unclear(gpu_share.MEMORY, problem)
    if gpu_share.FRACTION not in annotations:
        if gpu_share.DEVICES in annotations:
            raise unclear(gpu_share.DEVICES, f"it has {gpu_share.DEVICES} and no share")
        return None
    portion = annotations[gpu_share.FRACTION]
    if not 0 < _read_portion(portion) < 1:
        raise unclear(gpu_share.FRACTION, "its gpu-fraction is none that KAI accepts")
    devices = devices_of(annotations)
    if not devices:
        raise unclear(gpu_share.DEVICES, f"its {gpu_share.DEVICES} is no number of devices")
    # Init containers come first where KAI looks for the name; names are unique all the same.
    named = annotations.get(gpu_share.CONTAINER)
    if named is None and containers:
        named = containers[0].name
    if named not in [container.name for container in containers]:
        raise unclear(gpu_share.CONTAINER, f"its {gpu_share.CONTAINER} names no container")
    for container in containers:
        if container.whole:
            path = (*container.path, "resources", "limits", GPU_RESOURCE)
            raise UnclearError(path, "it asks for a share and for whole GPUs")
    return Share(str(named), Asked(portion, devices))


def devices_of(annotations: Mapping[str, Any]) -> int:
    """Of how many devices a share with these *annotations* is; 0 where that can't be told."""
    return read_count(annotations.get(gpu_share.DEVICES, "1")) or 0


def _read_portion(value: Any) -> Fraction:
    """0 where *value* is none."""
    if not isinstance(value, str) or len(value) > PORTION_MAX_CHARS:
        return Fraction(0)
    return Fraction(value) if _PORTION.fullmatch(value) else Fraction(0)
