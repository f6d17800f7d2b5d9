"""What a setExpr says, merged into the element."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from webhook.errors import EvaluationError
from webhook.mapping.merging import differences, merge
from webhook.mapping.results import Inexact
from webhook.model.pointer import to_pointer


@pytest.mark.parametrize(
    ("node", "result", "want"),
    [
        pytest.param(None, {"a": 1}, {"a": 1}, id="into-nothing"),
        pytest.param({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}, id="objects"),
        pytest.param({"a": 1}, {"a": {"c": 2}}, {"a": {"c": 2}}, id="object-for-a-number"),
        pytest.param({"a": {"b": 1}}, {"a": 2}, {"a": 2}, id="number-for-an-object"),
        pytest.param({"a": 1}, {"a": None, "b": None}, {"a": 1}, id="null-says-nothing"),
        pytest.param({}, {"a": {"b": None}}, {"a": {}}, id="null-leaves-no-key"),
        pytest.param(
            {"l": [{"name": "x", "n": 1}, {"name": "y", "n": 2}]},
            {"l": [{"name": "y", "m": 3, "n": None}, {"name": "z"}]},
            {"l": [{"name": "x", "n": 1}, {"name": "y", "n": 2, "m": 3}, {"name": "z"}]},
            id="items-by-key",
        ),
        pytest.param(
            {"l": [{"name": "x", "in": [{"name": "p"}]}]},
            {"l": [{"name": "x", "in": [{"name": "q"}]}]},
            {"l": [{"name": "x", "in": [{"name": "p"}, {"name": "q"}]}]},
            id="items-within-items",
        ),
        pytest.param(
            {"l": [{"name": "x", "t": None}]},
            {"l": [{"name": "x", "t": None, "u": 1}, {"v": None}]},
            {"l": [{"name": "x", "t": None, "u": 1}, {}]},
            id="items-without-key-replace-the-list",
        ),
        pytest.param(
            {"l": [{"name": True}, {"name": 1.0}]},
            {"l": [{"name": 1, "n": 2}]},
            {"l": [{"name": True}, {"name": 1, "n": 2}]},
            id="a-flag-is-no-number",
        ),
        pytest.param({"l": [1, 2, 3]}, {"l": [1, 4]}, {"l": [1, 4]}, id="other-lists-are-replaced"),
        pytest.param({"l": "text"}, {"l": [{"name": "x"}]}, {"l": [{"name": "x"}]}, id="no-list"),
    ],
)
def test_what_the_result_says_is_taken_over(node: Any, result: Any, want: Any) -> None:
    before = copy.deepcopy(node)

    assert merge(node, result, "name") == want
    assert node == before


def test_without_a_key_lists_are_replaced() -> None:
    assert merge({"l": [{"name": "x"}]}, {"l": [{"name": "y"}]}, None) == {"l": [{"name": "y"}]}


def test_keys_are_one_if_they_mean_the_same_to_whoever_merges() -> None:
    node, result = {"l": [{"name": "1", "n": 1}]}, {"l": [{"name": 1, "n": 2}]}

    merged = merge(node, result, "name", lambda one, other: int(one) == int(other))

    assert merged == {"l": [{"name": 1, "n": 2}]}


@pytest.mark.parametrize("number", [2**53 + 1, 2**60 + 7, 18446744073709551615])
def test_a_large_number_of_the_element_comes_back_as_it_was(number: int) -> None:
    """An expression may return all that it was given; jq has rounded it on the way."""
    node = {"seed": number, "l": [{"seed": number}], "a": 1}
    rounded = Inexact(int(float(number)))

    merged = merge(node, {"seed": rounded, "l": [{"seed": rounded}], "a": 2}, None)

    assert merged == {"seed": number, "l": [{"seed": number}], "a": 2}
    assert type(merged["seed"]) is int


@pytest.mark.parametrize("node", [{}, {"a": 7}, {"a": "text"}, {"a": 2**53 + 8}])
def test_another_large_number_is_not_written(node: Any) -> None:
    with pytest.raises(EvaluationError, match="a number of 2\\^53 or more, which jq rounds"):
        merge(node, {"a": Inexact(2**53)}, None)


# --- what it changes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="nothing"),
        pytest.param({"a": 1}, {"a": 1.0}, [], id="the-same-number"),
        pytest.param({"a": None}, {}, [], id="null-is-absent"),
        pytest.param({"a": 1}, {"a": 2, "b": 3}, [("/a", 1, 2), ("/b", None, 3)], id="values"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, [("/a/b", 1, 2)], id="as-deep-as-both-go"),
        pytest.param({}, {"a": {"b": {"c": 1}}}, [("/a/b/c", None, 1)], id="a-new-object"),
        pytest.param({}, {"a": {}}, [("/a", None, {})], id="a-new-object-with-nothing-in-it"),
        pytest.param({"a": "x"}, {"a": {"b": 1}}, [("/a", "x", {"b": 1})], id="another-type"),
        pytest.param({"a": True}, {"a": 1}, [("/a", True, 1)], id="a-flag-is-no-number"),
        pytest.param({}, {"l": [1, 2]}, [("/l", None, [1, 2])], id="a-new-list-of-values"),
        pytest.param(
            {}, {"l": [{"n": 1}, {}]}, [("/l/0", None, {"n": 1}), ("/l/1", None, {})], id="items"
        ),
        pytest.param(
            {"l": [{"n": 1}]},
            {"l": [{"n": 2}, {"n": 3}]},
            [("/l/0/n", 1, 2), ("/l/1", None, {"n": 3})],
            id="an-item-more",
        ),
        pytest.param(
            {"l": [1, 2, 3]}, {"l": [1, 4]}, [("/l/1", 2, 4), ("/l/2", 3, None)], id="an-item-less"
        ),
        pytest.param(
            {"l": [{"n": 1, "m": 2}]}, {"l": [{"n": 1}]}, [("/l/0/m", 2, None)], id="a-key-less"
        ),
    ],
)
def test_each_spot_that_differs_is_told_once(old: Any, new: Any, want: Any) -> None:
    found = [(to_pointer(path), before, after) for path, before, after in differences(old, new)]

    assert found == want
