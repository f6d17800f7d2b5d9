"""Values to YAML text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from webhook.model.printable import printable

# No line is folded: not all readers join folded lines alike.
_WIDTH = 2**24

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

# Text that every reader takes for text without quotes: names, images, paths, quantities.
_PLAIN = re.compile(
    r"[A-Za-z/](?:[\w./@-]|:(?=[\w./@-]))*(?: [\w./@-]+)*|[0-9]+(?:[mkMGTP]|[KMGTPE]i)",
    re.ASCII,
)
_HALVES = re.compile("[\ud800-\udfff]")
_YAML_11_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def dump_yaml(documents: Iterable[Any]) -> str:
    """
    *documents* as YAML text, separated by `---`, keys in their order.

    Text is quoted wherever a reader of YAML 1.1 or 1.2 could take it for something else. What a
    terminal would not show as it is (see `printable`) is escaped; half a surrogate pair, which YAML
    can't say, is U+FFFD.

    Raises:
        TypeError: a value has no form in JSON.
    """
    text: str = yaml.emit(_events(documents), Dumper=_DUMPER, allow_unicode=True, width=_WIDTH)
    # Whatever holds such characters stands in quotes already.
    return printable(text)


def _events(documents: Iterable[Any]) -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent()
    for index, document in enumerate(documents):
        yield yaml.DocumentStartEvent(explicit=index > 0)
        yield from _value_events(document)
        yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _value_events(value: Any) -> Iterator[yaml.Event]:
    todo = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, yaml.Event):
            yield node
        elif isinstance(node, dict):
            yield yaml.MappingStartEvent(None, None, True, flow_style=not node)
            todo.append(yaml.MappingEndEvent())
            for key, child in reversed(node.items()):
                if not isinstance(key, str):
                    raise TypeError(f"key {key!r} has no form in JSON")
                todo += (child, key)
        elif isinstance(node, list | tuple):
            yield yaml.SequenceStartEvent(None, None, True, flow_style=not node)
            todo.append(yaml.SequenceEndEvent())
            todo += reversed(node)
        else:
            text, style = _spell(node)
            yield yaml.ScalarEvent(None, None, (True, True), text, style=style)


def _spell(value: Any) -> tuple[str, str]:
    """The text of a scalar, and the quotes that it needs."""
    if value is None:
        return "null", ""
    if isinstance(value, bool):
        return ("true" if value else "false"), ""
    if isinstance(value, int):
        return str(value), ""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value!r} has no form in JSON")
        # YAML 1.1 takes 1e+20 for text: it wants a point.
        mantissa, e, exponent = repr(value).partition("e")
        return f"{mantissa}{'.0' if e and '.' not in mantissa else ''}{e}{exponent}", ""
    if isinstance(value, str):
        text = _HALVES.sub("\ufffd", value)
        return text, _style(text)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _style(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _YAML_11_WORDS:
        return ""
    lines = text.split("\n")
    if any(not line.isprintable() or line.endswith(" ") for line in lines):
        return '"'
    if len(lines) == 1:
        return "'"
    return "|" if not text.startswith((" ", "\n")) else '"'
