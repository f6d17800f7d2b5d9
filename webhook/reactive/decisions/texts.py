"""Words that several reasons have in common."""

from __future__ import annotations

from collections.abc import Sequence


def name_pods(names: Sequence[str]) -> str:
    """At least one pod, for a message: `pod llm-0`, `pod llm-0 and 3 more`."""
    more = len(names) - 1
    return f"pod {names[0]} and {more} more" if more else f"pod {names[0]}"
