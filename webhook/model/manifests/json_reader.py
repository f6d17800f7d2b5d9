"""JSON: one value or several in a row."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import Any, NoReturn

from webhook.errors import ManifestError
from webhook.model.manifests.raw import (
    MAX_DEPTH,
    MAX_NUMBER_CHARS,
    NUMBER_TOO_LONG,
    RawDocument,
    show_key,
    too_deep,
)

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class NotJsonError(Exception):
    """A text that begins like JSON is none; it may still be YAML."""

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


def read_json(text: str, source: str) -> list[RawDocument]:
    """
    One JSON value or several in a row.

    The standard library's reader, not orjson: that one keeps the last of two equal keys, and
    makes floats of integers beyond 64 bits.
    """
    documents: list[RawDocument] = []
    line, counted = 1, 0
    position = _skip_space(text, 0)
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, end = _JSON.raw_decode(text, position)
        except RecursionError as e:
            raise too_deep(source, line) from e
        except json.JSONDecodeError as e:
            raise NotJsonError(f"is not JSON: {e.msg}", e.lineno) from e
        except ValueError as e:
            raise NotJsonError(str(e), None) from e
        _check_json(value, source, line)
        documents.append(RawDocument(line, value))
        position = _skip_space(text, end)
    return documents


def _skip_space(text: str, position: int) -> int:
    found = _JSON_SPACE.match(text, position)
    return found.end() if found else position


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {show_key(key)} is there twice")
            seen.add(key)
    return value


def _read_integer(text: str) -> int:
    if len(text) > MAX_NUMBER_CHARS:
        raise ValueError(NUMBER_TOO_LONG)
    return int(text)


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} has no form in JSON")


_JSON_SPACE = re.compile(r"[ \t\r\n]*")
_JSON = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_read_integer,
    parse_float=_read_float,
    parse_constant=_refuse,
)


def _check_json(value: Any, source: str, line: int) -> None:
    """Refuse what the JSON reader lets pass: deep nesting, and escapes of half a character."""
    level = [value]
    for depth in itertools.count():
        below: list[Any] = []
        for node in level:
            if isinstance(node, str):
                if not node.isascii() and _LONE_SURROGATE.search(node):
                    raise ManifestError(source, "holds half a surrogate pair", line=line)
            elif isinstance(node, dict | list):
                if depth >= MAX_DEPTH:
                    raise too_deep(source, line)
                below += node
                if isinstance(node, dict):
                    below += node.values()
        if not below:
            return
        level = below
