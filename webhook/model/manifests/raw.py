"""What both readers give, and what both refuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from webhook.errors import ManifestError

# Real objects stay below 30 levels. Recursive code elsewhere must survive what passes here.
MAX_DEPTH = 500

# Below the 4,300 from which on Python refuses to convert digits.
MAX_NUMBER_CHARS = 1024

NUMBER_TOO_LONG = f"a number is longer than {MAX_NUMBER_CHARS} characters"

_MAX_SHOWN_CHARS = 60


@dataclass(slots=True)
class RawDocument:
    """One value of a text; *item_lines* are those of the elements of a top-level `items`."""

    line: int
    value: Any
    # Where known.
    item_lines: list[int] = field(default_factory=list)


def line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def too_deep(source: str, line: int) -> ManifestError:
    return ManifestError(source, f"is nested deeper than {MAX_DEPTH} levels", line=line)


def show_key(key: str) -> str:
    return repr(key if len(key) <= _MAX_SHOWN_CHARS else f"{key[:_MAX_SHOWN_CHARS]}…")
