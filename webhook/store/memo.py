"""What the last build worked out, so that the next one works out only what has changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """
    Results by a key and by what they were made from.

    A result is recalled if the key is equal and every input is the very same object as before.
    Each build has a memo of its own, which takes over from the one before what it is asked for;
    the rest is forgotten with the old snapshot. Errors are not kept: whoever raises is asked
    again.
    """

    def __init__(self, before: Memo | None = None) -> None:
        self._before = before._kept if before is not None else {}
        # The inputs are held, so that no other object can get the identity of one.
        self._kept: dict[Hashable, tuple[tuple[object, ...], Any]] = {}

    def recall(self, key: Hashable, inputs: tuple[object, ...], make: Callable[[], T]) -> T:
        """The result for *key* and *inputs*, made by *make* if it is not known."""
        for known in (self._kept.get(key), self._before.get(key)):
            if known is not None and _same(known[0], inputs):
                self._kept[key] = known
                result: T = known[1]
                return result
        made = make()
        self._kept[key] = inputs, made
        return made

    def recall_equal(self, key: Hashable, value: T) -> T:
        """The object that stood for an equal *value* before, or *value* itself."""
        for known in (self._kept.get(key), self._before.get(key)):
            if known is not None and known[1] == value:
                self._kept[key] = known
                result: T = known[1]
                return result
        self._kept[key] = (), value
        return value

    def seal(self) -> Memo:
        """Forget what was not asked for; the memo of a build that is over."""
        self._before = {}
        return self


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
