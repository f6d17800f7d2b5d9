"""What pages of docs/reference are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def code(text: object) -> str:
    return f"`{text}`"


def codes(texts: Iterable[object]) -> str:
    return ", ".join([code(text) for text in texts])


def table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join([cell.replace('|', chr(92) + '|') for cell in row])} |"
