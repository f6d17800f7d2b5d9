"""Names: which can be one, and which one somebody may have meant by another."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# The default of difflib; lower ones suggest names that have little in common with the given one.
_MIN_SIMILARITY = 0.6

# difflib's work grows with the square of the length, and no known name is as long.
_MAX_CHARS = 128

# More would hide the message that the list ends.
_MAX_LISTED = 10


# Kubernetes: "Object Names and IDs", RFC 1123.
_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_DNS_NAME_MAX_CHARS = 253


def is_dns_label(text: str) -> bool:
    """Whether *text* is a label in lower case, as plurals and versions are."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """Whether *text* is one or more labels with dots between them, as groups are."""
    return len(text) <= _DNS_NAME_MAX_CHARS and all(map(is_dns_label, text.split(".")))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """
    The name among *known* that *name* is most like, or None where none is near.

    Case does not count. Equal input gives equal output, whatever the order of *known*.
    """
    if len(name) > _MAX_CHARS:
        return None
    by_folded = {candidate.casefold(): candidate for candidate in sorted(known, reverse=True)}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=_MIN_SIMILARITY)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """
    What to append to a message that *name* is unknown.

    `; did you mean "image"?`, or the known names where none is near (at most ten, and how
    many more), or nothing where there are none.
    """
    names = sorted(set(known))
    if not names:
        return ""
    near = nearest(name, names)
    if near is not None:
        return f'; did you mean "{near}"?'
    listed = ", ".join(names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return f"; known: {listed} and {more} more" if more > 0 else f"; known: {listed}"
