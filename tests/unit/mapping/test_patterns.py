"""What is known of a query from its text: compared with what it finds."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from webhook.mapping.patterns import (
    EACH,
    Pattern,
    can_select,
    outline_of,
    patterns_of,
    show_pattern,
)
from webhook.mapping.plain import PlainQuery, parse_plain
from webhook.model.pointer import Path

QUERIES = [
    ".",
    ".spec",
    ".spec.pod",
    ".spec | .pod | select(.)",
    '.spec["pod"]?',
    ".spec.pods[]?",
    ".spec.pods[0]",
    ".spec.pods[1].pod",
    ".spec[]",
    ".spec[].pod",
    "(.spec, .status) | .pod",
    ".spec.pod, .spec.pods[]?",
    ".spec | select(.) | (.pod, (.pods[] | .pod))",
]
PLACES: list[Path] = [
    (),
    ("spec",),
    ("status",),
    ("spec", "pod"),
    ("spec", "pdo"),
    ("spec", "pods"),
    ("status", "pod"),
    ("spec", "pods", 0),
    ("spec", "pods", 1),
    ("spec", "pods", "a"),
    ("spec", "pods", 1, "pod"),
    ("spec", "pod", "pod"),
]


def plain(source: str, **more: Any) -> PlainQuery:
    query = parse_plain(source, **more)
    assert query is not None, f"{source!r} should be plain"
    return query


def document_with(place: Path) -> Any:
    """Nothing but the way to an object at *place*; items before it are null."""
    node: Any = {}
    for token in reversed(place):
        node = {token: node} if isinstance(token, str) else [*[None] * token, node]
    return node


@pytest.mark.parametrize(("source", "place"), [*product(QUERIES, PLACES)])
def test_a_query_can_select_what_it_finds_once_it_is_there(source: str, place: Path) -> None:
    query = plain(source)

    assert can_select(query, place) == (place in query.locate(document_with(place)).paths)


@pytest.mark.parametrize(
    ("source", "place", "want"),
    [
        pytest.param(".spec.roles[].pod", ("spec", "roles", EACH, "pod"), True, id="each-of-each"),
        pytest.param(".spec.roles.Worker", ("spec", "roles", EACH), True, id="one-of-each"),
        pytest.param(".spec.roles[0]", ("spec", "roles", EACH), True, id="one-item-of-each"),
        pytest.param(".spec.pods[]", ("spec", "roles", EACH), False, id="of-another-list"),
        pytest.param(".spec.roles", ("spec", "roles", EACH), False, id="above"),
    ],
)
def test_of_many_places_one_is_enough(source: str, place: Pattern, want: bool) -> None:
    assert can_select(plain(source), place) is want


def test_a_name_in_any_case_selects_each_spelling() -> None:
    query = plain(".spec.Worker", any_case=["Worker"])

    assert can_select(query, ("spec", "worker"))
    assert not can_select(query, ("Spec", "worker"))


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param(".spec | select(.enabled == true) | .pod", [".spec.pod"], id="condition"),
        pytest.param(".spec | objects | .pod?", [".spec.pod"], id="type"),
        pytest.param(".spec.a // .spec.b", [".spec.a", ".spec.b"], id="alternative"),
        pytest.param("first(.pods[] | select(.a)) | .spec", [".pods[].spec"], id="first"),
        pytest.param(
            '.pods[] | select(.name == "a)" or (.b | not)) | .spec', [".pods[].spec"], id="texts"
        ),
    ],
)
def test_an_outline_leaves_out_the_conditions(source: str, want: list[str]) -> None:
    outline = outline_of(source)

    assert outline is not None
    assert [show_pattern(pattern) for pattern in patterns_of(outline)] == want


@pytest.mark.parametrize(
    "source",
    [".. | objects", ".spec[$x]", "if .a then .b else .c end", ".a as $a | .b", "getpath($p)"],
)
def test_of_other_forms_nothing_is_told(source: str) -> None:
    assert outline_of(source) is None


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        pytest.param((), ".", id="object"),
        pytest.param(("spec", "pods", EACH, "pod"), ".spec.pods[].pod", id="each"),
        pytest.param(("spec", "pods", 0), ".spec.pods[0]", id="item"),
        pytest.param(("a/b", "c"), '.["a/b"].c', id="quoted"),
        pytest.param((EACH, "c"), ".[].c", id="root"),
    ],
)
def test_a_pattern_is_shown_as_a_query_spells_it(pattern: Pattern, want: str) -> None:
    assert show_pattern(pattern) == want
