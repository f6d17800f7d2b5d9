from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from webhook.api.limits.bodies import BusyError
from webhook.api.limits.line import GoneError
from webhook.api.limits.threads import BoundedThreads

WORK_S = 0.02
# As much as ten pieces of work take, one after the other.
PATIENCE_S = 10 * WORK_S
PEER = "10.0.0.1"


def is_here() -> bool:
    return False


class Work:
    """Reviews that wait for one another, each with some questions of *WORK_S*."""

    def __init__(self, threads: BoundedThreads) -> None:
        self.threads = threads
        self._lock = threading.Lock()
        self.taken: list[asyncio.Task[None]] = []
        self.refused: list[str] = []
        self._held = asyncio.Event()

    def submit(
        self,
        count: int,
        work: Callable[[], None] = lambda: None,
        *,
        questions: int = 1,
        patience_s: float = PATIENCE_S,
        peer: str = PEER,
    ) -> None:
        def wait_and_work() -> None:
            with self._lock:
                time.sleep(WORK_S)
                work()

        async def review() -> None:
            try:
                with self.threads.one(patience_s=patience_s, peer=peer):
                    for _ in range(questions):
                        await self.threads.run(wait_and_work, is_gone=is_here, peer=peer)
            except BusyError as error:
                self.refused.append(str(error))

        self.taken += [asyncio.create_task(review()) for _ in range(count)]

    async def learn(self, *, questions: int = 1) -> None:
        """Have it known how long each takes, and one be there still, which waits to the end."""
        self._held.clear()
        self.taken.append(asyncio.create_task(self._hold()))
        self.submit(8, questions=questions)
        await asyncio.wait(self.taken[-8:-3])

    async def _hold(self) -> None:
        with self.threads.one(patience_s=PATIENCE_S, peer=PEER):
            await self._held.wait()

    async def finish(self) -> None:
        self._held.set()
        await asyncio.gather(*self.taken, return_exceptions=True)


@asynccontextmanager
async def working() -> AsyncIterator[Work]:
    threads = BoundedThreads(2, "test", "things")
    work = Work(threads)
    try:
        yield work
    finally:
        await work.finish()
        threads.close()


async def test_what_would_have_to_wait_for_too_long_is_refused_at_once() -> None:
    async with working() as work:
        await work.learn()
        begun = time.monotonic()

        work.submit(40)
        await asyncio.sleep(0)

        assert time.monotonic() - begun < WORK_S
        assert set(work.refused) == {"too many things at once"}
        # Of those that were there some may have ended meanwhile.
        assert 40 - 12 < len(work.refused) < 40


async def test_a_review_counts_with_all_its_questions_and_is_not_refused_between_them() -> None:
    async with working() as work:
        await work.learn(questions=2)
        work.submit(40, questions=2)
        await asyncio.sleep(0)
        taken = 40 - len(work.refused)

        assert taken < 6
        await work.finish()
        assert len(work.refused) == 40 - taken


async def test_what_comes_at_once_is_taken_until_it_is_known_how_long_it_takes() -> None:
    async with working() as work:
        work.submit(40)
        await asyncio.sleep(0)

        assert not work.refused


async def test_no_review_is_refused_for_those_of_another_peer_but_for_its_own() -> None:
    async with working() as work:
        await work.learn()
        work.submit(40)
        await asyncio.sleep(0)
        assert len(work.refused) > 40 - 12
        before = len(work.refused)

        work.submit(1, peer="10.0.0.2")
        await asyncio.sleep(0)
        assert len(work.refused) == before
        work.submit(40, peer="10.0.0.2")
        await asyncio.sleep(0)
        # About half of what there is time for.
        assert len(work.refused) > before + 40 - 8


async def test_turns_go_round_the_peers() -> None:
    done: list[str] = []
    async with working() as work:
        # Two of them have a thread.
        work.submit(8, lambda: done.append("crowd"))
        await asyncio.sleep(0)
        work.submit(2, lambda: done.append("polite"), peer="10.0.0.2")
        await work.finish()

    assert done.count("crowd") == 8
    # They are the fourth and the sixth to have a thread, and of two threads either may be first.
    assert done[:8].count("polite") == 2


async def test_who_is_cancelled_in_his_turn_keeps_no_thread() -> None:
    threads = BoundedThreads(1, "test", "things")
    done: list[str] = []

    async def run(name: str) -> None:
        await threads.run(lambda: done.append(name), is_gone=is_here, peer=PEER)

    async def run_first() -> None:
        await run("first")
        # Who has been given the thread, and has not gone on yet.
        second.cancel()

    try:
        async with asyncio.timeout(5.0):
            first = asyncio.create_task(run_first())
            second = asyncio.create_task(run("second"))
            third = asyncio.create_task(run("third"))
            await asyncio.wait([first, second, third])
            # Who is cancelled while he waits.
            tasks = [asyncio.create_task(run(f"later {number}")) for number in range(3)]
            await asyncio.sleep(0)
            tasks[1].cancel()
            await asyncio.wait(tasks)
    finally:
        threads.close()

    assert second.cancelled()
    assert done == ["first", "third", "later 0", "later 2"]


async def test_nobody_who_waits_for_a_thread_is_left_when_they_close() -> None:
    async with working() as work:
        work.submit(6)
        await asyncio.sleep(0)
        work.threads.close()
        await work.finish()

        assert [task.cancelled() for task in work.taken[2:]] == [True] * 4


async def test_there_is_room_again_when_it_is_done() -> None:
    async with working() as work:
        await work.learn()
        work.submit(40)
        await work.finish()
        before = len(work.refused)

        work.submit(5)
        await work.finish()

        assert len(work.refused) == before


async def test_what_fails_or_is_cancelled_takes_no_room() -> None:
    def fail() -> None:
        raise ValueError

    async with working() as work:
        work.submit(8, fail)
        await asyncio.sleep(0)
        assert [done.cancel() for done in work.taken[6:]] == [True, True]
        await work.finish()
        work.taken.clear()
        await work.learn()

        assert not work.refused


async def test_few_are_taken_however_long_they_take() -> None:
    async with working() as work:
        await work.learn()
        await asyncio.wait(work.taken[1:])

        work.submit(1, patience_s=0.0)
        await asyncio.sleep(0)
        assert not work.refused
        work.submit(40, patience_s=0.0)
        await asyncio.sleep(0)
        assert len(work.refused) >= 40 - 4


async def test_what_takes_long_beside_them_does_not_count_for_those_that_do_not() -> None:
    """jq has a process for large objects, which others do not wait for."""
    async with working() as work:
        large = asyncio.Event()

        async def be_large() -> None:
            with work.threads.one(patience_s=PATIENCE_S, peer=PEER):
                await large.wait()

        beside = asyncio.create_task(be_large())
        for _ in range(2):
            await asyncio.sleep(0.3)
            work.submit(1)
            await work.finish()

        work.submit(5)
        await asyncio.sleep(0)
        large.set()
        await beside

        assert not work.refused


async def test_what_went_undone_says_nothing_of_how_long_others_take() -> None:
    async with working() as work:
        await work.learn()
        for _ in range(40):
            with pytest.raises(GoneError), work.threads.one(patience_s=PATIENCE_S, peer=PEER):
                raise GoneError

        work.submit(40)
        await asyncio.sleep(0)

        assert len(work.refused) > 40 - 12


async def test_nothing_is_done_for_a_caller_who_has_gone() -> None:
    asked: list[int] = []
    async with working() as work:
        with pytest.raises(GoneError):
            await work.threads.run(lambda: asked.append(1), is_gone=lambda: True, peer=PEER)
        assert not asked

        # While it was done.
        with pytest.raises(GoneError):
            await work.threads.run(lambda: asked.append(2), is_gone=lambda: bool(asked), peer=PEER)
        assert asked == [2]
