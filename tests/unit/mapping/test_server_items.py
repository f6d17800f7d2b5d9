"""Patterns of items that Kubernetes adds."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.errors import SpecError
from webhook.mapping.server_items import compile_item


@pytest.mark.parametrize(
    ("pattern", "item", "matches"),
    [
        pytest.param({"a": "x-*"}, {"a": "x-1"}, True, id="glob"),
        pytest.param({"a": "x-*"}, {"a": "y"}, False, id="other-text"),
        pytest.param({"a": "*"}, {"a": 1}, False, id="a-glob-is-for-texts"),
        pytest.param({"a": "x"}, {"a": "x", "b": 1}, False, id="key-beside"),
        pytest.param({"a": "x"}, {"a": "x", "b": None}, True, id="null-is-absent"),
        pytest.param({"a": "x", "b": None}, {"a": "x", "b": [1]}, True, id="any-value"),
        pytest.param({"a": "x", "b": None}, {"a": "x"}, False, id="but-a-value"),
        pytest.param({"a": 1}, {"a": 1}, True, id="number"),
        pytest.param({"a": 1}, {"a": True}, False, id="true-is-not-one"),
        pytest.param({"a": {"b": "x"}}, {"a": {"b": "x"}}, True, id="object"),
        pytest.param({"a": {"b": "x"}}, {"a": {"b": "x", "c": 1}}, False, id="key-further-down"),
        pytest.param({"a": {"b": "x"}}, {"a": "x"}, False, id="no-object"),
        pytest.param({"a": [{"b": 1}, {"c": 1}]}, {"a": [{"c": 1}]}, True, id="each-is-known"),
        pytest.param({"a": [{"b": 1}]}, {"a": [{"b": 1}, {"d": 1}]}, False, id="one-is-not"),
        pytest.param({"a": [{"b": 1}]}, {"a": {"b": 1}}, False, id="no-list"),
        pytest.param({"a": "x"}, "x", False, id="no-item"),
        pytest.param({"a": "x"}, None, False, id="null"),
    ],
)
def test_an_item_is_one_if_all_of_it_is_as_the_pattern_says(
    pattern: dict[str, Any], item: Any, matches: bool
) -> None:
    assert compile_item(pattern, "p").matches(item) is matches


@pytest.mark.parametrize(
    "pattern", [pytest.param({}, id="empty"), pytest.param({"a": None}, id="any-value")]
)
def test_a_pattern_says_what_the_item_is(pattern: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="must say what the item is"):
        compile_item(pattern, "spec.specSelectors.s.serverItems.volumes")
