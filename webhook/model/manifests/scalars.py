"""What a scalar of YAML means: the core schema of version 1.2, with kubectl's numbers."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from webhook.model.manifests.raw import MAX_NUMBER_CHARS, NUMBER_TOO_LONG

_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_OCTAL = re.compile(r"[-+]?0[oO]?[0-7]+")
_HEXADECIMAL = re.compile(r"[-+]?0[xX][0-9a-fA-F]+")
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

TAG = "tag:yaml.org,2002:"

# The types of YAML 1.1 and 1.2. Only these are named in a message: any other may be the start of
# a text that somebody forgot to quote, a password say.
_STANDARD_TAGS = frozenset(
    {
        *("map", "seq", "str", "null", "bool", "int", "float"),
        *("binary", "merge", "omap", "pairs", "set", "timestamp", "value", "yaml"),
    }
)


class NotFiniteError(ValueError):
    """`.nan` or `.inf`; *word* is what Prometheus calls it: `NaN`, `+Inf`, `-Inf`."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text} has no form in JSON")
        is_nan = text.lower() == ".nan"
        self.word = "NaN" if is_nan else f"{'-' if text[0] == '-' else '+'}Inf"


def is_plain(event: yaml.ScalarEvent) -> bool:
    return bool(event.implicit[0]) and event.style in (None, "")


def resolve(event: yaml.ScalarEvent) -> Any:
    """The value of a scalar. Raises ValueError where it has none in JSON."""
    text: str = event.value
    if is_plain(event):
        return _resolve_plain(text)
    if event.tag in (None, "!", f"{TAG}str"):
        return text
    value = _resolve_plain(text)
    match event.tag.removeprefix(TAG), value:
        case ("null", None) | ("bool", bool()):
            return value
        case ("int", int()) if not isinstance(value, bool):
            return value
        case ("float", int() | float()) if not isinstance(value, bool):
            return float(value)
    raise ValueError(f"{name_tag(event.tag)} does not fit this text, or is not supported")


def _resolve_plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if len(text) > MAX_NUMBER_CHARS:
        if _FLOAT.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
            raise ValueError(NUMBER_TOO_LONG)
        return text
    if _OCTAL.fullmatch(text):
        return int(text, 8)
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return text if math.isinf(number) else number
    if _NOT_FINITE.fullmatch(text):
        raise NotFiniteError(text)
    return text


def name_tag(tag: str) -> str:
    """*tag* as a message names it."""
    word = tag.removeprefix(TAG)
    return f"tag '!!{word}'" if word in _STANDARD_TAGS else "a tag that YAML does not define"
