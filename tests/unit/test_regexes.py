"""No text, however written, makes one of our regular expressions take more than its length."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from re import _parser as parser  # Nothing public parses them.
from typing import Any

import pytest

import webhook
from webhook.errors import SpecError
from webhook.mapping.plain import parse_ref
from webhook.mapping.programs import compile_expression
from webhook.policy.gpu.before import parse_before

# Of the first length, what takes twice as long with each character takes seconds; of the last, what
# takes a step for each pair of characters. Whatever takes a step for each takes milliseconds.
LENGTHS = (24, 500, 30_000)
LIMIT_S = 0.25
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_FROM_ANYWHERE = r"search|finditer|findall|split|sub|subn"


def patterns() -> dict[str, re.Pattern[Any]]:
    """All of them that have a name, by it."""
    found: dict[str, re.Pattern[Any]] = {}
    for module in pkgutil.walk_packages(webhook.__path__, "webhook."):
        # The one that runs when it is imported, and the one that alone may import jq.
        if module.name.endswith((".__main__", ".jq_worker")):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            for number, pattern in enumerate(patterns_in(value)):
                if pattern not in found.values():
                    found[f"{module.name}.{name}" + (f"[{number}]" if number else "")] = pattern
    return found


def patterns_in(value: Any, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    """Itself, or those that it lists."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, tuple | list | Mapping):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from patterns_in(each, depth - 1)


PATTERNS = patterns()


def attacks(tree: Any, alphabet: str, length: int) -> Iterator[str]:
    """
    For each repetition in *tree*: what leads to it, then *length* of it, by each of *alphabet*.
    """
    before = ""
    for op, value in tree:
        name = str(op)
        if name in _REPEATS:
            least, most, body = value
            if most > LENGTHS[-1]:
                yield from (before + character * length for character in alphabet)
                yield before + sample(body) * (length // max(1, len(sample(body))))
            yield from (before + inner for inner in attacks(body, alphabet, length))
            before += sample(body) * least
        elif name == "SUBPATTERN":
            yield from (before + inner for inner in attacks(value[3], alphabet, length))
            before += sample(value[3])
        elif name == "BRANCH":
            for branch in value[1]:
                yield from (before + inner for inner in attacks(branch, alphabet, length))
            before += sample(value[1][0])
        else:
            before += sample([(op, value)])


def sample(tree: Any) -> str:
    """A text that *tree* takes, as short as can be; where it looks ahead, nearly."""
    parts = []
    for op, value in tree:
        match str(op):
            case "LITERAL":
                parts.append(chr(value))
            case "NOT_LITERAL" | "ANY":
                parts.append("a")
            case "IN":
                parts.append(members(value)[0])
            case "SUBPATTERN":
                parts.append(sample(value[3]))
            case "BRANCH":
                parts.append(sample(value[1][0]))
            case "ATOMIC_GROUP":
                parts.append(sample(value))
            case name if name in _REPEATS:
                parts.append(sample(value[2]) * value[0])
    return "".join(parts)


def members(listed: Any) -> str:
    """Some characters of a class."""
    parts = []
    for op, value in listed:
        match str(op):
            case "NEGATE":
                return "a"
            case "LITERAL":
                parts.append(chr(value))
            case "RANGE":
                parts.append(chr(value[0]))
            case "CATEGORY":
                parts.append(" " if "SPACE" in str(value) else "1a")
    return "".join(parts)


def alphabet_of(tree: Any) -> str:
    """Characters that *tree* tells apart."""
    found = {"a", " "}
    for op, value in tree:
        match str(op):
            case "LITERAL" | "NOT_LITERAL":
                found.add(chr(value))
            case "IN":
                found.update(members([each for each in value if str(each[0]) != "NEGATE"]))
            case "SUBPATTERN":
                found.update(alphabet_of(value[3]))
            case "BRANCH":
                found.update(*map(alphabet_of, value[1]))
            case "ATOMIC_GROUP":
                found.update(alphabet_of(value))
            case name if name in _REPEATS:
                found.update(alphabet_of(value[2]))
    return "".join(sorted(found))


def hostile(pattern: re.Pattern[Any]) -> Iterator[str]:
    """The short ones first."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    alphabet = alphabet_of(tree)[:16]
    for length in LENGTHS:
        yield from {*attacks(tree, alphabet, length), '"\\' * length, '\\"' * length}


def slowest_s(pattern: re.Pattern[Any], uses: list[Callable[[Any], Any]]) -> tuple[float, str]:
    """
    How long the slowest use of it takes, and on what; no further than to one beyond the limit.
    """
    slowest = (0.0, "")
    for text in hostile(pattern):
        # Nothing that any of them ends with.
        told: Any = text + "\x01"
        if isinstance(pattern.pattern, bytes):
            told = told.encode("latin-1", "replace")
        for use in uses:
            started = time.process_time()
            use(told)
            slowest = max(slowest, (time.process_time() - started, text[:40]))
            if slowest[0] > LIMIT_S:
                return slowest
    return slowest


# These are looked for only in what another one has taken as a whole.
IN_WHAT_IS_READ = {"webhook.model.rightsizing.durations._PART"}


def uses_of(name: str, pattern: re.Pattern[Any]) -> list[Callable[[Any], Any]]:
    """From its beginning, and from anywhere if its module looks for it so."""
    module, _, short = name.partition("[")[0].rpartition(".")
    code = Path(importlib.import_module(module).__file__ or "").read_text()
    is_named = re.search(rf"^{short}(?:: [^=]+)? = re\.compile\(", code, re.MULTILINE)
    is_searched = re.search(rf"\b{short}\.(?:{_FROM_ANYWHERE})\(", code)
    uses: list[Callable[[Any], Any]] = [pattern.match, pattern.fullmatch]
    # Of one that is listed, or that others import, the name says nothing.
    is_unknown = not is_named or not short.startswith("_")
    if (is_unknown or is_searched) and name not in IN_WHAT_IS_READ:
        uses.append(pattern.search)
    return uses


def test_they_are_found() -> None:
    assert len(PATTERNS) > 50
    assert "webhook.mapping.programs._EACH_ITEM" in PATTERNS


# Made in a function: of what is escaped, from the files of the package, and of names of fields.
MADE_WHERE_USED = {
    ("webhook.model.globs", "_compile_part"),
    ("webhook.policy.native.shape", "_leaf"),
    ("webhook.model.rightsizing.spec_values", "_named"),
    ("webhook.api.rest.body_paths", "_speller"),
}


def test_all_others_have_a_name() -> None:
    """Or they would not be among those that are attacked."""
    nameless = set()
    for file in sorted(Path(webhook.__path__[0]).rglob("*.py")):
        module = ".".join(file.relative_to(Path(webhook.__path__[0]).parent).with_suffix("").parts)
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                nameless |= {
                    (module, function.name)
                    for call in ast.walk(function)
                    if isinstance(call, ast.Call) and is_of_re(call.func)
                }

    assert nameless == MADE_WHERE_USED


def is_of_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr != "escape"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", PATTERNS)
def test_no_text_takes_longer_than_its_length(name: str) -> None:
    pattern = PATTERNS[name]

    took_s, text = slowest_s(pattern, uses_of(name, pattern))
    assert took_s < LIMIT_S, text


@pytest.mark.slow
@pytest.mark.parametrize("source", [r"\.\[\s*\]\s*\??\s*\|", r"(?:a+)+b"])
def test_one_that_takes_longer_is_found(source: str) -> None:
    pattern = re.compile(source)

    took_s, _ = slowest_s(pattern, [pattern.fullmatch])
    assert took_s > LIMIT_S


def test_a_test_of_items_that_is_long_is_refused_at_once() -> None:
    started = time.process_time()
    with pytest.raises(SpecError, match="at most"):
        compile_expression(".[]" + " " * 10**6 + "x", path="query", is_test=True)
    assert time.process_time() - started < LIMIT_S


def test_an_annotation_that_is_no_portion_is_none_at_once() -> None:
    """A submitter writes it, and both the server and the reconciler read it."""
    started = time.process_time()
    assert parse_before("a=" + "0" * 200_000 + "x") == {}
    assert time.process_time() - started < LIMIT_S


def test_a_path_that_is_long_is_refused_at_once() -> None:
    started = time.process_time()
    for path in ("a[" + " " * 10**6 + "x", "a" + ".b" * 10**6):
        with pytest.raises(ValueError, match="at most"):
            parse_ref(path)
    assert time.process_time() - started < LIMIT_S
