"""What is known of a query from its text: compared with what it finds."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from webhook.mapping.patterns import (
    EACH,
    Pattern,
    can_select,
    outline_before_conditions,
    outline_of,
    outline_without_conditions,
    patterns_of,
    reads_of,
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


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param(".spec.pod | objects", set(), id="no-condition"),
        pytest.param(".spec | select(.enabled == true) | .pod", {"enabled"}, id="comparison"),
        pytest.param(
            '.pods[] | select((.a.b? == "x") or (.c | not))', {"a", "b", "c", "x"}, id="several"
        ),
        pytest.param('.pods[] | select(has("a") and ["b"] != null)', {"a", "b"}, id="has"),
        pytest.param(".spec.a // .spec.b", {"spec", "a", "b"}, id="alternatives"),
        pytest.param("first(.a, .b | select(.c))", {"c"}, id="first"),
        pytest.param(".pods[] | select(.a | select(.b))", {"a", "b"}, id="within-one-another"),
        pytest.param(".spec | select(.a == .b)", None, id="two-values"),
        pytest.param(".spec | select(.[] == 1)", None, id="any-key"),
        pytest.param(".spec | select(length > 1)", None, id="how-many"),
        pytest.param(".spec | select(.a == {})", None, id="object"),
        pytest.param(".spec | select(.. == 1)", None, id="anywhere"),
        pytest.param('.spec | select(has("\\(.a)"))', None, id="computed-key"),
        pytest.param(".spec | select(.[$x])", None, id="variable"),
    ],
)
def test_what_a_condition_reads(source: str, want: set[str] | None) -> None:
    assert reads_of(source) == want


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param(".spec.a | objects | select(.on) | .b", [".spec.a"], id="select"),
        pytest.param(".spec[]? | (.a, .b) | select(.on)", [".spec[]"], id="parentheses"),
        pytest.param("first(.a, .b | select(.c))", None, id="at-once"),
        pytest.param(".spec.a // .spec.b", None, id="alternatives"),
        pytest.param("select(.on) | .a", None, id="first-of-all"),
    ],
)
def test_where_the_first_condition_is(source: str, want: list[str] | None) -> None:
    begin = outline_before_conditions(source)

    assert (begin and [show_pattern(pattern) for pattern in patterns_of(begin)]) == want


@pytest.mark.parametrize(
    ("source", "is_told"),
    [
        (".spec?.a | objects", True),
        (".spec | (.a?, .b?) | objects | .c", True),
        (".spec.a | arrays", False),
        (".spec.a | select(.b)", False),
        ("first(.a, .b)", False),
        (".a // .b", False),
    ],
)
def test_a_query_that_finds_all_objects_is_its_outline(source: str, is_told: bool) -> None:
    assert (outline_without_conditions(source) is not None) is is_told
