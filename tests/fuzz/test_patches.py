"""Patches: whatever is written and removed, in whatever order, a strict library arrives there."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import budget
from tests.fuzz.mutations import KEYS, ODD, paths_in
from webhook.model.pointer import lookup, to_pointer
from webhook.patch import Editor

pytestmark = pytest.mark.slow

VALUES = st.recursive(
    # Copied: an editor writes into them.
    st.sampled_from(ODD).map(copy.deepcopy),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
SCALARS = st.sampled_from([value for value in ODD if isinstance(value, str | int | float)])
DOCUMENTS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)


@budget(300)
@given(DOCUMENTS, st.data())
def test_edits_in_any_order_are_a_patch_that_leads_there(
    document: Any, data: st.DataObject
) -> None:
    before = copy.deepcopy(document)
    editor = Editor(document)
    for _ in range(data.draw(st.integers(1, 6))):
        known = paths_in(document)
        path = data.draw(st.sampled_from(known or [("a",)]))
        edit = data.draw(st.sampled_from(["remove", "put", "write"]))
        if known and edit == "remove":
            editor.remove(path)
            continue
        node = lookup(document, path)
        if edit == "put" and isinstance(node, dict):
            key = data.draw(KEYS)
            editor.put(node, key, data.draw(SCALARS), to_pointer((*path, key)))
            continue
        path = (*path, *data.draw(st.lists(KEYS, max_size=2)))
        try:
            editor.write(path, data.draw(VALUES))
        except TypeError:
            # A text or a number is in the way.
            continue

    patch = orjson.loads(orjson.dumps(editor.operations))

    patched = jsonpatch.apply_patch(before, patch)
    assert orjson.dumps(patched, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        document, option=orjson.OPT_SORT_KEYS
    )
