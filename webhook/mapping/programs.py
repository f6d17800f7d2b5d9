"""
Selectors, and the jq program that finds what several of them select.

An expression comes from people, and jq can read files and the environment, loop for ever and take
all memory, none of which can be interrupted from within its process. The defence has three
layers, of which the last one alone would do:

1. `vet` refuses, by name, what has no use in a selector. It is for clear messages, early.
2. `combine` puts a prelude before the expression that hides the same names.
3. `JqWorker` runs it in a process without environment and files, with a limit on memory, which
   ends itself when an evaluation takes too long, and is replaced then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from webhook.errors import SpecError
from webhook.mapping.plain import PlainQuery, parse_plain
from webhook.mapping.vetting import SOURCE_MAX_CHARS, vet

# The most places that one expression may find. Fewer than a plain path's: each path crosses a
# pipe as JSON, within the deadline.
MAX_PLACES = 1000


@dataclass(frozen=True, slots=True)
class PlainSelector:
    """A selector that needs no jq."""

    source: str
    plain: PlainQuery


@dataclass(frozen=True, slots=True)
class JqQuery:
    """A selector for the worker. It was vetted; `JqWorker.check` says whether it compiles."""

    source: str
    plain: None = None


Selector = PlainSelector | JqQuery


def compile_selector(source: str, *, path: str) -> Selector:
    """
    Read the selector *source*, which stands at *path* of its document.

    Raises:
        SpecError: it is empty, too long, or uses what no selector may use.
    """
    if len(source) > SOURCE_MAX_CHARS:
        raise SpecError(path, f"a query has at most {SOURCE_MAX_CHARS} characters")

    plain = parse_plain(source)
    if plain is not None:
        return PlainSelector(source, plain)

    vet(source, path=path)
    return JqQuery(source)


# --- one program for all expressions of an object ------------------------------------------------

# What the prelude hides, with the number of arguments: whatever reaches beyond the object. Loops
# can't be hidden (`def f: f; f`); against those there is the worker.
HIDDEN: Mapping[str, Sequence[int]] = {
    "env": [0],
    "input": [0],
    "inputs": [0],
    "input_filename": [0],
    "input_line_number": [0],
    "modulemeta": [0],
    "get_search_list": [0],
    "get_jq_origin": [0],
    "get_prog_origin": [0],
    "debug": [0, 1],
    "stderr": [0],
    "halt": [0],
    "halt_error": [0, 1],
    "now": [0],
    "localtime": [0],
    "strflocaltime": [1],
}

# On one line, so that line numbers in jq's messages are off by one. As the program does not
# begin with the expression, `import`, `include` and `module` are syntax errors.
_PRELUDE = "{} as $ENV | " + " ".join(
    f'def {name}{"(f)" * count}: error("{name} is not available");'
    for name, counts in HIDDEN.items()
    for count in counts
)

# An empty line behind each expression: jq goes on with a comment that ends with a backslash in
# the next line, and must not take our closing parenthesis for a part of it.
_AFTER = "\n\n"


def combine(sources: Sequence[str], *, mode: Literal["paths"]) -> str:
    """
    One program whose only result is a list with one entry for each of *sources*.

    An entry is the list of paths that the expression selects, one more than allowed at most, or
    `{"error": text}`. One program, because parsing the object takes ten times as long as
    evaluating an expression. Each source must compile on its own (`alone`): what does, can't
    close our parentheses, and so can't change its neighbours.
    """
    assert mode == "paths"
    entries = [
        f"(try [limit({MAX_PLACES + 1}; path(\n{source}{_AFTER}))]"
        ' catch {error: (if type == "string" then .[:300] else type end)})'
        for source in sources
    ]
    return f"{_PRELUDE}\n[{','.join(entries)}]"


def alone(source: str) -> str:
    """The program that compiles if, and only if, *source* is a complete expression."""
    return f"{_PRELUDE}\n{source}{_AFTER}"
