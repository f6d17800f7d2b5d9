"""Lists as answers: filtered, sorted, and cut into pages."""

from __future__ import annotations

import base64
import binascii
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from webhook.api.problems import BadRequestError
from webhook.model.names import did_you_mean

DEFAULT_LIMIT = 500
MAX_LIMIT = 500

# What a list says of one of its elements, by the names that filters and sorting know.
Columns = Mapping[str, str]

_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "=@": lambda value, text: text in value,
    "!@": lambda value, text: text not in value,
    "=^": lambda value, text: value.startswith(text),
    "=$": lambda value, text: value.endswith(text),
}

_ORDERS = ("<=", ">=")
# RFC 3339 in UTC, as Kubernetes writes them: their order is that of the texts.
TIMES = ("createdAt", "updatedAt")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Condition:
    """One part of `filterBy`: `kind==AcmeJob`."""

    column: str
    operator: str
    text: str

    def holds(self, columns: Columns) -> bool:
        if self.operator in _ORDERS and self.column in TIMES and not columns[self.column]:
            # What has no time is neither before nor after another.
            return False
        return _OPERATORS[self.operator](columns[self.column], self.text)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a caller wants of a list. *after* is where the page before it ended."""

    conditions: tuple[Condition, ...]
    sort_by: str
    is_descending: bool
    limit: int
    after: tuple[str, str] | None = None


def read_list_query(
    query: Mapping[str, str], filters: Sequence[str], columns: Sequence[str], sort_by: str
) -> ListQuery:
    """
    Read the query of a list whose elements have *columns*.

    *filters* are the values of `filterBy`, which may be given more than once; *sort_by* is the
    order unless one is given.

    Raises:
        BadRequestError: a part of it means nothing.
    """
    conditions = [
        _read_condition(part.strip(), columns)
        for text in filters
        for part in text.split(",")
        if part.strip()
    ]
    named = query.get("sortBy", sort_by)
    if named not in columns:
        raise BadRequestError("sortBy", f"no column {named!r}{did_you_mean(named, columns)}")
    order = query.get("sortOrder", "asc")
    if order not in ("asc", "desc"):
        raise BadRequestError("sortOrder", "must be asc or desc")
    return ListQuery(
        conditions=tuple(conditions),
        sort_by=named,
        is_descending=order == "desc",
        limit=read_limit(query, DEFAULT_LIMIT),
        after=_read_token(query["next"]) if "next" in query else None,
    )


def read_limit(query: Mapping[str, str], default: int) -> int:
    """
    Raises:
        BadRequestError: `limit` is no number from 1 to `MAX_LIMIT`.
    """
    text = query.get("limit", str(default))
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise BadRequestError("limit", f"must be a whole number from 1 to {MAX_LIMIT}")
    return int(text)


def select_page(
    elements: Sequence[tuple[Columns, _T]], wanted: ListQuery
) -> tuple[list[_T], str | None]:
    """
    The page of *elements* that is wanted, and the token for the next one; None at the end.

    Elements may come and go between two pages: a page begins behind the last element of the one
    before, whether or not that is still there. Column `id` breaks ties.
    """
    rows = [
        ((columns[wanted.sort_by], columns["id"]), element)
        for columns, element in elements
        if all(condition.holds(columns) for condition in wanted.conditions)
    ]
    rows.sort(key=lambda row: row[0], reverse=wanted.is_descending)
    if wanted.after is not None:
        is_behind = operator.lt if wanted.is_descending else operator.gt
        rows = [row for row in rows if is_behind(row[0], wanted.after)]
    page = rows[: wanted.limit]
    more = len(rows) > len(page)
    return [element for _, element in page], make_token(list(page[-1][0])) if more else None


def make_token(value: Any) -> str:
    """A text that says nothing to whoever gets it."""
    return base64.urlsafe_b64encode(orjson.dumps(value)).decode().rstrip("=")


def read_token(token: str) -> Any:
    """
    What `make_token` was given.

    Raises:
        BadRequestError: *token* is none of ours.
    """
    try:
        return orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError):
        raise BadRequestError("next", "is no token of this list") from None


def _read_token(token: str) -> tuple[str, str]:
    match read_token(token):
        case [str(value), str(identity)]:
            return value, identity
        case _:
            raise BadRequestError("next", "is no token of this list")


def _read_condition(text: str, columns: Sequence[str]) -> Condition:
    # The operator that begins first.
    found = [(at, name) for name in _OPERATORS if (at := text.find(name)) > 0]
    if not found:
        known = " ".join(_OPERATORS)
        raise BadRequestError("filterBy", f"must be column, operator, value; operators: {known}")
    at, name = min(found)
    column = text[:at].strip()
    if column not in columns:
        raise BadRequestError("filterBy", f"no column {column!r}{did_you_mean(column, columns)}")
    return Condition(column, name, text[at + len(name) :].strip())
