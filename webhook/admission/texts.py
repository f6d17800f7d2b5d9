"""Texts and values, made safe to show: one line, bounded, nothing that moves a cursor."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from webhook.model.decision import NOT_SHOWN

# Names are no longer than this (Kubernetes allows 253 characters). The other two are chosen so
# that no line of an answer can flood a terminal or a log.
NAME_MAX_CHARS = 253
TEXT_MAX_CHARS = 200
VALUE_MAX_CHARS = 120

# What could break a line, move a cursor or turn the direction of text, and halves of
# surrogate pairs, which no UTF-8 can carry.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+"
)
# Needs no quotes to be seen as one value in a sentence.
_PLAIN = re.compile(r"[^\s\"'(),;]+")


def clean(text: str, max_chars: int = TEXT_MAX_CHARS) -> str:
    """*text* in one line without control characters, cut to *max_chars*."""
    # What nearly every text is; it saves the search.
    if len(text) <= max_chars and text.isprintable() and text == text.strip():
        return text
    # Only a bounded part is searched: a field of an object may hold megabytes.
    part = text[: max_chars * 4]
    line = _UNPRINTABLE.sub(" ", part).strip()
    if len(line) <= max_chars and len(part) == len(text):
        return line
    return line[: max_chars - 1] + "…"


def value_text(value: Any) -> str:
    """*value* as a message shows it: plain words as they are, everything else as JSON."""
    if isinstance(value, str) and (_PLAIN.fullmatch(value) or value == NOT_SHOWN):
        return clean(value, VALUE_MAX_CHARS)
    return clean(_json_text(value), VALUE_MAX_CHARS)


def printable(value: Any) -> Any:
    """*value* for a record: as it is where it is short and plain JSON, else its text, cut."""
    if isinstance(value, str):  # What most are.
        return clean(value, VALUE_MAX_CHARS)
    match value:
        case None | bool() | float():
            return value
        case int():
            return value if abs(value) < 2**63 else clean(str(value), VALUE_MAX_CHARS)
        case dict() | list():
            text = _json_text(value)
            shown = clean(text, VALUE_MAX_CHARS)
            return value if shown == text else shown
        case _:
            return clean(str(value), VALUE_MAX_CHARS)


def to_json(value: Any) -> bytes:
    """*value* as compact JSON. What JSON has no type for (a `Decimal`) is its text."""
    try:
        return orjson.dumps(value, default=str)
    except TypeError:
        # orjson stops at integers of 64 bits, at 254 levels, and at keys that are no text.
        return json.dumps(value, default=str, separators=(",", ":")).encode()


def _json_text(value: Any) -> str:
    try:
        return to_json(value).decode()
    except (TypeError, ValueError, RecursionError):
        return "(a value that cannot be shown)"
