"""What a cluster holds of a kind, object by object: read in chunks, and none of them kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from webhook.clients.depth import cut_depth
from webhook.clients.discovery import Discovery, ServedResource
from webhook.errors import KubeError, StoreError
from webhook.model.kinds import GroupVersionKind

# How much a chunk should have. Objects have some 10 KiB, and up to 1.5 MiB: whoever wants to may
# make many of these, so that a chunk begins small, grows slowly, and has a bound in objects too.
_CHUNK_BYTES = 4 << 20
_FIRST_CHUNK, _MAX_CHUNK = 25, 100
_TIMEOUT_S = 60.0

# How often a list is begun anew that grew too old between two chunks. The API server keeps what
# it was for five minutes.
_MAX_EXPIRIES = 3


_T = TypeVar("_T")


class ListCalls(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ListedResource:
    """Where the objects of a kind are: *path* is that of all of them, without a namespace."""

    kind: GroupVersionKind
    plural: str
    namespaced: bool

    def path(self, namespace: str = "") -> str:
        """The path of a list: of one *namespace*, or of the whole cluster."""
        root = f"/apis/{self.kind.group}" if self.kind.group else "/api"
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{root}/{self.kind.version}{inside}/{self.plural}"


class _ListMeta(msgspec.Struct):
    continue_token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _ObjectMeta(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _ObjectMeta


_PAGES = msgspec.json.Decoder(_Page)
_OBJECTS = msgspec.json.Decoder(_Object)


def group_versions(kinds: Iterable[GroupVersionKind]) -> list[tuple[GroupVersionKind, ...]]:
    """*kinds* with the versions of one beside one another, in the order of their names."""
    found: dict[tuple[str, str], list[GroupVersionKind]] = {}
    for kind in sorted(kinds):
        found.setdefault((kind.group, kind.kind), []).append(kind)
    return [tuple(versions) for versions in found.values()]


class ObjectLister:
    """
    Lists objects of any kind, for one pass over the cluster.

    What the API server serves is asked once for each group and version.
    """

    def __init__(
        self,
        client: ListCalls,
        *,
        first_chunk: int = _FIRST_CHUNK,
        chunk_bytes: int = _CHUNK_BYTES,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """A list begins with *first_chunk* objects, and goes on by *chunk_bytes* at a time."""
        self._client = client
        self._first_chunk = first_chunk
        self._chunk_bytes = chunk_bytes
        self._timeout_s = timeout_s
        self._discovery = Discovery(client)
        self._resources: dict[str, Mapping[str, ServedResource]] = {}
        self._versions: dict[str, Sequence[str]] = {}

    async def find_preferred(self, versions: Collection[GroupVersionKind]) -> ListedResource | None:
        """
        Where the objects of one kind are, in that of its *versions* that the API server prefers:
        all hold the same objects. None where it is served in none of them.

        Raises:
            KubeError: the API server did not say.
        """
        group = next(iter(versions)).group
        order = await self._versions_of(group)
        known = [kind for kind in versions if kind.version in order]
        for kind in sorted(known, key=lambda kind: order.index(kind.version)):
            resource = await self.find(kind)
            if resource is not None:
                return resource
        return None

    async def find(self, kind: GroupVersionKind) -> ListedResource | None:
        """
        Where the objects of *kind* are; None where no such kind is served, or none can be listed.

        Raises:
            KubeError: the API server did not say.
        """
        if kind.api_version not in self._resources:
            told = await _told(self._discovery.resources_of(kind.api_version))
            self._resources[kind.api_version] = told
        served = self._resources[kind.api_version].get(kind.kind)
        if served is None or "list" not in served.verbs:
            return None
        return ListedResource(kind, served.plural, bool(served.namespaced))

    async def _versions_of(self, group: str) -> Sequence[str]:
        if not group:
            return ("v1",)
        if group not in self._versions:
            self._versions[group] = await _told(self._discovery.versions_of(group))
        return self._versions[group]

    async def objects(
        self, resource: ListedResource, namespace: str = ""
    ) -> AsyncIterator[dict[str, Any]]:
        """
        The objects of *resource*, raw, with apiVersion and kind; of one *namespace* if it is given.

        One chunk is held at a time. What is made or deleted meanwhile may be among them or not;
        none comes twice.

        Raises:
            KubeError: a chunk can't be had. Its status is 404 where the kind is no more served
                (or not there), and 403 where we may not list it.
        """
        if namespace and not resource.namespaced:
            return
        async for raw in self.raw_objects(resource.path(namespace)):
            yield _read(raw, resource.kind)

    async def raw_objects(self, path: str) -> AsyncIterator[bytes]:
        """
        The objects of the list at *path*, each as it stands there; else as `objects`.

        Raises:
            KubeError: as `objects`.
        """
        # Of a list that is begun anew, what came already.
        seen: set[str] = set()
        expiries = 0
        token = ""
        limit = self._first_chunk
        while True:
            try:
                page, size = await self._page(path, token, limit)
            except KubeError as error:
                if error.is_too_large and limit > 1:
                    limit //= 2
                    continue
                expiries += 1
                if error.status != HTTPStatus.GONE or expiries > _MAX_EXPIRIES:
                    raise
                token = ""
                continue
            for raw in map(bytes, page.items or ()):
                uid = _uid_of(raw)
                if uid and uid in seen:
                    continue
                seen.add(uid)
                yield raw
            token = page.metadata.continue_token
            if not token:
                return
            fitting = self._chunk_bytes * len(page.items or ()) // max(1, size)
            limit = max(1, min(fitting, 2 * limit, _MAX_CHUNK))

    async def _page(self, path: str, token: str, limit: int) -> tuple[_Page, int]:
        """A chunk, and how many bytes it has."""
        params = {"limit": str(limit), **({"continue": token} if token else {})}
        body = await self._client.request("GET", path, params=params, timeout_s=self._timeout_s)
        return _decode(_PAGES, body), len(body)


async def _told(answer: Awaitable[_T]) -> _T:
    """
    What discovery said.

    Raises:
        KubeError: it did not say.
    """
    try:
        return await answer
    except StoreError as error:
        raise KubeError(0, "Unreadable", str(error)) from error


def _uid_of(raw: bytes) -> str:
    uid: str = _decode(_OBJECTS, raw).metadata.uid
    return uid


def _read(text: bytes, kind: GroupVersionKind) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except RecursionError:
        found = msgspec.json.decode(cut_depth(text))
    # In a list of a built-in kind the items don't say what they are.
    return {**found, "apiVersion": kind.api_version, "kind": kind.kind}


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        try:
            return decoder.decode(body)
        except RecursionError:
            return decoder.decode(cut_depth(body))
    except msgspec.DecodeError as error:
        raise KubeError(0, "Unreadable", f"no answer of an API server: {error}") from error
