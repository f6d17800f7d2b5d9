"""
What is kept of a Pod.

A cluster has many pods that are alike: those of one workload differ in name, node and state only.
What they ask for is kept once, so that a pod costs less than a kilobyte.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from webhook.catalog.pod_makers import role_labels
from webhook.clients.informer import Resource
from webhook.mapping.homes import GPU_RESOURCE
from webhook.model.rightsizing.controls import PAUSE_UNTIL, SKIP_CONTAINERS, Controls
from webhook.model.rightsizing.times import read_time
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.policy.gpu.injection import QUEUE_LABEL
from webhook.policy.gpu.pod import SHARE_ANNOTATIONS
from webhook.reactive.decisions.states import ObservedPod
from webhook.reactive.observation.allocations import GpuAllocation, read_allocation
from webhook.reactive.observation.jobs import INDEX_FAILURES
from webhook.reactive.observation.keyed import Keyed
from webhook.store.object_metadata import Metadata, OwnerRef, controller_of

PODS = Resource("pods", "/api/v1/pods")

# Phases after which nothing of a pod runs any more.
_FINISHED = ("Succeeded", "Failed")

# NVIDIA's resources and annotations; the others say nothing about its GPUs.
_VENDOR = GPU_RESOURCE.partition("/")[0] + "/"
_KEPT_ANNOTATIONS = frozenset(
    {*SHARE_ANNOTATIONS, GPU_BEFORE, PAUSE_UNTIL, SKIP_CONTAINERS, INDEX_FAILURES}
)
_KEPT_LABELS = frozenset({QUEUE_LABEL, *role_labels()})
_KEPT_VARIABLE = "NVIDIA_VISIBLE_DEVICES"

# Of pods that are alike. Two thousand workloads in the middle of a roll-out have four thousand.
_SHAPES = 8192

_Pairs: TypeAlias = tuple[tuple[str, Any], ...]


class PodShape(NamedTuple):
    """
    What pods that are alike ask for.

    *manifest* is a part of theirs: what `policy.gpu.plan_injection` looks at, as if they were to
    be made now, and the labels that tell their role. It is shared, and nobody writes to it.
    """

    allocation: GpuAllocation
    manifest: Mapping[str, Any]
    controls: Controls


class SeenPod(Keyed, msgspec.Struct, frozen=True, gc=False):
    """
    One pod.

    *started* is `status.startTime`; *ready_since* is None while it isn't ready. *name* is its key,
    `namespace/name`.
    """

    name: str
    resource_version: str
    uid: str
    owner: OwnerRef | None
    phase: str
    is_terminating: bool
    started: datetime | None
    ready_since: datetime | None
    shape: PodShape

    @property
    def pod_name(self) -> str:
        return self.name.partition("/")[2]

    @property
    def allocation(self) -> GpuAllocation:
        return self.shape.allocation

    @property
    def manifest(self) -> Mapping[str, Any]:
        """See `PodShape`."""
        return self.shape.manifest

    @property
    def controls(self) -> Controls:
        return self.shape.controls

    @property
    def is_finished(self) -> bool:
        return self.phase in _FINISHED

    @property
    def is_evidence(self) -> bool:
        """
        Whether what it has and uses says anything about its workload.

        A pod that ends takes its allocation with it, and its usage falls for another reason than
        that there is less to do. One that waits for a node has no start time; one that waits for
        an image has one, and no samples: such a pod holds a scale-back, as it will run.
        """
        return not self.is_terminating and not self.is_finished

    @property
    def observed(self) -> ObservedPod:
        """The pod to the arithmetic."""
        has = self.allocation
        return ObservedPod(self.pod_name, self.started, has.amounts, has.before, has.devices)


# --- reading ---


class _Resources(msgspec.Struct, gc=False):
    limits: dict[str, str | int] | None = None
    requests: dict[str, str | int] | None = None


class _Variable(msgspec.Struct, gc=False):
    name: str = ""
    value: str = ""
    value_from: dict[str, Any] | None = msgspec.field(default=None, name="valueFrom")


class _Container(msgspec.Struct, gc=False):
    name: str
    resources: _Resources | None = None
    env: list[_Variable] | None = None
    restart_policy: str | None = msgspec.field(default=None, name="restartPolicy")


class _Spec(msgspec.Struct, gc=False):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = msgspec.field(default=None, name="initContainers")
    scheduler_name: str = msgspec.field(default="", name="schedulerName")
    claims: list[msgspec.Raw] | None = msgspec.field(default=None, name="resourceClaims")


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    changed: str | None = msgspec.field(default=None, name="lastTransitionTime")


class _Status(msgspec.Struct, gc=False):
    phase: str = ""
    started: str | None = msgspec.field(default=None, name="startTime")
    conditions: list[_Condition] | None = None


class _TemplateMetadata(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class PodTemplate(msgspec.Struct, gc=False):
    """What pods are made from, as far as it is looked at."""

    metadata: _TemplateMetadata | None = None
    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def annotations(self) -> Mapping[str, str] | None:
        return None if self.metadata is None else self.metadata.annotations


class _Pod(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_POD = msgspec.json.Decoder(_Pod)


def decode_pod(raw: bytes) -> SeenPod:
    """
    Read one Pod.

    Raises:
        msgspec.DecodeError: *raw* is none.
    """
    pod = _POD.decode(raw)
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    shape = _shape_of(metadata.annotations, metadata.labels, spec)
    return SeenPod(
        name=metadata.key,
        resource_version=metadata.resource_version,
        uid=metadata.uid,
        owner=controller_of(metadata.owners),
        phase=sys.intern(status.phase),
        is_terminating=metadata.deleted is not None,
        started=_time(status.started),
        ready_since=_ready_since(status.conditions or ()),
        shape=shape,
    )


def allocation_of(template: PodTemplate) -> GpuAllocation:
    """What pods have that are made from *template*, as its owner wrote it."""
    return _shape_of(template.annotations, None, template.spec).allocation


def with_note(shape: PodShape, note: str) -> PodShape:
    """*shape* with *note* as what was there before something was written (`GPU_BEFORE`)."""
    manifest = shape.manifest
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), GPU_BEFORE: note}
    noted = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    return PodShape(read_allocation(noted), noted, shape.controls)


def _shape_of(
    annotations: Mapping[str, str] | None, labels: Mapping[str, str] | None, spec: _Spec
) -> PodShape:
    return _shape(
        _pairs(annotations, _is_kept),
        _pairs(labels, _is_kept_label),
        tuple([_container_key(container) for container in spec.containers or ()]),
        tuple([_container_key(container) for container in spec.init_containers or ()]),
        spec.scheduler_name,
        bool(spec.claims),
    )


class _ContainerKey(NamedTuple):
    """What is kept of a container, as something that can be compared."""

    name: str
    restart_policy: str | None
    limits: _Pairs | None
    requests: _Pairs | None
    variables: tuple[_Pairs, ...]


def _container_key(container: _Container) -> _ContainerKey:
    resources = container.resources or _Resources()
    return _ContainerKey(
        container.name,
        container.restart_policy,
        _pairs(resources.limits, _is_vendors),
        _pairs(resources.requests, _is_vendors),
        tuple(_variables(container.env or ())),
    )


def _variables(env: Iterable[_Variable]) -> Iterator[_Pairs]:
    # One name may stand there several times.
    for variable in env:
        if variable.name == _KEPT_VARIABLE:
            if variable.value_from is not None:
                yield (("name", variable.name), ("valueFrom", ()))
            else:
                yield (("name", variable.name), ("value", variable.value))


def _is_vendors(key: str) -> bool:
    return key.startswith(_VENDOR)


def _is_kept(key: str) -> bool:
    return key in _KEPT_ANNOTATIONS or key.startswith(_VENDOR)


def _is_kept_label(key: str) -> bool:
    return key in _KEPT_LABELS


def _pairs(found: Mapping[str, Any] | None, is_kept: Any) -> _Pairs | None:
    if not found:
        return None
    return tuple([(key, found[key]) for key in sorted(found) if is_kept(key)]) or None


@lru_cache(maxsize=_SHAPES)
def _shape(
    annotations: _Pairs | None,
    labels: _Pairs | None,
    containers: tuple[_ContainerKey, ...],
    init_containers: tuple[_ContainerKey, ...],
    scheduler_name: str,
    has_claims: bool,
) -> PodShape:
    metadata: dict[str, Any] = {}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if labels:
        metadata["labels"] = dict(labels)
    spec: dict[str, Any] = {"containers": [_container(key) for key in containers]}
    if init_containers:
        spec["initContainers"] = [_container(key) for key in init_containers]
    if scheduler_name:
        spec["schedulerName"] = scheduler_name
    if has_claims:
        spec["resourceClaims"] = [{}]
    manifest = {"metadata": metadata, "spec": spec}
    return PodShape(read_allocation(manifest), manifest, Controls.of(metadata.get("annotations")))


def _container(key: _ContainerKey) -> dict[str, Any]:
    container: dict[str, Any] = {"name": key.name}
    if key.restart_policy is not None:
        container["restartPolicy"] = key.restart_policy
    resources = {
        part: dict(pairs)
        for part, pairs in (("limits", key.limits), ("requests", key.requests))
        if pairs is not None
    }
    if resources:
        container["resources"] = resources
    if key.variables:
        container["env"] = [dict(each) for each in key.variables]
    return container


def _ready_since(conditions: Iterable[_Condition]) -> datetime | None:
    for condition in conditions:
        if condition.type == "Ready" and condition.status == "True":
            return _time(condition.changed)
    return None


def _time(text: str | None) -> datetime | None:
    """A time as the API server writes it; None where there is none that can be read."""
    try:
        return read_time(text)
    except ValueError:
        return None
