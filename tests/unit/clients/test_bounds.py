"""How much of an answer is read: a real API server can't be made to send more than it holds."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.clients.apiserver import (
    FAST,
    PATH,
    Step,
    api_server,
    endless,
    event,
    following,
    namespace,
    page,
    refusal,
)
from webhook.clients.kube import MAX_OBJECT_BYTES, MAX_PAGE_BYTES, KubeClient
from webhook.clients.kubeconfig import KubeAccess
from webhook.clients.prometheus_access import PrometheusCredentials
from webhook.errors import KubeError, PrometheusError

# What is large takes its time on a machine that has others to do.
PATIENT = replace(FAST, list=30.0)


def body(text: bytes, **headers: str) -> Step:
    async def step(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=text, headers=headers)

    return step


def heavy_page(size: int) -> Step:
    """A chunk of a list with one object, of *size* bytes."""
    return page(namespace("heavy", annotations={"padding": "x" * size}), version="7")


async def fault_of(client: KubeClient, limit: int | None = None) -> KubeError:
    params = None if limit is None else {"limit": str(limit)}
    with pytest.raises(KubeError) as e:
        await client.request("GET", PATH, params=params, timeout_s=30.0)
    return e.value


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(endless(), id="without-end"),
        pytest.param(body(bytes(MAX_OBJECT_BYTES + 1)), id="a-byte-more"),
        pytest.param(
            body(gzip.compress(bytes(2 * MAX_OBJECT_BYTES)), **{"Content-Encoding": "gzip"}),
            id="packed",
        ),
    ],
)
async def test_an_answer_is_left_where_it_is_larger_than_any_object(step: Step) -> None:
    async with api_server(step, page(namespace("a"))) as (_, client):
        told = await fault_of(client)

        assert told.is_too_large
        assert str(told) == f"TooLarge: the answer is larger than {MAX_OBJECT_BYTES} bytes"
        # What is left of it is no answer to the next call.
        assert b'"a"' in await client.request("GET", PATH)


async def test_the_largest_object_is_read_whole() -> None:
    async with api_server(body(b"x" * MAX_OBJECT_BYTES)) as (_, client):
        assert len(await client.request("GET", PATH)) == MAX_OBJECT_BYTES


@pytest.mark.parametrize(
    ("limit", "want_bytes"),
    [
        pytest.param(1, MAX_OBJECT_BYTES, id="one-object"),
        pytest.param(2, 2 * MAX_OBJECT_BYTES, id="two"),
        pytest.param(500, MAX_PAGE_BYTES, id="as-many-as-are-held"),
    ],
)
async def test_a_page_may_be_as_large_as_what_it_is_asked_for(limit: int, want_bytes: int) -> None:
    largest = body(b"x" * want_bytes)
    async with api_server(largest, endless()) as (_, client):
        params = {"limit": str(limit)}
        assert len(await client.request("GET", PATH, params=params)) == want_bytes
        assert (await fault_of(client, limit)).message == (
            f"the answer is larger than {want_bytes} bytes"
        )


@pytest.mark.parametrize("status", [403, 410, 503])
async def test_a_refusal_without_end_is_still_that_refusal(status: int) -> None:
    async with api_server(endless(status, b"no " * 2**18)) as (_, client):
        told = await fault_of(client)

    assert told.status == status
    assert not told.is_too_large
    assert len(str(told)) < 1000


def test_what_a_server_says_itself_is_no_answer_that_was_left() -> None:
    assert not KubeError(413, "TooLarge", "Request entity too large").is_too_large


async def first_event(client: KubeClient) -> bytes:
    async with client.stream(PATH, params={"watch": "true"}, timeout_s=30.0) as lines:
        return await anext(lines)


async def test_an_event_is_left_where_it_is_larger_than_any_object() -> None:
    async with api_server(endless()) as (_, client):
        with pytest.raises(KubeError) as e:
            await first_event(client)

    assert str(e.value) == f"TooLarge: an event is larger than {MAX_OBJECT_BYTES} bytes"


async def test_a_watch_may_say_more_than_one_object_in_the_end() -> None:
    """The bound is one event's."""
    line = event("ADDED", namespace("a", annotations={"padding": "x" * 2**20})).encode() + b"\n"
    seen = 0
    async with (
        api_server(endless(piece=line)) as (_, client),
        client.stream(PATH, params={"watch": "true"}, timeout_s=30.0) as lines,
    ):
        async for received in lines:
            seen += len(received)
            if seen > 2 * MAX_OBJECT_BYTES:
                break

    assert seen > 2 * MAX_OBJECT_BYTES


async def test_a_list_of_large_objects_comes_fewer_at_a_time() -> None:
    script = (
        page(namespace("a"), namespace("b"), version="7", token="next"),
        endless(),
        page(namespace("c"), version="7", token="last"),
        page(namespace("d"), version="7"),
    )
    async with (
        api_server(*script) as (server, client),
        following(client, timing=PATIENT) as followed,
    ):
        async with asyncio.timeout(60):
            await followed.informer.synced.wait()

        assert followed.names == {*"abcd"}
        assert [(each.get("continue"), each["limit"]) for each in server.requests[:4]] == [
            (None, "2"),
            ("next", "2"),
            ("next", "1"),
            ("last", "1"),
        ]


async def test_one_object_that_is_too_large_is_told_and_asked_for_again() -> None:
    async with (
        api_server(endless(), endless(), page(namespace("a"))) as (server, client),
        following(client, timing=PATIENT) as followed,
    ):
        await server.count(3)
        obstacle = followed.informer.obstacle
        await followed.informer.synced.wait()

        # The next list begins with as many at a time as ever.
        assert [each["limit"] for each in server.requests[:3]] == ["2", "1", "2"]
        assert "TooLarge: the answer is larger than" in obstacle
        assert followed.names == {"a"}


def forgetting_twice() -> tuple[Step, ...]:
    """After which a list is asked for as a whole."""
    chunk, expired = page(namespace("a"), token="old"), refusal(410, "Expired")
    return (chunk, expired, chunk, expired)


@pytest.mark.slow
async def test_a_list_that_is_taken_whole_may_be_larger_than_a_page() -> None:
    script = (*forgetting_twice(), heavy_page(MAX_PAGE_BYTES))
    async with (
        api_server(*script) as (server, client),
        following(client, timing=PATIENT) as followed,
    ):
        async with asyncio.timeout(60):
            await followed.informer.synced.wait()

        assert server.requests[4] == {}
        assert followed.names == {"heavy"}


@pytest.mark.slow
async def test_a_list_that_has_no_end_as_a_whole_is_asked_for_in_pages_again() -> None:
    script = (*forgetting_twice(), endless(), page(namespace("a")))
    async with (
        api_server(*script) as (server, client),
        following(client, timing=PATIENT) as followed,
    ):
        async with asyncio.timeout(60):
            await followed.informer.synced.wait()

        assert server.requests[4:6] == [{}, {"limit": "2"}]
        assert followed.names == {"a"}


async def test_a_token_file_without_end_is_no_token() -> None:
    client = KubeClient(KubeAccess("http://127.0.0.1:1", token_file=Path("/dev/zero")))
    with pytest.raises(KubeError, match="cannot read the token in /dev/zero"):
        await client.request("GET", "/")
    await client.close()

    credentials = PrometheusCredentials("http://127.0.0.1:1", token_file=Path("/dev/zero"))
    with pytest.raises(PrometheusError, match="there is no token in /dev/zero"):
        credentials.read_token()
