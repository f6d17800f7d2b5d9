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
from webhook.patch import Editor

pytestmark = pytest.mark.slow

VALUES = st.recursive(
    # Copied: an editor writes into them.
    st.sampled_from(ODD).map(copy.deepcopy),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
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
        removes = data.draw(st.booleans())
        if known and removes:
            editor.remove(path)
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
