"""The cluster as the store: our kinds as custom resources, followed by watches."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from webhook.clients.depth import MAX_DEPTH, TOO_DEEP
from webhook.clients.discovery import Discovery
from webhook.clients.informer import Informer, Resource, Timing
from webhook.clients.kube import KubeClient
from webhook.errors import ConflictError, KubeError, NotFoundError, RefusedError, StoreError
from webhook.model.documents import POLICY_KINDS, revision_of
from webhook.model.kinds import POLICY_GROUP, VERSION
from webhook.model.rightsizing.controls import NO_CONTROLS, PAUSE_UNTIL, Controls
from webhook.model.settings import EngineSettings
from webhook.store.changes import Titled
from webhook.store.compile.inputs import QueryCheck, SourceFile, Surroundings
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.served import ServedGroups
from webhook.store.snapshot import Current, Snapshot
from webhook.store.source import Stored
from webhook.telemetry.metrics import Metrics

API_VERSION = f"{POLICY_GROUP}/{VERSION}"
API_PATH = f"/apis/{POLICY_GROUP}/{VERSION}"
PLURALS: Mapping[str, str] = {
    "WorkloadPolicy": "workloadpolicies",
    "GVKPolicy": "gvkpolicies",
    "Formatter": "formatters",
    "FieldGroup": "fieldgroups",
    "SpecMapping": "specmappings",
    "DataSource": "datasources",
}

NAMESPACES = Resource("namespaces", "/api/v1/namespaces")
QUEUES = Resource("queues.scheduling.run.ai", "/apis/scheduling.run.ai/v2/queues", optional=True)

# Changes that come together are compiled together: `kubectl apply -f dir/` writes one by one.
GATHER_S = 0.05
# Something could not be checked, as jq was busy.
_RETRY_S = 1.0
# How long a write waits until it is seen in what we watch, and in force.
_SETTLE_S = 5.0

# What is asked for as a part of a path.
_GROUP = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)?")

# How often a document is read again that somebody changed just then.
_OVERWRITES = 5


class ChangeKey(NamedTuple):
    """
    Equal for two states of an object between which nothing that we compile has changed.

    The *generation* counts changes of anything but metadata and status.
    """

    uid: str
    generation: int
    created: str


@dataclass(frozen=True, slots=True)
class SeenDocument:
    """
    One document of ours as the API server has it.

    *revision* is that of a `Document` made from it; *error* says why none can be made.
    """

    kind: str
    name: str
    manifest: dict[str, Any] = field(repr=False)
    revision: str
    error: str = ""

    @property
    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = self.manifest["metadata"]
        return found

    @property
    def resource_version(self) -> str:
        return str(self.metadata.get("resourceVersion", ""))

    @property
    def change_key(self) -> ChangeKey:
        return _change_key(self.manifest)


@dataclass(frozen=True, slots=True)
class SeenNamespace:
    """
    Of a Namespace the labels that scopes are read from, and by which annotation its pods are
    paused. A pause changes nothing that is compiled.
    """

    name: str
    resource_version: str
    labels: Mapping[str, str]
    controls: Controls = NO_CONTROLS

    @property
    def change_key(self) -> object:
        return self.labels


@dataclass(frozen=True, slots=True)
class SeenQueue:
    """Of a KAI queue the queue that it lies in."""

    name: str
    resource_version: str
    parent: str

    @property
    def change_key(self) -> object:
        return self.parent


def title_of(kind: str, name: str) -> str:
    """How problems name a document of the cluster."""
    return f"{kind} {name}"


class ClusterStore:
    """
    Keeps *current* at what the cluster says.

    Nothing is put in force before everything that is watched was read once; after that, what is
    known stays in force while the API server is away.
    """

    def __init__(
        self,
        client: KubeClient,
        current: Current,
        *,
        settings: EngineSettings,
        metrics: Metrics,
        check_query: QueryCheck | None = None,
        on_reload: Callable[[Snapshot], None] | None = None,
        timing: Timing | None = None,
        gather_s: float = GATHER_S,
    ) -> None:
        self.current = current
        self._client = client
        self._settings = settings
        self._check_query = check_query
        self._on_reload = on_reload
        self._gather_s = gather_s
        self._changed = asyncio.Event()
        # Told after every event of a document, and after every build.
        self._news = asyncio.Event()
        self._in_force = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        labels = frozenset([*settings.project_labels, settings.department_label])
        self._namespaces: Informer[SeenNamespace] = Informer(
            client,
            NAMESPACES,
            lambda raw: _decode_namespace(raw, labels),
            metrics=metrics,
            on_change=self._namespaces_changed,
            timing=timing,
        )
        self._queues: Informer[SeenQueue] = Informer(
            client,
            QUEUES,
            _decode_queue,
            metrics=metrics,
            on_change=self._namespaces_changed,
            timing=timing,
        )
        self._documents: dict[str, Informer[SeenDocument]] = {
            kind: Informer(
                client,
                Resource(f"{PLURALS[kind]}.{POLICY_GROUP}", f"{API_PATH}/{PLURALS[kind]}"),
                lambda raw, kind=kind: _decode_document(raw, kind),  # type: ignore[misc]  # mypy#15459
                metrics=metrics,
                on_change=self._changed.set,
                on_event=self._document_event,
                timing=timing,
            )
            for kind in POLICY_KINDS
        }
        self._served = ServedGroups(
            Discovery(client).kinds_of, self._mapped_groups, self._namespaces_changed
        )
        # As last given to the compiler, which knows by the very object what has not changed.
        self._around: SourceFile | None = None
        self._files: dict[tuple[str, str], tuple[object, SourceFile]] = {}
        # What the snapshot in force was built from: the change key of each document.
        self.built: Mapping[tuple[str, str], ChangeKey] = {}

    # -- following --------------------------------------------------------------------------

    @property
    def obstacle(self) -> str:
        """What is waited for before anything can be put in force; empty once it was."""
        waiting = [informer.obstacle for informer in self._informers if informer.obstacle]
        if not waiting:
            return "" if self.current.ready else "policies are being compiled"
        return f"waiting for the cluster: {'; '.join(waiting)}"

    @property
    def _informers(self) -> Sequence[Informer[Any]]:
        return (self._namespaces, self._queues, *self._documents.values())

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(), name=f"watch {informer.resource.name}")
            group.create_task(self._keep_current(), name="compile policies")
            group.create_task(self._served.run(), name="look at what is served")

    async def first(self) -> Snapshot:
        """The snapshot in force, once there is one."""
        await self._in_force.wait()
        return self.current.snapshot

    async def _keep_current(self) -> None:
        for informer in self._informers:
            await informer.synced.wait()
        self._changed.set()
        while True:
            await self._changed.wait()
            await asyncio.sleep(self._gather_s)
            await self._served.complete()
            self._changed.clear()
            sources = self.sources
            built = {
                (kind, name): seen.change_key
                for kind, informer in self._documents.items()
                for name, seen in informer.objects.items()
            }
            snapshot = await asyncio.to_thread(self._build, sources)
            self.current.replace(snapshot)
            self.built = built
            self._in_force.set()
            if snapshot.is_provisional:
                asyncio.get_running_loop().call_later(_RETRY_S, self._changed.set)
            if self._on_reload is not None:
                self._on_reload(snapshot)
            self._document_event()

    def _build(self, sources: Sequence[SourceFile]) -> Snapshot:
        previous = self.current.snapshot if self.current.ready else None
        return build_snapshot(
            sources, self._settings, previous=previous, check_query=self._check_query
        )

    def _namespaces_changed(self) -> None:
        self._around = None
        self._changed.set()

    def on_documents(self, listener: Callable[[], None]) -> None:
        """Have *listener* called after every event of a document and after every build."""
        self._listeners.append(listener)

    def _document_event(self) -> None:
        for listener in self._listeners:
            listener()
        news, self._news = self._news, asyncio.Event()
        news.set()

    # -- reading ----------------------------------------------------------------------------

    @property
    def sources(self) -> Sequence[SourceFile]:
        """Everything that is known now. For the event loop's thread."""
        if self._around is None:
            around = Surroundings(
                {name: seen.labels for name, seen in self._namespaces.objects.items()},
                {name: seen.parent for name, seen in self._queues.objects.items() if seen.parent},
                self._served.known,
            )
            self._around = SourceFile("cluster", surroundings=around)
        files = [self._around]
        known, self._files = self._files, {}
        for seen in self.documents():
            key = seen.kind, seen.name
            before = known.get(key)
            if before is None or before[0] != seen.change_key:
                before = seen.change_key, _file_of(seen)
            self._files[key] = before
            files.append(before[1])
        return files

    def controls_of(self, namespace: str) -> Controls:
        """By which annotation the pods of *namespace* are paused."""
        seen = self._namespaces.objects.get(namespace)
        return NO_CONTROLS if seen is None else seen.controls

    def _mapped_groups(self) -> frozenset[str]:
        """The groups of the kinds that mappings are for."""
        mappings = self._documents["SpecMapping"].objects.values()
        groups = [_mapped_group(seen.manifest) for seen in mappings]
        return frozenset([group for group in groups if group is not None])

    async def look_around(self, manifest: dict[str, Any]) -> None:
        """Look again at what *manifest*, which is being written, is judged by. Not for long."""
        group = _mapped_group(manifest)
        if group is not None:
            await self._served.look(group)

    def documents(self) -> Iterator[SeenDocument]:
        """All documents that are known now."""
        for informer in self._documents.values():
            yield from informer.objects.values()

    async def list_documents(self, kind: str) -> Sequence[Stored]:
        """All documents of one kind, by name, as the API server has them now."""
        found: list[Stored] = []
        token = ""
        while True:
            params = {"limit": "250", **({"continue": token} if token else {})}
            page = await self._call("GET", kind, params=params)
            found += [_stored(item, kind) for item in page.get("items") or ()]
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return sorted(found, key=lambda stored: stored.name)

    async def fetch_document(self, kind: str, name: str) -> Stored:
        return _stored(await self._call("GET", kind, name), kind)

    # -- writing ----------------------------------------------------------------------------

    async def create_document(self, manifest: dict[str, Any], *, dry_run: bool = False) -> Stored:
        kind = str(manifest["kind"])
        answer = await self._call("POST", kind, params=_params(dry_run=dry_run), body=manifest)
        return await self._written(kind, answer, dry_run=dry_run)

    async def replace_document(self, manifest: dict[str, Any], *, dry_run: bool = False) -> Stored:
        kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
        params = _params(dry_run=dry_run)
        if manifest["metadata"].get("resourceVersion"):
            answer = await self._call("PUT", kind, name, params=params, body=manifest)
        else:
            answer = await self._overwrite(kind, name, manifest, params)
        return await self._written(kind, answer, dry_run=dry_run)

    async def _written(self, kind: str, answer: dict[str, Any], *, dry_run: bool) -> Stored:
        stored = _stored(answer, kind)
        if not dry_run:
            await self._settle(kind, stored.name, stored)
        return stored

    async def _overwrite(
        self, kind: str, name: str, manifest: dict[str, Any], params: Mapping[str, str] | None
    ) -> dict[str, Any]:
        """
        Replace whatever version is there.

        The API server wants one named all the same, and a status may be written in between.
        """
        for attempt in range(_OVERWRITES):
            now = await self.fetch_document(kind, name)
            version = {"resourceVersion": now.resource_version}
            body = {**manifest, "metadata": {**manifest["metadata"], **version}}
            try:
                return await self._call("PUT", kind, name, params=params, body=body)
            except ConflictError:
                if attempt == _OVERWRITES - 1:
                    raise
        raise AssertionError("unreachable")

    async def delete_document(self, kind: str, name: str, resource_version: str = "") -> None:
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if resource_version:
            body["preconditions"] = {"resourceVersion": resource_version}
        await self._call("DELETE", kind, name, body=body)
        await self._settle(kind, name.lower(), None)

    async def _settle(self, kind: str, name: str, stored: Stored | None) -> None:
        """
        Wait until *stored*, or what came after it, is in force (None: until it is not).

        Not for long, and what comes of it changes nothing: it is stored.
        """
        wanted = None if stored is None else _change_key(stored.manifest)

        def is_in_force() -> bool:
            built = self.built.get((kind, name))
            if built is None or wanted is None:
                return built is wanted
            # Not by the resourceVersion: others write its status meanwhile.
            return built.uid != wanted.uid or built.generation >= wanted.generation

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                while not is_in_force():
                    await self._news.wait()

    async def _call(
        self,
        method: str,
        kind: str,
        name: str = "",
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> dict[str, Any]:
        # Names are compared without regard to case, and those of the cluster have none.
        name = name.lower()
        path = f"{API_PATH}/{PLURALS[kind]}" + (f"/{name}" if name else "")
        try:
            answer = await self._client.request(method, path, params=params, body=body)
            found = msgspec.json.decode(answer)
        except KubeError as error:
            raise _store_error(error, title_of(kind, name)) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise StoreError("the API server's answer can't be read") from error
        return found if isinstance(found, dict) else {}


def _mapped_group(manifest: dict[str, Any]) -> str | None:
    """The API group of the kind that a SpecMapping is for; None where it names none."""
    spec = manifest.get("spec") if manifest.get("kind") == "SpecMapping" else None
    kind = spec.get("workloadType") if isinstance(spec, dict) else None
    # A core kind may leave it out.
    group = (kind.get("group") or "") if isinstance(kind, dict) else None
    return group if isinstance(group, str) and _GROUP.fullmatch(group) else None


def _params(*, dry_run: bool) -> Mapping[str, str] | None:
    return {"dryRun": "All"} if dry_run else None


def _change_key(manifest: dict[str, Any]) -> ChangeKey:
    metadata = manifest["metadata"]
    generation = metadata.get("generation")
    return ChangeKey(
        str(metadata.get("uid", "")),
        generation if isinstance(generation, int) else 0,
        str(metadata.get("creationTimestamp", "")),
    )


def _file_of(seen: SeenDocument) -> SourceFile:
    title = title_of(seen.kind, seen.name)
    if seen.error:
        return SourceFile(title, error=seen.error)
    return SourceFile(title, (Titled(title, 0, 1, seen.manifest),))


def _stored(item: Any, kind: str) -> Stored:
    manifest = _clean(item, kind)
    title = title_of(kind, str(manifest["metadata"].get("name", "")))
    return Stored(manifest, title, updated=_updated(item))


def _updated(item: Any) -> str:
    """When *item* was last changed, but for its status; the API server notes it of each writer."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    times = [
        entry["time"]
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
        and isinstance(entry.get("time"), str)
        and not entry.get("subresource")
    ]
    return max(times, default="")


def _clean(item: Any, kind: str) -> dict[str, Any]:
    """*item* as a whole manifest of ours, without what nobody reads and is half of it."""
    item = item if isinstance(item, dict) else {}
    metadata = item.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    metadata.pop("managedFields", None)
    return {**item, "apiVersion": API_VERSION, "kind": kind, "metadata": metadata}


def _store_error(error: KubeError, title: str) -> StoreError:
    match error.status:
        case 404:
            return NotFoundError(f"there is no {title}")
        case 409:
            return ConflictError(error.message)
        case 400 | 413 | 422:
            return RefusedError(error.message)
        # Any other 403 is a right that we lack ourselves.
        case 403 if "denied the request" in error.message:
            return RefusedError(error.message)
        case _:
            return StoreError(error.message)


# --- reading objects ---


class _Metadata(msgspec.Struct):
    name: str
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Namespace(msgspec.Struct):
    metadata: _Metadata


class _QueueSpec(msgspec.Struct):
    parent: Any = msgspec.field(default=None, name="parentQueue")


class _Queue(msgspec.Struct):
    metadata: _Metadata
    spec: _QueueSpec | None = None


_NAMESPACE = msgspec.json.Decoder(_Namespace)
_QUEUE = msgspec.json.Decoder(_Queue)


def _decode_namespace(raw: bytes, labels: frozenset[str]) -> SeenNamespace:
    metadata = _NAMESPACE.decode(raw).metadata
    kept = {key: text for key, text in (metadata.labels or {}).items() if key in labels}
    paused = (metadata.annotations or {}).get(PAUSE_UNTIL)
    controls = NO_CONTROLS if paused is None else Controls(pause_until=paused)
    return SeenNamespace(metadata.name, metadata.resource_version, kept, controls)


def _decode_queue(raw: bytes) -> SeenQueue:
    queue = _QUEUE.decode(raw)
    parent = queue.spec.parent if queue.spec else None
    metadata = queue.metadata
    return SeenQueue(
        metadata.name, metadata.resource_version, parent if isinstance(parent, str) else ""
    )


def _decode_document(raw: bytes, kind: str) -> SeenDocument:
    manifest = _clean(msgspec.json.decode(raw), kind)
    name = manifest["metadata"].get("name")
    if not isinstance(name, str):
        raise msgspec.DecodeError(f"a {kind} without a name")
    too_deep = f"nests deeper than {MAX_DEPTH} levels" if TOO_DEEP in raw else ""
    return SeenDocument(kind, name, manifest, revision_of(manifest.get("spec")), too_deep)
