"""What a cluster says about policies and places, read once: for commands that end soon."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.clients.listing import ListCalls, ListedResource, ObjectLister
from webhook.errors import KubeError, StoreError
from webhook.model.documents import POLICY_KINDS
from webhook.model.kinds import POLICY_GROUP, VERSION, GroupVersionKind
from webhook.store.changes import Titled
from webhook.store.cluster import PLURALS, title_of
from webhook.store.compile.inputs import SourceFile, Surroundings

_NAMESPACES = ListedResource(
    GroupVersionKind("", "v1", "Namespace"), "namespaces", namespaced=False
)
_QUEUES = ListedResource(
    GroupVersionKind("scheduling.run.ai", "v2", "Queue"), "queues", namespaced=False
)


@dataclass(frozen=True, slots=True)
class Around:
    """Namespaces and queues as far as they could be read; *unknown* says what could not."""

    surroundings: Surroundings
    unknown: tuple[str, ...] = ()


async def fetch_policies(client: ListCalls) -> list[SourceFile]:
    """
    Every document of our policy group.

    Raises:
        StoreError: they can't be had, or the cluster has no such kinds.
    """
    lister = ObjectLister(client)
    found = []
    for kind in POLICY_KINDS:
        resource = ListedResource(
            GroupVersionKind(POLICY_GROUP, VERSION, kind), PLURALS[kind], namespaced=False
        )
        try:
            async for manifest in lister.objects(resource):
                title = title_of(kind, _name_of(manifest))
                found.append(SourceFile(title, (Titled(title, 0, 1, manifest),)))
        except KubeError as error:
            raise StoreError(_policies_problem(resource, error)) from error
    return found


async def fetch_around(client: ListCalls, namespaces: Collection[str]) -> Around:
    """
    Labels of all namespaces, and the parent of each KAI queue.

    Who may not list namespaces gets those that are named by *namespaces*, one by one.

    Raises:
        KubeError: the API server is not there.
    """
    lister = ObjectLister(client)
    unknown = []
    labels: dict[str, Mapping[str, str]] = {}
    try:
        async for manifest in lister.objects(_NAMESPACES):
            labels[_name_of(manifest)] = _labels_of(manifest)
    except KubeError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        if not namespaces:
            unknown.append(f"labels of namespaces: {error.message}")
        for name in sorted(namespaces):
            manifest = await _namespace(client, name, unknown)
            labels[name] = _labels_of(manifest)
    queues: dict[str, str] = {}
    try:
        async for manifest in lister.objects(_QUEUES):
            parent = _part(manifest, "spec").get("parentQueue")
            if isinstance(parent, str) and parent:
                queues[_name_of(manifest)] = parent
    except KubeError as error:
        # Most clusters have no queues.
        if error.status == HTTPStatus.FORBIDDEN:
            unknown.append(f"KAI queues: {error.message}")
        elif error.status != HTTPStatus.NOT_FOUND:
            raise
    return Around(Surroundings(labels, queues), tuple(unknown))


async def _namespace(client: ListCalls, name: str, unknown: list[str]) -> dict[str, Any]:
    """One namespace; empty if it is not there, or may not be read."""
    try:
        body = await client.request("GET", f"/api/v1/namespaces/{quote(name, safe='')}")
        found = msgspec.json.decode(body)
    except KubeError as error:
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            raise
        if error.status == HTTPStatus.FORBIDDEN:
            unknown.append(f"labels of namespace {name}: {error.message}")
        return {}
    except msgspec.DecodeError as error:
        raise KubeError(0, "Unreadable", f"no answer of an API server: {error}") from error
    return found if isinstance(found, dict) else {}


def _policies_problem(resource: ListedResource, error: KubeError) -> str:
    what = f"{resource.plural}.{resource.kind.group}"
    if error.status == HTTPStatus.NOT_FOUND:
        return f"the cluster has no {what}: Gatewright is not installed there"
    return f"{what} can't be read from the cluster: {error.message}"


def _name_of(manifest: dict[str, Any]) -> str:
    return str(_part(manifest, "metadata").get("name", ""))


def _labels_of(manifest: dict[str, Any]) -> Mapping[str, str]:
    labels = _part(_part(manifest, "metadata"), "labels")
    return {key: text for key, text in labels.items() if isinstance(text, str)}


def _part(node: dict[str, Any], key: str) -> dict[str, Any]:
    part = node.get(key)
    return part if isinstance(part, dict) else {}
