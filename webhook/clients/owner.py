"""Whom something that we make belongs to: the garbage collector takes it away with that."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

import orjson

from webhook.errors import KubeError

log = logging.getLogger("gatewright.owner")

_RETRY_S = 2.0
# What asking again will not change.
_FINAL = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


class Requester(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(self, method: str, path: str) -> bytes: ...


class OwnDeployment:
    """The Deployment that this process is a part of."""

    def __init__(
        self, client: Requester, *, namespace: str, name: str, retry_s: float = _RETRY_S
    ) -> None:
        """*name* may be ``""``: then there is none."""
        self._client = client
        self._name = name
        self._retry_s = retry_s
        deployments = f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/deployments"
        self._path = f"{deployments}/{quote(name, safe='')}"
        self._reference: dict[str, Any] | None = None

    async def reference(self) -> dict[str, Any] | None:
        """
        An ownerReference to it, for what we make; None where there is none to refer to.

        Asked for once, and again for as long as the API server does not answer.
        """
        while self._name and self._reference is None:
            try:
                self._reference = await self._fetch()
            except KubeError as error:
                is_final = error.status in _FINAL
                log.log(
                    logging.WARNING if is_final else logging.INFO,
                    "our Deployment can't be read; what is made here stays when it goes",
                    extra={"deployment": self._name, "problem": str(error)[:300]},
                )
                if is_final:
                    return None
                await asyncio.sleep(self._retry_s)
        return self._reference

    async def _fetch(self) -> dict[str, Any]:
        """
        Raises:
            KubeError: the API server did not say what it is.
        """
        found = await fetch_reference(self._client, self._path, "Deployment", self._name)
        # No controller, and nobody needs the right on the Deployment's finalizers.
        return {"apiVersion": "apps/v1", **found, "blockOwnerDeletion": False}


async def fetch_reference(client: Requester, path: str, kind: str, name: str) -> dict[str, Any]:
    """
    Of an ownerReference to the object at *path* all but its apiVersion.

    Raises:
        KubeError: it is not there, or the API server did not say what it is.
    """
    try:
        uid = orjson.loads(await client.request("GET", path))["metadata"]["uid"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise KubeError(0, "Unreadable", f"the answer is no {kind}") from None
    return {"kind": kind, "name": name, "uid": uid}
