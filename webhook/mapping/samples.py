"""
Objects on which a new expression is tried.

They are small: a sound expression needs no millisecond for one, so that an expression that
reaches a limit here is not sound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from webhook.mapping.jq_tokens import Tokens, UnknownFormError
from webhook.model.values import FieldType

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

# Values of arguments, by type. Of texts some that are more than a name, for expressions that take
# them apart.
ARGUMENT_SAMPLES: Mapping[FieldType, Sequence[Any]] = {
    FieldType.STRING: (
        *("sample", "1", "1Gi", "true", "a=b", "a:1", "a/b:1", "192.0.2.0/24", "a,b", "5m"),
        *("2030-01-01T00:00:00Z", "2030-01-01", "https://host.example/path", '{"a": 1}', "c2E="),
    ),
    FieldType.INTEGER: (1, 0, 1000),
    FieldType.BOOLEAN: (True, False),
    FieldType.NUMBER: (0.5, 1, 100),
    FieldType.QUANTITY: ("1Gi", "1", "500m", 2),
    FieldType.IPADDRESS: ("192.0.2.1", "2001:db8::1"),
    FieldType.OBJECT: ({"sample": 1}, ["sample"], [{"name": "sample"}], "sample", 1, "1", True),
}

# What stands where an expression looks.
_LEAVES: Sequence[Any] = (
    *("sample", "1", 1, True, [], ["sample"], [{"name": "sample", "value": "sample"}]),
    *({}, {"name": "sample"}, "a:1", "a=b,c=d", "1Gi", "2030-01-01T00:00:00Z"),
)
# In the tree of an element: the items of a list.
_ITEMS = object()


def elements_for(sources: Sequence[str]) -> list[dict[str, Any]]:
    """
    Elements in which the expressions *sources* may find what they need.

    The first is empty. Beside the usual samples there are some with the paths that the expressions
    spell out, with all kinds of values at their ends.
    """
    tree: dict[Any, Any] = {}
    leaves = list(_LEAVES)
    for source in sources:
        try:
            leaves += _plant(tree, Tokens(source))
        except UnknownFormError:
            continue
    made = [_grown(tree, leaf) for leaf in leaves] if tree else []
    usual = [sample for sample in VALUE_SAMPLES if isinstance(sample, dict)]
    return [{}, *usual, *[element for element in made if isinstance(element, dict)]]


# Ours: so many texts of an expression are tried as values.
_MAX_TEXTS = 8


def _plant(tree: dict[Any, Any], tokens: Tokens) -> list[Any]:
    """Take the paths of an expression into *tree*, from its root; returns the texts in it."""
    texts: list[Any] = []
    # Where the path goes on that is being read: behind a bar it may be the one before the bar.
    node = tree
    while True:
        kind, text = tokens.take()
        if kind == "end":
            return texts[:_MAX_TEXTS]
        if kind == "field":
            tree.setdefault(text[1:], {})
            node = _step(node, text[1:])
        elif kind == "[" and node is not tree and tokens.peek() in ("]", "number"):
            tokens.accept("number")
            if tokens.accept("]"):
                node = _step(node, _ITEMS)
        elif kind == "text" and "\\" not in text:
            texts.append(text[1:-1])
        elif kind not in ("|", "?", "."):
            node = tree


def _step(node: dict[Any, Any], key: Any) -> dict[Any, Any]:
    child: dict[Any, Any] = node.setdefault(key, {})
    return child


def _grown(tree: Mapping[Any, Any], leaf: Any) -> Any:
    if not tree:
        return leaf
    if _ITEMS in tree:
        return [_grown(tree[_ITEMS], leaf)]
    return {key: _grown(below, leaf) for key, below in tree.items()}
