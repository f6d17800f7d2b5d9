"""
Writes what the reconciler found out: recommendations, and statuses of policies.

Every write names the version that it was made from. Whoever knows an older one, a leader of before
or a view that is behind, changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.errors import KubeError
from webhook.model.rightsizing.policies import GROUP_VERSION
from webhook.model.rightsizing.recommendations import (
    API_VERSION,
    PLURAL,
    GpuRecommendation,
    write_empty,
    write_recommendation,
)
from webhook.reactive.observation.documents import PLURALS, SeenReactive
from webhook.reactive.recreation.evicting import KubeCalls

log = logging.getLogger("gatewright.reconcile")

_MERGE_PATCH = "application/merge-patch+json"
# Somebody else was faster, or it is gone: the watch will tell.
_STALE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class Write(StrEnum):
    """What became of a write."""

    WRITTEN = "written"
    CONFLICT = "conflict"
    FAILED = "failed"


class Writer:
    """Writes through *client*; *on_write* is told of each outcome."""

    def __init__(
        self, client: KubeCalls, on_write: Callable[[Write], None] = lambda outcome: None
    ) -> None:
        self._client = client
        self._on_write = on_write

    async def store(self, recommendation: GpuRecommendation) -> GpuRecommendation | None:
        """
        Write *recommendation*, new where it has no uid yet; as it is stored then.

        None if it was not written.
        """
        stored = recommendation
        if not recommendation.uid:
            created = await self._create(recommendation)
            if created is None:
                return None
            stored = created
        manifest = write_recommendation(stored)
        path = f"{_path(stored)}/status"
        answer = await self._call("PUT", path, manifest, what=stored.name)
        if answer is None:
            return None
        return _versioned(stored, answer)

    async def _create(self, recommendation: GpuRecommendation) -> GpuRecommendation | None:
        manifest = write_empty(replace(recommendation, resource_version=""))
        path = _collection(recommendation.namespace)
        answer = await self._call("POST", path, manifest, what=recommendation.name)
        return None if answer is None else _versioned(recommendation, answer)

    async def delete(self, recommendation: GpuRecommendation) -> bool:
        """Take *recommendation* away, as it is known. False if it stays."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {
                "uid": recommendation.uid,
                "resourceVersion": recommendation.resource_version,
            },
        }
        answer = await self._call("DELETE", _path(recommendation), body, what=recommendation.name)
        return answer is not None

    async def write_conditions(
        self,
        seen: SeenReactive,
        conditions: Sequence[Mapping[str, Any]],
        more: Mapping[str, Any] | None = None,
    ) -> bool:
        """Put *conditions*, and *more*, into the status of the document *seen*."""
        place = f"namespaces/{quote(seen.key.namespace, safe='')}/" if seen.key.namespace else ""
        name = quote(seen.key.name, safe="")
        path = f"/apis/{GROUP_VERSION}/{place}{PLURALS[seen.key.kind]}/{name}/status"
        body = {
            "metadata": {"resourceVersion": seen.resource_version},
            "status": {"conditions": list(conditions), **(more or {})},
        }
        answer = await self._call("PATCH", path, body, what=str(seen.key), content=_MERGE_PATCH)
        return answer is not None

    async def _call(
        self, method: str, path: str, body: Any, *, what: str, content: str = "application/json"
    ) -> _Stored | None:
        """What was stored; None where the call was refused, which is said."""
        try:
            answer = await self._client.request(method, path, body=body, content_type=content)
            read = _STORED.decode(answer)
        except KubeError as error:
            is_stale = error.status in _STALE
            self._on_write(Write.CONFLICT if is_stale else Write.FAILED)
            if not is_stale:
                extra = {"object": what, "status": error.status, "problem": str(error)[:300]}
                log.warning("a status can't be written", extra=extra)
            return None
        except msgspec.DecodeError:
            self._on_write(Write.FAILED)
            return None
        self._on_write(Write.WRITTEN)
        return read


def _collection(namespace: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{quote(namespace, safe='')}/{PLURAL}"


def _path(recommendation: GpuRecommendation) -> str:
    return f"{_collection(recommendation.namespace)}/{quote(recommendation.name, safe='')}"


class _StoredMetadata(msgspec.Struct, gc=False):
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Stored(msgspec.Struct, gc=False):
    """Of the answer, in which the whole status comes back, only what is new in it."""

    metadata: _StoredMetadata = msgspec.field(default_factory=_StoredMetadata)


_STORED = msgspec.json.Decoder(_Stored)


def _versioned(recommendation: GpuRecommendation, stored: _Stored) -> GpuRecommendation:
    metadata = stored.metadata
    return replace(recommendation, uid=metadata.uid, resource_version=metadata.resource_version)
