"""Whole numbers that stand as text in objects of a cluster, which anybody may have written."""

from __future__ import annotations

import re
from typing import Any

# Nothing that is counted has more digits; Python itself refuses to read thousands of them.
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)


def read_count(value: Any) -> int | None:
    """The number that *value* is, a text of at most nine digits; None where it is none."""
    if isinstance(value, str) and _COUNT.fullmatch(value):
        return int(value)
    return None
