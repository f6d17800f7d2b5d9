"""Files and texts to documents, whether they are YAML or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhook.errors import ManifestError
from webhook.model.manifests.json_reader import NotJsonError, read_json
from webhook.model.manifests.raw import RawDocument, line_at
from webhook.model.manifests.yaml_reader import read_yaml

# An object in etcd is at most 1.5 MiB; a file may hold many.
MAX_BYTES = 16 * 2**20


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
        raise ManifestError(source, "holds a NUL byte", line=line_at(text, nul))
    return text


def _read(text: str, source: str) -> list[RawDocument]:
    if not text.lstrip().startswith(("{", "[")):
        return read_yaml(text, source)
    try:
        return read_json(text, source)
    except NotJsonError as e:
        not_json = e
    try:
        return read_yaml(text, source)
    except ManifestError as e:
        # It is neither. The reader that came further says better what is wrong; of JSON that
        # is well-formed and still refused, this one knows the line.
        came_further = not_json.line is not None and (e.line or 0) > not_json.line
        if came_further or e.problem == not_json.problem:
            raise
    raise ManifestError(source, not_json.problem, line=not_json.line)


def _expand_list(document: RawDocument) -> Iterator[tuple[int, Any]]:
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
        yield from _expand_list(RawDocument(line, item))
