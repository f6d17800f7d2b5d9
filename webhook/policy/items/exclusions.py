"""What a submitter excludes of the items that policies give, remembered in an annotation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from webhook.model.pointer import Path, lookup
from webhook.patch import Editor
from webhook.policy.rules.item_names import EXCLUDED_AT

_ANNOTATIONS: Path = EXCLUDED_AT[:-1]


def remembered(document: dict[str, Any]) -> dict[str, list[str]]:
    """What the annotation says; nothing where it is no such thing (anybody can write it)."""
    text = lookup(document, EXCLUDED_AT)
    try:
        read = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(read, dict):
        return {}
    return {
        name: keys
        for name, keys in read.items()
        if isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    }


def remember(editor: Editor, name: str, keys: set[str]) -> None:
    """Write into the annotation that *keys* of the field *name* are excluded."""
    for depth in range(1, len(_ANNOTATIONS) + 1):
        node = lookup(editor.document, _ANNOTATIONS[:depth])
        if node is not None and not isinstance(node, dict):
            return  # Kubernetes refuses such an object.
    known: Mapping[str, list[str]] = {**remembered(editor.document), name: sorted(keys)}
    kept = {field: items for field, items in known.items() if items}
    if not kept:
        editor.remove(EXCLUDED_AT)
        return
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    editor.write(EXCLUDED_AT, text)
