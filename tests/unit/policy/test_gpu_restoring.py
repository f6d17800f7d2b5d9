"""A pod as it was before something was written into it, and whose the note of that is."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import JsonObject, make_container
from tests.gpu import (
    CONTAINER,
    DEVICES,
    FRACTION,
    make_gpu_container,
    make_gpu_pod,
    make_injection,
    make_kai_injection,
    share_of,
    whole_gpus,
)
from webhook.model.rightsizing.injections import Injection
from webhook.patch import Editor
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.policy.gpu.injection import plan_injection
from webhook.policy.gpu.restoring import has_note, is_of, restore


def injected(pod: JsonObject, injection: Injection) -> JsonObject:
    editor = Editor(copy.deepcopy(pod))
    for change in plan_injection(pod, injection).changes:
        if change.new is None:
            editor.remove(change.path)
        else:
            editor.write(change.path, change.new)
    return editor.document


def sharing(portion: str, devices: int = 1) -> JsonObject:
    annotations = {FRACTION: portion, CONTAINER: "main"}
    if devices > 1:
        annotations[DEVICES] = str(devices)
    return make_gpu_pod(make_container("main"), annotations=annotations)


WHOLE = make_gpu_pod(make_gpu_container("main", "1", "1"))


@pytest.mark.parametrize(
    ("pod", "injection"),
    [
        pytest.param(WHOLE, make_injection({"main": "3"}), id="whole"),
        pytest.param(WHOLE, make_kai_injection({"main": "0.5"}), id="whole-to-share"),
        pytest.param(sharing("0.5"), make_kai_injection({"main": "0.7"}), id="share"),
        pytest.param(sharing("5e-1", 2), make_kai_injection({"main": "1.5"}), id="devices"),
        pytest.param(sharing(".65", 4), make_kai_injection({"main": "4.4"}), id="to-whole"),
        pytest.param(sharing("0.333333"), make_kai_injection({"main": "3"}), id="many-digits"),
    ],
)
def test_what_was_written_is_taken_back_and_known_as_ours(
    pod: JsonObject, injection: Injection
) -> None:
    done = injected(pod, injection)
    assert has_note(done)
    assert not has_note(pod)

    before = restore(done)

    assert (share_of(before), whole_gpus(before)) == (share_of(pod), whole_gpus(pod))
    assert is_of(done, injection)


def noted(count: Any = "4", note: str = "main=1") -> JsonObject:
    container = make_gpu_container("main", count, count)
    return make_gpu_pod(container, annotations={GPU_BEFORE: note})


@pytest.mark.parametrize(
    ("pod", "injection"),
    [
        pytest.param(noted(), None, id="nothing-recommended"),
        pytest.param(noted(), make_injection({"main": "2"}), id="another-amount"),
        pytest.param(noted("2", "main=1,draft=1"), make_injection({"main": "2"}), id="more-noted"),
        pytest.param(
            noted("2"), make_injection({"main": "2"}, upsize=False), id="that-is-not-allowed"
        ),
        pytest.param(
            noted("2"),
            make_injection({"main": "2"}, baselines={"main": Decimal(3)}),
            id="of-another-baseline",
        ),
        pytest.param(noted("many"), make_injection({"main": "2"}), id="that-can-not-be-told"),
    ],
)
def test_a_note_of_anything_else_is_not_ours(pod: JsonObject, injection: Injection | None) -> None:
    assert not is_of(pod, injection)


def test_what_is_empty_is_filled() -> None:
    """As in a file, where nobody has left it out."""
    pod = noted()
    pod["spec"]["containers"][0]["resources"] = None
    pod["spec"]["initContainers"] = None

    assert whole_gpus(restore(pod)) == {"main": ("1", "1")}
    assert not is_of(pod, make_injection({"main": "2"}))
