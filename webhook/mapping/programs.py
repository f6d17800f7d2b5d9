"""
jq expressions: which are accepted, and where they run.

An expression comes from people, and jq can read files and the environment, loop for ever and take
all memory, none of which can be interrupted from within its process. The defence has three
layers, of which the last one alone would do:

1. `vet` refuses, by name, what has no use in a selector. It is for clear messages, early.
2. `combine` puts a prelude before the expression that hides the same names.
3. `JqWorker` runs it in a process without environment and files, with a limit on memory, which
   ends itself when an evaluation takes too long, and is replaced then.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Generic, Literal, Self, TypeVar

import orjson

from webhook.errors import EvaluationError, SpecError
from webhook.mapping.plain import PlainQuery, parse_plain
from webhook.model.pointer import Path, lookup

# Ours. The longest selector in the catalog has some 200 characters.
SOURCE_MAX_CHARS = 4096


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


# --- what an expression may not use --------------------------------------------------------------

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

# Inside quotes: an interpolation, which holds code; the end; or text, with escapes.
_TEXT = re.compile(r'(?P<code>\\\()|(?P<end>")|(?P<text>(?:[^"\\]|\\[^(])+)', re.DOTALL)

_CLOSES = {"(": ")", "\\(": ")", "[": "]", "{": "}"}

# Between the word `recurse` and its arguments.
_CALL = re.compile(r"(?:[ \t\r\n]|#[^\n]*\n)*\(")


def vet(source: str, *, path: str) -> None:
    """
    Refuse an expression that reads more than the object or that nothing bounds.

    Words are found where they mean a function of jq: `.spec.env`, `{env: 1}` and `"env"` pass,
    `env.PATH` does not. Whether the expression compiles is for `JqWorker.check`.

    Raises:
        SpecError: names the word and the reason.
    """
    problem = _text_problem(source)
    if problem:
        raise SpecError(path, problem)

    for word, position in _calls(source, path):
        reason = _REFUSED.get(word)
        if word == "recurse" and _CALL.match(source, position):
            reason = f"with an argument, {_ENDLESS}"
        elif "::" in word:
            reason = _FILES
        elif word.startswith("_"):
            reason = "it is internal to jq"
        if reason:
            raise SpecError(path, f"a query may not use {word}: {reason}")


def _text_problem(source: str) -> str | None:
    if len(source) > SOURCE_MAX_CHARS:
        return f"a query has at most {SOURCE_MAX_CHARS} characters"
    if not source.strip():
        return "the query is empty; `.` selects the whole object"
    # jq takes a NUL for the end, and sees a line break in other places than we would.
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]|\r(?!\n)", source):
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


# --- one program for all expressions of an object ------------------------------------------------

# What the prelude hides, with the number of arguments: whatever reaches beyond the object. Loops
# can't be hidden (`def f: f; f`); against those there is the worker.
_HIDDEN: Mapping[str, Sequence[int]] = {
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
    for name, counts in _HIDDEN.items()
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


# --- results -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """
    One expression failed on this object.

    *reason* continues a sentence about the expression ("selected more than 1000 places"). It
    shows no value of the object.
    """

    reason: str


QueryResult = list[Path] | QueryFailure

_TOO_MANY_PLACES = f"selected more than {MAX_PLACES} places"

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
        (f"({'|'.join(_HIDDEN)}) is not available", "uses {0}, which is not available"),
    )
]


# A key that the author wrote is no value of the object. One that jq computed may be.
_INDEXED = re.compile(rf'Cannot index {_TYPE} with string \("(\w+)"\)')


def _shown_error(error: object, source: str) -> str:
    if isinstance(error, str):
        indexed = _INDEXED.match(error)
        if indexed is not None and indexed[2] in source:
            return f'cannot index {indexed[1]} with "{indexed[2]}"'

        for pattern, shown in _JQ_ERRORS:
            match = pattern.match(error)
            if match is not None:
                return shown.format(*match.groups())
    return "failed in jq, whose text may hold values of the object and is not shown"


def _read_results(
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
        _read_result(entry, source, decoded) for entry, source in zip(entries, sources, strict=True)
    ]


def _decode(document_json: bytes) -> Any:
    try:
        return json.loads(document_json)
    except RecursionError as e:
        raise EvaluationError("the object nests too deeply") from e


def _read_result(entry: object, source: str, decoded: Callable[[], Any]) -> QueryResult:
    if isinstance(entry, dict):
        return QueryFailure(_shown_error(entry.get("error"), source))
    if not isinstance(entry, list):
        return QueryFailure("has a result that is no list of places")
    if len(entry) > MAX_PLACES:
        return QueryFailure(_TOO_MANY_PLACES)

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


def document_for_jq(document: Mapping[str, Any]) -> bytes:
    """
    *document* as JSON for the worker, without `metadata.managedFields`.

    Those are often half of an object, no policy is about them, and parsing is what jq spends its
    time on. *document* stays as it is.

    Raises:
        EvaluationError: it nests too deeply.
    """
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        kept = {key: value for key, value in metadata.items() if key != "managedFields"}
        document = {**document, "metadata": kept}
    try:
        return orjson.dumps(document)
    except TypeError:
        # Whole numbers beyond 64 bits, nesting beyond 254 levels: the slower encoder takes them.
        try:
            return json.dumps(document).encode()
        except RecursionError as e:
            raise EvaluationError("the object nests too deeply") from e


# --- the worker ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """
    What the evaluation of one object may take.

    250 ms are a twentieth of the webhook's timeout (5 s), and some hundred times what sound
    expressions take on an object of 50 KB. *memory_mib* is address space, of which the
    child has 16 MiB from the start.
    """

    evaluate_ms: int = 250
    compile_ms: int = 1000
    memory_mib: int = 512
    answer_max_bytes: int = 4 << 20
    # How long a call waits for those before it.
    wait_ms: int = 2000
    # For how long an expression that has ended a child runs apart from the others.
    suspect_s: float = 60.0


class JqWorker:
    """
    Evaluates jq expressions in a child process. Safe to use from several threads.

    Calls block, for some seconds at most, without holding the interpreter lock. A child is
    started by the first call, and again by the next call after one has died. There are up to
    two: the second is for expressions that are being checked or that have ended a child lately,
    so that whoever repeats those does not hold up everybody else.
    """

    def __init__(self, limits: WorkerLimits | None = None) -> None:
        self._limits = limits or WorkerLimits()
        self._proven = _Lane(self._limits)
        self._doubtful = _Lane(self._limits)
        # Program -> until when (monotonic) it runs apart.
        self._suspects: _Recent[float] = _Recent(256)
        # Source -> why it does not compile; "" if it does.
        self._compile_problems: _Recent[str] = _Recent(4096)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the children. Later calls raise EvaluationError."""
        self._proven.close()
        self._doubtful.close()

    def evaluate_paths(self, sources: tuple[str, ...], document_json: bytes) -> list[QueryResult]:
        """
        The places that each of *sources* selects in the document, in jq's order.

        Indexes that count from the end of a list are resolved; those before its beginning are
        dropped, as there is no such place.

        Raises:
            EvaluationError: an evaluation took too long or too much memory, and with several
                expressions it is unknown which; or the child is busy or can't be started.
        """
        try:
            problems = [
                self._compile_problem(source, self._proven, wait_ms=self._limits.wait_ms)
                for source in sources
            ]
        except _DiedError as e:
            raise EvaluationError(f"the expression {e}") from e

        sound = [source for source, problem in zip(sources, problems, strict=True) if not problem]
        results = iter(self._evaluate(sound, document_json) if sound else ())
        return [QueryFailure(problem) if problem else next(results) for problem in problems]

    def check(self, source: str, *, path: str) -> None:
        """
        Compile *source*, which stands at *path* of its document, and try it on sample objects.

        That jq raises an error on a sample is fine: the mapping may be for other objects.

        Raises:
            SpecError: it does not compile, selects a flood of places, or exceeds the limits.
            EvaluationError: the child is busy or can't be started.
        """
        try:
            problem = self._compile_problem(source, self._doubtful, wait_ms=_TRIAL_WAIT_MS)
            if not problem:
                problem = self._trial_problem(source)
        except _DiedError as e:
            problem = str(e)

        if problem:
            raise SpecError(path, f"the expression {problem}")

    def _compile_problem(self, source: str, lane: _Lane, *, wait_ms: int) -> str:
        problem = self._compile_problems.get(source)
        if problem is None:
            answer = lane.run(_COMPILE, alone(source), b"", wait_ms=wait_ms)
            problem = _compile_problem_of(answer)
            self._compile_problems.put(source, problem)
        return problem

    def _trial_problem(self, source: str) -> str:
        program = combine((source,), mode="paths")
        for sample in _SAMPLES:
            try:
                answer = self._doubtful.run(_EVALUATE, program, sample, wait_ms=_TRIAL_WAIT_MS)
            except _DiedError:
                # Once more: the machine may have been busy with something else.
                answer = self._doubtful.run(_EVALUATE, program, sample, wait_ms=_TRIAL_WAIT_MS)
            results = _read_results(answer.payload, (source,), sample)
            if answer.kind == _TOO_LONG or results == [QueryFailure(_TOO_MANY_PLACES)]:
                return f"{_TOO_MANY_PLACES} of a small sample object"
        return ""

    def _evaluate(self, sources: Sequence[str], document_json: bytes) -> list[QueryResult]:
        program = combine(sources, mode="paths")
        lane, wait_ms = self._proven, self._limits.wait_ms
        if (self._suspects.get(program) or 0.0) > time.monotonic():
            # Not for long: each waiting call holds a thread that others need.
            lane, wait_ms = self._doubtful, 2 * self._limits.evaluate_ms
        try:
            answer = lane.run(_EVALUATE, program, document_json, wait_ms=wait_ms)
        except _DiedError as e:
            self._suspects.put(program, time.monotonic() + self._limits.suspect_s)
            which = "the expression" if len(sources) == 1 else f"one of {len(sources)} expressions"
            raise EvaluationError(f"{which} {e}") from e

        results = _read_results(answer.payload, sources, document_json)
        if results is not None:
            return results
        if len(sources) == 1:
            return [QueryFailure(self._whole_problem(answer, sources[0]))]

        # One of them stopped the program around its `try`; each by itself tells which.
        return [self._evaluate([source], document_json)[0] for source in sources]

    def _whole_problem(self, answer: _Answer, source: str) -> str:
        if answer.kind == _FAILED:
            return _shown_error(answer.text, source)
        if answer.kind == _TOO_LONG:
            return f"has a result of more than {self._limits.answer_max_bytes} bytes"
        if answer.kind == _NOTHING:
            return "stopped the program"
        return "has no result that can be read"


_V = TypeVar("_V")


class _Recent(Generic[_V]):
    """A bounded map for several threads; what was written longest ago makes room."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._values: OrderedDict[str, _V] = OrderedDict()

    def get(self, key: str) -> _V | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: str, value: _V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._size:
                self._values.popitem(last=False)


class _Lane:
    """One child at a time, for one call at a time."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._closed = False

    def run(self, task: bytes, program: str, document: bytes, *, wait_ms: int) -> _Answer:
        """
        Raises:
            _DiedError: the child died of the program.
            EvaluationError: the child is busy or can't be started.
        """
        if not self._lock.acquire(timeout=wait_ms / 1000):
            raise EvaluationError(f"jq was busy with other expressions for {wait_ms} ms")

        try:
            if self._closed:
                raise EvaluationError("the jq worker is closed")

            if self._child is None or not self._child.is_alive():
                self._end_child()
                self._child = _Child(self._limits)
            return self._child.ask(task, program.encode(errors="replace"), document)
        except BaseException:
            # Whatever it was, the child may be in the middle of an answer.
            self._end_child()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end_child()

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


# The protocol of jq_worker.py, which explains it. It is not imported, as it imports jq.
_WORKER = FilePath(__file__).absolute().with_name("jq_worker.py")
_REQUEST = struct.Struct("!cII")
_COMPILE, _EVALUATE = b"C", b"E"
_ANSWER = struct.Struct("!cI")
_READY, _COMPILING, _COMPILED = b"s", b"c", b"k"
_RESULT, _NOTHING, _REFUSED_BY_JQ, _FAILED, _TOO_LONG = b"R", b"N", b"X", b"F", b"L"
_KINDS = (_READY, _COMPILING, _COMPILED, _RESULT, _NOTHING, _REFUSED_BY_JQ, _FAILED, _TOO_LONG)
_ERROR_MAX_BYTES = 4096
_OUT_OF_MEMORY_EXIT = 86

# A start takes 0.1 s; a machine under load takes its time.
_START_S = 10.0
# The child reads a request without doing anything else.
_SEND_S = 5.0
# The child's own timer comes first. Ours is for a child that is stopped or does not get to run.
_GRACE_S = 0.5
# For `check`, where a person waits and not the API server.
_TRIAL_WAIT_MS = 10_000


@dataclass(frozen=True, slots=True)
class _Answer:
    kind: bytes
    payload: bytes

    @property
    def text(self) -> str:
        return self.payload.decode(errors="replace")


class _DiedError(Exception):
    """The child died of a program. The text continues a sentence about the expression."""


class _SilentError(Exception):
    """The child has closed its pipe (*overdue* false) or is late."""

    def __init__(self, *, overdue: bool) -> None:
        super().__init__("overdue" if overdue else "closed")
        self.overdue = overdue


class _Child:
    """A running jq_worker.py."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        numbers = (
            limits.memory_mib << 20,
            limits.compile_ms,
            limits.evaluate_ms,
            limits.answer_max_bytes,
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_WORKER), *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={},
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the server, which then ends the child
        )
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = [pipe.fileno() for pipe in pipes if pipe is not None]
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
        self._received = bytearray()
        self._last_words = b""
        self._ended = False
        try:
            self._receive(time.monotonic() + _START_S)
        except BaseException as e:
            self.end()
            if not isinstance(e, _SilentError):
                raise

            # No object was seen yet, so that its words can be shown.
            words = self._last_words.decode(errors="replace").strip().rpartition("\n")[2]
            raise EvaluationError(f"the jq worker does not start: {words or e}") from e

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, task: bytes, program: bytes, document: bytes) -> _Answer:
        """
        Raises:
            _DiedError: there is no answer and the child is gone, or its answer makes no sense.
        """
        compiling = False
        try:
            header = _REQUEST.pack(task, len(program), len(document))
            self._send(header + program + document, time.monotonic() + _SEND_S)
            while True:
                allowed_ms = self._limits.compile_ms if compiling else self._limits.evaluate_ms
                answer = self._receive(time.monotonic() + allowed_ms / 1000 + _GRACE_S)
                if answer.kind not in (_COMPILING, _COMPILED):
                    return answer

                compiling = answer.kind == _COMPILING
        except _SilentError as e:
            if not e.overdue:
                # It is about to end, and how it does is the reason that we want to tell.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=1)
            self.end()
            raise _DiedError(self._cause_of_death(compiling=compiling, overdue=e.overdue)) from e

    def end(self) -> None:
        """Kill it, if it is not dead yet, and close the pipes. The second time does nothing."""
        if self._ended:
            # The numbers of its pipes may belong to somebody else by now.
            return

        self._ended = True
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._last_words = os.read(self._err, 4096)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _cause_of_death(self, *, compiling: bool, overdue: bool) -> str:
        code = self._process.returncode
        if overdue or code == -signal.SIGALRM:
            if compiling:
                return f"did not compile within {self._limits.compile_ms} ms"
            return f"did not end within {self._limits.evaluate_ms} ms"
        if code == _OUT_OF_MEMORY_EXIT or b"cannot allocate memory" in self._last_words:
            return f"used more than {self._limits.memory_mib} MiB"
        if code < 0:
            # SIGSEGV: jq recurses in C over results that nest too deeply. SIGKILL: the kernel,
            # where the machine or the container has less memory than we allow.
            return f"ended its process with {signal.Signals(-code).name}"
        return f"ended its process with exit code {code}"

    def _send(self, message: bytes, deadline: float) -> None:
        rest = memoryview(message)
        while rest:
            self._wait_for(self._in, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._in, rest) :]
            except BrokenPipeError as e:
                raise _SilentError(overdue=False) from e

    def _receive(self, deadline: float) -> _Answer:
        kind, length = _ANSWER.unpack(self._read(_ANSWER.size, deadline))
        if kind not in _KINDS or length > max(self._limits.answer_max_bytes, _ERROR_MAX_BYTES):
            raise _DiedError("has an answer that can't be read")

        return _Answer(kind, self._read(length, deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        while len(self._received) < size:
            self._wait_for(self._out, select.POLLIN, deadline)
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                raise _SilentError(overdue=False)

            self._received += chunk
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _wait_for(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise _SilentError(overdue=True)


_COMPILE_ERROR = re.compile(
    r"jq: error: (?P<what>.*?) at <top-level>, line (?P<line>\d+), column (?P<column>\d+)",
    re.DOTALL,
)


def _compile_problem_of(answer: _Answer) -> str:
    """What jq objects to, in the author's own lines and columns; empty if it does not."""
    if answer.kind != _REFUSED_BY_JQ:
        return ""

    match = _COMPILE_ERROR.search(answer.text)
    if match is None:
        return f"does not compile: {' '.join(answer.text.split())[:200]}"

    # The prelude takes the first line.
    where = f"line {int(match['line']) - 1}, column {match['column']}"
    return f"does not compile: {' '.join(match['what'].split())[:200]} ({where})"


# What `check` tries an expression on. Small: a sound expression needs no millisecond for one, so
# that one that reaches a limit here is not sound.
_CONTAINER = {
    "name": "main",
    "image": "registry.example/train:1",
    "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 1}},
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    "ports": [{"containerPort": 8080}],
}
_TEMPLATE = {
    "metadata": {"labels": {"app": "sample"}, "annotations": {}},
    "spec": {
        "containers": [_CONTAINER, {"name": "side", "image": "registry.example/side:1"}],
        "initContainers": [{"name": "init", "image": "registry.example/init:1"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}
_METADATA = {"name": "sample", "namespace": "default", "labels": {"app": "sample"}}
_SAMPLES: Sequence[bytes] = [
    orjson.dumps(sample)
    for sample in (
        {},
        {"apiVersion": "v1", "kind": "Pod", "metadata": _METADATA, "spec": _TEMPLATE["spec"]},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": _METADATA,
            "spec": {"replicas": 2, "template": _TEMPLATE},
        },
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": _METADATA,
            "spec": {
                "pytorchReplicaSpecs": {
                    role: {"replicas": 1, "template": _TEMPLATE} for role in ("Master", "Worker")
                }
            },
        },
    )
]
