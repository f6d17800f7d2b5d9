"""A directory of YAML files as the store: read whole, watched by looking again."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from webhook.errors import ConflictError, ManifestError, NotFoundError, StoreError, WebhookError
from webhook.model.manifests import load_file
from webhook.model.settings import EngineSettings
from webhook.store.compile.inputs import QueryCheck, SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.files import (
    check_version,
    create_file,
    delete_file,
    file_name,
    replace_file,
    stored_documents,
    try_file,
)
from webhook.store.snapshot import Current, Snapshot
from webhook.store.source import Stored

log = logging.getLogger("gatewright.store")

# A change is in force within two seconds: it is seen after at most one period, and read when a
# second look finds it unchanged, so that half a file is never taken for the whole.
POLL_PERIOD_S = 0.5

# Who reads without having looked before (at the start, say) tries so often to find the files the
# same before and after. One that goes on changing then counts as one that can't be read.
_READS = 10
_READ_PAUSE_S = 0.05
_CHANGING = "changes while it is read; it is taken once it stays the same"

_SUFFIXES = (".yaml", ".yml", ".json")

# What tells two states of a file apart; the inode, for tools that replace files (and the links
# of a mounted ConfigMap).
Stamp = tuple[str, int, int, int]


def find_files(path: Path) -> Iterator[Path]:
    """The YAML and JSON files below *path* (itself, if it is a file), in a fixed order.

    Names that start with a dot are left out: editors and mounted ConfigMaps keep copies there.
    """
    if path.is_file():
        yield path
        return
    yield from _find_below(path, set())


def _find_below(directory: Path, visited: set[Path]) -> Iterator[Path]:
    """Links are followed, each directory once: a link may lead back to where it stands."""
    real = directory.resolve()
    if real in visited:
        return
    visited.add(real)
    for entry in sorted(directory.iterdir(), key=lambda item: item.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _find_below(entry, visited)
        elif entry.suffix.lower() in _SUFFIXES and (entry.is_file() or not entry.exists()):
            # No pipes or sockets: reading one may never end.
            yield entry


def read_sources(path: Path, *, relative: bool = False) -> list[SourceFile]:
    """
    Every file below *path*. A file that can't be read says why; the others don't suffer.

    They are named by *path* as it is given, or, if *relative*, from there on.
    """
    return [
        _read(file, str(file.relative_to(path)) if relative else str(file))
        for file in find_files(path)
    ]


def _read(file: Path, name: str) -> SourceFile:
    try:
        manifests = [replace(manifest, source=name) for manifest in load_file(file)]
        return SourceFile(name, tuple(manifests), written=_written_at(file))
    except ManifestError as error:
        where = f"line {error.line}: " if error.line is not None else ""
        return SourceFile(name, error=f"{where}{error.problem}")


def _written_at(file: Path) -> str:
    try:
        written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        # It went away meanwhile, or its time is no time.
        return ""
    return f"{written:%Y-%m-%dT%H:%M:%SZ}"


class DirectoryStore:
    """Keeps *current* at what *directory* says."""

    def __init__(
        self,
        directory: Path,
        current: Current,
        *,
        settings: EngineSettings,
        check_query: QueryCheck | None = None,
        on_reload: Callable[[Snapshot], None] | None = None,
        on_failure: Callable[[], None] | None = None,
        poll_period_s: float = POLL_PERIOD_S,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._directory = directory
        self.current = current
        self._settings = settings
        self._check_query = check_query
        self._on_reload = on_reload
        self._on_failure = on_failure
        self._poll_period_s = poll_period_s
        self._pause = pause
        self._loaded: tuple[Stamp, ...] | None = None
        self._sources: tuple[SourceFile, ...] = ()
        self._loading = threading.Lock()
        self._writing = threading.Lock()

    def load(self, seen: tuple[Stamp, ...] | None = None) -> Snapshot:
        """
        Read and compile everything, and put it in force. Blocks.

        With *seen*, what is in force stays unless the directory is as *seen* before and after.

        Raises:
            WebhookError: the directory itself can't be read.
        """
        # The watch and a write may both want to; what is put in force last was read last.
        with self._loading:
            return self._load(seen)

    def _load(self, seen: tuple[Stamp, ...] | None) -> Snapshot:
        try:
            stamps, sources = self._read_whole(seen)
        except OSError as error:
            reason = error.strerror or "unknown error"
            raise WebhookError(f"policies: can't read {self._directory}: {reason}") from error
        if seen is not None and stamps != seen:
            return self.current.snapshot
        previous = self.current.snapshot if self.current.ready else None
        snapshot = build_snapshot(
            sources, self._settings, previous=previous, check_query=self._check_query
        )
        self._sources = tuple(sources)
        self.current.replace(snapshot)
        # Last: what failed, or could not be checked yet, is tried again at the next look.
        self._loaded = None if snapshot.is_provisional else stamps
        if self._on_reload is not None:
            self._on_reload(snapshot)
        return snapshot

    async def watch(self) -> None:
        """Load again whenever the directory has changed, until cancelled."""
        seen = self._loaded
        while True:
            await asyncio.sleep(self._poll_period_s)
            try:
                stamps = await asyncio.to_thread(self._stamps)
                if stamps != self._loaded and stamps == seen:
                    await asyncio.to_thread(self.load, stamps)
                seen = stamps
            except (OSError, WebhookError) as error:
                # What is in force stays; the next look may find the directory again, and then
                # it is loaded whether or not it has changed, so that all is told to be well.
                self._loaded = None
                log.warning("policy directory can't be read", extra={"reason": str(error)})
                if self._on_failure is not None:
                    self._on_failure()

    # -- documents --------------------------------------------------------------------------

    @property
    def sources(self) -> Sequence[SourceFile]:
        """Everything that was there at the last look."""
        return self._sources

    async def list_documents(self, kind: str) -> Sequence[Stored]:
        """All documents of one kind, by name, as they were at the last look."""
        # The version of each is a hash of its content: with thousands, tenths of a second.
        return await asyncio.to_thread(_list, self._sources, kind)

    async def fetch_document(self, kind: str, name: str) -> Stored:
        return _find(self._sources, kind, name)

    async def create_document(self, manifest: dict[str, Any], *, dry_run: bool = False) -> Stored:
        kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])

        def create() -> None:
            for stored in stored_documents(self._look()):
                if (stored.kind, stored.name.lower()) == (kind, name.lower()):
                    raise ConflictError(f"there is a {kind} {stored.name} already")
            if dry_run:
                try_file(self._directory, manifest, is_new=True)
            else:
                create_file(self._directory, manifest)

        if dry_run:
            return await self._try(create, manifest)
        await self._write(create)
        return _find(self._sources, kind, name)

    async def replace_document(self, manifest: dict[str, Any], *, dry_run: bool = False) -> Stored:
        kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])

        def replace() -> None:
            known = _find(self._look(), kind, name)
            check_version(known, str(manifest["metadata"].get("resourceVersion") or ""))
            if dry_run:
                try_file(self._directory, manifest, is_new=False)
            else:
                replace_file(self._directory, manifest)

        if dry_run:
            return await self._try(replace, manifest)
        await self._write(replace)
        return _find(self._sources, kind, name)

    async def delete_document(self, kind: str, name: str, resource_version: str = "") -> None:
        def delete() -> None:
            check_version(_find(self._look(), kind, name), resource_version)
            delete_file(self._directory, kind, name)

        await self._write(delete)

    async def _write(self, work: Callable[[], None]) -> None:
        """Do *work*, then load, in a thread; one after the other."""

        def write() -> None:
            with self._writing:
                work()
                try:
                    self.load()
                except WebhookError as error:
                    # It is written; the watch loads it as soon as it can.
                    self._loaded = None
                    log.warning("policy directory can't be read", extra={"reason": str(error)})

        await asyncio.to_thread(write)

    async def _try(self, work: Callable[[], None], manifest: dict[str, Any]) -> Stored:
        """What would be there after *work*, which looks and writes nothing."""

        def look() -> None:
            with self._writing:
                work()

        await asyncio.to_thread(look)
        return Stored(manifest, file_name(manifest["kind"], manifest["metadata"]["name"]))

    def _look(self) -> list[SourceFile]:
        """What is there now, edits by hand included."""
        if not self._directory.is_dir():
            raise StoreError("documents can be written into a directory only")
        try:
            return read_sources(self._directory, relative=True)
        except OSError as error:
            reason = error.strerror or "unknown error"
            raise StoreError(f"the policy directory can't be read: {reason}") from error

    # -- reading ----------------------------------------------------------------------------

    def _read_whole(
        self, seen: tuple[Stamp, ...] | None
    ) -> tuple[tuple[Stamp, ...] | None, list[SourceFile]]:
        """
        Every file, and the stamps that all had before and after the reading.

        Without such stamps those that changed are errors. Who has *seen* some looks again itself.
        """
        changing: set[str] = set()
        for attempt in range(_READS if seen is None else 1):
            if attempt:
                self._pause(_READ_PAUSE_S)
            before = self._stamps() if seen is None else seen
            if not self.current.ready and self._is_fresh(before):
                # Its writer may have more to write. Nothing is in force that could stay meanwhile.
                self._pause(self._poll_period_s)
            sources = read_sources(self._directory, relative=True)
            after = self._stamps()
            if before == after:
                return after, sources
            changing = {name for name, *_ in set(before) ^ set(after)}
        return None, [
            SourceFile(source.name, error=_CHANGING)
            if str(self._directory / source.name) in changing
            else source
            for source in sources
        ]

    def _is_fresh(self, stamps: tuple[Stamp, ...]) -> bool:
        """Whether a file was written within the last period."""
        now_ns = time.time_ns()
        return any(abs(now_ns - mtime) < self._poll_period_s * 1e9 for _, mtime, *_ in stamps)

    def _stamps(self) -> tuple[Stamp, ...]:
        stamps = []
        for file in find_files(self._directory):
            try:
                stat = file.stat()
            except OSError:
                # A link to nowhere, say. Reading it says so; the others don't suffer.
                stamps.append((str(file), 0, 0, 0))
                continue
            stamps.append((str(file), stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(stamps)


def _list(sources: Sequence[SourceFile], kind: str) -> Sequence[Stored]:
    found = [stored for stored in stored_documents(sources) if stored.kind == kind]
    return sorted(found, key=lambda stored: stored.name)


def _find(sources: Iterable[SourceFile], kind: str, name: str) -> Stored:
    for stored in stored_documents(sources):
        if (stored.kind, stored.name.lower()) == (kind, name.lower()):
            return stored
    raise NotFoundError(f"there is no {kind} {name}")
