"""Documents as files of a policy directory: which file is whose, and writing one whole or not."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from webhook.errors import ConflictError, NotFoundError, StoreError
from webhook.model.documents import is_ours
from webhook.model.manifests import Manifest, dump_yaml
from webhook.store.compile.inputs import SourceFile
from webhook.store.source import Stored

# Kubernetes: "Object Names and IDs", DNS subdomain names. Nothing else may become a file's name.
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


def file_name(kind: str, name: str) -> str:
    """
    The file in which we keep a document.

    Raises:
        StoreError: the name could not be a file's.
    """
    if not _NAME.fullmatch(name.lower()):
        raise StoreError(f"{name!r} is no name of an object (lower case, digits, '-' and '.')")
    return f"api-{kind.lower()}-{name.lower()}.yaml"


def stored_documents(sources: Iterable[SourceFile]) -> Iterator[Stored]:
    """
    The documents in *sources*, read relative to their directory. Of two that have one name, the
    first.
    """
    seen: set[tuple[str, str]] = set()
    for source in sources:
        for manifest in source.manifests:
            stored = _stored(source, manifest)
            if stored is not None and (key := (stored.kind, stored.name.lower())) not in seen:
                seen.add(key)
                yield stored


def _stored(source: SourceFile, manifest: Manifest) -> Stored | None:
    value = manifest.value
    if not isinstance(value, dict) or not is_ours(value):
        return None
    metadata, kind = value.get("metadata"), value.get("kind")
    if not isinstance(metadata, dict) or not isinstance(kind, str):
        return None
    name = metadata.get("name")
    if not isinstance(name, str):
        return None
    whole = {**value, "metadata": {**metadata, "resourceVersion": version_of(value)}}
    ours = _NAME.fullmatch(name.lower()) and source.name == file_name(kind, name)
    is_alone = len(source.manifests) == 1
    read_only = "" if ours and is_alone else f"it stands in {source.name}, which is edited by hand"
    return Stored(whole, manifest.name, read_only, source.written)


def version_of(manifest: dict[str, Any]) -> str:
    """The resourceVersion of a document: a hash of its content."""
    text = json.dumps(_kept(manifest), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kept(manifest: dict[str, Any]) -> dict[str, Any]:
    """What is written of a document: all but what a store says about it."""
    metadata = {k: v for k, v in manifest["metadata"].items() if k != "resourceVersion"}
    return {**{k: v for k, v in manifest.items() if k != "status"}, "metadata": metadata}


def check_version(known: Stored, wanted: str) -> None:
    """
    Raises:
        ConflictError: *known* is not the version that is *wanted* (if any), or not ours.
    """
    if known.read_only:
        raise ConflictError(f"{known.kind} {known.name} can't be written: {known.read_only}")
    if wanted and wanted != known.resource_version:
        raise ConflictError(f"{known.kind} {known.name} was changed meanwhile; read it again")


def create_file(directory: Path, manifest: dict[str, Any]) -> None:
    """
    Write a new document into a file of its own.

    Raises:
        ConflictError: there is a file of that name.
        StoreError: it could not be written.
    """
    _write(directory, manifest, os.link)


def try_file(directory: Path, manifest: dict[str, Any], *, is_new: bool) -> None:
    """
    Find out, as far as that can be without writing, whether a document could be written.

    Raises:
        as `create_file` if it *is_new*, else as `replace_file`.
    """
    path = directory / file_name(manifest["kind"], manifest["metadata"]["name"])
    with _as_store_errors(path):
        if is_new and os.path.lexists(path):
            raise FileExistsError
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def replace_file(directory: Path, manifest: dict[str, Any]) -> None:
    """
    Write a document in place of the one in its file.

    Raises:
        StoreError: it could not be written; the old file is whole.
    """
    _write(directory, manifest, os.replace)


def _write(directory: Path, manifest: dict[str, Any], put: Any) -> None:
    path = directory / file_name(manifest["kind"], manifest["metadata"]["name"])
    temporary = ""
    with _as_store_errors(path):
        try:
            # With a dot in front it is no policy file for whoever looks meanwhile.
            handle, temporary = tempfile.mkstemp(prefix=".api-", dir=directory)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(dump_yaml([_kept(manifest)]))
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            put(temporary, path)
            _sync(directory)
        finally:
            if temporary:
                # Gone if it was renamed.
                with contextlib.suppress(OSError):
                    os.unlink(temporary)


def delete_file(directory: Path, kind: str, name: str) -> None:
    """
    Raises:
        NotFoundError: there is none.
        StoreError: it could not be deleted.
    """
    path = directory / file_name(kind, name)
    with _as_store_errors(path):
        path.unlink()
        _sync(directory)


def _sync(directory: Path) -> None:
    """Make names last, as fsync does the content."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _as_store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise ConflictError(f"{path.name} exists already") from None
    except FileNotFoundError:
        raise NotFoundError(f"{path.name} is not there") from None
    except OSError as error:
        raise StoreError(
            f"{path.name} can't be written: {error.strerror or 'unknown error'}"
        ) from error
