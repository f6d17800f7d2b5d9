"""The syntax of labels and annotations (Kubernetes: "Labels and Selectors")."""

from __future__ import annotations

import re

_NAME = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)"
_DNS_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_KEY = re.compile(rf"(?:(?P<prefix>{_DNS_LABEL}(?:\.{_DNS_LABEL})*)/)?{_NAME}")
_VALUE = re.compile(rf"{_NAME}?")
_MAX_PREFIX_CHARS = 253


def is_label_key(key: str) -> bool:
    """Whether *key* may name a label or an annotation: `name` or `prefix/name`."""
    match = _KEY.fullmatch(key)
    return match is not None and len(match["prefix"] or "") <= _MAX_PREFIX_CHARS


def is_label_value(value: str) -> bool:
    """Whether *value* may be the value of a label."""
    return _VALUE.fullmatch(value) is not None
