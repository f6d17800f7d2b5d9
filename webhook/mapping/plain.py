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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from webhook.errors import EvaluationError
from webhook.model.pointer import Path
from webhook.model.values import json_type

# The most places one selector may find in one object. The largest objects that an API server
# takes (3 MB) have some thousands of items; a pod has at most some dozens of containers.
MAX_PLACES = 10_000

# The most spots in between, before `select(.)` and later steps. It bounds the time that a list
# of a million numbers can cost: 5,000 spots take about 1 ms a step.
_MAX_SPOTS = 50_000

# `(.a, .b) | (.c, .d)` visits the object four times, and each further stage doubles that. A
# selector beyond this is left to jq, which runs in a process that can be killed.
_MAX_VISITS = 64

_MAX_PARENTHESES = 32

# A value in the object and where it is.
_Spot = tuple[Path, Any]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """At *path* the selector needs an object or a list; the type there is *got* (`json_type`)."""

    path: Path
    expected: Literal["object", "list"]
    got: str


@dataclass(frozen=True, slots=True)
class Located:
    """
    What a selector found in one object.

    *paths* are in jq's order, spots that are absent or null included (`select(.)` drops those).
    """

    paths: tuple[Path, ...]
    mismatches: tuple[Mismatch, ...] = ()


@dataclass(frozen=True, slots=True)
class PlainQuery:
    """A selector that is a walk along names, lists and unions."""

    source: str
    _steps: tuple[_Step, ...]

    @property
    def is_single(self) -> bool:
        """Whether it finds at most one place, whatever the object is."""
        return all(step.is_single for step in self._steps)

    def locate(self, document: Any) -> Located:
        """
        The places in *document*, a decoded JSON value that is only looked at.

        Raises:
            EvaluationError: more than `MAX_PLACES` places, or far more spots on the way.
        """
        mismatches: list[Mismatch] = []
        spots = _walk(self._steps, [((), document)], mismatches)
        if len(spots) > MAX_PLACES:
            raise EvaluationError(f"{self.source!r} selected more than {MAX_PLACES} places")

        paths = tuple([path for path, _ in spots])
        if not mismatches:
            return Located(paths)

        # Two alternatives with a common beginning meet the same wrong value twice.
        return Located(paths, tuple(dict.fromkeys(mismatches)))


def parse_plain(source: str) -> PlainQuery | None:
    """
    *source* as a plain query, or None where it takes jq to say what it means.

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

    if _visits(steps) > _MAX_VISITS:
        return None

    return PlainQuery(source, steps)


def parse_ref(source: str) -> tuple[str, ...]:
    """
    Read a dotted path below a place: `securityContext.privileged`.

    A key that is no plain name is quoted, as in `limits["nvidia.com/gpu"]` or
    `limits."nvidia.com/gpu"`.

    Raises:
        ValueError: it is no such path; the text says why.
    """
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


# --- steps: each takes all spots a step further, in order, which is what a pipe does in jq ------


class _Step(Protocol):
    @property
    def is_single(self) -> bool: ...

    @property
    def visits(self) -> int: ...

    def apply(self, spots: list[_Spot], mismatches: list[Mismatch]) -> list[_Spot]: ...


@dataclass(frozen=True, slots=True)
class _Names:
    """`.a.b."c"`: keys, one below the other."""

    names: tuple[str, ...]
    is_single: ClassVar[bool] = True
    visits: ClassVar[int] = 1

    def apply(self, spots: list[_Spot], mismatches: list[Mismatch]) -> list[_Spot]:
        names = self.names
        found: list[_Spot] = []
        for path, value in spots:
            node = value
            for name in names:
                if isinstance(node, dict):
                    node = node.get(name)
                elif node is not None:  # below null everything is null
                    mismatches.append(_wrong_object(path, value, names))
                    break
            else:
                found.append((path + names, node))
        return found


@dataclass(frozen=True, slots=True)
class _OptionalName:
    """`.a?`: what is no object is passed over; a name needs `?` for nothing else."""

    name: str
    is_single: ClassVar[bool] = True
    visits: ClassVar[int] = 1

    def apply(self, spots: list[_Spot], mismatches: list[Mismatch]) -> list[_Spot]:
        name = self.name
        return [
            ((*path, name), None if value is None else value.get(name))
            for path, value in spots
            if value is None or isinstance(value, dict)
        ]


@dataclass(frozen=True, slots=True)
class _Index:
    """`[0]`: one element of a list."""

    index: int
    optional: bool
    is_single: ClassVar[bool] = True
    visits: ClassVar[int] = 1

    def apply(self, spots: list[_Spot], mismatches: list[Mismatch]) -> list[_Spot]:
        index = self.index
        found: list[_Spot] = []
        for path, value in spots:
            if value is None:
                found.append(((*path, index), None))
            elif isinstance(value, list):
                found.append(((*path, index), value[index] if index < len(value) else None))
            elif not self.optional:
                mismatches.append(Mismatch(path, "list", json_type(value)))
        return found


@dataclass(frozen=True, slots=True)
class _Each:
    """`[]` and `[]?`: every element of a list, every value of an object."""

    is_single: ClassVar[bool] = False
    visits: ClassVar[int] = 1

    def apply(self, spots: list[_Spot], mismatches: list[Mismatch]) -> list[_Spot]:
        found: list[_Spot] = []
        for path, value in spots:
            if isinstance(value, list):
                _refuse_flood(len(found) + len(value))
                found += [((*path, index), item) for index, item in enumerate(value)]
            elif isinstance(value, dict):
                _refuse_flood(len(found) + len(value))
                found += [((*path, key), item) for key, item in value.items()]
            elif value is not None:
                mismatches.append(Mismatch(path, "list", json_type(value)))
        return found


@dataclass(frozen=True, slots=True)
class _Truthy:
    """`select(.)`: drops null and false, and nothing else: 0 and "" are true in jq."""

    is_single: ClassVar[bool] = True
    visits: ClassVar[int] = 1

    def apply(self, spots: list[_Spot], mismatches: list[Mismatch]) -> list[_Spot]:
        return [spot for spot in spots if spot[1] is not None and spot[1] is not False]


@dataclass(frozen=True, slots=True)
class _Union:
    """`(.a, .b)`: for each spot, what each alternative finds from there."""

    alternatives: tuple[tuple[_Step, ...], ...]
    is_single: ClassVar[bool] = False

    @property
    def visits(self) -> int:
        return sum(_visits(steps) for steps in self.alternatives)

    def apply(self, spots: list[_Spot], mismatches: list[Mismatch]) -> list[_Spot]:
        found: list[_Spot] = []
        for spot in spots:
            for steps in self.alternatives:
                found += _walk(steps, [spot], mismatches)
            _refuse_flood(len(found))
        return found


def _walk(steps: tuple[_Step, ...], spots: list[_Spot], mismatches: list[Mismatch]) -> list[_Spot]:
    for step in steps:
        spots = step.apply(spots, mismatches)
    return spots


def _visits(steps: Iterable[_Step]) -> int:
    """How often a walk can come to one value of the object."""
    visits = 1
    for step in steps:
        visits *= step.visits
    return visits


def _refuse_flood(spots: int) -> None:
    if spots > _MAX_SPOTS:
        raise EvaluationError(f"a selector met more than {_MAX_SPOTS} values in one object")


def _wrong_object(path: Path, value: Any, names: tuple[str, ...]) -> Mismatch:
    """The first spot along *names*, from *value* at *path*, that is neither object nor null."""
    for depth, name in enumerate(names):
        if not isinstance(value, dict):
            return Mismatch(path + names[:depth], "object", json_type(value))

        value = value.get(name)
    raise AssertionError("every spot along the names is an object")


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

    def parse(self) -> tuple[_Step, ...]:
        steps = self._pipe()
        if self._peek() != "end":
            raise _NotPlainError

        return _join_names(steps)

    def _pipe(self) -> list[_Step]:
        steps = self._union()
        while self._accept("|"):
            steps += self._union()
        return steps

    def _union(self) -> list[_Step]:
        alternatives = [self._term()]
        while self._accept(","):
            alternatives.append(self._term())
        if len(alternatives) == 1:
            return alternatives[0]

        return [_Union(tuple([_join_names(steps) for steps in alternatives]))]

    def _term(self) -> list[_Step]:
        if self._accept("("):
            self._depth += 1
            if self._depth > _MAX_PARENTHESES:
                raise _NotPlainError

            steps = self._pipe()
            self._expect(")")
            self._depth -= 1
        elif self._accept("select"):
            steps = [_Truthy()]
        elif self._peek() == "name" or (self._peek() == "." and self._peek(1) == "text"):
            steps = [self._step()]
        else:
            self._expect(".")
            steps = []
        while self._peek() in ("name", ".", "["):
            steps.append(self._step())
        return steps

    def _step(self) -> _Step:
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
            return _Each()

        text = self._take()
        self._expect("]")
        if kind == "text":
            return self._named(_unquote(text))
        if kind == "index":
            return _Index(int(text), optional=self._accept("?"))

        raise _NotPlainError

    def _named(self, key: str) -> _Step:
        return _OptionalName(key) if self._accept("?") else _Names((key,))

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


def _join_names(steps: Sequence[_Step]) -> tuple[_Step, ...]:
    """Neighbouring names become one step, so that `.spec.template.spec` is walked at once."""
    joined: list[_Step] = []
    for step in steps:
        if joined and isinstance(step, _Names) and isinstance(joined[-1], _Names):
            joined[-1] = _Names(joined[-1].names + step.names)
        else:
            joined.append(step)
    return tuple(joined)


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
    if re.match(r"\[\s*(-?\s*[0-9]|\]|:)", rest):
        return f"{source!r} goes into a list; such a path names keys only"
    return f'{source!r}: {rest[:40]!r} is no plain name; write a key like this: ["my/key"]'
