"""Threads for reviews that wait for one another, and refuse those that would wait for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from webhook.api.bodies import BusyError
from webhook.api.line import GoneError, Pace

_T = TypeVar("_T")

# Those that are taken in any case. A large review takes long by itself, and there are two of them.
_ALWAYS = 4


class BoundedThreads:
    """
    Takes a review as long as those that are there already take no longer than it can wait.

    All of them may wait for one and the same thing, so that more threads do not do more. What
    counts is a review with all its questions: one that is half answered and refused then would
    have cost the others for nothing. For the event loop only.
    """

    def __init__(self, count: int, name: str, what: str) -> None:
        """*count* threads for *what*, which is said where it is refused."""
        self._threads = ThreadPoolExecutor(count, name)
        self._what = what
        self._at_work = 0
        self._pace = Pace()

    @contextmanager
    def one(self, *, patience_s: float) -> Iterator[None]:
        """
        Take one more review for the time of the block.

        Raises:
            BusyError: there is too much to do already.
        """
        if self._at_work >= _ALWAYS and self._at_work * self._pace.each_s > patience_s:
            raise self.busy()
        if not self._at_work:
            self._pace.begin()
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._at_work += 1
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
            self._at_work -= 1

    async def run(self, work: Callable[[], _T], *, is_gone: Callable[[], bool]) -> _T:
        """
        What *work* returns, which a thread does.

        Raises:
            GoneError: the caller *is_gone* when it is his turn, or when it is done.
        """

        def work_in_turn() -> _T:
            if is_gone():
                raise GoneError
            return work()

        done = await asyncio.get_running_loop().run_in_executor(self._threads, work_in_turn)
        if is_gone():
            raise GoneError
        return done

    def busy(self) -> BusyError:
        """What is said of a review that can't be taken."""
        return BusyError(self._what)

    def close(self) -> None:
        """Begin nothing more. What is at work ends after it."""
        self._threads.shutdown(wait=False, cancel_futures=True)
