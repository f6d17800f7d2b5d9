"""Texts that a terminal shows as they are: nothing in them moves a cursor or turns a line."""

from __future__ import annotations

import re

# Control characters (C0 but for line breaks and tabs, and C1), what ends a line elsewhere, what
# turns the direction of text, marks that can't be seen, and halves of surrogate pairs, which no
# UTF-8 can carry: names of files hold such where they are no UTF-8.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
    "|[\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""
    *text* with each such character as JSON and YAML write it in a string: `\u001b`.

    So text in JSON stays that text, as it stands inside of strings only.
    """
    return text if text.isprintable() else _UNPRINTABLE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """The same, with all lines but the first set in: none is taken for a message of its own."""
    return printable(text).replace("\n", "\n  ")


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    # As two halves: JSON has no other way, and of them YAML's is not needed (see `dump_yaml`).
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
