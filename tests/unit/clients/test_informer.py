"""Faults of a watch that a real API server can't be made to show."""

from __future__ import annotations

import io
import logging
import time
from dataclasses import replace

import pytest

from tests.unit.clients.apiserver import (
    EXPIRED,
    FAST,
    LABEL,
    Step,
    answer,
    api_server,
    bookmark,
    decode_namespace,
    event,
    following,
    namespace,
    page,
    refusal,
    watch,
)
from webhook.clients.depth import TOO_DEEP, cut_depth
from webhook.clients.informer import backed_off
from webhook.store.cluster import SeenNamespace


async def test_a_list_in_chunks_is_whole_and_the_watch_goes_on_from_it() -> None:
    chunks = (
        page(namespace("a"), namespace("b"), version="7", token="next"),
        page(namespace("c"), version="7"),
    )
    async with api_server(*chunks) as (server, client), following(client) as followed:
        await followed.informer.synced.wait()
        await server.count(3)

        assert followed.names == {"a", "b", "c"}
        assert followed.informer.obstacle == ""
        assert server.requests[0] == {"limit": "2"}
        assert server.requests[1] == {"limit": "2", "continue": "next"}
        assert server.asked == ["list", "list", "watch 7"]
        assert server.requests[2]["allowWatchBookmarks"] == "true"
        assert server.authorizations[0] == "Bearer secret"
        assert followed.metric("gatewright_watch_objects") == 3


async def test_nothing_is_known_before_the_last_chunk() -> None:
    chunks = (page(namespace("a"), token="next"), refusal(503, "ServiceUnavailable"))
    async with api_server(*chunks) as (server, client), following(client) as followed:
        await server.count(2)

        assert followed.names == set()
        assert not followed.informer.synced.is_set()
        await followed.informer.synced.wait()


@pytest.mark.slow
async def test_events_add_change_and_delete() -> None:
    events = (
        event("ADDED", namespace("b", "11", "red")),
        event("MODIFIED", namespace("a", "12", "blue")),
        event("DELETED", namespace("b", "13", "red")),
        bookmark("20"),
    )
    script = (page(namespace("a")), watch(*events, then="end", after_s=0.4))
    async with api_server(*script) as (server, client), following(client) as followed:
        await server.count(3)

        assert followed.names == {"a"}
        assert followed.informer.objects["a"].labels == {LABEL: "blue"}
        # The server has ended the watch as it was asked to: nothing is listed again.
        assert server.asked == ["list", "watch 10", "watch 20"]
        assert followed.metric("gatewright_watch_relists_total") == 0
        assert followed.metric("gatewright_watch_failures_total") == 0


async def test_what_does_not_matter_is_no_change() -> None:
    events = (event("MODIFIED", namespace("a", "11", "red", annotations={"x": "y"})),)
    script = (page(namespace("a", "1", "red")), watch(*events))
    async with api_server(*script) as (_, client), following(client) as followed:
        await followed.informer.synced.wait()
        await followed.until(lambda: followed.informer.objects["a"].resource_version == "11")

        assert followed.changes == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(watch(EXPIRED, then="end"), id="in-the-stream"),
        pytest.param(refusal(410, "Expired"), id="as-a-status"),
        pytest.param(refusal(500, "InternalError"), id="version-that-is-no-number"),
        pytest.param(watch("{garbage"), id="no-json"),
        pytest.param(watch('{"type": "ADDED"}'), id="no-object"),
        pytest.param(watch(event("ADDED", {"metadata": {}})), id="object-without-a-name"),
        pytest.param(watch(event("PAINTED", namespace("a"))), id="unknown-event"),
        pytest.param(answer("<html>\nSign in</html>"), id="somebody-elses-page"),
    ],
)
async def test_a_watch_that_can_not_go_on_begins_anew_and_notices_what_is_gone(
    fault: Step,
) -> None:
    script = (
        page(namespace("a"), namespace("b")),
        fault,
        page(namespace("b"), namespace("c"), version="20"),
    )
    async with api_server(*script) as (server, client), following(client) as followed:
        await followed.until(lambda: followed.names == {"b", "c"})
        await server.count(4)

        assert server.asked == ["list", "watch 10", "list", "watch 20"]
        assert followed.changes == 2
        assert followed.metric("gatewright_watch_relists_total") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(watch(then="cut"), id="connection-lost"),
        pytest.param(watch(event("ADDED", namespace("x", "11")), then="cut"), id="half-an-event"),
        pytest.param(watch(then="end"), id="closed-at-once"),
        pytest.param(refusal(503, "ServiceUnavailable"), id="unavailable"),
        pytest.param(answer("no such host", 502), id="proxy-without-a-server"),
        pytest.param(refusal(401, "Unauthorized"), id="token-has-ended"),
        pytest.param(refusal(403, "Forbidden"), id="rights-taken-away"),
    ],
)
async def test_a_watch_that_breaks_off_goes_on_where_it_was(fault: Step) -> None:
    script = (page(namespace("a")), fault, watch(event("ADDED", namespace("b", "12"))))
    async with api_server(*script) as (server, client), following(client) as followed:
        await followed.until(lambda: "b" in followed.names)

        assert followed.names == {"a", "b"}
        assert server.asked == ["list", "watch 10", "watch 10"]
        assert followed.metric("gatewright_watch_failures_total") == 1
        assert followed.metric("gatewright_watch_connected") == 1


@pytest.mark.slow
async def test_a_half_open_connection_is_given_up() -> None:
    """The other end is gone and nobody says so: no event, no end."""
    timing = replace(FAST, watch_min=0.2, watch_max=0.2, margin=0.2)
    script = (page(namespace("a")), watch(), watch(event("ADDED", namespace("b", "12"))))
    async with (
        api_server(*script) as (server, client),
        following(client, timing=timing) as followed,
    ):
        started = time.monotonic()
        await followed.until(lambda: "b" in followed.names)

        assert 0.3 < time.monotonic() - started < 3
        assert server.asked[:3] == ["list", "watch 10", "watch 10"]


@pytest.mark.slow
async def test_a_server_that_says_nothing_about_our_version_is_listed_again() -> None:
    """One that was restored from a backup lets us wait for a version that is to come."""
    timing = replace(FAST, watch_min=1.1, watch_max=1.1)
    script = (page(namespace("a")), watch(then="end", after_s=1.1), page(version="5"))
    async with (
        api_server(*script) as (server, client),
        following(client, timing=timing) as followed,
    ):
        await followed.until(lambda: followed.names == set() and followed.changes == 2)
        await server.count(4)

        assert server.asked == ["list", "watch 10", "list", "watch 5"]


async def test_a_token_that_grew_too_old_begins_the_list_anew() -> None:
    script = (
        page(namespace("a"), namespace("b"), token="old"),
        refusal(410, "Expired"),
        page(namespace("b"), namespace("c"), token="old"),
        refusal(410, "Expired"),
        page(namespace("b"), namespace("c"), namespace("d")),
    )
    async with api_server(*script) as (server, client), following(client) as followed:
        await followed.informer.synced.wait()

        assert followed.names == {"b", "c", "d"}
        # The second time it is taken whole: the server forgets faster than we read.
        assert server.requests[4] == {}


@pytest.mark.slow
async def test_a_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    script = (refusal(429, "TooManyRequests", **{"Retry-After": "1"}), page(namespace("a")))
    async with api_server(*script) as (server, client), following(client) as followed:
        started = time.monotonic()
        await followed.informer.synced.wait()

        assert 0.9 < time.monotonic() - started < 4
        assert server.asked[:2] == ["list", "list"]


@pytest.mark.slow
async def test_a_server_that_closes_at_once_is_not_asked_in_a_loop() -> None:
    script = (page(namespace("a")), *[watch(then="end") for _ in range(50)])
    timing = replace(FAST, first_wait=0.05, longest_wait=10.0)
    async with (
        api_server(*script) as (server, client),
        following(client, timing=timing) as followed,
    ):
        await followed.informer.synced.wait()
        started = time.monotonic()
        await server.count(6)

        # 0.05, 0.1, 0.2, 0.4 s, each shortened by half at most.
        assert time.monotonic() - started > 0.35
        assert followed.names == {"a"}


@pytest.mark.slow
async def test_while_the_server_is_away_what_is_known_stays() -> None:
    away = [refusal(503, "ServiceUnavailable") for _ in range(5)]
    script = (page(namespace("a")), watch(then="cut"), *away)
    async with api_server(*script) as (server, client), following(client) as followed:
        await server.count(8)

        assert followed.names == {"a"}
        assert followed.changes == 1
        assert followed.metric("gatewright_watch_failures_total") == 6


@pytest.mark.slow
async def test_a_failure_is_told_once_and_so_is_the_recovery() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("gatewright.watch")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    away = [refusal(503, "ServiceUnavailable") for _ in range(5)]
    try:
        async with (
            api_server(page(), *away, watch(event("ADDED", namespace("a")))) as (_, client),
            following(client) as followed,
        ):
            await followed.until(lambda: "a" in followed.names)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)

    assert stream.getvalue().splitlines() == [
        "watch has failed; what is known stays",
        "watch has recovered",
    ]


async def test_a_resource_that_may_be_absent_is_empty_until_it_comes() -> None:
    script = (
        refusal(404, "NotFound"),
        refusal(404, "NotFound"),
        page(namespace("a")),
        watch(then="cut"),
        refusal(404, "NotFound"),
        refusal(404, "NotFound"),
        refusal(404, "NotFound"),
    )
    async with (
        api_server(*script) as (server, client),
        following(client, optional=True) as followed,
    ):
        await followed.informer.synced.wait()
        assert followed.names == set()
        await followed.until(lambda: followed.names == {"a"})
        await followed.until(lambda: followed.names == set())
        await server.count(7)

        assert server.asked[:7] == [*["list"] * 3, "watch 10", "watch 10", "list", "list"]
        assert followed.metric("gatewright_watch_failures_total") == 1


async def test_a_resource_that_is_missing_for_long_has_no_objects_until_it_comes() -> None:
    """One kind whose definition is missing does not keep the others unready for ever."""
    script = [refusal(404, "NotFound") for _ in range(4)]
    timing = replace(FAST, missing_long=0.0)
    async with api_server(*script) as (_, client), following(client, timing=timing) as followed:
        await followed.informer.synced.wait()

        assert followed.names == set()
        assert followed.metric("gatewright_watch_failures_total") >= 1


async def test_a_resource_that_must_be_there_says_what_is_missing() -> None:
    script = [refusal(404, "NotFound") for _ in range(50)]
    async with api_server(*script) as (server, client), following(client) as followed:
        await server.count(3)

        assert not followed.informer.synced.is_set()
        assert followed.informer.obstacle == (
            "namespaces: is not served; are its CustomResourceDefinitions installed?"
        )


async def test_one_object_that_nests_too_deep_does_not_hide_the_others() -> None:
    deep = (
        f'{{"metadata": {{"name": "deep", "resourceVersion": "1", "x": {"[" * 9000}{"]" * 9000}}}}}'
    )
    text = f'{{"metadata": {{"resourceVersion": "10"}}, "items": [{deep}, {{"metadata": {{"name": "a"}}}}]}}'
    async with api_server(answer(text)) as (_, client), following(client) as followed:
        await followed.informer.synced.wait()

        assert followed.names == {"deep", "a"}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(b'{"a": [1, [2]]}', b'{"a": [1, [2]]}', id="as-deep-as-allowed"),
        pytest.param(b'[[[1, [2], {"b": 3}]], 4]', b"[[[1, %s, %s]], 4]", id="deeper"),
        pytest.param(b'[[["[[[[", "\\"[["]]]', b'[[["[[[[", "\\"[["]]]', id="in-a-text"),
    ],
)
def test_what_is_too_deep_is_cut_off(text: bytes, want: bytes) -> None:
    assert cut_depth(text, 3) == want.replace(b"%s", TOO_DEEP)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [OverflowError, KeyError, RecursionError, AssertionError])
async def test_an_object_that_nobody_thought_of_ends_nothing(
    fault: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """What is known of it stays, also over a list; the others go on."""

    def decode(raw: bytes) -> SeenNamespace:
        if b"odd" in raw:
            raise fault("what is in it")
        return decode_namespace(raw)

    odd = {"note": "odd"}
    script = (
        page(namespace("a"), namespace("new", annotations=odd)),
        watch(
            event("MODIFIED", namespace("a", "11", "red", annotations=odd)),
            event("ADDED", namespace("b", "12")),
            event("ADDED", namespace("c", "13")),
            event("DELETED", namespace("c", "14", annotations=odd)),
            then="end",
            after_s=0.4,
        ),
        refusal(410, "Expired"),
        page(namespace("a", "15", "red", annotations=odd), namespace("b"), version="20"),
        watch(event("DELETED", namespace("a", "21", annotations=odd))),
    )
    async with api_server(*script) as (server, client), following(client, decode=decode) as seen:
        await server.count(3)
        assert server.asked[2] == "watch 14"
        await server.count(5)
        await seen.until(lambda: seen.names == {"b"})

    assert seen.informer.synced.is_set()
    told = [record for record in caplog.records if "an object can't be read" in record.message]
    assert [record.__dict__["object"] for record in told] == ["new", "a", "c", "a", "a"]
    assert {record.__dict__["error"] for record in told} == {fault.__name__}
    assert "what is in it" not in caplog.text


@pytest.mark.parametrize("times", [0, 1, 2000, 10**6])
def test_the_wait_has_an_end_however_often_it_was_doubled(times: int) -> None:
    """An optional resource may be absent for weeks."""
    assert backed_off(0.5, times, 60.0) <= 60.0
