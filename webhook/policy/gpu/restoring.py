"""A pod as it was before something was written into it, by the note that it carries."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from webhook.mapping.homes import GPU_RESOURCE
from webhook.model.rightsizing.injections import Injection
from webhook.patch import Editor
from webhook.policy.gpu import gpu_share
from webhook.policy.gpu.before import GPU_BEFORE, Asked, parse_before
from webhook.policy.gpu.injection import plan_injection
from webhook.policy.gpu.pod import SHARE_ANNOTATIONS, UnclearError, annotations_of, read_gpus


def has_note(pod: Mapping[str, Any]) -> bool:
    """Whether *pod* says what it asked for before; it may have got that from anybody."""
    return bool(parse_before(annotations_of(pod).get(GPU_BEFORE)))


def restore(pod: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of *pod* without the note, and with what that says. *pod* can be read."""
    restored = copy.deepcopy(dict(pod))
    annotations = restored["metadata"]["annotations"]
    before = parse_before(annotations.pop(GPU_BEFORE))
    for key in SHARE_ANNOTATIONS:
        annotations.pop(key, None)
    for container in _containers(restored):
        asked = before.get(container["name"])
        if asked is not None:
            _ask(container, annotations, asked)
    return restored


def _ask(container: dict[str, Any], annotations: dict[str, Any], asked: Asked) -> None:
    resources = container["resources"] = container.get("resources") or {}
    for part in ("limits", "requests"):
        listed = resources[part] = resources.get(part) or {}
        listed.pop(GPU_RESOURCE, None)
        if asked.amount and not asked.is_share:
            listed[GPU_RESOURCE] = asked.text
    if asked.is_share:
        annotations[gpu_share.FRACTION] = asked.text
        annotations[gpu_share.CONTAINER] = container["name"]
        if asked.devices > 1:
            annotations[gpu_share.DEVICES] = str(asked.devices)


def _containers(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for kind in ("containers", "initContainers"):
        found = pod["spec"].get(kind)
        yield from found if isinstance(found, list) else ()


def is_of(pod: Mapping[str, Any], injection: Injection | None) -> bool:
    """
    Whether *injection* is what made the note of *pod* and what it has now, as when it is looked at
    once more after another webhook.

    Anybody can write a note into a pod template, or has it there by a copy of a pod that ran.
    """
    if injection is None:
        return False
    try:
        now = _amounts(pod)
        restored = restore(pod)
        editor = Editor(restored)
        for change in plan_injection(restored, injection).changes:
            if change.new is None:
                editor.remove(change.path)
            else:
                editor.write(change.path, change.new)
        then = _amounts(editor.document)
    except UnclearError:
        return False
    notes = [annotations_of(each).get(GPU_BEFORE) for each in (pod, editor.document)]
    return now == then and notes[0] == notes[1]


def _amounts(pod: Mapping[str, Any]) -> list[Fraction]:
    gpus = read_gpus(pod)
    return [gpus.asked(container) for container in gpus.containers]
