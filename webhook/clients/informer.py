"""
What a cluster holds of one resource, kept up to date: list, then watch, for ever.

Read as bytes and decoded to what is wanted only: a typed list of a large cluster would stop the
event loop for seconds.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Generic, NoReturn, Protocol, TypeVar

import msgspec

from webhook.clients.depth import cut_depth
from webhook.clients.kube import JSON, METADATA, METADATA_LIST, KubeClient
from webhook.errors import KubeError
from webhook.telemetry.metrics import Metrics

log = logging.getLogger("gatewright.watch")

# Answers to a watch after which it may go on where it was: the server is away or busy, or lets
# us in no more. After all others it begins anew, by a list.
_PASSING = frozenset(
    {
        0,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)

_RETRY_AFTER_MAX_S = 60.0
# Of a list that is asked for as a whole: the metadata of some 50,000 pods. It is held whole, and
# twice while it is joined, by a process that may have 512 MiB.
_MAX_LIST_BYTES = 128 * 2**20
# The same failure is said again after so long.
_REMIND_S = 300.0


@dataclass(frozen=True, slots=True)
class Timing:
    """
    How long things may take, in seconds.

    A watch is asked to end after a time between *watch_min* and *watch_max*, so that those of
    many replicas don't all end at once, and is given up *margin* later. Waits after failures
    double from *first_wait* to *longest_wait*; a watch that lasted *steady* starts them anew. An
    optional resource that is not there is looked for again after *absent_wait* at most. Of any
    other there are no objects once it was not served for *missing_long*: longer than an API server
    takes until it serves what is defined.
    """

    list: float = 60.0
    watch_min: float = 240.0
    watch_max: float = 300.0
    margin: float = 30.0
    first_wait: float = 0.2
    longest_wait: float = 10.0
    steady: float = 5.0
    absent_wait: float = 15.0
    missing_long: float = 30.0


@dataclass(frozen=True, slots=True)
class Resource:
    """
    What is watched: *name* for people and metrics (`gvkpolicies.policy.gatewright.io`), and
    where it is. An *optional* one may be absent from the cluster, and come later. With
    *metadata_only* nothing else of its objects is sent.
    """

    name: str
    path: str
    optional: bool = False
    metadata_only: bool = False
    # Objects in one chunk of a list.
    chunk: int = 500


class Seen(Protocol):
    """
    What is kept of one object. *name* is `namespace/name` where it lies in a namespace.

    *change_key* is equal for two states between which nothing that matters has changed.
    """

    @property
    def name(self) -> str: ...

    @property
    def resource_version(self) -> str: ...

    @property
    def change_key(self) -> object: ...


SeenT = TypeVar("SeenT", bound=Seen)
_T = TypeVar("_T")


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ObjectMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Object(msgspec.Struct):
    metadata: _ObjectMeta


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


_PAGES = msgspec.json.Decoder(_Page)
_EVENTS = msgspec.json.Decoder(_Event)
_OBJECTS = msgspec.json.Decoder(_Object)
_STATUSES = msgspec.json.Decoder(_Status)


class _RelistError(KubeError):
    """The watch can't go on from where it was."""


# Two to this power is longer than any longest wait; two to the thousandth is no number any more.
_MAX_DOUBLINGS = 30


def backed_off(first_s: float, times: int, longest_s: float) -> float:
    """*first_s*, doubled so many *times*, up to *longest_s*."""
    return min(longest_s, first_s * 2.0 ** min(times, _MAX_DOUBLINGS))


class Informer(Generic[SeenT]):
    """
    Keeps `objects` at what the cluster holds of one resource.

    *on_change* is called in the event loop after something that matters has changed, also by a
    list that found objects gone; *on_event* after anything did. While the API server is away,
    `objects` stays as it was.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        decode: Callable[[bytes], SeenT],
        *,
        metrics: Metrics,
        on_change: Callable[[], None] = lambda: None,
        on_event: Callable[[], None] = lambda: None,
        timing: Timing | None = None,
    ) -> None:
        """
        *decode* reads one object; it raises `msgspec.DecodeError` where that is no object of an
        API server. One with which it fails otherwise is said in the log, and passed over: what was
        known of it stays.
        """
        self.resource = resource
        self.synced = asyncio.Event()
        # By name. Edited in place, in the event loop only.
        self.objects: dict[str, SeenT] = {}
        self._client = client
        self._decode = decode
        self._metrics = metrics
        self._on_change = on_change
        self._on_event = on_event
        self._timing = timing or Timing()
        # Where the watch goes on; None: a list comes first. Never looked into.
        self._version: str | None = None
        self._listed = 0
        self._expired_lists = 0
        self._absences = 0
        self._missing_since: float | None = None
        self._failures = 0
        self._trouble = "was not listed yet"
        self._told: tuple[str, float] | None = None
        self._show_connected(connected=False)
        for counter in (metrics.watch_relists, metrics.watch_failures):
            counter.labels(resource.name)

    @property
    def obstacle(self) -> str:
        """Why `objects` is not known yet; empty once it is."""
        return "" if self.synced.is_set() else f"{self.resource.name}: {self._trouble}"

    async def run(self) -> NoReturn:
        """List and watch until cancelled. No failure ends it."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                else:
                    await self._watch(self._version)
            except KubeError as error:
                await asyncio.sleep(self._after(error))
            except msgspec.DecodeError as error:
                # Whatever sent it: what comes after it can't be trusted either.
                self._version = None
                unreadable = KubeError(0, "Unreadable", f"no answer of an API server: {error}")
                await asyncio.sleep(self._after(unreadable))

    # -- list -------------------------------------------------------------------------------

    async def _list(self) -> None:
        """
        Read everything, and take what is there no more for deleted.

        Raises:
            KubeError: a chunk could not be had, or the list grew too old between two of them.
        """
        if self._listed:
            self._metrics.watch_relists.labels(self.resource.name).inc()
        found: dict[str, SeenT] = {}
        token = ""
        # A server that forgets faster than we read is asked for all at once.
        limit = None if self._expired_lists > 1 else self.resource.chunk
        while True:
            try:
                page = await self._page(token, limit)
            except KubeError as error:
                if not error.is_too_large or limit == 1:
                    raise
                # Fewer at a time.
                limit = self.resource.chunk if limit is None else limit // 2
                continue
            for item in page.items or ():
                name, _, seen = self._read(bytes(item))
                if seen is not None:
                    found[name] = seen
            token = page.metadata.continue_token
            if not token:
                break
        if not page.metadata.resource_version:
            raise KubeError(0, "Unreadable", "a list without resourceVersion")
        self._version = page.metadata.resource_version
        self._listed += 1
        self._expired_lists = self._absences = 0
        self._missing_since = None
        self._replace(found)

    async def _page(self, token: str, limit: int | None) -> _Page:
        params = {} if limit is None else {"limit": str(limit)}
        if token:
            params["continue"] = token
        body = await self._client.request(
            "GET",
            self.resource.path,
            params=params,
            accept=METADATA_LIST if self.resource.metadata_only else JSON,
            timeout_s=self._timing.list,
            max_bytes=_MAX_LIST_BYTES if limit is None else None,
        )
        return _decode(_PAGES, body)

    def _replace(self, found: dict[str, SeenT]) -> None:
        before, self.objects = self.objects, found
        first = not self.synced.is_set()
        self.synced.set()
        self._metrics.watch_objects.labels(self.resource.name).set(len(found))
        if first or _keys(before) != _keys(found):
            self._on_change()
        self._on_event()

    # -- watch ------------------------------------------------------------------------------

    async def _watch(self, version: str) -> None:
        """
        Follow changes from *version* on, until the server ends the watch as it was asked to.

        Raises:
            KubeError: it could not be had, broke off, or ended at once.
        """
        timing = self._timing
        asked_s = round(random.uniform(timing.watch_min, timing.watch_max), 3)
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            # Whole seconds; the server takes none as "as long as it likes".
            "timeoutSeconds": str(max(1, round(asked_s))),
        }
        heard = False
        started: float | None = None
        try:
            async with self._client.stream(
                self.resource.path,
                params=params,
                timeout_s=asked_s + timing.margin,
                accept=METADATA if self.resource.metadata_only else JSON,
            ) as lines:
                started = time.monotonic()
                self._connected()
                async for line in lines:
                    heard = True
                    self._take(_decode(_EVENTS, line))
        finally:
            self._show_connected(connected=False)
            lasted_s = 0.0 if started is None else time.monotonic() - started
            if lasted_s >= timing.steady:
                self._failures = 0
        if lasted_s < min(1.0, timing.steady):
            # A proxy may close whatever it lets in; without a wait that would be a loop.
            raise KubeError(0, "Closed", "the watch ended at once")
        if not heard and lasted_s >= 0.9 * asked_s:
            # Bookmarks come every minute. So this server does not know our version, as one that
            # was restored from a backup doesn't, and would say nothing for ever.
            self._version = None

    def _take(self, event: _Event) -> None:
        if event.type == "ERROR":
            status = _STATUSES.decode(event.object)
            raise _RelistError(status.code, status.reason, status.message)
        if event.type == "BOOKMARK":
            self._version = _OBJECTS.decode(event.object).metadata.resource_version
            return
        if event.type not in ("ADDED", "MODIFIED", "DELETED"):
            raise msgspec.DecodeError(f"unknown event {event.type[:40]!r}")
        name, version, seen = self._read(bytes(event.object))
        before = self.objects.get(name)
        changed = False
        if event.type == "DELETED":
            self.objects.pop(name, None)
            changed = before is not None
        elif seen is not None:
            self.objects[name] = seen
            changed = before is None or before.change_key != seen.change_key
        self._version = version
        self._metrics.watch_objects.labels(self.resource.name).set(len(self.objects))
        if changed:
            self._on_change()
        self._on_event()

    def _read(self, raw: bytes) -> tuple[str, str, SeenT | None]:
        """
        The name, the version and what is kept of one object.

        One that nobody thought of must not end the watch of all others, and so the whole process:
        what was known of it stays, None if nothing was.
        """
        try:
            seen = self._decode(raw)
        except msgspec.DecodeError:
            raise
        except Exception as error:  # noqa: BLE001  See above.
            metadata = _decode(_OBJECTS, raw).metadata
            # Not what the error says, which may show what is in the object.
            at = traceback.extract_tb(error.__traceback__)[-1]
            log.error(
                "an object can't be read; what is known of it stays",
                extra={
                    "resource": self.resource.name,
                    "object": metadata.key,
                    "error": type(error).__name__,
                    "at": f"{at.name}:{at.lineno}",
                },
            )
            return metadata.key, metadata.resource_version, self.objects.get(metadata.key)
        return seen.name, seen.resource_version, seen

    # -- when it fails ----------------------------------------------------------------------

    def _after(self, error: KubeError) -> float:
        """Take note of *error*. How long to wait before the next try, in seconds."""
        timing = self._timing
        was_listing = self._version is None
        if isinstance(error, _RelistError) or error.status not in _PASSING:
            self._version = None
        if error.status == HTTPStatus.NOT_FOUND and self.resource.optional:
            return self._absent()
        if error.status == HTTPStatus.GONE:
            if was_listing:
                self._expired_lists += 1
            elif not self._failures:
                # Usual after a time apart; the list comes at once.
                self._failures += 1
                return 0.0
        self._failures += 1
        self._metrics.watch_failures.labels(self.resource.name).inc()
        self._tell(error)
        if error.status == HTTPStatus.NOT_FOUND:
            self._miss()
        wait_s = backed_off(timing.first_wait, self._failures - 1, timing.longest_wait)
        wait_s *= random.uniform(0.5, 1.0)
        return max(wait_s, min(error.retry_after_s or 0.0, _RETRY_AFTER_MAX_S))

    def _miss(self) -> None:
        """
        Somebody took the definition away, or never brought it: there is nothing of the kind.

        One kind that is missing must not keep all the others from being enforced for ever.
        """
        now = time.monotonic()
        if self._missing_since is None:
            self._missing_since = now
        if now - self._missing_since >= self._timing.missing_long and (
            self.objects or not self.synced.is_set()
        ):
            name = self.resource.name
            log.error("not served for long, so there is none", extra={"resource": name})
            self._replace({})

    def _absent(self) -> float:
        """There is no such resource: nothing is wrong, and it may come."""
        self._absences += 1
        self._version = None
        # An API server that has just begun may not know it yet. So what was there is taken for
        # gone when it is not found twice.
        if self._absences > 1 or not self.objects:
            if self._absences <= 2:
                log.info("not installed", extra={"resource": self.resource.name})
            self._replace({})
        timing = self._timing
        wait_s = backed_off(timing.first_wait, self._absences, timing.absent_wait)
        return wait_s * random.uniform(0.5, 1.0)

    def _connected(self) -> None:
        self._show_connected(connected=True)
        if self._told is not None:
            self._told = None
            log.info("watch has recovered", extra={"resource": self.resource.name})

    def _show_connected(self, *, connected: bool) -> None:
        self._metrics.watch_connected.labels(self.resource.name).set(connected)

    def _tell(self, error: KubeError) -> None:
        """Once, and again when the reason is another one or some time has gone by."""
        self._trouble = str(error)
        if error.status == HTTPStatus.NOT_FOUND:
            self._trouble = "is not served; are its CustomResourceDefinitions installed?"
        now = time.monotonic()
        told = self._told
        if told is not None and told[0] == error.reason and now - told[1] < _REMIND_S:
            return
        self._told = error.reason, now
        log.warning(
            "watch has failed; what is known stays",
            extra={
                "resource": self.resource.name,
                "status": error.status,
                "reason": error.reason,
                "problem": error.message[:300],
            },
        )


def _decode(decoder: msgspec.json.Decoder[_T], text: bytes) -> _T:
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(cut_depth(text))


def _keys(objects: Mapping[str, SeenT]) -> dict[str, object]:
    return {name: seen.change_key for name, seen in objects.items()}
