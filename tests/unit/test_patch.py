"""Edits and the patch that says them, judged by a strict library."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.model.pointer import Path, lookup, to_field_path, to_pointer
from webhook.patch import Editor

KEYS = st.sampled_from(["a", "b", "x/y", "m~n", "~1", "", "0", "é"])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 2**64 - 1), st.floats(-5, 5), st.text(max_size=3)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
WRITES = st.lists(st.tuples(st.lists(KEYS, min_size=1, max_size=4), VALUES), max_size=5)


def typed(value: Any) -> bytes:
    """Tells `1` from `1.0` and `true`, and sees the order of keys."""
    return orjson.dumps(value)


@pytest.mark.slow
@given(DOCUMENTS, WRITES)
def test_a_patch_leads_to_what_was_written(document: Any, writes: Any) -> None:
    before = copy.deepcopy(document)
    editor = Editor(document)
    written: list[tuple[Path, Any]] = []
    for path, value in writes:
        try:
            editor.write(tuple(path), value)
        except TypeError:
            continue
        written.append((tuple(path), value))
        assert lookup(document, tuple(path)) == value

    patch = orjson.loads(orjson.dumps(editor.operations))

    assert jsonpatch.apply_patch(before, patch) == document


@pytest.mark.slow
@given(DOCUMENTS, WRITES)
def test_writing_again_says_nothing(document: Any, writes: Any) -> None:
    editor = Editor(document)
    for path, value in writes[:1]:
        try:
            editor.write(tuple(path), value)
            again = Editor(document)
            again.write(tuple(path), value)
        except TypeError:
            return
        assert again.operations == []


@pytest.mark.slow
@given(DOCUMENTS, st.lists(KEYS, min_size=1, max_size=3), VALUES)
def test_nothing_else_is_touched(document: Any, path: list[str], value: Any) -> None:
    before = copy.deepcopy(document)
    try:
        Editor(document).write(tuple(path), value)
    except TypeError:
        assert typed(document) == typed(before)
        return
    for key in before:
        if key != path[0]:
            assert typed(document[key]) == typed(before[key])


def test_missing_parents_are_one_operation_with_all_that_goes_in() -> None:
    editor = Editor({"spec": None})
    editor.write(("spec", "a", "b"), 1)
    editor.write(("spec", "a", "c"), {"d": [1]})
    editor.write(("spec", "a", "c", "e"), 2)

    assert editor.operations == [
        {"op": "replace", "path": "/spec", "value": {"a": {"b": 1, "c": {"d": [1], "e": 2}}}}
    ]


def test_a_value_that_is_written_twice_is_one_operation() -> None:
    editor = Editor({"b": {"c": 1}})
    for value in (1, 2):
        editor.write(("a",), value)
        editor.write(("b", "c"), value + 1)

    assert editor.operations == [
        {"op": "add", "path": "/a", "value": 2},
        {"op": "replace", "path": "/b/c", "value": 3},
    ]


def test_a_value_that_moved_in_between_is_written_where_it_is_now() -> None:
    document: dict[str, Any] = {"l": [1, 2, 3]}
    sent = copy.deepcopy(document)
    editor = Editor(document)
    editor.write(("l", 2), 4)
    editor.remove(("l", 0))
    editor.write(("l", 1), 5)

    assert document == {"l": [2, 5]}
    assert jsonpatch.apply_patch(sent, editor.operations) == document


def test_written_values_are_copies() -> None:
    """A policy's value must not change when the object is edited further."""
    value: dict[str, Any] = {"limits": {}}
    document: dict[str, Any] = {}
    editor = Editor(document)
    editor.write(("resources",), value)
    editor.write(("resources", "limits", "cpu"), 1)

    assert value == {"limits": {}}


def test_what_is_no_object_is_not_written_through() -> None:
    with pytest.raises(TypeError):
        Editor({"spec": "text"}).write(("spec", "a"), 1)


@pytest.mark.parametrize(
    ("path", "pointer", "field_path"),
    [
        ((), "", ""),
        (
            ("spec", "containers", 0, "image"),
            "/spec/containers/0/image",
            "spec.containers[0].image",
        ),
        (("limits", "nvidia.com/gpu"), "/limits/nvidia.com~1gpu", "limits[nvidia.com/gpu]"),
        (("a~b/c",), "/a~0b~1c", "[a~b/c]"),
    ],
)
def test_paths_have_two_spellings(path: Path, pointer: str, field_path: str) -> None:
    assert to_pointer(path) == pointer
    assert to_field_path(path) == field_path
