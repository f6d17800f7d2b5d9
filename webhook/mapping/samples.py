"""
Objects on which a new expression is tried.

They are small: a sound expression needs no millisecond for one, so that an expression that
reaches a limit here is not sound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_CONTAINER: Mapping[str, Any] = {
    "name": "main",
    "image": "registry.example/train:1",
    "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 1}},
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    "ports": [{"containerPort": 8080}],
}
_TEMPLATE: Mapping[str, Any] = {
    "metadata": {"labels": {"app": "sample"}, "annotations": {}},
    "spec": {
        "containers": [_CONTAINER, {"name": "side", "image": "registry.example/side:1"}],
        "initContainers": [{"name": "init", "image": "registry.example/init:1"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}
_METADATA = {"name": "sample", "namespace": "default", "labels": {"app": "sample"}}
SAMPLES: Sequence[bytes] = [
    orjson.dumps(sample)
    for sample in (
        {},
        {"apiVersion": "v1", "kind": "Pod", "metadata": _METADATA, "spec": _TEMPLATE["spec"]},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": _METADATA,
            "spec": {"replicas": 2, "template": _TEMPLATE},
        },
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": _METADATA,
            "spec": {
                "pytorchReplicaSpecs": {
                    role: {"replicas": 1, "template": _TEMPLATE} for role in ("Master", "Worker")
                }
            },
        },
    )
]

# Elements and items, for expressions that yield values.
VALUE_SAMPLES: Sequence[Any] = (
    None,
    {},
    {"name": "sample", "key": "sample", "value": "sample"},
    "sample",
    _CONTAINER,
    _TEMPLATE["spec"],
    {"metadata": _METADATA, "spec": {"template": _TEMPLATE}},
)
