"""What the API server serves, asked when it matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from webhook.errors import KubeError, StoreError

_NOT_FOUND = 404


class Requester(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(self, method: str, path: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ServedResource:
    """
    As what a kind is served.

    *namespaced* is None where that is not known. *sub_resources* are named without their parent.
    What may be done with it (*verbs*) makes it no other one.
    """

    plural: str
    namespaced: bool | None
    sub_resources: frozenset[str] = frozenset()
    verbs: frozenset[str] = field(default=frozenset(), compare=False)


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
        found: dict[str, list[str]] = {}
        for version in await self.versions_of(group):
            resources = (await self._get(f"{root}/{version}")).get("resources", [])
            kinds = [str(one.get("kind")) for one in resources if "/" not in one["name"]]
            for kind in dict.fromkeys(kinds):
                found.setdefault(kind, []).append(version)
        return found

    async def versions_of(self, group: str) -> Sequence[str]:
        """
        The versions of *group*, the preferred one first; none if it is not served.

        Raises:
            KubeError, StoreError: the API server did not say.
        """
        told = await self._get(f"/apis/{group}" if group else "/api")
        versions = told.get("versions", [])
        return [str(one.get("version")) if group else str(one) for one in versions]

    async def resources_of(self, api_version: str) -> Mapping[str, ServedResource]:
        """
        The kinds of one group version (`apps/v1`, `v1`), each as what it is served; nothing if
        it is not served.

        Raises:
            KubeError, StoreError: the API server did not say.
        """
        root = "/apis" if "/" in api_version else "/api"
        told = (await self._get(f"{root}/{api_version}")).get("resources", [])
        parts: dict[str, set[str]] = {}
        for one in told:
            plural, _, part = str(one.get("name")).partition("/")
            parts.setdefault(plural, set()).update([part] if part else [])
        found: dict[str, ServedResource] = {}
        for one in told:
            plural = str(one.get("name"))
            if "/" not in plural:
                served = ServedResource(
                    plural,
                    one.get("namespaced") is True,
                    frozenset(parts[plural]),
                    frozenset(one.get("verbs") or ()),
                )
                first = found.setdefault(str(one.get("kind")), served)
                # What can only be created is no home of objects.
                if "list" in served.verbs and "list" not in first.verbs:
                    found[str(one.get("kind"))] = served
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
