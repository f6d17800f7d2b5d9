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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from webhook.errors import SpecError
from webhook.mapping.plain import PlainQuery, has_name, parse_plain
from webhook.mapping.selecting import why_it_selects_nothing
from webhook.mapping.vetting import SOURCE_MAX_CHARS, spell_arguments, vet

# The most places that one expression may find. Fewer than a plain path's: each path crosses a
# pipe as JSON, within the deadline.
MAX_PLACES = 1000

# The most values that one expression may give for one input.
MAX_VALUES = 1000


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


def compile_selector(source: str, *, path: str, any_case: Sequence[str] = ()) -> Selector:
    """
    Read the selector *source*, which stands at *path* of its document.

    Names of *any_case* are found in any case.

    Raises:
        SpecError: it is empty, too long, uses what no selector may use, or can't select places
            whatever the object is; or one of *any_case* is no name of it.
    """
    if len(source) > SOURCE_MAX_CHARS:
        raise SpecError(path, f"a query has at most {SOURCE_MAX_CHARS} characters")

    plain = parse_plain(source, any_case=any_case)
    if plain is not None:
        for name in any_case:
            if not has_name(plain.steps, name):
                raise SpecError(path, f"has no name {name!r} that could be in any case")
        return PlainSelector(source, plain)

    if any_case:
        raise SpecError(path, "takes jq, which knows no names in any case")
    vet(source, path=path)
    reason = why_it_selects_nothing(source)
    if reason:
        raise SpecError(
            path,
            f"can never select a place: {reason}; in jq only path expressions do, such as"
            " .spec.template",
        )
    return JqQuery(source)


@dataclass(frozen=True, slots=True, order=True)
class Expression:
    """
    An expression for values, not places, with the named *arguments* that it uses. It was vetted;
    `JqWorker.check` says whether it compiles.

    With *is_test*, all that counts is whether it yields something that is neither null nor false.
    With *then*, which is a test, it yields items, each in a pair with what the test says of it;
    its arguments are `of` for the first and `then` for the second.
    """

    source: str
    is_test: bool = False
    then: str = ""
    arguments: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.source} | {self.then}" if self.then else self.source


# In a query about items, what leads from the list to each of them.
_EACH_ITEM = re.compile(r"\s*+\.\[\s*+\]\s*+\??\s*+\|(?!=)")


def compile_expression(source: str, *, path: str, is_test: bool = False) -> Expression:
    """
    Read the expression *source*, which stands at *path* of its document.

    A test is about one item of a list; a leading `.[] |` says so, and is left out.

    Raises:
        SpecError: it is empty, too long, or uses what no expression may use.
    """
    if len(source) <= SOURCE_MAX_CHARS:
        source = spell_arguments(source, path=path)
    if is_test:
        found = _EACH_ITEM.match(source)
        source = source[found.end() :] if found else source
    used = vet(source, path=path, takes_arguments=True)
    return Expression(source, is_test, arguments=used)


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


def combine(sources: Sequence[str]) -> str:
    """
    One program whose only result is a list with one entry for each of *sources*.

    An entry is the list of paths that the expression selects, one more than allowed at most, or
    `{"error": text}`. One program, because parsing the object takes ten times as long as
    evaluating an expression. Each source must compile on its own (`alone`): what does, can't
    close our parentheses, and so can't change its neighbours.
    """
    return f"{_PRELUDE}\n[{','.join([places_entry(source) for source in sources])}]"


def places_entry(source: str) -> str:
    """The part of a program that gives the paths that *source* selects, or its error."""
    return (
        f"(try [limit({MAX_PLACES + 1}; path(\n{source}{_AFTER}))]"
        ' catch {error: (if type == "string" then .[:300] else type end)})'
    )


def combine_values(expressions: Sequence[Expression]) -> str:
    """
    One program that answers questions of the form `[expression, input, arguments]`: indexes.

    Its input is `{"q": questions, "i": inputs, "a": arguments}`; its only result a list with one
    entry for each question. An entry is the list of values, one more than allowed at most, or
    `{"error": text}`; the values of a test are `[true]` or none. Our variables are no expression's
    business: with one of them it would not compile on its own.
    """
    arms = "".join(
        [
            f"if $__q[0] == {index} then {_values(expression)} else "
            for index, expression in enumerate(expressions)
        ]
    )
    return (
        f"{_PRELUDE} . as $__in | [$__in.q[] as $__q |"
        f" (try [limit({MAX_VALUES + 1}; $__in.a[$__q[2]] as $__a | $__in.i[$__q[1]] |"
        f" {arms}empty {'end ' * len(expressions)})]"
        ' catch {error: (if type == "string" then .[:300] else type end)})]'
    )


def _values(expression: Expression) -> str:
    if not expression.then:
        return _bound(expression.source, "$__a", is_test=expression.is_test)
    test = _bound(expression.then, "$__a.then", is_test=True)
    return (
        f"([{_bound(expression.source, '$__a.of')}]"
        ' | if length == 1 and (.[0] | type) == "array" then .[0] else . end'
        f" | .[] | select(. != null) | [., ([{test}] | length > 0)])"
    )


def _bound(source: str, arguments: str, *, is_test: bool = False) -> str:
    """*source* with its arguments; of a test, `true` or nothing."""
    whole = f"({{named: {arguments}}} as $ARGS | (\n{source}{_AFTER}))"
    return f"limit(1; {whole} | select(.) | true)" if is_test else whole


def alone(source: str, *, takes_arguments: bool = False) -> str:
    """The program that compiles if, and only if, *source* is a complete expression."""
    arguments = " {named: {}} as $ARGS |" if takes_arguments else ""
    return f"{_PRELUDE}{arguments}\n{source}{_AFTER}"
