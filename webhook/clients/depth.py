"""JSON that nests deeper than our reader goes, made readable."""

from __future__ import annotations

import re

# As in manifests (`model.manifests.MAX_DEPTH`). The reader stops at about a thousand.
MAX_DEPTH = 500

# Stands where something was cut off. JSON text, to be looked for in what was read.
TOO_DEEP = b'"(nests too deep)"'

# A text that has no end goes to the end: looked for at each quote, it would take for ever.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.?)*+"?|[\[\]{}]', re.DOTALL)


def cut_depth(text: bytes, max_depth: int = MAX_DEPTH) -> bytes:
    """
    *text* with `TOO_DEEP` in place of each object and list below *max_depth* levels.

    One object that somebody made so must not keep the others from being read. Takes some tenths
    of a second for an object of the largest size; others are never cut.
    """
    parts: list[bytes] = []
    depth = 0
    kept_to = 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in b"[{":
            depth += 1
            if depth == max_depth + 1:
                parts += [text[kept_to : found.start()], TOO_DEEP]
        elif token in b"]}":
            if depth == max_depth + 1:
                kept_to = found.end()
            depth -= 1
    return b"".join([*parts, text[kept_to:]])
