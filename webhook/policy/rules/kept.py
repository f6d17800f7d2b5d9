"""Values that keep the rules of a field, so that each is judged once and then known."""

from __future__ import annotations

from typing import Any

# A field has a handful of values in a cluster; images have the most. Both bound the memory that
# one field can take, whatever is submitted.
_MAX_VALUES = 128
_MAX_CHARS = 128

_SCALARS = frozenset({str, int, float, bool})


class KeptValues:
    """
    Texts, numbers and flags that keep the rules of one field. Only of the rules that look at
    nothing but the value.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # With their types: to Python, 1 and true are one key.
        self._known: set[tuple[type, Any]] = set()

    def __contains__(self, value: Any) -> bool:
        kind = type(value)
        return kind in _SCALARS and (kind, value) in self._known

    def add(self, value: Any) -> None:
        kind = type(value)
        if kind not in _SCALARS or (kind is str and len(value) > _MAX_CHARS):
            return
        if len(self._known) >= _MAX_VALUES:
            # Simpler than to know which was used last, and as good: the usual ones come again.
            self._known.clear()
        self._known.add((kind, value))
