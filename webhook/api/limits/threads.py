"""Threads for reviews that wait for one another, and refuse those that would wait for too long."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from webhook.api.limits.bodies import BusyError
from webhook.api.limits.fair_queue import FairQueue, turns_before
from webhook.api.limits.line import GoneError, Pace

_T = TypeVar("_T")

# Those that are taken in any case. A large review takes long by itself, and there are two of them.
_ALWAYS = 4


def _never(turn: asyncio.Future[None]) -> bool:
    turn.cancel()
    return False


class BoundedThreads:
    """
    Takes a review as long as those that are there already take no longer than it can wait.

    All of them may wait for one and the same thing, so that more threads do not do more. What
    counts is a review with all its questions: one that is half answered and refused then would
    have cost the others for nothing. Turns go round the peers, as in the line of reviews. For the
    event loop only.
    """

    def __init__(self, count: int, name: str, what: str) -> None:
        """*count* threads for *what*, which is said where it is refused."""
        self._threads = ThreadPoolExecutor(count, name)
        # Of the threads. Somebody waits only where there is none.
        self._free = count
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._what = what
        # Reviews by their peer; none is 0.
        self._at_work: Counter[str] = Counter()
        self._pace = Pace()

    @contextmanager
    def one(self, *, patience_s: float, peer: str) -> Iterator[None]:
        """
        Take one more review, of *peer*, for the time of the block.

        Raises:
            BusyError: there is too much to do already.
        """
        at_work, own = self._at_work.total(), self._at_work[peer]
        before = turns_before(own, len(self._at_work) - bool(own), at_work)
        if at_work >= _ALWAYS and before * self._pace.each_s > patience_s:
            raise self.busy()
        if not at_work:
            self._pace.begin()
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._at_work[peer] += 1
        try:
            yield
        except (BusyError, GoneError):
            # It went without having been done, which says nothing of how long that takes.
            raise
        except BaseException:
            self._pace.step(loop.time(), started)
            raise
        else:
            self._pace.step(loop.time(), started)
        finally:
            self._at_work[peer] -= 1
            if not self._at_work[peer]:
                del self._at_work[peer]

    async def run(self, work: Callable[[], _T], *, is_gone: Callable[[], bool], peer: str) -> _T:
        """
        What *work* of *peer* returns, which a thread does.

        Raises:
            GoneError: the caller *is_gone* when it is his turn, or when it is done.
        """
        async with self._thread(peer):
            if is_gone():
                raise GoneError
            done = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        if is_gone():
            raise GoneError
        return done

    @asynccontextmanager
    async def _thread(self, peer: str) -> AsyncIterator[None]:
        """Have a thread for the time of the block."""
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(peer, turn)
            try:
                await turn
            except asyncio.CancelledError:
                # He was given one, and cancelled before he could take it.
                if not turn.cancelled():
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give a thread to the next one."""
        self._free += 1
        self._waiting.give_turn(self._take)

    def _take(self, turn: asyncio.Future[None]) -> bool:
        if turn.done():
            # Cancelled.
            return False
        self._free -= 1
        turn.set_result(None)
        return True

    def busy(self) -> BusyError:
        """What is said of a review that can't be taken."""
        return BusyError(self._what)

    def close(self) -> None:
        """Begin nothing more. What is at work ends after it."""
        self._waiting.give_turn(_never)
        self._threads.shutdown(wait=False, cancel_futures=True)
