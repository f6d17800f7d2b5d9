"""
A small API server over real HTTP, for what the real one can't be made to show.

Each request of a list or watch is answered by the next step of a script; after its end lists give
what there is, and watches stay open and silent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from webhook.clients.informer import Informer, Resource, Timing
from webhook.clients.kube import KubeClient
from webhook.clients.kubeconfig import KubeAccess
from webhook.store.cluster import SeenNamespace, _decode_namespace
from webhook.telemetry.metrics import Metrics

LABEL = "runai/queue"
PATH = "/api/v1/namespaces"

# Short, so that a test of time-outs is one of tenths of a second.
FAST = Timing(
    list=2.0,
    watch_min=30.0,
    watch_max=30.0,
    margin=5.0,
    first_wait=0.01,
    longest_wait=0.1,
    steady=0.3,
    absent_wait=0.05,
)

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


def namespace(name: str, version: str = "1", project: str = "", **more: Any) -> dict[str, Any]:
    labels = {LABEL: project} if project else {}
    metadata = {"name": name, "resourceVersion": version, "labels": labels}
    return {"metadata": {**metadata, **more}}


def page(*items: dict[str, Any], version: str = "10", token: str = "") -> Step:
    """One chunk of a list."""
    metadata = {"resourceVersion": version, **({"continue": token} if token else {})}
    return answer({"kind": "NamespaceList", "metadata": metadata, "items": list(items)})


def answer(body: Any, status: int = 200, **headers: str) -> Step:
    async def step(_request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, headers=headers)

    return step


def refusal(code: int, reason: str, **headers: str) -> Step:
    status = {"kind": "Status", "code": code, "reason": reason, "message": f"because {reason}"}
    return answer(status, code, **headers)


def event(kind: str, thing: dict[str, Any]) -> str:
    return json.dumps({"type": kind, "object": thing})


def bookmark(version: str) -> str:
    return event("BOOKMARK", {"kind": "Namespace", "metadata": {"resourceVersion": version}})


EXPIRED = event(
    "ERROR",
    {
        "kind": "Status",
        "code": 410,
        "reason": "Expired",
        "message": "too old resource version: 1 (258)",
    },
)


def watch(*events: str, then: str = "hang", after_s: float = 0.0) -> Step:
    """A watch that says *events* and then hangs, ends or breaks off."""

    async def step(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for text in events:
            await response.write(text.encode() + (b"" if then == "cut" else b"\n"))
        await asyncio.sleep(after_s)
        if then == "hang":
            await asyncio.sleep(3600)
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        return response

    return step


def endless(status: int = 200, piece: bytes = b" " * 2**20) -> Step:
    """*piece* again and again, as often as the other side takes it."""

    async def step(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        while True:
            await response.write(piece)

    return step


class FakeApiServer:
    """
    *script* is the answers to come; `requests` are the queries that came.

    Whoever shows another token than *accepted*, if any is named, is not known.
    """

    def __init__(self, *script: Step) -> None:
        self.script = list(script)
        self.accepted = ""
        self.requests: list[dict[str, str]] = []
        self.authorizations: list[str] = []
        self._news = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(dict(request.query))
        self.authorizations.append(request.headers.get("Authorization", ""))
        self._news.set()
        if self.accepted and self.authorizations[-1] != f"Bearer {self.accepted}":
            return await refusal(401, "Unauthorized")(request)
        if self.script:
            return await self.script.pop(0)(request)
        usual = watch() if "watch" in request.query else page(version="99")
        return await usual(request)

    @property
    def asked(self) -> list[str]:
        """What was asked for: `list`, or the version from which a watch was to begin."""
        return [
            f"watch {query['resourceVersion']}" if "watch" in query else "list"
            for query in self.requests
        ]

    async def count(self, number: int) -> None:
        """Return when there were *number* requests."""
        async with asyncio.timeout(5):
            while len(self.requests) < number:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def api_server(*script: Step) -> AsyncIterator[tuple[FakeApiServer, KubeClient]]:
    fake = FakeApiServer(*script)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0.1)
    client = KubeClient(KubeAccess(str(server.make_url("")).rstrip("/"), token="secret"))
    try:
        yield fake, client
    finally:
        await client.close()
        await server.close()


def decode_namespace(raw: bytes) -> SeenNamespace:
    return _decode_namespace(raw, frozenset({LABEL}))


class Followed:
    """An informer at work, and what it told."""

    def __init__(
        self,
        client: KubeClient,
        *,
        timing: Timing = FAST,
        optional: bool = False,
        decode: Callable[[bytes], SeenNamespace] = decode_namespace,
    ):
        self.changes = 0
        self.metrics = Metrics()
        self._news = asyncio.Event()
        self.informer: Informer[SeenNamespace] = Informer(
            client,
            Resource("namespaces", PATH, optional=optional, chunk=2),
            decode,
            metrics=self.metrics,
            on_change=self._on_change,
            on_event=self._on_event,
            timing=timing,
        )

    @property
    def names(self) -> set[str]:
        return set(self.informer.objects)

    def metric(self, name: str) -> float:
        found = self.metrics.registry.get_sample_value(name, {"resource": "namespaces"})
        assert found is not None
        return found

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def _on_change(self) -> None:
        self.changes += 1
        self._news.set()

    def _on_event(self) -> None:
        self._news.set()


@asynccontextmanager
async def following(
    client: KubeClient,
    *,
    timing: Timing = FAST,
    optional: bool = False,
    decode: Callable[[bytes], SeenNamespace] = decode_namespace,
) -> AsyncIterator[Followed]:
    followed = Followed(client, timing=timing, optional=optional, decode=decode)
    task = asyncio.create_task(followed.informer.run())
    try:
        yield followed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
