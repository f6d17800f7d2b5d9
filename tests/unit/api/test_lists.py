from __future__ import annotations

from typing import Any

import pytest

from webhook.api.problems import BadRequestError
from webhook.api.rest.lists import make_token, read_list_query, select_page

COLUMNS = ("id", "name", "kind")
ROWS: list[tuple[dict[str, str], str]] = [
    ({"id": "1", "name": "alpha", "kind": "Job"}, "1"),
    ({"id": "2", "name": "beta", "kind": "Pod"}, "2"),
    ({"id": "3", "name": "alphabet", "kind": "Job"}, "3"),
    ({"id": "4", "name": "", "kind": "Job"}, "4"),
]


def select(*filters: str, **query: str) -> tuple[list[str], str | None]:
    return select_page(ROWS, read_list_query(query, filters, COLUMNS, "name"))


@pytest.mark.parametrize(
    ("filter_by", "want"),
    [
        pytest.param("kind==Job", ["4", "1", "3"], id="equal"),
        pytest.param("kind!=Job", ["2"], id="unequal"),
        pytest.param("name<=alphabet", ["4", "1", "3"], id="at-most"),
        pytest.param("name>=alphabet", ["3", "2"], id="at-least"),
        pytest.param("name=@bet", ["3", "2"], id="contains"),
        pytest.param("name!@bet", ["4", "1"], id="contains-not"),
        pytest.param("name=^alpha", ["1", "3"], id="begins"),
        pytest.param("name=$a", ["1", "2"], id="ends"),
        pytest.param("name==", ["4"], id="empty"),
        pytest.param("kind==Job,name=^alpha", ["1", "3"], id="all-of-them"),
        pytest.param(" kind == Job , ", ["4", "1", "3"], id="spaces"),
        pytest.param("name==a==b", [], id="the-first-operator-counts"),
    ],
)
def test_a_filter_keeps_what_fits(filter_by: str, want: list[str]) -> None:
    assert select(filter_by) == (want, None)


def test_several_filters_hold_together() -> None:
    assert select("kind==Job", "name=^alpha") == (["1", "3"], None)


def test_a_list_is_sorted_by_any_column_either_way() -> None:
    assert select(sortBy="id", sortOrder="desc") == (["4", "3", "2", "1"], None)
    assert select(sortBy="kind") == (["1", "3", "4", "2"], None)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_add_up_to_the_list(order: str) -> None:
    whole, _ = select(sortBy="kind", sortOrder=order)
    pages: list[str] = []
    token: str | None = None
    while True:
        more = {"next": token} if token else {}
        page, token = select(sortBy="kind", sortOrder=order, limit="1", **more)
        pages += page
        if token is None:
            break

    assert pages == whole


def test_the_next_page_begins_behind_the_last_element_even_if_that_is_gone() -> None:
    _, token = select(limit="2")
    assert token is not None
    wanted = read_list_query({"next": token, "limit": "2"}, (), COLUMNS, "name")

    assert select_page(ROWS[1:], wanted) == (["3", "2"], None)


@pytest.mark.parametrize(
    ("filters", "query", "problem"),
    [
        pytest.param(["kind"], {}, "filterBy: must be column, operator, value", id="no-operator"),
        pytest.param(["==Job"], {}, "filterBy: must be column", id="no-column"),
        pytest.param(["kid==Job"], {}, "did you mean", id="unknown-column"),
        pytest.param([], {"sortBy": "nmae"}, 'did you mean "name"', id="unknown-sorting"),
        pytest.param([], {"sortOrder": "up"}, "must be asc or desc", id="unknown-order"),
        pytest.param([], {"limit": "0"}, "from 1 to 500", id="limit-zero"),
        pytest.param([], {"limit": "501"}, "from 1 to 500", id="limit-too-high"),
        pytest.param([], {"limit": "9" * 5000}, "from 1 to 500", id="limit-very-high"),
        pytest.param([], {"limit": "-1"}, "from 1 to 500", id="limit-negative"),
        pytest.param([], {"limit": "١"}, "from 1 to 500", id="limit-in-other-digits"),
        pytest.param([], {"next": "?"}, "no token of this list", id="token-of-nobody"),
        pytest.param([], {"next": "abc"}, "no token of this list", id="token-cut-off"),
        pytest.param([], {"next": make_token(7)}, "no token of this list", id="other-token"),
    ],
)
def test_a_query_that_means_nothing_is_refused(
    filters: list[str], query: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadRequestError, match=problem):
        read_list_query(query, filters, COLUMNS, "name")


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("createdAt>=2020", ["b"]),
        ("createdAt<=2030", ["b"]),
        ("createdAt<=2020", []),
        ("createdAt!=x", ["a", "b"]),
    ],
)
def test_what_has_no_time_is_neither_before_nor_after_another(
    condition: str, found: list[str]
) -> None:
    """What ships with us was never made in this cluster."""
    columns = [
        {"id": "a", "createdAt": ""},
        {"id": "b", "createdAt": "2026-11-30T20:27:14Z"},
    ]
    wanted = read_list_query({}, [condition], ("id", "createdAt"), "id")

    page, _ = select_page([(one, one["id"]) for one in columns], wanted)

    assert page == found
