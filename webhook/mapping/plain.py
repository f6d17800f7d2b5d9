"""
Selectors that need no jq: paths through an object.

Most selectors only name keys and go through lists. jq spends its time on parsing the object; a
walk over the decoded object takes a tenth of that, and it cannot loop, so that it may run inside
the server. `parse_plain` recognises such selectors, and their meaning is jq's: the tests compare
the two on generated objects. It differs from jq in two ways, both on purpose:

- `[]` on null finds nothing, where jq raises: to Kubernetes null is the same as absent.
- What jq refuses or, with `[]?`, skips without a word is reported as a `Mismatch`. An object
  with `containers: "abc"` must not get past a policy for containers in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from webhook.errors import EvaluationError
from webhook.mapping.walk import (
    AnyCase,
    Each,
    Found,
    Index,
    Located,
    Names,
    OptionalName,
    Step,
    Truthy,
    Union,
    Visitor,
    depth_of,
    visitor_of,
    visits_of,
)

# The most places one selector may find in one object. The largest objects that an API server
# takes (3 MB) have some thousands of items; a pod has at most some dozens of containers.
MAX_PLACES = 10_000

# Of a path to a field. The longest that we ship has a hundred.
REF_MAX_CHARS = 1024

# `(.a, .b) | (.c, .d)` visits the object four times, and each further stage doubles that. A
# selector beyond this is left to jq, which runs in a process that can be killed.
_MAX_VISITS = 64

# A walk calls itself step by step, and Python allows a thousand calls within one another.
_MAX_DEPTH = 100

_MAX_PARENTHESES = 32


@dataclass(frozen=True, slots=True)
class PlainQuery:
    """
    A selector that is a walk along names, lists and unions.

    *is_single*: it finds at most one place, whatever the object is. Keys of *any_case* are found
    in any case.
    """

    source: str
    is_single: bool
    any_case: tuple[str, ...] = field(default=(), kw_only=True)
    steps: tuple[Step, ...] = field(repr=False, compare=False)
    _visitor: Visitor = field(repr=False, compare=False)

    def locate(self, document: Any) -> Located:
        """
        The places in *document*, a decoded JSON value that is only looked at.

        Raises:
            EvaluationError: more than `MAX_PLACES` places, or far more values on the way.
        """
        found = self.walk(document)
        return Located(tuple(found.paths), tuple(found.mismatches))

    def walk(self, document: Any) -> Found:
        """As `locate`, with what stands at each of the places."""
        found = Found()
        self._visitor((), document, found)
        if len(found.paths) > MAX_PLACES:
            raise EvaluationError(f"{self.source!r} selected more than {MAX_PLACES} places")

        if found.mismatches:
            # Two alternatives with a common beginning meet the same wrong value twice.
            found.mismatches = list(dict.fromkeys(found.mismatches))
        return found


def parse_plain(
    source: str, *, any_case: Sequence[str] = (), max_visits: int = _MAX_VISITS
) -> PlainQuery | None:
    """
    *source* as a plain query, or None where it takes jq to say what it means.

    Names of *any_case* are found in any case, which jq has no word for. A walk comes to one value
    of the object *max_visits* times at most.

    Plain are `.`, the steps `.name`, `."key"`, `["key"]`, `.["key"]`, `[0]`, `[]`, each also with
    `?`, and `select(.)`; joined by `,` and `|`, with parentheses and white space as in jq.
    """
    tokens = _tokens(source)
    if tokens is None:
        return None

    try:
        steps = _Parser(tokens).parse()
    except _NotPlainError:
        return None

    steps = _in_any_case(steps, any_case)
    if visits_of(steps) > max_visits or depth_of(steps) > _MAX_DEPTH:
        return None

    is_single = all(step.is_single for step in steps)
    return PlainQuery(source, is_single, tuple(steps), visitor_of(steps), any_case=tuple(any_case))


def parse_ref(source: str) -> tuple[str, ...]:
    """
    Read a dotted path below a place: `securityContext.privileged`.

    A key that is no plain name is quoted, as in `limits["nvidia.com/gpu"]` or
    `limits."nvidia.com/gpu"`.

    Raises:
        ValueError: it is no such path; the text says why.
    """
    if len(source) > REF_MAX_CHARS:
        raise ValueError(f"a path has at most {REF_MAX_CHARS} characters")
    keys: list[str] = []
    position = 0
    while position < len(source):
        step = _REF_STEP.match(source, position)
        if step is None or (step["dot"] and not keys):
            raise ValueError(_ref_problem(source, position))
        if keys and not step["dot"] and not step["bracketed"]:
            raise ValueError(f"{source!r}: a dot is missing before {source[position:]!r}")

        keys.append(step["name"] or _unquote(step["bracketed"] or step["quoted"]))
        position = step.end()

    if not keys:
        raise ValueError("the path is empty")

    return tuple(keys)


# --- from text to steps -------------------------------------------------------------------------

# Letters and digits are ASCII in jq's names; `\w` would take more.
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
# A JSON string. jq's own may hold code, `\( )`, which isn't plain.
_TEXT = r'"(?:[^"\\\x00-\x1f\x7f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*"'

_TOKEN = re.compile(
    rf"""
      (?P<space>[ \t\r\n]+)
    | (?P<name>\.{_NAME})            # one token: jq allows no space after the dot
    | (?P<text>{_TEXT})
    | (?P<index>[0-9]{{1,9}})(?![0-9.A-Za-z_])
    | (?P<select>select[ \t\r\n]*\([ \t\r\n]*\.[ \t\r\n]*\))
    | (?P<mark>[\[\]()?,|]|\.(?!\.))  # `..` is another operator
    """,
    re.VERBOSE,
)

_REF_STEP = re.compile(
    rf"(?P<dot>\.)?(?:(?P<name>{_NAME})|\[(?P<bracketed>{_TEXT})\]|(?P<quoted>{_TEXT}))"
)

_INTO_A_LIST = re.compile(r"\[\s*+(?:-?\s*+[0-9]|\]|:)")

# Kind and text. A mark is its own kind; the last token is ("end", "").
_Token = tuple[str, str]


class _NotPlainError(ValueError):
    """The source is not in the subset; whether it is jq at all is for jq to say."""


def _tokens(source: str) -> list[_Token] | None:
    tokens: list[_Token] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None or match.lastgroup is None:
            return None

        if match.lastgroup != "space":
            kind = match[0] if match.lastgroup == "mark" else match.lastgroup
            tokens.append((kind, match[0]))
        position = match.end()
    return [*tokens, ("end", "")]


class _Parser:
    """
    Recursive descent over the tokens, by jq's precedence: `|` binds least, then `,`, then steps.

        pipe  = union ("|" union)*
        union = term ("," term)*
        term  = ("(" pipe ")" | select | "." | name | "." text) step*
        step  = (name | "."? "[" (text | index)? "]" | "." text) "?"?
    """

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    def parse(self) -> tuple[Step, ...]:
        steps = self._pipe()
        if self._peek() != "end":
            raise _NotPlainError

        return _join_names(steps)

    def _pipe(self) -> list[Step]:
        steps = self._union()
        while self._accept("|"):
            steps += self._union()
        return steps

    def _union(self) -> list[Step]:
        alternatives = [self._term()]
        while self._accept(","):
            alternatives.append(self._term())
        if len(alternatives) == 1:
            return alternatives[0]

        return [Union(tuple([_join_names(steps) for steps in alternatives]))]

    def _term(self) -> list[Step]:
        if self._accept("("):
            self._depth += 1
            if self._depth > _MAX_PARENTHESES:
                raise _NotPlainError

            steps = self._pipe()
            self._expect(")")
            self._depth -= 1
        elif self._accept("select"):
            steps = [Truthy()]
        elif self._peek() == "name" or (self._peek() == "." and self._peek(1) == "text"):
            steps = [self._step()]
        else:
            self._expect(".")
            steps = []
        while self._peek() in ("name", ".", "["):
            steps.append(self._step())
        return steps

    def _step(self) -> Step:
        if self._peek() == "name":
            key = self._take()[1:]
            return self._named(key)

        dotted = self._accept(".")
        if dotted and self._peek() == "text":
            return self._named(_unquote(self._take()))

        self._expect("[")
        kind = self._peek()
        if kind == "]":
            self._take()
            self._accept("?")
            return Each()

        text = self._take()
        self._expect("]")
        if kind == "text":
            return self._named(_unquote(text))
        if kind == "index":
            return Index(int(text), optional=self._accept("?"))

        raise _NotPlainError

    def _named(self, key: str) -> Step:
        return OptionalName(key) if self._accept("?") else Names((key,))

    def _peek(self, ahead: int = 0) -> str:
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)][0]

    def _take(self) -> str:
        text = self._tokens[self._position][1]
        self._position += 1
        return text

    def _accept(self, kind: str) -> bool:
        if self._peek() != kind:
            return False

        self._position += 1
        return True

    def _expect(self, kind: str) -> None:
        if not self._accept(kind):
            raise _NotPlainError


def _join_names(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Neighbouring names become one step, so that `.spec.template.spec` is walked at once."""
    joined: list[Step] = []
    for step in steps:
        if joined and isinstance(step, Names) and isinstance(joined[-1], Names):
            joined[-1] = Names(joined[-1].names + step.names)
        else:
            joined.append(step)
    return tuple(joined)


def _in_any_case(steps: Sequence[Step], names: Sequence[str]) -> tuple[Step, ...]:
    """*steps* with those that go to one of *names* made to find it in any case."""
    if not names:
        return tuple(steps)
    folded: list[Step] = []
    for step in steps:
        match step:
            case Names():
                singles = [AnyCase(n) if n in names else Names((n,)) for n in step.names]
                folded += _join_names(singles)
            case OptionalName(name=name) if name in names:
                folded.append(AnyCase(name))
            case Union():
                folded.append(Union(tuple([_in_any_case(s, names) for s in step.alternatives])))
            case _:
                folded.append(step)
    return tuple(folded)


def has_name(steps: Sequence[Step], name: str) -> bool:
    """Whether one of *steps* finds *name* in any case."""
    return any(
        (isinstance(step, AnyCase) and step.name == name)
        or (isinstance(step, Union) and any(has_name(s, name) for s in step.alternatives))
        for step in steps
    )


def _unquote(text: str) -> str:
    """
    The value of a JSON string.

    Raises:
        _NotPlainError: half a surrogate pair, which no object that arrives as UTF-8 can hold.
    """
    value: str = json.loads(text)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _NotPlainError(f"{text} is no Unicode text")

    return value


def _ref_problem(source: str, position: int) -> str:
    rest = source[position:]
    if rest.startswith("."):
        if position == 0:
            return f"{source!r} starts with a dot; leave it out"
        return f"{source!r} has an empty step at character {position + 1}"
    if _INTO_A_LIST.match(rest):
        return f"{source!r} goes into a list; such a path names keys only"
    return f'{source!r}: {rest[:40]!r} is no plain name; write a key like this: ["my/key"]'
