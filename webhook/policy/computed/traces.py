"""Who wrote where, and after whom."""

from __future__ import annotations

from webhook.model.pointer import Path


class Trace:
    """
    Writes in their order, each at a path and by somebody.

    What stands at a path is touched by a write at it, above it or below it.
    """

    def __init__(self) -> None:
        self._writers: list[str] = []
        # The last write at a path, and the last one at or below it.
        self._at: dict[Path, int] = {}
        self._below: dict[Path, int] = {}

    def __len__(self) -> int:
        return len(self._writers)

    def add(self, path: Path, writer: str) -> None:
        number = len(self._writers)
        self._writers.append(writer)
        self._at[path] = number
        for depth in range(len(path) + 1):
            self._below[path[:depth]] = number

    def last(self, path: Path, since: int = 0) -> str:
        """Who touched last what stands at *path*, from the write number *since* on; else ``""``."""
        last = self._below.get(path, -1)
        for depth in range(len(path)):
            last = max(last, self._at.get(path[:depth], -1))
        return self._writers[last] if last >= max(since, 0) else ""
