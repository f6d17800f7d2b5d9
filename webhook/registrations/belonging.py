"""
What of ours is in no namespace goes when our Namespace does.

Who deletes a Namespace asks neither Helm nor us, and a registration without a server would keep
everybody from writing what it is about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NoReturn, Protocol
from urllib.parse import quote

import orjson

from webhook.clients.owner import fetch_reference
from webhook.errors import KubeError
from webhook.registrations.objects import path_of
from webhook.registrations.wanted import Configuration

log = logging.getLogger("gatewright.registrations")

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_MERGE = "application/merge-patch+json"

# An object that was made anew is found so late at the latest.
_LOOK_S = 60.0


class Calls(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = ...
    ) -> bytes: ...


def cluster_paths(names: Mapping[Configuration, str], *, cluster_role: str) -> list[str]:
    """
    Where our objects are that are in no namespace: registrations by *names*, and the role with its
    binding unless that is ``""``.
    """
    plurals = ("clusterroles", "clusterrolebindings") if cluster_role else ()
    return [
        *[
            f"{path_of(configuration)}/{quote(name, safe='')}"
            for configuration, name in names.items()
        ],
        *[f"{_RBAC}/{plural}/{quote(cluster_role, safe='')}" for plural in plurals],
    ]


class Belongings:
    """Has the objects at *paths* belong to *namespace*, while `run` runs."""

    def __init__(
        self, client: Calls, *, namespace: str, paths: Sequence[str], look_s: float = _LOOK_S
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._paths = paths
        self._look_s = look_s
        self._owner: Mapping[str, Any] | None = None
        # What was said in the log, so that it is said once.
        self._told: set[str] = set()

    async def run(self) -> NoReturn:
        """Until cancelled. No failure ends it."""
        while True:
            await self.look()
            await asyncio.sleep(self._look_s)

    async def look(self) -> None:
        """Write into each object whose it is, unless it says so already."""
        for path in self._paths:
            try:
                await self._own(path, await self._reference())
            except KubeError as error:
                # One that is not there is nobody's.
                if error.status != HTTPStatus.NOT_FOUND and path not in self._told:
                    self._told.add(path)
                    log.warning(
                        "it would stay if our Namespace was deleted",
                        extra={"object": path, "problem": str(error)[:300]},
                    )
            else:
                self._told.discard(path)

    async def _reference(self) -> Mapping[str, Any]:
        """Our Namespace, as an owner. It stays the same for as long as we live."""
        if self._owner is None:
            path = f"/api/v1/namespaces/{quote(self._namespace, safe='')}"
            found = await fetch_reference(self._client, path, "Namespace", self._namespace)
            self._owner = {"apiVersion": "v1", **found}
        return self._owner

    async def _own(self, path: str, owner: Mapping[str, Any]) -> None:
        metadata = await self._metadata(path)
        owners = metadata.get("ownerReferences") or []
        if any(each.get("uid") == owner["uid"] for each in owners):
            return
        body = {
            "metadata": {
                "uid": metadata.get("uid"),
                "resourceVersion": metadata.get("resourceVersion"),
                "ownerReferences": [*owners, owner],
            }
        }
        try:
            await self._client.request("PATCH", path, body=body, content_type=_MERGE)
        except KubeError as error:
            # Somebody was faster; we look again.
            if error.status != HTTPStatus.CONFLICT:
                raise

    async def _metadata(self, path: str) -> dict[str, Any]:
        """
        Raises:
            KubeError: the object can't be read.
        """
        try:
            metadata = orjson.loads(await self._client.request("GET", path))["metadata"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise KubeError(0, "Unreadable", "the answer is no object") from None
        return metadata if isinstance(metadata, dict) else {}
