"""A small Prometheus over real HTTP, for what the real one can't be made to show."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.unit.clients.apiserver import endless
from webhook.clients.prometheus import PrometheusClient, Retries

# Short, so that a test of retries is one of hundredths of a second.
FAST = Retries(attempts=3, first_wait=0.01, longest_wait=0.05)

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answer(body: Any, status: int = 200, *, kind: str = "application/json", **headers: str) -> Step:
    """
    One whole answer; anything but text and bytes is written as JSON. Headers are written as
    Python names, `retry_after`.
    """
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if not isinstance(body, bytes):
        body = (body if isinstance(body, str) else json.dumps(body)).encode()

    async def step(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, content_type=kind, headers=sent)

    return step


def result(kind: str, what: Any, **more: Any) -> Step:
    return answer({"status": "success", "data": {"resultType": kind, "result": what}, **more})


def vector(*samples: tuple[dict[str, str], str]) -> Step:
    return result(
        "vector", [{"metric": labels, "value": [1767225600.5, text]} for labels, text in samples]
    )


def error(kind: str, text: str, status: int, **headers: str) -> Step:
    return answer({"status": "error", "errorType": kind, "error": text}, status, **headers)


async def hang(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


async def cut(request: web.Request) -> web.StreamResponse:
    """The connection is lost without a word."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut_inside(request: web.Request) -> web.StreamResponse:
    """The connection is lost in the middle of the body."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"status": "succ')
    assert request.transport is not None
    request.transport.abort()
    return response


async def drip(request: web.Request) -> web.StreamResponse:
    """A byte now and then, without end."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


# As much as the other side takes.
flood = endless()


async def babble(request: web.Request) -> web.StreamResponse:
    """Something that is no HTTP."""
    assert request.transport is not None
    request.transport.write(b"220 mail.example ESMTP\r\n\r\n")
    request.transport.close()
    return web.Response()


@dataclass(frozen=True, slots=True)
class Asked:
    """A query that came."""

    method: str
    path: str
    form: dict[str, str]
    authorization: str


class FakePrometheus:
    """*script* is the answers to come, the last of which is given again and again."""

    def __init__(self, *script: Step) -> None:
        self.script = list(script)
        self.asked: list[Asked] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        form = {name: str(value) for name, value in (await request.post()).items()}
        authorization = request.headers.get("Authorization", "")
        self.asked.append(Asked(request.method, request.path, form, authorization))
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return await step(request)


@asynccontextmanager
async def prometheus(
    *script: Step, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakePrometheus]:
    fake = FakePrometheus(*script)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0.1, ssl=tls)
    fake.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.port}"
    try:
        yield fake
    finally:
        await server.close()


@asynccontextmanager
async def asking(url: str, **options: Any) -> AsyncIterator[PrometheusClient]:
    """A client that retries fast."""
    client = PrometheusClient(url, **{"timeout_s": 5.0, "retries": FAST, **options})
    try:
        yield client
    finally:
        await client.close()
