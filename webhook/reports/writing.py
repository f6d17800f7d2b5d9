"""Makes the reports in a cluster what they should be, and writes none that is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from webhook.clients.events import is_terminating
from webhook.clients.kube import METADATA_LIST
from webhook.errors import KubeError
from webhook.reports.documents import (
    HASH_ANNOTATION,
    MANAGED_BY,
    NAME,
    Report,
    ReportApi,
    build_report,
)
from webhook.reports.findings import Findings
from webhook.telemetry.metrics import Metrics

log = logging.getLogger("gatewright.reports")

_CHUNK = 500
_TIMEOUT_S = 30.0
# Between two writes: a report may have half a megabyte.
_WRITE_PAUSE_S = 0.05


class ReportCalls(Protocol):
    """The one call of `KubeClient` that is needed here."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = "application/json",
        timeout_s: float = 10.0,
    ) -> bytes: ...


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815  # as Kubernetes writes it
    annotations: dict[str, str] | None = None


class _Item(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct):
    continue_token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Item] | None = None


_PAGES = msgspec.json.Decoder(_Page)
_ITEMS = msgspec.json.Decoder(_Item)


@dataclass(frozen=True, slots=True)
class KnownReport:
    """A report that is there."""

    namespace: str
    version: str
    content_hash: str


class ReportWriter:
    """Writes the reports of one API; one namespace has one."""

    def __init__(self, client: ReportCalls, metrics: Metrics) -> None:
        self._client = client
        self._metrics = metrics
        # The version of each report that says what it should, by API and namespace: another one
        # is somebody else's.
        self._versions: dict[tuple[str, str], str] = {}
        self._told: set[tuple[int, str]] = set()

    async def read(self, api: ReportApi) -> dict[str, KnownReport]:
        """
        The reports that are there and ours, by namespace.

        Raises:
            KubeError: they can't be listed.
        """
        return {report.namespace: report async for report in self._list(api)}

    async def write(
        self,
        api: ReportApi,
        findings: Findings,
        known: Mapping[str, KnownReport],
        *,
        owner: Mapping[str, Any] | None,
    ) -> None:
        """
        Make the reports say what *findings* say: write what differs, delete those of nothing.

        *known* are those that `read` found. One that was changed since is left to the next time.
        """
        left = dict(known)
        now = datetime.now(UTC)
        for namespace, found in sorted(findings.by_namespace.items()):
            report = build_report(api, namespace, found, owner=owner, time=now)
            there = left.pop(namespace, None)
            if there is None or not self._is_current(api, there, report):
                await self._put(api, report, there)
        for there in left.values():
            await self._delete(api, there)
        self._versions = {
            key: version
            for key, version in self._versions.items()
            if key[0] != api.group or key[1] in findings.by_namespace
        }

    async def remove(self, api: ReportApi) -> None:
        """
        Delete all that were written in *api*: another one has taken its place.

        Raises:
            KubeError: what is there can't be listed.
        """
        async for there in self._list(api):
            await self._delete(api, there)

    def _is_current(self, api: ReportApi, there: KnownReport, report: Report) -> bool:
        if there.content_hash != report.content_hash:
            return False
        # A leader that is new here believes the hash.
        return self._versions.setdefault((api.group, there.namespace), there.version) == (
            there.version
        )

    async def _list(self, api: ReportApi) -> AsyncIterator[KnownReport]:
        """The reports that are ours, without what they say."""
        for plural in (api.plural, api.cluster_plural):
            token = ""
            while True:
                try:
                    page = await self._page(f"{api.root}/{plural}", token)
                except KubeError as error:
                    if error.status == HTTPStatus.NOT_FOUND:
                        break  # Only the other of the two is installed.
                    raise
                for item in page.items or ():
                    metadata = item.metadata
                    if metadata.name == NAME:
                        content_hash = (metadata.annotations or {}).get(HASH_ANNOTATION, "")
                        yield KnownReport(
                            metadata.namespace, metadata.resourceVersion, content_hash
                        )
                token = page.metadata.continue_token
                if not token:
                    break

    async def _page(self, path: str, token: str) -> _Page:
        params = {"limit": str(_CHUNK), "labelSelector": "=".join(MANAGED_BY)}
        body = await self._client.request(
            "GET",
            path,
            params={**params, **({"continue": token} if token else {})},
            accept=METADATA_LIST,
            timeout_s=_TIMEOUT_S,
        )
        found: _Page = _decode(_PAGES, body)
        return found

    async def _put(self, api: ReportApi, report: Report, there: KnownReport | None) -> None:
        collection = _collection(api, report.namespace)
        document = report.document
        try:
            if there is None:
                body = await self._call("POST", collection, document)
            else:
                metadata = {**document["metadata"], "resourceVersion": there.version}
                body = await self._call(
                    "PUT", f"{collection}/{NAME}", {**document, "metadata": metadata}
                )
            version = _decode(_ITEMS, body).metadata.resourceVersion
        except KubeError as error:
            self._count_failure(report.namespace, error)
            return
        self._versions[api.group, report.namespace] = version
        self._metrics.report_writes.labels("written").inc()
        self._told.clear()

    async def _delete(self, api: ReportApi, there: KnownReport) -> None:
        # Only what was listed: somebody may have put another one there.
        body = {"preconditions": {"resourceVersion": there.version}}
        try:
            await self._call("DELETE", f"{_collection(api, there.namespace)}/{NAME}", body)
        except KubeError as error:
            self._count_failure(there.namespace, error)
            return
        self._versions.pop((api.group, there.namespace), None)
        self._metrics.report_writes.labels("removed").inc()

    async def _call(self, method: str, path: str, body: Any) -> bytes:
        await asyncio.sleep(_WRITE_PAUSE_S)
        return await self._client.request(method, path, body=body, timeout_s=_TIMEOUT_S)

    def _count_failure(self, namespace: str, error: KubeError) -> None:
        """The next look tries again. Each kind of failure is told once, until a write succeeds."""
        if error.status == HTTPStatus.NOT_FOUND or is_terminating(error):
            return  # The namespace is gone, and what was in it.
        is_conflict = error.status == HTTPStatus.CONFLICT
        self._metrics.report_writes.labels("conflict" if is_conflict else "failed").inc()
        if (error.status, error.reason) not in self._told:
            self._told.add((error.status, error.reason))
            log.warning(
                "report can't be written",
                extra={
                    "namespace": namespace,
                    "status": error.status,
                    "reason": error.reason,
                    "problem": error.message[:300],
                },
            )


def _collection(api: ReportApi, namespace: str) -> str:
    if not namespace:
        return f"{api.root}/{api.cluster_plural}"
    return f"{api.root}/namespaces/{quote(namespace, safe='')}/{api.plural}"


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise KubeError(0, "Unreadable", f"no answer of an API server: {error}") from error
