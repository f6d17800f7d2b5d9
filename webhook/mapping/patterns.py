"""
What a query can select, said from its text alone, before an object is there.

A plain query is a set of patterns. Of one that takes jq an outline may be told: a plain query that
selects all its places, and perhaps more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from webhook.mapping.jq_tokens import Tokens, UnknownFormError
from webhook.mapping.plain import PlainQuery, parse_plain
from webhook.mapping.walk import AnyCase, Each, Index, Names, OptionalName, Step, Union


class _Each:
    """Any key or index: what `[]` goes through."""

    def __repr__(self) -> str:
        return "[]"


EACH: Final = _Each()

Token: TypeAlias = str | int | _Each
Pattern: TypeAlias = tuple[Token, ...]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Those that pass on all objects.
_OF_OBJECTS = frozenset({"objects", "iterables", "values"})

# Nobody walks along an outline: it may have more patterns than a plain query.
_MAX_OUTLINED = 256

# Functions of jq that pass on their input or nothing, by its type.
_TYPE_FILTERS = frozenset({"objects", "arrays", "iterables", "scalars", "values"})


@lru_cache(maxsize=1024)
def patterns_of(query: PlainQuery) -> tuple[Pattern, ...]:
    """The patterns of the places of *query*. A name in any case is there as it is spelt."""
    return tuple(dict.fromkeys(_walk(query.steps, [()])))


def _walk(steps: Sequence[Step], found: list[Pattern]) -> list[Pattern]:
    for step in steps:
        match step:
            case Names():
                found = [(*pattern, *step.names) for pattern in found]
            case OptionalName() | AnyCase():
                found = [(*pattern, step.name) for pattern in found]
            case Index():
                found = [(*pattern, step.index) for pattern in found]
            case Each():
                found = [(*pattern, EACH) for pattern in found]
            case Union():
                found = [p for steps in step.alternatives for p in _walk(steps, found)]
    return found


def keeps_absent(query: PlainQuery) -> bool:
    """Whether a walk of *query* shows an absent place as it shows one that is there."""
    return not query.any_case and _drops_nothing(query.steps)


def _drops_nothing(steps: Sequence[Step]) -> bool:
    return all(
        all(_drops_nothing(own) for own in step.alternatives)
        if isinstance(step, Union)
        else isinstance(step, Names | Index | Each)
        for step in steps
    )


def can_select(query: PlainQuery, place: Pattern) -> bool:
    """
    Whether *query* selects an object at *place*, which stands below objects and lists only.

    Where *place* goes through `EACH`: whether it selects one of those places.
    """
    return len(place) in _ends(query.steps, place, {0})


def _ends(steps: Sequence[Step], place: Pattern, at: set[int]) -> set[int]:
    """Up to which tokens of *place* a walk comes that begins behind those *at*."""
    for step in steps:
        match step:
            case Names(names=names):
                for name in names:
                    at = {i + 1 for i in at if i < len(place) and place[i] in (name, EACH)}
            case OptionalName(name=name) | Index(index=name):
                at = {i + 1 for i in at if i < len(place) and place[i] in (name, EACH)}
            case AnyCase(name=name):
                at = {i + 1 for i in at if i < len(place) and _is_spelling(place[i], name)}
            case Each():
                at = {i + 1 for i in at if i < len(place)}
            case Union(alternatives=alternatives):
                at = {end for own in alternatives for end in _ends(own, place, at)}
    return at


def _is_spelling(token: Token, name: str) -> bool:
    return token is EACH or (isinstance(token, str) and token.casefold() == name.casefold())


@lru_cache(maxsize=1024)
def outline_of(source: str) -> PlainQuery | None:
    """
    A plain query that selects every place that *source*, an expression of jq, does, whatever its
    conditions say of an object; None where it can't be told.
    """
    try:
        words = " ".join(_without_conditions(Tokens(source)))
        return parse_plain(words, max_visits=_MAX_OUTLINED)
    except UnknownFormError:
        return None


def _without_conditions(tokens: Tokens) -> list[str]:
    words: list[str] = []
    while True:
        kind, text = tokens.take()
        if kind == "end":
            return words
        if kind == "word" and text == "select" and tokens.accept("("):
            tokens.skip_to(")")
            words.append("select(.)")
        elif kind == "word" and text in _TYPE_FILTERS:
            words.append(".")
        elif kind == "//":
            words.append(",")
        elif kind == "word" and text in ("first", "last") and tokens.peek() == "(":
            pass  # One of what the parentheses select.
        else:
            words.append(text)


# In a condition: words that read nothing by themselves, and signs between what is read.
_CONDITION_WORDS = frozenset(
    {"and", "or", "not", "has", "type", "select", "if", "then", "elif", "else", "end", "empty"}
    | {"true", "false", "null", "first", "last", "test", "startswith", "endswith"}
    | {"ascii_downcase", "ascii_upcase", "strings", "numbers", "booleans", "nulls"}
    | _TYPE_FILTERS
)
_CONDITION_MARKS = frozenset({".", "(", ")", "[", "]", "|", ",", ";", "?", "//"})
_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
_LITERALS = frozenset({"true", "false", "null"})


@lru_cache(maxsize=1024)
def reads_of(source: str) -> frozenset[str] | None:
    """
    Names, and other texts, on whose values it depends which places of its outline *source*, an
    expression of jq, selects; None where it may be any.
    """
    try:
        return _reads(Tokens(source))
    except (UnknownFormError, ValueError):
        return None


@lru_cache(maxsize=1024)
def outline_without_conditions(source: str) -> PlainQuery | None:
    """
    A plain query that selects the very places that *source*, an expression of jq, does wherever
    they are objects; None where it can't be told.
    """
    words = [text for kind, text in _tokens_of(source) if kind in ("word", "//")]
    return outline_of(source) if all(word in _OF_OBJECTS for word in words) else None


@lru_cache(maxsize=1024)
def outline_before_conditions(source: str) -> PlainQuery | None:
    """
    A plain query for where a walk of *source*, an expression of jq, comes before the first of its
    conditions; None where that is the object as a whole, or can't be told.
    """
    begin: list[str] = []
    for kind, text in _tokens_of(source):
        if kind in ("//", "(") or (kind == "word" and text not in _TYPE_FILTERS):
            break
        begin.append(text)
    if any(kind == "//" for kind, _ in _tokens_of(source)):
        return None
    while begin and begin[-1] == "|":
        begin.pop()
    return outline_of(" ".join(begin)) if begin else None


def _tokens_of(source: str) -> list[tuple[str, str]]:
    try:
        tokens = Tokens(source)
    except UnknownFormError:
        return [("word", "?")]
    found: list[tuple[str, str]] = []
    while (token := tokens.take())[0] != "end":
        found.append(token)
    return found


def _reads(tokens: Tokens) -> frozenset[str] | None:
    conditions: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    while (token := tokens.take())[0] != "end":
        if token == ("word", "select") and tokens.peek() == "(":
            conditions += _in_parentheses(tokens)
        else:
            others.append(token)
    # Which of two alternatives it is depends on the values on the way.
    if any(kind == "//" for kind, _ in others):
        conditions += others
    names: set[str] = set()
    for at, (kind, text) in enumerate(conditions):
        before, behind = conditions[at - 1 : at], conditions[at + 1 : at + 2]
        if kind == "field":
            names.add(text[1:])
        elif kind == "text":
            names.add(json.loads(text))
        elif kind in _COMPARISONS:
            if not any(map(_is_literal, (*before, *behind))):
                return None  # All that stands below both counts.
        elif kind == "word":
            if text not in _CONDITION_WORDS:
                return None
        elif kind == "[":
            if behind == [("]", "]")] and (
                not before or before[0][0] not in ("field", "text", "]")
            ):
                return None  # Any key of the object counts.
        elif kind != "number" and kind not in _CONDITION_MARKS:
            return None
    return frozenset(names)


def _in_parentheses(tokens: Tokens) -> list[tuple[str, str]]:
    """What stands in the parentheses that come next, with these."""
    found: list[tuple[str, str]] = []
    depth = 0
    while True:
        kind, text = tokens.take()
        if kind == "end":
            raise UnknownFormError
        depth += (kind == "(") - (kind == ")")
        found.append((kind, text))
        if not depth:
            return found


def _is_literal(token: tuple[str, str]) -> bool:
    kind, text = token
    return kind in ("text", "number") or (kind == "word" and text in _LITERALS)


def show_pattern(pattern: Pattern) -> str:
    """*pattern* as a query spells it: `.spec.roles[].template`."""
    if not pattern:
        return "."
    text = ""
    for token in pattern:
        if isinstance(token, str):
            text += f".{token}" if _PLAIN_NAME.fullmatch(token) else f"[{json.dumps(token)}]"
        else:
            text += "[]" if token is EACH else f"[{token}]"
    return text if text.startswith(".") else f".{text}"
