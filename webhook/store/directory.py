"""A directory of YAML files as the store: read whole, watched by looking again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from webhook.errors import ManifestError, WebhookError
from webhook.model.manifests import load_file
from webhook.model.settings import EngineSettings
from webhook.store.build import QueryCheck, SourceFile, build_snapshot
from webhook.store.snapshot import Current, Snapshot

log = logging.getLogger("gatewright.store")

# A change is in force within two seconds: it is seen after at most one period, and read when a
# second look finds it unchanged, so that half a file is never taken for the whole.
POLL_PERIOD_S = 0.5

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
        return SourceFile(name, tuple(manifests))
    except ManifestError as error:
        where = f"line {error.line}: " if error.line is not None else ""
        return SourceFile(name, error=f"{where}{error.problem}")


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
    ) -> None:
        self._directory = directory
        self.current = current
        self._settings = settings
        self._check_query = check_query
        self._on_reload = on_reload
        self._on_failure = on_failure
        self._poll_period_s = poll_period_s
        self._loaded: tuple[Stamp, ...] | None = None

    def load(self) -> Snapshot:
        """
        Read and compile everything, and put it in force. Blocks.

        Raises:
            WebhookError: the directory itself can't be read.
        """
        try:
            stamps = self._stamps()
            sources = read_sources(self._directory, relative=True)
        except OSError as error:
            reason = error.strerror or "unknown error"
            raise WebhookError(f"policies: can't read {self._directory}: {reason}") from error
        previous = self.current.snapshot if self.current.ready else None
        snapshot = build_snapshot(
            sources, self._settings, previous=previous, check_query=self._check_query
        )
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
                    await asyncio.to_thread(self.load)
                seen = stamps
            except (OSError, WebhookError) as error:
                # What is in force stays; the next look may find the directory again, and then
                # it is loaded whether or not it has changed, so that all is told to be well.
                self._loaded = None
                log.warning("policy directory can't be read", extra={"reason": str(error)})
                if self._on_failure is not None:
                    self._on_failure()

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
