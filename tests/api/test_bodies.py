"""What big bodies cost: room as they arrive, a bounded wait, and nobody held up by the slow."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from tests.api.gate import Gate
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.api.admission_routes import _may_wait_s
from webhook.api.limits.bodies import (
    BIG_BODY_BYTES,
    FREE_BODY_BYTES,
    LOOK_PERIOD_S,
    MAX_BODY_BYTES,
    SLOW_LOOKS,
    BodyRoom,
    BodyTooLargeError,
    BusyError,
    LostError,
    SlowBodyError,
    Turns,
    check_plain_size,
    read_small,
)

BIG = BIG_BODY_BYTES
MIB = 2**20
MAX = 100 * BIG
SLOW_S = LOOK_PERIOD_S * SLOW_LOOKS

POLICY = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}))


class Sender:
    """Sends one body into *room*. As a block: it has arrived, and is being answered."""

    def __init__(
        self, room: BodyRoom, announced_bytes: int | None = None, *, peer: str = ""
    ) -> None:
        self._room = room
        self._announced_bytes = announced_bytes
        self._peer = peer
        loop = asyncio.get_running_loop()
        protocol = BaseProtocol(loop)
        protocol.transport = asyncio.Transport()
        # The limit is one that is never met: there is no transport to hold back.
        self._content = StreamReader(protocol, 2**40, loop=loop)
        self.got_bytes: int | None = None

    def send(self, size_bytes: int) -> None:
        self._content.feed_data(b" " * size_bytes)

    def finish(self) -> None:
        self._content.feed_eof()

    def lose(self) -> None:
        self._content.set_exception(ConnectionResetError("Connection lost"))

    @asynccontextmanager
    async def read(
        self, *, timeout_s: float = 10.0, patience_s: float = 10.0
    ) -> AsyncIterator[Any]:
        async with self._room.read(
            self._content,
            announced_bytes=self._announced_bytes,
            max_bytes=MAX,
            timeout_s=timeout_s,
            wait_until=asyncio.get_running_loop().time() + patience_s,
            peer=self._peer,
        ) as body:
            self.got_bytes = len(body)
            yield self

    @asynccontextmanager
    async def held(self, size_bytes: int) -> AsyncIterator[None]:
        """That much of it has arrived, and takes room."""
        self.send(size_bytes)
        self.finish()
        async with self.read():
            yield

    async def hold(self) -> None:
        """It is being answered, and will be for long."""
        async with self.read():
            await asyncio.Event().wait()

    async def answer(self, **options: float) -> None:
        async with self.read(**options):
            pass


@asynccontextmanager
async def full(room: BodyRoom) -> AsyncIterator[None]:
    """Two bodies of four that are being answered, the second of which may exceed the room."""
    bodies = [Sender(room, 4 * BIG) for _ in range(2)]
    for sender in bodies:
        sender.send(4 * BIG)
        sender.finish()
    async with bodies[0].read(patience_s=0), bodies[1].read(patience_s=0):
        yield


def task(work: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(work)


async def settle() -> None:
    """Let everything run that can run without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)


async def end(*tasks: asyncio.Task[Any]) -> None:
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_is_only_announced_takes_no_room() -> None:
    room = BodyRoom(4 * BIG)
    idle = [Sender(room, 30 * BIG) for _ in range(50)]
    tasks = [task(sender.answer()) for sender in idle]
    for sender in idle:
        sender.send(1)
    await settle()

    real = Sender(room, 4 * BIG)
    real.send(4 * BIG)
    real.finish()
    async with real.read(patience_s=0):
        assert room.used_bytes == 4 * BIG
    assert room.used_bytes == 0
    await end(*tasks)


async def test_ordinary_bodies_never_wait() -> None:
    room = BodyRoom(4 * BIG)
    big, small = Sender(room, 4 * BIG), Sender(room, FREE_BODY_BYTES)
    for sender, size in ((big, 4 * BIG), (small, FREE_BODY_BYTES)):
        sender.send(size)
        sender.finish()

    async with big.read():
        assert room.used_bytes == 4 * BIG
        await small.answer(patience_s=0)
    assert small.got_bytes == FREE_BODY_BYTES


async def test_what_is_decided_in_the_loop_takes_room_as_well() -> None:
    """Thousands of bodies of this size that never end would take as much as a few huge ones."""
    room = BodyRoom()
    sender = Sender(room, BIG)
    sender.send(BIG)
    sender.finish()

    async with sender.read(patience_s=0):
        assert room.used_bytes == BIG


async def test_who_waits_too_long_is_told_so_and_leaves_nothing_behind() -> None:
    room = BodyRoom(4 * BIG)
    late = Sender(room, 2 * BIG)
    late.send(2 * BIG)
    late.finish()

    async with full(room):
        started = time.monotonic()
        with pytest.raises(BusyError):
            await late.answer(patience_s=0.1)
        assert time.monotonic() - started < 1
        assert room.used_bytes == 8 * BIG
    assert room.used_bytes == 0


async def test_a_caller_who_goes_away_while_he_waits_leaves_nothing_behind() -> None:
    room = BodyRoom(4 * BIG)
    gone, stays = (Sender(room, 4 * BIG) for _ in range(2))
    for sender in (gone, stays):
        sender.send(4 * BIG)
        sender.finish()

    async with full(room):
        waiting = [task(sender.answer()) for sender in (stays, gone)]
        await settle()
        await end(waiting[1])
        assert not waiting[0].done()
    await asyncio.wait_for(waiting[0], 5)
    assert (gone.got_bytes, stays.got_bytes, room.used_bytes) == (None, 4 * BIG, 0)


async def test_of_those_who_wait_the_newest_comes_first() -> None:
    room = BodyRoom(4 * BIG)
    order: list[int] = []

    async def wait_for_room(number: int) -> None:
        async with Sender(room, 3 * BIG).held(3 * BIG):
            order.append(number)

    async with full(room):
        tasks = []
        for number in range(4):
            tasks.append(task(wait_for_room(number)))
            await settle()
        assert order == []
    await asyncio.gather(*tasks)

    assert order == [3, 2, 1, 0]


async def test_of_many_who_wait_the_oldest_is_refused_for_who_comes() -> None:
    """Each holds some of his body, and he would not get his turn in time."""
    room = BodyRoom(4 * BIG, most_waiting=2)
    senders = [Sender(room, 2 * BIG) for _ in range(4)]
    for sender in senders:
        sender.send(2 * BIG)
        sender.finish()

    async with full(room):
        tasks = [task(sender.answer()) for sender in senders]
        await settle()
        assert [one.done() for one in tasks] == [True, True, False, False]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results[:2]] == [BusyError, BusyError]
    assert results[2:] == [None, None]
    assert room.used_bytes == 0


async def test_of_those_who_wait_one_comes_first_whose_address_holds_least() -> None:
    """However many come from another address after him."""
    room = BodyRoom(5 * BIG)
    order: list[str] = []

    async def wait_for_room(peer: str) -> None:
        async with Sender(room, 3 * BIG, peer=peer).held(3 * BIG):
            order.append(peer)

    async with Sender(room, BIG, peer="flood").held(BIG):
        async with full(room):
            tasks = []
            for peer in ("flood", "polite", "flood", "flood"):
                tasks.append(task(wait_for_room(peer)))
                await settle()
            assert order == []
        await asyncio.gather(*tasks)

    assert order == ["polite", "flood", "flood", "flood"]
    assert room.used_bytes == 0


async def test_the_oldest_is_refused_of_the_address_that_has_most_waiting() -> None:
    room = BodyRoom(4 * BIG, most_waiting=3)
    senders = [Sender(room, 2 * BIG, peer=peer) for peer in ("polite", "flood", "flood", "flood")]
    for sender in senders:
        sender.send(2 * BIG)
        sender.finish()

    async with full(room):
        tasks = [task(sender.answer()) for sender in senders]
        await settle()
        assert [one.done() for one in tasks] == [False, True, False, False]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [type(None), BusyError, type(None), type(None)]


async def test_one_who_has_become_the_first_is_not_passed_over() -> None:
    """What others take changes whose turn it is, after somebody has been told that it is his."""
    room = BodyRoom(4 * BIG)
    first, second = Sender(room, 2 * BIG, peer="a"), Sender(room, 2 * BIG, peer="b")
    for sender in (second, first):
        sender.send(2 * BIG)
        sender.finish()

    async with full(room):
        tasks = [task(second.answer()), task(first.answer())]
        await settle()
    # He was told, and has not run since: now his address holds more than the other one's.
    taking = Sender(room, BIG, peer="a")
    async with taking.held(BIG):
        await asyncio.wait_for(asyncio.gather(*tasks), 5)


async def test_room_that_was_kept_for_more_than_came_is_given_back_at_once() -> None:
    room = BodyRoom(4 * BIG)
    short = Sender(room)
    short.send(2 * BIG)

    async with full(room):
        reading = task(short.hold())
        await settle()
    await settle()
    # All that may come.
    assert room.used_bytes == MAX
    short.finish()
    await settle()
    assert room.used_bytes == 2 * BIG
    await end(reading)


async def test_all_that_there_is_room_for_go_on_when_one_is_answered() -> None:
    room = BodyRoom(4 * BIG)
    together = asyncio.Barrier(4)

    async def answer() -> None:
        sender = Sender(room, BIG)
        sender.send(BIG)
        sender.finish()
        async with sender.read():
            await together.wait()

    async with full(room):
        tasks = [task(answer()) for _ in range(4)]
        await settle()
        assert not together.n_waiting
    await asyncio.wait_for(asyncio.gather(*tasks), 5)


async def test_one_who_goes_when_it_is_his_turn_passes_it_on() -> None:
    room = BodyRoom(4 * BIG)
    stays, goes = (Sender(room, 4 * BIG) for _ in range(2))
    for sender in (stays, goes):
        sender.send(4 * BIG)
        sender.finish()

    async with full(room):
        tasks = [task(sender.answer()) for sender in (stays, goes)]
        await settle()
    # He has been told that he may go on, and has not run since.
    await end(tasks[1])
    await asyncio.wait_for(tasks[0], 5)
    assert (goes.got_bytes, stays.got_bytes, room.used_bytes) == (None, 4 * BIG, 0)


async def test_a_body_whose_connection_ends_is_lost_and_not_malformed() -> None:
    room = BodyRoom()
    sender = Sender(room, 2 * BIG)
    sender.send(BIG)
    reading = task(sender.answer())
    await settle()
    sender.lose()

    with pytest.raises(LostError):
        await reading
    assert room.used_bytes == 0


async def test_no_more_than_one_body_exceeds_the_room() -> None:
    room = BodyRoom(10 * BIG)
    senders = [Sender(room, 8 * BIG) for _ in range(20)]
    tasks = [task(sender.answer()) for sender in senders]
    for sender in senders:
        sender.send(2 * BIG)
        await settle()

    assert room.used_bytes <= (10 + 8) * BIG
    await end(*tasks)
    assert room.used_bytes == 0


async def test_many_that_have_half_of_their_body_here_do_not_wait_for_one_another() -> None:
    room = BodyRoom(10 * BIG)
    senders = [Sender(room, 4 * BIG) for _ in range(10)]
    tasks = [task(sender.answer()) for sender in senders]
    for sender in senders:
        sender.send(2 * BIG)
    await settle()
    for sender in senders:
        sender.send(2 * BIG)
        sender.finish()
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert {sender.got_bytes for sender in senders} == {4 * BIG}
    assert room.used_bytes == 0


async def test_one_that_is_larger_than_all_the_room_is_let_in_alone() -> None:
    room = BodyRoom(BIG)
    huge = Sender(room, 30 * BIG)
    huge.send(30 * BIG)
    huge.finish()

    async with huge.read(patience_s=0):
        assert room.used_bytes == 30 * BIG


@pytest.mark.slow
async def test_the_slow_are_cut_off_while_somebody_waits() -> None:
    room = BodyRoom(10 * BIG)
    slow = [Sender(room, 10 * BIG) for _ in range(2)]
    tasks = [task(sender.answer()) for sender in slow]
    for sender in slow:
        sender.send(8 * BIG)
    await settle()
    real = Sender(room, 5 * BIG)
    real.send(5 * BIG)
    real.finish()

    started = time.monotonic()
    await real.answer(patience_s=SLOW_S + 2)

    assert time.monotonic() - started >= SLOW_S / 2
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} == {SlowBodyError}


@pytest.mark.slow
async def test_the_slow_are_let_be_while_nobody_waits() -> None:
    room = BodyRoom(10 * BIG)
    slow = Sender(room, 5 * BIG)
    reading = task(slow.answer())
    slow.send(4 * BIG)
    await asyncio.sleep(2 * SLOW_S)
    slow.send(BIG)
    slow.finish()

    await reading
    assert slow.got_bytes == 5 * BIG


@pytest.mark.slow
async def test_a_sender_that_gets_on_is_not_slow() -> None:
    room = BodyRoom(4 * BIG)
    answered, steady, waits = (Sender(room, 50 * BIG) for _ in range(3))
    for sender in (answered, steady, waits):
        sender.send(4 * BIG)
    for sender in (answered, waits):
        sender.finish()

    async with answered.read():
        tasks = [task(steady.answer())]
        await settle()
        tasks.append(task(waits.answer()))
        for _ in range(3 * SLOW_LOOKS):
            steady.send(BIG)
            await asyncio.sleep(LOOK_PERIOD_S)
            assert not any(one.done() for one in tasks)
        steady.finish()
        await asyncio.gather(*tasks)
    assert steady.got_bytes == (4 + 3 * SLOW_LOOKS) * BIG


@pytest.mark.slow
async def test_a_body_has_its_time_and_waiting_for_room_is_none_of_it() -> None:
    room = BodyRoom(4 * BIG)
    waits, never = (Sender(room, 4 * BIG) for _ in range(2))
    waits.send(4 * BIG)
    waits.finish()

    async with full(room):
        waiting = task(waits.answer(timeout_s=0.1))
        await asyncio.sleep(0.2)
    await waiting
    assert waits.got_bytes == 4 * BIG
    with pytest.raises(SlowBodyError):
        await never.answer(timeout_s=0.1)


@pytest.mark.parametrize("announced", [MAX + 1, MAX, None])
async def test_a_body_over_the_limit_is_refused_when_that_is_seen(announced: int | None) -> None:
    sender = Sender(BodyRoom(), announced)
    sender.send(MAX + 1)

    with pytest.raises(BodyTooLargeError):
        await sender.answer()


ESCAPED = b"\\u003c"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "max_bytes", "refused_above"),
    [
        pytest.param(b"<" * 8 * MIB, 24 * MIB, None, id="as-large-as-objects-are"),
        pytest.param(b"<" * (8 * MIB + 1), 24 * MIB, 8 * MIB, id="larger"),
        pytest.param(ESCAPED * 4 * MIB, 24 * MIB, None, id="of-escapes-alone"),
        pytest.param(ESCAPED * 3 * MIB + b"x" * 6 * MIB, 24 * MIB, 8 * MIB, id="of-both"),
        pytest.param(ESCAPED * 3 * MIB + b"x" * 5 * MIB, 24 * MIB, None, id="of-both-and-less"),
        # Text that only looks like it pays for itself, and for nothing else.
        pytest.param(
            b"\\\\u00" * 3 * MIB + b"[" * (8 * MIB + 1), 24 * MIB, 8 * MIB, id="looks-like-it"
        ),
        pytest.param(b"<" * 16 * MIB, 48 * MIB, None, id="limit-raised"),
        pytest.param(b"<" * 8 * MIB, 8 * MIB, None, id="limit-lowered"),
    ],
)
def test_only_what_is_written_as_several_bytes_makes_a_body_so_large(
    body: bytes, max_bytes: int, refused_above: int | None
) -> None:
    refused: list[str] = []
    try:
        check_plain_size(body, max_bytes)
    except BodyTooLargeError as error:
        refused.append(str(error))

    assert refused == [f"the body is larger than {refused_above} bytes"] * (
        refused_above is not None
    )


@pytest.mark.slow
async def test_an_update_of_the_largest_object_is_answered_whatever_is_in_it() -> None:
    """1.5 MiB is what etcd stores; an API server writes `<` as six bytes, in both objects."""
    text = "<" * 1_570_000
    old = make_pod(containers=[{"name": "a", "image": "i", "env": [{"name": "A", "value": text}]}])
    new = {**old, "metadata": {**old["metadata"], "labels": {"team": "a"}}}
    review = make_review(operation="UPDATE", object=new, oldObject=old)
    body = json.dumps(review).replace("<", "\\u003c").encode()
    assert 17 * MIB < len(body) < MAX_BODY_BYTES

    async with Gate(POLICY) as gate:
        answer = await gate.client.post(
            "/mutate", data=io.BytesIO(body), headers={"Content-Type": "application/json"}
        )
        assert answer.status == 200
        assert (await answer.json())["response"]["allowed"] is True


async def test_turns_are_taken_in_order_and_waited_for_with_an_end() -> None:
    turns = Turns(1)
    now = asyncio.get_running_loop().time
    order: list[int] = []

    async def take(number: int) -> None:
        async with turns.take(wait_until=now() + 10):
            order.append(number)

    async with turns.take(wait_until=now()):
        tasks = [task(take(number)) for number in range(3)]
        with pytest.raises(BusyError):
            async with turns.take(wait_until=now() + 0.05):
                pass
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]


# --- as callers see it ---


def big_review() -> bytes:
    pod = make_pod()
    pod["metadata"]["annotations"] = {"note": "x" * (BIG + 1000)}
    return orjson.dumps(make_review(object=pod))


@pytest.mark.parametrize(
    ("query", "want_s"),
    [
        pytest.param("?timeout=1s", 0.6, id="told"),
        pytest.param("?timeout=30s", 18.0, id="the-longest"),
        pytest.param("?timeout=300s", 18.0, id="longer-than-there-is"),
        pytest.param("", 3.0, id="not-told"),
        pytest.param("?timeout=soon", 3.0, id="no-number"),
        pytest.param("?timeout=99999s", 3.0, id="too-many-digits"),
    ],
)
def test_a_review_waits_for_part_of_its_callers_time(query: str, want_s: float) -> None:
    request = make_mocked_request("POST", f"/mutate{query}")

    assert _may_wait_s(request.rel_url.raw_query_string) == pytest.approx(want_s)


@pytest.mark.slow
async def test_a_big_review_that_waits_too_long_is_refused_and_counted(log: Any) -> None:
    async with Gate(POLICY, big_turns=Turns(0)) as gate:
        started = time.monotonic()
        answer = await gate.post("/validate?timeout=1s", big_review())
        took_s = time.monotonic() - started

        assert answer.status == 503
        assert await answer.json() == {"code": 503, "message": "too many large reviews at once"}
        assert 0.5 < took_s < 1.0
        assert (await gate.post("/validate", orjson.dumps(make_review()))).status == 200
        series = await gate.series()
    assert ("gatewright_requests_rejected_total", (("reason", "busy"),)) in series
    assert '"error"' not in log.getvalue()


async def test_small_reviews_are_answered_while_a_big_one_is_worked_on() -> None:
    """Work on big bodies is done in a thread of its own."""
    async with Gate(POLICY) as gate:
        release = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hold() -> None:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()

        held: Awaitable[None] = loop.run_in_executor(gate.services.big_thread, hold)
        big = task(gate.post("/validate", big_review()))
        for _ in range(5):
            assert (await gate.post("/validate", orjson.dumps(make_review()))).status == 200
        assert not big.done()
        release.set()
        await held
        assert (await big).status == 200


async def test_a_small_body_that_is_larger_than_it_says_is_refused() -> None:
    content = StreamReader(BaseProtocol(asyncio.get_running_loop()), 2**40)
    content.feed_data(b" " * (FREE_BODY_BYTES + 1))
    content.feed_eof()

    with pytest.raises(BodyTooLargeError):
        await read_small(content, 1.0)
