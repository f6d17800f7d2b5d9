"""
Who else goes by the GPUs of a workload: autoscalers.

They hardly ever do. A VerticalPodAutoscaler controls cpu and memory unless it names others, and a
HorizontalPodAutoscaler counts pods by their usage of cpu or memory, or by metrics that don't depend
on what a pod asks for. One that names `nvidia.com/gpu` would work against a recommendation.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from webhook.clients.informer import Resource
from webhook.mapping.homes import GPU_RESOURCE
from webhook.reactive.observation.keyed import Keyed
from webhook.store.object_metadata import Metadata

HORIZONTAL = Resource(
    "horizontalpodautoscalers.autoscaling", "/apis/autoscaling/v2/horizontalpodautoscalers"
)
VERTICAL = Resource(
    "verticalpodautoscalers.autoscaling.k8s.io",
    "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers",
    optional=True,
)


class SeenResizer(Keyed, msgspec.Struct, frozen=True, gc=False):
    """
    One autoscaler. *target_kind* and *target* name the workload that it scales by its GPUs; both
    are empty where it goes by something else. *name* is its key, `namespace/name`.
    """

    name: str
    resource_version: str
    kind: str
    target_kind: str = ""
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name.partition('/')[2]}"


class _Target(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""


class _Named(msgspec.Struct, gc=False):
    name: str = ""


class _Metric(msgspec.Struct, gc=False):
    resource: _Named | None = None
    container_resource: _Named | None = msgspec.field(default=None, name="containerResource")


class _HorizontalSpec(msgspec.Struct, gc=False):
    target: _Target | None = msgspec.field(default=None, name="scaleTargetRef")
    metrics: list[_Metric] | None = None


class _Horizontal(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _HorizontalSpec = msgspec.field(default_factory=_HorizontalSpec)


class _ContainerPolicy(msgspec.Struct, gc=False):
    controlled: list[str] | None = msgspec.field(default=None, name="controlledResources")


class _ResourcePolicy(msgspec.Struct, gc=False):
    containers: list[_ContainerPolicy] | None = msgspec.field(
        default=None, name="containerPolicies"
    )


class _VerticalSpec(msgspec.Struct, gc=False):
    target: _Target | None = msgspec.field(default=None, name="targetRef")
    policy: _ResourcePolicy | None = msgspec.field(default=None, name="resourcePolicy")


class _Vertical(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _VerticalSpec = msgspec.field(default_factory=_VerticalSpec)


_HORIZONTAL = msgspec.json.Decoder(_Horizontal)
_VERTICAL = msgspec.json.Decoder(_Vertical)


def decode_horizontal(raw: bytes) -> SeenResizer:
    """
    Read one HorizontalPodAutoscaler.

    Raises:
        msgspec.DecodeError: *raw* is none.
    """
    read = _HORIZONTAL.decode(raw)
    resources = {
        named.name
        for metric in read.spec.metrics or ()
        for named in (metric.resource, metric.container_resource)
        if named is not None
    }
    target = read.spec.target if GPU_RESOURCE in resources else None
    return _seen("HorizontalPodAutoscaler", read.metadata, target)


def decode_vertical(raw: bytes) -> SeenResizer:
    """
    Read one VerticalPodAutoscaler.

    Raises:
        msgspec.DecodeError: *raw* is none.
    """
    read = _VERTICAL.decode(raw)
    target = read.spec.target if GPU_RESOURCE in _controlled(read.spec) else None
    return _seen("VerticalPodAutoscaler", read.metadata, target)


def _controlled(spec: _VerticalSpec) -> Iterator[str]:
    for policy in (spec.policy and spec.policy.containers) or ():
        yield from policy.controlled or ()


def _seen(kind: str, metadata: Metadata, target: _Target | None) -> SeenResizer:
    target = target or _Target()
    return SeenResizer(metadata.key, metadata.resource_version, kind, target.kind, target.name)
