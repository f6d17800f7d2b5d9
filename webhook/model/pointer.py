"""Paths into JSON documents, and their text form (RFC 6901)."""

from __future__ import annotations

from typing import Any

# Outermost first: keys of objects and indexes of lists.
Path = tuple[str | int, ...]


def escape_token(token: str | int) -> str:
    """One reference token: `~` becomes `~0` and `/` becomes `~1` (RFC 6901, section 3)."""
    if isinstance(token, int):
        return str(token)
    if "~" in token or "/" in token:
        return token.replace("~", "~0").replace("/", "~1")
    return token


def to_pointer(path: Path) -> str:
    """The JSON pointer of *path*: `/spec/containers/0`; the whole document is ``""``."""
    if not path:
        return ""
    # Each change is told by its pointer, and hardly any has a token to escape.
    joined = "/".join(map(str, path))
    if "~" not in joined and joined.count("/") == len(path) - 1:
        return f"/{joined}"
    return "".join([f"/{escape_token(token)}" for token in path])


def to_field_path(path: Path) -> str:
    """
    *path* as Kubernetes writes field paths in a Status cause.

    `spec.containers[0].resources.limits[nvidia.com/gpu]`: indexes and keys that are no plain
    names stand in brackets (apimachinery, `field.Path`).
    """
    text = ""
    for token in path:
        if isinstance(token, int):
            text += f"[{token}]"
        elif token.replace("-", "").replace("_", "").isalnum():
            text += f".{token}" if text else token
        else:
            text += f"[{token}]"
    return text


def lookup(document: Any, path: Path) -> Any:
    """The value at *path*, or None where something on the way is missing or of another type."""
    node = document
    for token in path:
        if isinstance(node, dict):
            node = node.get(token)
        elif isinstance(node, list) and isinstance(token, int) and -1 < token < len(node):
            node = node[token]
        else:
            return None
    return node
