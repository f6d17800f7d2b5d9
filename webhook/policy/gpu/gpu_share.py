"""
Shares of a GPU in a pod template: annotations of the pod that KAI reads, and what they mean for the
GPU fields of its containers.

Where a pod has a share (`gpu-fraction` or `gpu-memory`), no container has whole GPUs: the number
of devices stands in an annotation too, and one container has them, the first unless it is named.

A *template* is where a pod is seen from, which *pod* says the parts of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from webhook.mapping.homes import GPU_RESOURCE, PodHome
from webhook.model.pointer import Path, lookup

FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
DEVICES = "gpu-fraction-num-devices"
CONTAINER = "gpu-fraction-container-name"

_TYPES = {FRACTION: "portion", MEMORY: "memory"}
_LIMIT: Path = ("resources", "limits", GPU_RESOURCE)


# -- where ----------------------------------------------------------------------------------------


def template_of(container: Path, pod: PodHome) -> Path | None:
    """The pod template around the container at *container*; None if it stands in none."""
    spec = spec_of(container, pod)
    return None if spec is None else _without(container, _below(container, spec, pod))


def spec_of(container: Path, pod: PodHome) -> tuple[str, ...] | None:
    """Below which part of its template the container stands; None if in none."""
    if isinstance(container[-1], int):
        # The longest first: of `workerSpec` beside what the place itself has.
        for spec in sorted((pod.spec, *pod.others), key=len, reverse=True):
            if _ends_with(container[:-2], spec):
                return spec
        return None
    return pod.spec if _main_at(container, pod) is not None else None


def _below(container: Path, spec: tuple[str, ...], pod: PodHome) -> Path:
    """The end of the path of a container, from its template."""
    if isinstance(container[-1], int):
        return (*spec, *container[-2:])
    return _main_at(container, pod) or ()


def _main_at(container: Path, pod: PodHome) -> tuple[str, ...] | None:
    """Which of the places of the main container this is; None if it is none."""
    found = [at for at in pod.main_at if _ends_with(container, at)]
    return max(found, key=len, default=None)


def _ends_with(path: Path, end: Path) -> bool:
    return not end or path[-len(end) :] == end


def _without(path: Path, end: Path) -> Path:
    return path[: len(path) - len(end)]


def annotation(template: Path, name: str, pod: PodHome) -> Path:
    """Where the annotation *name* of a pod template stands."""
    return (*template, *pod.annotations, name)


# -- what -----------------------------------------------------------------------------------------


def request_type(document: Any, template: Path, pod: PodHome) -> str | None:
    """`portion` or `memory`, by which annotation is there; None where the pod has no share."""
    for name, value in _TYPES.items():
        if lookup(document, annotation(template, name, pod)) is not None:
            return value
    return None


def has_share(document: Any, container: Path, pod: PodHome) -> bool:
    """Whether the pod of this container has a share of a GPU."""
    template = template_of(container, pod)
    return template is not None and request_type(document, template, pod) is not None


def is_sharing(document: Any, container: Path, pod: PodHome) -> bool:
    """Whether it is this container that has the share of its pod."""
    template = template_of(container, pod)
    spec = spec_of(container, pod)
    if template is None or spec is None:
        return False
    mains = _mains(document, template, pod) if spec == pod.spec else []
    is_main = container in mains
    named = lookup(document, annotation(template, CONTAINER, pod))
    names = [
        lookup(document, (*path, "name")) for path in _listed(document, (*template, *spec))
    ] + ([pod.main] if mains else [])
    if isinstance(named, str) and named in names:
        own = pod.main if is_main else lookup(document, (*container, "name"))
        return bool(own == named)
    # Named is nobody, or somebody who is not there.
    if mains and not (pod.main_is_last and _has_listed(document, template, pod)):
        return is_main
    return container[-2:] == ("containers", 0)


def main_name(document: Any, template: Path, mains: Iterable[Path], pod: PodHome) -> str:
    """
    What a share has to call its container, so that it is the main one; empty if it is the first.

    *mains* are the main containers of all pods of the object.
    """
    if _mains(document, template, pod):
        return pod.main if _has_listed(document, template, pod) else ""
    listed = (*template, *pod.spec, "containers")
    for path in sorted(path for path in mains if path[:-1] == listed):
        name = lookup(document, (*path, "name"))
        return name if path[-1] != 0 and isinstance(name, str) else ""
    return ""


def whole_gpus(document: Any, container: Path, limit: Path = _LIMIT) -> Any:
    """The whole GPUs that a container asks for beside any share; None if there are none."""
    devices = lookup(document, (*container, *limit))
    return None if devices in (None, 0, "0") else devices


def obstacle(document: Any, template: Path, name: str, pod: PodHome) -> str:
    """Why the pod at *template* can't be given the annotation *name*; ``""`` if it can."""
    for other, value in _TYPES.items():
        if other != name and lookup(document, annotation(template, other, pod)) is not None:
            return f"the pod asks for GPU {value} already"
    asking = [whole_gpus(document, path) for path in containers(document, template, pod)]
    if pod.devices:
        asking.append(whole_gpus(document, template, pod.devices))
    return "a container asks for whole GPUs" if any(one is not None for one in asking) else ""


def containers(document: Any, template: Path, pod: PodHome) -> Iterator[Path]:
    """The app and init containers of a pod template."""
    yield from _mains(document, template, pod)
    for spec in (pod.spec, *pod.others):
        yield from _listed(document, (*template, *spec))


def _mains(document: Any, template: Path, pod: PodHome) -> list[Path]:
    """Where something stands of a main container that is no item of a list."""
    places = [(*template, *at) for at in pod.main_at]
    return [path for path in places if isinstance(lookup(document, path), dict)]


def _has_listed(document: Any, template: Path, pod: PodHome) -> bool:
    return bool(lookup(document, (*template, *pod.spec, "containers")))


def _listed(document: Any, spec: Path) -> Iterator[Path]:
    for kind in ("containers", "initContainers"):
        found = lookup(document, (*spec, kind))
        for index in range(len(found) if isinstance(found, list) else 0):
            yield (*spec, kind, index)
