"""
Where something stands, as the author of a body knows it.

Checks tell paths of documents (`spec.rules[0].field`), in front of a message and within it. Whoever
sends a body has written no `spec`; a hierarchical policy has most of it below `policy`, and units
stand under the names that ids have here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from webhook.api.rest.scope_units import ID_KEYS
from webhook.model.documents import spec_keys

_UNITS = {scope.value: key for scope, key in ID_KEYS.items()}
_RENAMED: Mapping[str, Mapping[str, str]] = {
    "GVKPolicy": _UNITS,
    "WorkloadPolicy": {
        **{key: f"policy.{key}" for key in ("defaults", "rules", "imposedAssets")},
        **{key: f"meta.{name}" for key, name in {"scope": "scope", **_UNITS}.items()},
    },
}

_FIRST_KEY = re.compile(r"[^.\[]+")


def in_body(kind: str, path: str, message: str) -> str:
    """*message* about *path* of a document of *kind*, with paths of the body behind it."""
    at = "" if path == "spec" else path.removeprefix("spec.")
    if at != path and (first := _FIRST_KEY.match(at)) is not None:
        at = _RENAMED.get(kind, {}).get(first[0], first[0]) + at[first.end() :]
    found, spell = _speller(kind)
    told = found.sub(spell, message)
    return f"{at}: {told}" if at else told


def without_spec(path: str, message: str) -> str:
    """The same of another document, which was not sent: no word of the message is changed."""
    at = path.removeprefix("spec.")
    return f"{at}: {message}" if at else message


@cache
def _speller(kind: str) -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    keys = spec_keys(kind)
    renamed = _RENAMED.get(kind, {})
    # Not within queries (`.spec.rules`), quotes, or pointers into objects (`/spec/rules`).
    found = re.compile(rf"(?<![\w.\]\"'/-])spec\.({'|'.join(keys)})(?![\w-])")
    return found, lambda match: renamed.get(match[1], match[1])
