"""What the API server serves, asked when it matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson

from webhook.errors import KubeError, StoreError

_NOT_FOUND = 404


class Requester(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(self, method: str, path: str) -> bytes: ...


class Discovery:
    """Tells which kinds are served, and in which versions."""

    def __init__(self, client: Requester) -> None:
        self._client = client

    async def kinds_of(self, group: str) -> Mapping[str, Sequence[str]]:
        """
        The kinds of *group*, and the versions of each in the order in which the API server names
        them; nothing if the group is not served.

        Raises:
            KubeError, StoreError: the API server did not say.
        """
        root = f"/apis/{group}" if group else "/api"
        told = await self._get(root)
        versions = told.get("versions", [])
        if group:
            versions = [one.get("version") for one in versions]
        found: dict[str, list[str]] = {}
        for version in map(str, versions):
            resources = (await self._get(f"{root}/{version}")).get("resources", [])
            kinds = [str(one.get("kind")) for one in resources if "/" not in one["name"]]
            for kind in dict.fromkeys(kinds):
                found.setdefault(kind, []).append(version)
        return found

    async def _get(self, path: str) -> dict[str, Any]:
        try:
            answer = await self._client.request("GET", path)
        except KubeError as error:
            if error.status == _NOT_FOUND:
                return {}
            raise
        try:
            told = orjson.loads(answer)
        except orjson.JSONDecodeError:
            told = None
        if not isinstance(told, dict):
            raise StoreError("the API server did not say what it serves")
        return told
