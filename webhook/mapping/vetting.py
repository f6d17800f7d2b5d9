"""
What an expression may say.

Vetting is for clear messages, early: it refuses by name what no selector needs. Safety does not
depend on it; that is for the process in which expressions run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from webhook.errors import SpecError

# Ours. The longest selector in the catalog has some 200 characters.
SOURCE_MAX_CHARS = 4096

_ENVIRONMENT = "it reads the environment of the server"
_INPUT = "a query sees one object and no further input"
_FILES = "it reads files of the server"
_PATHS = "it tells paths of the server"
_LOG = "it writes to the log of the server"
_STOP = "it stops the evaluation of the other queries"
_CLOCK = "the answer may depend on the object only, not on the clock or the time zone"
_ENDLESS = "the object does not bound how often it repeats"
# `reduce .. as $x ("x"; . + .)` doubles a text at each step, and no limit of jq's stops it. A
# selector has no need for it: a value that is computed is no place.
_GROWING = "it carries a value from step to step that may grow without bound"

# `label` and `break` are not here: they only end something early. Repeated text (`"x" * 1e9`)
# can't be seen by name; the worker's limit on memory is for that.
_REFUSED: Mapping[str, str] = {
    "$ENV": _ENVIRONMENT,
    "env": _ENVIRONMENT,
    "input": _INPUT,
    "inputs": _INPUT,
    "input_filename": _INPUT,
    "input_line_number": _INPUT,
    "import": _FILES,
    "include": _FILES,
    "modulemeta": _FILES,
    "module": "a query is no module",
    "get_search_list": _PATHS,
    "get_jq_origin": _PATHS,
    "get_prog_origin": _PATHS,
    "debug": _LOG,
    "stderr": _LOG,
    "halt": _STOP,
    "halt_error": _STOP,
    "now": _CLOCK,
    "localtime": _CLOCK,
    "strflocaltime": _CLOCK,
    "def": "a function of your own can call itself without end",
    "range": _ENDLESS,
    "while": _ENDLESS,
    "until": _ENDLESS,
    "repeat": _ENDLESS,
    "combinations": "the number of results multiplies with each list",
    "reduce": _GROWING,
    "foreach": _GROWING,
}

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"

# jq's lexer (src/lexer.l of 1.8), as far as it matters what is a word and what only looks like
# one. A number swallows its exponent, a field its name, `{` opens a place for keys.
_TOKEN = re.compile(
    rf"""
      (?P<space>[ \t\r\n]+)
    | (?P<comment>\#[^\n]*)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<recursion>\.\.)
    | (?P<field>\.{_WORD})
    | (?P<variable>\$(?:{_WORD}::)*{_WORD})
    | (?P<format>@[A-Za-z0-9_]+)
    | (?P<word>(?:{_WORD}::)*{_WORD})
    | (?P<open>[\[({{])
    | (?P<close>[\])}}])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]|\r(?!\n)")
_NAME = re.compile(r'"([^"\\]*)"|(?<![$\w])([A-Za-z_]\w*)')

# Inside quotes: an interpolation, which holds code; the end; or text, with escapes.
_TEXT = re.compile(r'(?P<code>\\\()|(?P<end>")|(?P<text>(?:[^"\\]|\\[^(])+)', re.DOTALL)

_CLOSES = {"(": ")", "\\(": ")", "[": "]", "{": "}"}

# Between the word `recurse` and its arguments.
_CALL = re.compile(r"(?:[ \t\r\n]|#[^\n]*\n)*\(")

_ARGUMENTS = "$ARGS"
# Behind `$ARGS`: the part that holds the named arguments, and the name of one.
_NAMED = re.compile(
    rf"""\s*\.named\b
    (?:\s*+(?:\.(?P<plain>{_WORD}) | \.?\s*+\[\s*"(?P<key>[^"\\]*)"\s*\] | \."(?P<text>[^"\\]*)"))?
    """,
    re.VERBOSE,
)


def vet(source: str, *, path: str, takes_arguments: bool = False) -> tuple[str, ...]:
    """
    Refuse an expression that reads more than the object or that nothing bounds.

    Words are found where they mean a function of jq: `.spec.env`, `{env: 1}` and `"env"` pass,
    `env.PATH` does not. Whether the expression compiles is for `JqWorker.check`.

    Returns the names of the arguments that it uses (`$ARGS.named.x`), if it *takes_arguments*.

    Raises:
        SpecError: names the word and the reason.
    """
    problem = _text_problem(source)
    if problem:
        raise SpecError(path, problem)

    used: dict[str, None] = {}
    for word, position in _calls(source, path):
        reason = _REFUSED.get(word)
        if word == "recurse" and _CALL.match(source, position):
            reason = f"with an argument, {_ENDLESS}"
        elif "::" in word:
            reason = _FILES
        elif word.startswith("_"):
            reason = "it is internal to jq"
        elif word == _ARGUMENTS and not takes_arguments:
            reason = "a selector of places has no arguments"
        elif word == _ARGUMENTS and (named := _NAMED.match(source, position)):
            name = named["plain"] or named["key"] or named["text"]
            if name is not None:
                used[name] = None
        if reason:
            raise SpecError(path, f"a query may not use {word}: {reason}")
    return tuple(used)


def spell_arguments(source: str, *, path: str) -> str:
    """
    *source* with `$ARGS.named` for `$args.named`: the source text of the API spells it so, jq
    does not.

    Raises:
        SpecError: a text or parenthesis has no end.
    """
    spelled = source
    for word, position in reversed(_calls(source, path)):
        if word == "$args" and _NAMED.match(source, position):
            spelled = f"{spelled[: position - len(word)]}{_ARGUMENTS}{spelled[position:]}"
    return spelled


def literal_names(source: str) -> frozenset[str]:
    """The names that an expression spells out: keys that it may read, and all else in quotes."""
    return frozenset([quoted or word for quoted, word in _NAME.findall(source) if quoted or word])


def _text_problem(source: str) -> str | None:
    if len(source) > SOURCE_MAX_CHARS:
        return f"a query has at most {SOURCE_MAX_CHARS} characters"
    if not source.strip():
        return "the query is empty; `.` selects the whole object"
    # jq takes a NUL for the end, and sees a line break in other places than we would.
    if _CONTROL.search(source):
        return "a query may not contain control characters other than tab and line break"
    return None


def _calls(source: str, path: str) -> list[tuple[str, int]]:
    """Each word that is a function, a key word or a variable, with the position behind it."""
    found: list[tuple[str, int]] = []
    # What is open, innermost last: brackets, quotes, and `\(` for code in a text.
    nesting: list[str] = []
    # Right behind `{`, and behind a comma between its entries, a word is a key.
    key_follows = False
    position = 0
    while position < len(source):
        if nesting and nesting[-1] == '"':
            text = _TEXT.match(source, position)
            if text is None:
                raise SpecError(path, "the query ends inside a text")

            position = text.end()
            if text.lastgroup == "code":
                nesting.append("\\(")
            elif text.lastgroup == "end":
                nesting.pop()
            continue

        token = _TOKEN.match(source, position)
        assert token is not None, "the last alternative takes any character"
        position = token.end()
        kind, text_of = token.lastgroup, token[0]
        if kind == "space":
            continue
        if kind == "comment":
            # Newer versions of jq, but only those, go on with such a comment in the next line.
            if text_of.rstrip("\r").endswith("\\"):
                raise SpecError(path, "a comment may not end with a backslash")
            continue

        if kind == "variable" or (kind == "word" and not key_follows):
            found.append((text_of, position))
        elif kind == "open" or text_of == '"':
            nesting.append(text_of)
        elif kind == "close" and (not nesting or _CLOSES[nesting.pop()] != text_of):
            raise SpecError(path, f"{text_of!r} closes nothing")

        key_follows = text_of == "{" or (text_of == "," and nesting[-1:] == ["{"])

    if nesting:
        raise SpecError(path, f"{nesting[-1]!r} is not closed")

    return found
