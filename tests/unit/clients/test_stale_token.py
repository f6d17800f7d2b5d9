"""A service account's token ends, and its file is replaced before that (trial B23)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.unit.clients.apiserver import (
    PATH,
    FakeApiServer,
    answer,
    api_server,
    event,
    following,
    namespace,
    page,
    watch,
)
from webhook.clients.kube import KubeClient
from webhook.clients.kubeconfig import KubeAccess
from webhook.errors import KubeError

OBJECT = {"metadata": {"name": "x"}}


@asynccontextmanager
async def with_token(server: str, file: Path) -> AsyncIterator[KubeClient]:
    client = KubeClient(KubeAccess(server, token_file=file))
    try:
        yield client
    finally:
        await client.close()


def shown(server: FakeApiServer) -> list[str]:
    """The tokens that were shown, one for each request."""
    return [text.removeprefix("Bearer ") for text in server.authorizations]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_call_with_an_old_token_is_made_again_with_the_new_one(
    tmp_path: Path, method: str
) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    async with (
        api_server(answer({})) as (server, first),
        with_token(first.server, file) as client,
    ):
        await client.request("GET", PATH)
        file.write_text("new\n")
        server.accepted = "new"
        server.script = [answer(OBJECT)]
        got = await client.request(method, PATH, body=OBJECT)
        await client.request("GET", PATH)

    assert got == b'{"metadata": {"name": "x"}}'
    assert shown(server) == ["old", "old", "new", "new"]


@pytest.mark.slow
async def test_watches_calls_and_later_clients_outlive_the_swap(tmp_path: Path) -> None:
    """The file is swapped while the old token holds; when it ends, at most one retry a call."""
    file = tmp_path / "token"
    file.write_text("a")
    script = (
        page(namespace("one")),
        watch(event("ADDED", namespace("two", "11")), then="end", after_s=0.3),
    )
    async with api_server(*script) as (server, first):
        server.accepted = "a"
        async with with_token(first.server, file) as client, following(client) as followed:
            await followed.until(lambda: followed.names == {"one", "two"})
            file.write_text("b")
            server.accepted = "b"
            # The watch that is open goes on. It ends by itself, and is opened with the new token.
            server.script = [watch(event("ADDED", namespace("three", "12")))]
            await followed.until(lambda: "three" in followed.names)
            server.script = [answer(OBJECT)]
            await client.request("PATCH", f"{PATH}/one", body=OBJECT)
            async with with_token(first.server, file) as later:
                await later.request("GET", PATH)

            assert followed.names == {"one", "two", "three"}
            assert followed.metric("gatewright_watch_relists_total") == 0
            assert followed.metric("gatewright_watch_failures_total") == 0
            # One request with the old token was refused, and none after that.
            assert shown(server) == ["a", "a", "a", "b", "b", "b"]


async def test_many_calls_at_once_are_each_made_again_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    async with (
        api_server(answer({})) as (server, first),
        with_token(first.server, file) as client,
    ):
        await client.request("GET", PATH)
        file.write_text("new")
        server.accepted = "new"
        await asyncio.gather(*[client.request("GET", f"{PATH}/{n}") for n in range(20)])

    assert shown(server).count("new") == 20
    assert 1 <= shown(server).count("old") - 1 <= 20


@pytest.mark.parametrize(
    ("then", "tokens"),
    [
        pytest.param("old", ["old", "old"], id="the-same"),
        pytest.param("other", ["old", "old", "other"], id="one-that-is-refused-too"),
        pytest.param("\u20ac", ["old", "old"], id="not-readable"),
    ],
)
async def test_a_call_is_made_again_only_with_another_token_and_only_once(
    tmp_path: Path, then: str, tokens: list[str]
) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    async with (
        api_server(answer({})) as (server, first),
        with_token(first.server, file) as client,
    ):
        await client.request("GET", PATH)
        file.write_text(then)
        server.accepted = "new"
        with pytest.raises(KubeError) as caught:
            await client.request("GET", PATH)
        assert shown(server) == tokens
        # The next call looks at the file again.
        file.write_text("new")
        await client.request("GET", PATH)

    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")
    assert shown(server) == [*tokens, "new"]


async def test_a_token_that_stands_in_no_file_is_shown_once() -> None:
    async with api_server() as (server, client):
        server.accepted = "other"
        with pytest.raises(KubeError):
            await client.request("GET", PATH)

    assert shown(server) == ["secret"]
