"""YAML: values from the events of a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

import yaml

from webhook.errors import ManifestError
from webhook.model.manifests.raw import MAX_DEPTH, RawDocument, line_at, show_key, too_deep
from webhook.model.manifests.scalars import TAG, NotFiniteError, is_plain, name_tag, resolve

# What aliases may add, so that a few lines cannot become gigabytes ("billion laughs").
# Every value counts one, and one more per 64 characters.
MAX_ALIASED_VALUES = 200_000
_CHARS_PER_VALUE = 64

# libyaml compares each with all before it: 20,000 of them take a second, a million an hour.
MAX_TAG_DIRECTIVES = 100

# Samples of Prometheus may be NaN or infinite; here alone that is no mistake, and read as the text.
_SAMPLED_KIND = "GpuScenario"

# libyaml takes a sixteenth of the time (33,000 events: 0.07 s, not 1.2 s); the events are equal.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# YAML 1.2, section 5.1 (c-printable), without the byte order mark.
_NOT_PRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)

# Beside single characters, handles of tags are all that the parser's messages quote of a text.
_QUOTED_HANDLE = re.compile(r""" (['"])!.*\1""")

_TAG_DIRECTIVE = re.compile(r"^%TAG\b", re.MULTILINE)


def read_yaml(text: str, source: str) -> list[RawDocument]:
    if bad := _NOT_PRINTABLE.search(text):
        problem = f"holds the character U+{ord(bad[0]):04X}, which YAML does not allow"
        raise ManifestError(source, problem, line=line_at(text, bad.start()))
    if len(_TAG_DIRECTIVE.findall(text)) > MAX_TAG_DIRECTIVES:
        raise ManifestError(source, f"holds more than {MAX_TAG_DIRECTIVES} %TAG directives")
    reader = _YamlReader(source)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            reader.take(event)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        problem = ", ".join(part for part in (e.context, e.problem) if part)
        problem = _QUOTED_HANDLE.sub("", problem)
        if mark is not None and _is_tab_at(text, mark.line, mark.column):
            problem = "a tab stands where YAML wants spaces"
        line = None if mark is None else mark.line + 1
        raise ManifestError(
            source, f"is not YAML: {problem}", line=line
        ) from None  # It shows the text.
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
        self.documents: list[RawDocument] = []
        self._source = source
        self._frames: list[_Frame] = []
        self._anchors: dict[str, Any] = {}
        self._aliased = 0
        self._item_lines: list[int] = []
        # The first value of the document that is no number, and its line.
        self._not_finite: tuple[str, int] | None = None

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
            self._not_finite = None

    def _fail(self, problem: str, line: int) -> NoReturn:
        raise ManifestError(self._source, problem, line=line)

    def _take_scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if self._awaits_key() and event.value == "<<" and is_plain(event):
            frame = self._frames[-1]
            if frame.merged is not None:
                self._fail("key '<<' is there twice", line)
            frame.key, frame.merged = _Mark.MERGE, set()
            return
        try:
            value = resolve(event)
        except NotFiniteError as e:
            self._not_finite = self._not_finite or (str(e), line)
            value = e.word
        except ValueError as e:
            self._fail(str(e), line)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        self._place(value, line)

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, line: int) -> None:
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", f"{TAG}{'map' if is_mapping else 'seq'}"):
            self._fail(f"{name_tag(event.tag)} is not supported", line)
        if self._awaits_key():
            self._fail("a key must be text, not a mapping or list", line)
        if len(self._frames) >= MAX_DEPTH:
            raise too_deep(self._source, line)
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
            self._fail("an alias has no anchor", line)
        value = self._anchors[event.anchor]
        if value is _Mark.OPEN:
            self._fail("an alias stands inside its own anchor", line)
        self._place(self._copy(value, line), line)

    def _awaits_key(self) -> bool:
        if not self._frames:
            return False
        frame = self._frames[-1]
        return isinstance(frame.value, dict) and frame.key is _Mark.NO_KEY

    def _place(self, value: Any, line: int) -> None:
        """Put a value where it belongs: as a document, an element, a key or under a key."""
        if not self._frames:
            is_sampled = isinstance(value, dict) and value.get("kind") == _SAMPLED_KIND
            if self._not_finite is not None and not is_sampled:
                self._fail(*self._not_finite)
            if value is not None:
                self.documents.append(RawDocument(line, value, self._item_lines))
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
            self._fail("a key is no text; put it in quotes", line)
        merged = frame.merged or set()
        if value in frame.value and value not in merged:
            self._fail(f"key {show_key(value)} is there twice", line)
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
                    self._fail(f"'<<' repeats the key {show_key(key)} above it; put it first", line)
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
                raise too_deep(self._source, line)
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
