"""
What the worker answered: places, or why there are none.

Nothing of jq's own texts is passed on as it is, for they quote values of the object.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from webhook.errors import EvaluationError
from webhook.mapping.jq_child import REFUSED, Answer
from webhook.mapping.programs import HIDDEN, MAX_PLACES, MAX_VALUES
from webhook.model.pointer import Path, lookup


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """
    One expression failed on this object.

    *reason* continues a sentence about the expression ("selected more than 1000 places"). It
    shows no value of the object. *is_flood*: it yielded more than it may, whatever the object is.
    *text* is jq's own; it may quote the object, and is for trials on samples only.
    """

    reason: str
    is_flood: bool = field(default=False, compare=False)
    text: str = field(default="", compare=False, repr=False)


QueryResult = list[Path] | QueryFailure

# The values that an expression yielded for one question.
ValueResult = tuple[Any, ...] | QueryFailure

TOO_MANY_PLACES = f"selected more than {MAX_PLACES} places"


@dataclass(frozen=True, slots=True)
class Inexact:
    """
    A number of 2^53 or more: jq computes with floats, so that it may stand for its neighbours.

    *value* is what jq made of it.
    """

    value: int | float


_TYPE = "(null|boolean|number|string|array|object)"

# What jq says, and what of it can be shown. Its texts quote values of the object, so that nothing
# passes that isn't listed here: names of types and jq's own words.
_JQ_ERRORS: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern, re.DOTALL), shown)
    for pattern, shown in (
        (f"Cannot index {_TYPE} with {_TYPE}", "cannot index {0} with {1}"),
        (f"Cannot iterate over {_TYPE}", "cannot iterate over {0}"),
        ("Invalid path expression", "computes a value where it should select places"),
        (
            rf"{_TYPE} \(.*\) and {_TYPE} \(.*\) cannot be (added|subtracted|multiplied|divided)",
            "met {0} and {1}, which cannot be {2}",
        ),
        (rf"{_TYPE} \(.*\) has no (keys|length)", "met {0}, which has no {1}"),
        (f"Cannot check whether {_TYPE} has a {_TYPE} key", "cannot look for {1} keys in {0}"),
        (rf"{_TYPE} \(.*\) cannot be matched", "met {0} where a pattern needs string"),
        (
            r"(startswith|endswith|split|join|test|match|ascii_\w+case)\b.* (requires?|must be)",
            "met another type where {0} needs string",
        ),
        ("Out of bounds negative array index", "counts to before the beginning of a list"),
        (f"({'|'.join(HIDDEN)}) is not available", "uses {0}, which is not available"),
    )
]


# A key that the author wrote is no value of the object. One that jq computed may be.
_INDEXED = re.compile(rf'Cannot index {_TYPE} with string \("(\w+)"\)')


def shown_error(error: object, source: str) -> str:
    if isinstance(error, str):
        indexed = _INDEXED.match(error)
        if indexed is not None and indexed[2] in source:
            return f'cannot index {indexed[1]} with "{indexed[2]}"'

        for pattern, shown in _JQ_ERRORS:
            match = pattern.match(error)
            if match is not None:
                return shown.format(*match.groups())
    return "failed in jq, whose text may hold values of the object and is not shown"


def read_results(
    payload: bytes, sources: Sequence[str], document_json: bytes
) -> list[QueryResult] | None:
    """What a combined program answered, or None where that has not the agreed form."""
    try:
        entries = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return None

    if not isinstance(entries, list) or len(entries) != len(sources):
        return None

    # Decoded once, and only if an index counts from the end.
    decoded = functools.cache(functools.partial(_decode, document_json))
    return [
        read_places(entry, source, decoded) for entry, source in zip(entries, sources, strict=True)
    ]


def _decode(document_json: bytes) -> Any:
    try:
        return json.loads(document_json)
    except RecursionError as e:
        raise EvaluationError("the object nests too deeply") from e


def read_places(entry: object, source: str, decoded: Callable[[], Any]) -> QueryResult:
    """
    The places that *source* selects, by what `programs.places_entry` gave for it.

    *decoded* gives the object.
    """
    if isinstance(entry, dict):
        return QueryFailure(shown_error(entry.get("error"), source))
    if not isinstance(entry, list):
        return QueryFailure("has a result that is no list of places")
    if len(entry) > MAX_PLACES:
        return QueryFailure(TOO_MANY_PLACES)

    paths: list[Path] = []
    for tokens in entry:
        if not isinstance(tokens, list) or not all(type(token) in (str, int) for token in tokens):
            # `.[1:3]` gives {"start": 1, "end": 3}, `.[0.5]` a fraction.
            return QueryFailure("selected a part of a list, which is no place")

        if any(type(token) is int and token < 0 for token in tokens):
            resolved = _from_the_beginning(tokens, decoded())
            if resolved is not None:
                paths.append(resolved)
        else:
            paths.append(tuple(tokens))
    return paths


def _from_the_beginning(tokens: list[str | int], node: Any) -> Path | None:
    """Replace indexes that count from the end; None where *node* has no such element."""
    path: list[str | int] = []
    for token in tokens:
        if isinstance(token, int) and token < 0:
            if not isinstance(node, list) or len(node) + token < 0:
                return None

            token += len(node)  # noqa: PLW2901  the index that it stands for
        path.append(token)
        node = lookup(node, (token,))
    return tuple(path)


def read_values(payload: bytes, questions: Sequence[Any]) -> list[ValueResult] | None:
    """What a program for values answered to each of *questions*, or None, as above."""
    try:
        entries = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return None

    if not isinstance(entries, list) or len(entries) != len(questions):
        return None
    return [
        _read_values(entry, str(question.expression))
        for entry, question in zip(entries, questions, strict=True)
    ]


def _read_values(entry: object, source: str) -> ValueResult:
    if isinstance(entry, dict):
        error = entry.get("error")
        text = " ".join(error.split()) if isinstance(error, str) else ""
        return QueryFailure(shown_error(error, source), text=text)
    if not isinstance(entry, list):
        return QueryFailure("has a result that is no list of values")
    if len(entry) > MAX_VALUES:
        return QueryFailure(f"gave more than {MAX_VALUES} values", is_flood=True)
    try:
        return tuple([_marked(value) for value in entry])
    except RecursionError:
        return QueryFailure("has a result that nests too deeply")


def _marked(value: Any) -> Any:
    """*value* with the numbers marked that jq may have rounded."""
    match value:
        case bool():
            return value
        case int() | float() if abs(value) >= 2**53:
            return Inexact(value)
        case list():
            return [_marked(part) for part in value]
        case dict():
            return {key: _marked(part) for key, part in value.items()}
        case _:
            return value


_COMPILE_ERROR = re.compile(
    r"jq: error: (?P<what>.*?) at <top-level>, line (?P<line>\d+), column (?P<column>\d+)",
    re.DOTALL,
)


def read_compile_problem(answer: Answer) -> str:
    """What jq objects to, in the author's own lines and columns; empty if it does not."""
    if answer.kind != REFUSED:
        return ""

    match = _COMPILE_ERROR.search(answer.text)
    if match is None:
        return f"does not compile: {' '.join(answer.text.split())[:200]}"

    # The prelude takes the first line.
    where = f"line {int(match['line']) - 1}, column {match['column']}"
    return f"does not compile: {' '.join(match['what'].split())[:200]} ({where})"
