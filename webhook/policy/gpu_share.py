"""
Shares of a GPU in a pod template: annotations of the pod that KAI reads, and what they mean for the
GPU fields of its containers.

Where a pod has a share (`gpu-fraction` or `gpu-memory`), no container has whole GPUs: the number
of devices stands in an annotation too, and one container has them, the first unless it is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.mapping.homes import GPU_RESOURCE
from webhook.model.pointer import Path, lookup

FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
DEVICES = "gpu-fraction-num-devices"
CONTAINER = "gpu-fraction-container-name"

_TYPES = {FRACTION: "portion", MEMORY: "memory"}
_LIMIT: Path = ("resources", "limits", GPU_RESOURCE)


def template_of(container: Path) -> Path | None:
    """The pod template around the container at *container*; None if it stands in none."""
    return container[:-3] if len(container) > 2 and container[-3] == "spec" else None


def annotation(template: Path, name: str) -> Path:
    """Where the annotation *name* of a pod template stands."""
    return (*template, "metadata", "annotations", name)


def request_type(document: Any, template: Path) -> str | None:
    """`portion` or `memory`, by which annotation is there; None where the pod has no share."""
    for name, value in _TYPES.items():
        if lookup(document, annotation(template, name)) is not None:
            return value
    return None


def has_share(document: Any, container: Path) -> bool:
    """Whether the pod of this container has a share of a GPU."""
    template = template_of(container)
    return template is not None and request_type(document, template) is not None


def is_sharing(document: Any, container: Path) -> bool:
    """Whether it is this container that has the share of its pod."""
    template = template_of(container)
    if template is None:
        return False
    named = lookup(document, annotation(template, CONTAINER))
    names = [lookup(document, (*path, "name")) for path in containers(document, template)]
    if isinstance(named, str) and named in names:
        return bool(lookup(document, (*container, "name")) == named)
    # Named is nobody, or somebody who is not there.
    return container[-2:] == ("containers", 0)


def whole_gpus(document: Any, container: Path) -> Any:
    """The whole GPUs that a container asks for beside any share; None if there are none."""
    devices = lookup(document, (*container, *_LIMIT))
    return None if devices in (None, 0, "0") else devices


def obstacle(document: Any, template: Path, name: str) -> str:
    """Why the pod at *template* can't be given the annotation *name*; ``""`` if it can."""
    for other, value in _TYPES.items():
        if other != name and lookup(document, annotation(template, other)) is not None:
            return f"the pod asks for GPU {value} already"
    for container in containers(document, template):
        if whole_gpus(document, container) is not None:
            return "a container asks for whole GPUs"
    return ""


def containers(document: Any, template: Path) -> Iterator[Path]:
    """The app and init containers of a pod template."""
    for kind in ("containers", "initContainers"):
        found = lookup(document, (*template, "spec", kind))
        for index in range(len(found) if isinstance(found, list) else 0):
            yield (*template, "spec", kind, index)
