"""Globs: `*` and `?`, matched without backtracking."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

# A guess: longer than any image reference or path that people write. It bounds the work per
# character of the text.
MAX_CHARS = 256


@dataclass(frozen=True, slots=True)
class Glob:
    """
    A pattern in which `*` stands for any characters, also none, and `?` for exactly one.

    Both cross `/` and line ends; everything else means itself. The time to match is at most
    proportional to the length of the text times the length of the pattern, whatever they hold.
    """

    source: str
    # The stretches between the stars, each of a fixed length.
    _parts: tuple[re.Pattern[str], ...]
    _tail_chars: int

    @classmethod
    def compile(cls, pattern: str) -> Self:
        """
        Read *pattern*. There is no wrong one, only one that is too long.

        Raises:
            ValueError: *pattern* has more than `MAX_CHARS` characters.
        """
        if len(pattern) > MAX_CHARS:
            raise ValueError(f"pattern is longer than {MAX_CHARS} characters")
        parts = pattern.split("*")
        return cls(pattern, tuple(_compile_part(part) for part in parts), len(parts[-1]))

    def match(self, text: str) -> bool:
        """Whether the whole of *text* fits."""
        if len(self._parts) == 1:
            return self._parts[0].fullmatch(text) is not None

        head, *middle, tail = self._parts
        end = len(text) - self._tail_chars
        found = head.match(text)
        # The leftmost fit of each part leaves the most room for those after it, so it never
        # has to be taken back.
        for part in middle:
            if found is None:
                return False
            found = part.search(text, found.end(), max(end, 0))
        return found is not None and found.end() <= end and tail.match(text, end) is not None


def _compile_part(part: str) -> re.Pattern[str]:
    return re.compile("".join("." if c == "?" else re.escape(c) for c in part), re.DOTALL)
