"""
Documents as people write them: YAML and JSON text, one or many in a file.

Text stays text. Plain scalars are read by the core schema of YAML 1.2, so `no`, `on`, `12:30`,
`1_000` and `2024-01-01` are strings. kubectl, which follows YAML 1.1, makes some of these
booleans or numbers; the field that gets such a text says so, while a text field that silently
got `false` would not. Where 1.2 reads a *number* otherwise than kubectl, kubectl counts:
`defaultMode: 0644` is octal, 420. A text that has no meaning in JSON, or that readers
disagree on (duplicate keys, a late `<<`, `.nan`), is an error with its line.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import yaml

from webhook.errors import ManifestError

# An object in etcd is at most 1.5 MiB; a file may hold many.
MAX_BYTES = 16 * 2**20

# Real objects stay below 30 levels. Recursive code elsewhere must survive what passes here.
MAX_DEPTH = 500

# What aliases may add, so that a few lines cannot become gigabytes ("billion laughs").
# Every value counts one, and one more per 64 characters.
MAX_ALIASED_VALUES = 200_000
_CHARS_PER_VALUE = 64

# Below the 4,300 from which on Python refuses to convert digits.
MAX_NUMBER_CHARS = 1024

# libyaml compares each with all before it: 20,000 of them take a second, a million an hour.
MAX_TAG_DIRECTIVES = 100

# libyaml takes a sixteenth of the time (33,000 events: 0.07 s, not 1.2 s); the events are equal.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

# YAML 1.2, section 5.1 (c-printable), without the byte order mark.
_NOT_PRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_TAG_DIRECTIVE = re.compile(r"^%TAG\b", re.MULTILINE)

_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_OCTAL = re.compile(r"[-+]?0[oO]?[0-7]+")
_HEXADECIMAL = re.compile(r"[-+]?0[xX][0-9a-fA-F]+")
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_MAX_SHOWN_CHARS = 60

_TAG = "tag:yaml.org,2002:"

# Text that every reader takes for text without quotes: names, images, paths, quantities.
_PLAIN = re.compile(
    r"[A-Za-z/](?:[\w./@-]|:(?=[\w./@-]))*(?: [\w./@-]+)*|[0-9]+(?:[mkMGTP]|[KMGTPE]i)",
    re.ASCII,
)
_YAML_11_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """
    One document of a file.

    *index* counts the documents that are not empty, from 0; the items of a `List` count
    singly. *line* is where it begins, from 1.
    """

    source: str
    index: int
    line: int
    value: Any

    @property
    def name(self) -> str:
        """The document as it is named to people: `jobs.yaml#0`."""
        return f"{self.source}#{self.index}"


@dataclass(slots=True)
class _Document:
    line: int
    value: Any
    # Of the elements of a top-level `items`, where known.
    item_lines: list[int] = field(default_factory=list)


class _NotJsonError(Exception):
    """A text that begins like JSON is none; it may still be YAML."""

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


def load_file(path: Path | str) -> list[Manifest]:
    """
    The documents of a file. They are named by *path* as it is given.

    Raises:
        ManifestError: the file cannot be read, is larger than `MAX_BYTES`, or holds a text
            that `load_documents` refuses.
    """
    source = str(path)
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else None
        raise ManifestError(source, f"cannot be read: {reason or e}") from e
    return load_documents(data, source)


def load_documents(text: str | bytes, source: str) -> list[Manifest]:
    """
    The documents of a text, in order. Empty ones are left out, a `List` becomes its items.

    A text that begins with `{` or `[` is read as one JSON value or several in a row, else as
    YAML. Aliases are expanded into copies, so that no two places share a value.

    Raises:
        ManifestError: the text is no YAML or JSON, is larger than `MAX_BYTES`, is nested
            deeper than `MAX_DEPTH`, has a key twice, or expands beyond
            `MAX_ALIASED_VALUES`. Nothing of it is returned then.
    """
    if len(text) > MAX_BYTES:
        raise ManifestError(source, f"is larger than {MAX_BYTES // 2**20} MiB")
    text = _decode(text, source)
    documents = _read(text, source)
    expanded = [item for document in documents for item in _expand_list(document)]
    return [Manifest(source, index, *item) for index, item in enumerate(expanded)]


def dump_yaml(documents: Iterable[Any]) -> str:
    """
    *documents* as YAML text, separated by `---`, keys in their order.

    Text is quoted wherever a reader of YAML 1.1 or 1.2 could take it for something else.

    Raises:
        TypeError: a value has no form in JSON.
    """
    text: str = yaml.emit(_events(documents), Dumper=_DUMPER, allow_unicode=True, width=MAX_BYTES)
    return text


def _decode(text: str | bytes, source: str) -> str:
    if isinstance(text, bytes):
        if text.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in text[:2]:
            raise ManifestError(source, "is UTF-16 or UTF-32; it must be UTF-8")
        try:
            text = text.decode()
        except UnicodeDecodeError as e:
            line = e.object.count(b"\n", 0, e.start) + 1
            raise ManifestError(source, "is not UTF-8", line=line) from e
    text = text.removeprefix("\ufeff")
    if (nul := text.find("\0")) >= 0:
        raise ManifestError(source, "holds a NUL byte", line=_line_at(text, nul))
    return text


def _read(text: str, source: str) -> list[_Document]:
    if not text.lstrip().startswith(("{", "[")):
        return _read_yaml(text, source)
    try:
        return _read_json(text, source)
    except _NotJsonError as e:
        not_json = e
    try:
        return _read_yaml(text, source)
    except ManifestError as e:
        # It is neither. The reader that came further says better what is wrong; of JSON that
        # is well-formed and still refused, this one knows the line.
        came_further = not_json.line is not None and (e.line or 0) > not_json.line
        if came_further or e.problem == not_json.problem:
            raise
    raise ManifestError(source, not_json.problem, line=not_json.line)


def _expand_list(document: _Document) -> Iterator[tuple[int, Any]]:
    """Line and value of each item of a `List`, as kubectl takes it apart; else the document."""
    value = document.value
    if not (isinstance(value, dict) and value.get("kind") == "List"):
        yield document.line, value
        return
    items = value.get("items")
    if not isinstance(items, list):
        yield document.line, value
        return
    for index, item in enumerate(items):
        known = index < len(document.item_lines)
        line = document.item_lines[index] if known else document.line
        yield from _expand_list(_Document(line, item))


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


# --- JSON ---


def _read_json(text: str, source: str) -> list[_Document]:
    """
    One JSON value or several in a row.

    The standard library's reader, not orjson: that one keeps the last of two equal keys, and
    makes floats of integers beyond 64 bits.
    """
    documents: list[_Document] = []
    line, counted = 1, 0
    position = _skip_space(text, 0)
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, end = _JSON.raw_decode(text, position)
        except RecursionError as e:
            raise _too_deep(source, line) from e
        except json.JSONDecodeError as e:
            raise _NotJsonError(f"is not JSON: {e.msg}", e.lineno) from e
        except ValueError as e:
            raise _NotJsonError(str(e), None) from e
        _check_json(value, source, line)
        documents.append(_Document(line, value))
        position = _skip_space(text, end)
    return documents


def _skip_space(text: str, position: int) -> int:
    found = _JSON_SPACE.match(text, position)
    return found.end() if found else position


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {_show(key)} is there twice")
            seen.add(key)
    return value


def _read_integer(text: str) -> int:
    if len(text) > MAX_NUMBER_CHARS:
        raise ValueError(_too_long(text))
    return int(text)


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"number {_show(text)} is too large")
    return number


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} has no form in JSON")


_JSON_SPACE = re.compile(r"[ \t\r\n]*")
_JSON = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_read_integer,
    parse_float=_read_float,
    parse_constant=_refuse,
)


def _check_json(value: Any, source: str, line: int) -> None:
    """Refuse what the JSON reader lets pass: deep nesting, and escapes of half a character."""
    level = [value]
    for depth in itertools.count():
        below: list[Any] = []
        for node in level:
            if isinstance(node, str):
                if not node.isascii() and _LONE_SURROGATE.search(node):
                    raise ManifestError(source, "holds half a surrogate pair", line=line)
            elif isinstance(node, dict | list):
                if depth >= MAX_DEPTH:
                    raise _too_deep(source, line)
                below += node
                if isinstance(node, dict):
                    below += node.values()
        if not below:
            return
        level = below


def _too_deep(source: str, line: int) -> ManifestError:
    return ManifestError(source, f"is nested deeper than {MAX_DEPTH} levels", line=line)


# --- YAML ---


def _read_yaml(text: str, source: str) -> list[_Document]:
    if bad := _NOT_PRINTABLE.search(text):
        problem = f"holds the character U+{ord(bad[0]):04X}, which YAML does not allow"
        raise ManifestError(source, problem, line=_line_at(text, bad.start()))
    if len(_TAG_DIRECTIVE.findall(text)) > MAX_TAG_DIRECTIVES:
        raise ManifestError(source, f"holds more than {MAX_TAG_DIRECTIVES} %TAG directives")
    reader = _YamlReader(source)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            reader.take(event)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        problem = ", ".join(part for part in (e.context, e.problem) if part)
        if mark is not None and _is_tab_at(text, mark.line, mark.column):
            problem = "a tab stands where YAML wants spaces"
        line = None if mark is None else mark.line + 1
        raise ManifestError(source, f"is not YAML: {problem}", line=line) from e
    except yaml.YAMLError as e:
        raise ManifestError(source, f"is not YAML: {e}") from e
    return reader.documents


def _is_tab_at(text: str, line: int, column: int) -> bool:
    lines = text.splitlines()
    return line < len(lines) and lines[line][column : column + 1] == "\t"


class _Mark(Enum):
    """Stands where no value can stand."""

    NO_KEY = "the next value is a key"
    MERGE = "the key is <<"
    OPEN = "the anchored value has not ended"


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is being read."""

    value: dict[str, Any] | list[Any]
    line: int
    anchor: str | None
    key: str | _Mark = _Mark.NO_KEY
    # Keys that came in through `<<`: the mapping's own may still replace these.
    merged: set[str] | None = None


class _YamlReader:
    """
    Builds values from the events of a YAML text.

    Events, because they come one by one: limits act while the text is read, and nothing
    recurses, however deep it is nested.
    """

    def __init__(self, source: str) -> None:
        self.documents: list[_Document] = []
        self._source = source
        self._frames: list[_Frame] = []
        self._anchors: dict[str, Any] = {}
        self._aliased = 0
        self._item_lines: list[int] = []

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.ScalarEvent):
            self._take_scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event, line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close()
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event, line)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors = {}
            self._item_lines = []

    def _fail(self, problem: str, line: int) -> NoReturn:
        raise ManifestError(self._source, problem, line=line)

    def _take_scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if self._awaits_key() and event.value == "<<" and _is_plain(event):
            frame = self._frames[-1]
            if frame.merged is not None:
                self._fail("key '<<' is there twice", line)
            frame.key, frame.merged = _Mark.MERGE, set()
            return
        try:
            value = _resolve(event)
        except ValueError as e:
            self._fail(str(e), line)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        self._place(value, line)

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, line: int) -> None:
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", f"{_TAG}{'map' if is_mapping else 'seq'}"):
            self._fail(f"tag {_show_tag(event.tag)} is not supported", line)
        if self._awaits_key():
            self._fail("a key must be text, not a mapping or list", line)
        if len(self._frames) >= MAX_DEPTH:
            raise _too_deep(self._source, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Mark.OPEN
        self._frames.append(_Frame({} if is_mapping else [], line, event.anchor))

    def _close(self) -> None:
        frame = self._frames.pop()
        if frame.anchor is not None:
            self._anchors[frame.anchor] = frame.value
        self._place(frame.value, frame.line)

    def _take_alias(self, event: yaml.AliasEvent, line: int) -> None:
        if event.anchor not in self._anchors:
            self._fail(f"alias {_show(event.anchor)} has no anchor", line)
        value = self._anchors[event.anchor]
        if value is _Mark.OPEN:
            self._fail(f"alias {_show(event.anchor)} stands inside its own anchor", line)
        self._place(self._copy(value, line), line)

    def _awaits_key(self) -> bool:
        if not self._frames:
            return False
        frame = self._frames[-1]
        return isinstance(frame.value, dict) and frame.key is _Mark.NO_KEY

    def _place(self, value: Any, line: int) -> None:
        """Put a value where it belongs: as a document, an element, a key or under a key."""
        if not self._frames:
            if value is not None:
                self.documents.append(_Document(line, value, self._item_lines))
            return
        frame = self._frames[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
            if len(self._frames) == 2 and self._frames[0].key == "items":
                self._item_lines.append(line)
        elif frame.key is _Mark.NO_KEY:
            frame.key = self._read_key(frame, value, line)
        elif isinstance(frame.key, str):
            frame.value[frame.key] = value
            frame.key = _Mark.NO_KEY
        else:
            self._merge(frame, frame.value, value, line)
            frame.key = _Mark.NO_KEY

    def _read_key(self, frame: _Frame, value: Any, line: int) -> str:
        """Keys are text, and integers and booleans made text, as kubectl does."""
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int):
            value = str(value)
        elif not isinstance(value, str):
            shown = "null" if value is None else _show(value)
            self._fail(f"key {shown} is no text; put it in quotes", line)
        merged = frame.merged or set()
        if value in frame.value and value not in merged:
            self._fail(f"key {_show(value)} is there twice", line)
        merged.discard(value)
        return str(value)

    def _merge(self, frame: _Frame, target: dict[str, Any], value: Any, line: int) -> None:
        """
        Take in the mapping or mappings under `<<`. The first of them wins.

        YAML lets a key of the mapping itself win wherever `<<` stands; kubectl lets the later
        of the two win. Where that makes a difference there is no right answer.
        """
        merged: set[str] = set()
        for mapping in value if isinstance(value, list) else [value]:
            if not isinstance(mapping, dict):
                self._fail("'<<' takes a mapping or a list of mappings", line)
            for key, merged_value in mapping.items():
                if key in merged:
                    continue
                if key in target:
                    self._fail(f"'<<' repeats the key {_show(key)} above it; put it first", line)
                merged.add(key)
                target[key] = merged_value
        frame.merged = merged

    def _copy(self, value: Any, line: int) -> Any:
        """A copy that shares nothing with *value*, charged to what aliases may add."""
        todo: list[tuple[Any, Any, int]] = []

        def start(node: Any, depth: int) -> Any:
            self._charge(node, line)
            if not isinstance(node, dict | list):
                return node
            if depth >= MAX_DEPTH:
                raise _too_deep(self._source, line)
            twin = type(node)()
            todo.append((node, twin, depth + 1))
            return twin

        copy = start(value, len(self._frames))
        while todo:
            node, twin, depth = todo.pop()
            if isinstance(node, list):
                twin.extend(start(child, depth) for child in node)
            else:
                for key, child in node.items():
                    self._charge(key, line)
                    twin[key] = start(child, depth)
        return copy

    def _charge(self, value: Any, line: int) -> None:
        self._aliased += 1
        if isinstance(value, str):
            self._aliased += len(value) // _CHARS_PER_VALUE
        if self._aliased > MAX_ALIASED_VALUES:
            self._fail(f"aliases expand to more than {MAX_ALIASED_VALUES:,} values", line)


def _is_plain(event: yaml.ScalarEvent) -> bool:
    return bool(event.implicit[0]) and event.style in (None, "")


def _resolve(event: yaml.ScalarEvent) -> Any:
    """The value of a scalar. Raises ValueError where it has none in JSON."""
    text: str = event.value
    if _is_plain(event):
        return _resolve_plain(text)
    if event.tag in (None, "!", f"{_TAG}str"):
        return text
    value = _resolve_plain(text)
    match event.tag.removeprefix(_TAG), value:
        case ("null", None) | ("bool", bool()):
            return value
        case ("int", int()) if not isinstance(value, bool):
            return value
        case ("float", int() | float()) if not isinstance(value, bool):
            return float(value)
    raise ValueError(f"tag {_show_tag(event.tag)} does not fit this text, or is not supported")


def _resolve_plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if len(text) > MAX_NUMBER_CHARS:
        if _FLOAT.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
            raise ValueError(_too_long(text))
        return text
    if _OCTAL.fullmatch(text):
        return int(text, 8)
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return text if math.isinf(number) else number
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} has no form in JSON")
    return text


# --- writing ---


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
        return value, _style(value)
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


def _too_long(number: str) -> str:
    return f"number {_show(number)} is longer than {MAX_NUMBER_CHARS} characters"


def _show(text: object) -> str:
    shown = str(text)
    return repr(shown if len(shown) <= _MAX_SHOWN_CHARS else f"{shown[:_MAX_SHOWN_CHARS]}…")


def _show_tag(tag: str) -> str:
    return _show(tag.replace(_TAG, "!!", 1))
