"""Threads for work that waits for one another, and refuses what would have to wait for too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from webhook.api.bodies import BusyError
from webhook.api.line import Pace

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Of the five seconds that an API server waits by default, as in `api.line`.
MOST_WAIT_S = 1.5

# Those that are taken in any case. A large review takes long by itself, and there are two of them.
_ALWAYS = 4


class BoundedThreads(ThreadPoolExecutor):
    """
    Takes work as long as what is there already takes no longer than *MOST_WAIT_S*.

    All of it may wait for one and the same thing, so that more threads do not do more.
    """

    def __init__(self, count: int, name: str, what: str) -> None:
        """*count* threads for *what*, which is said where it is refused."""
        super().__init__(count, name)
        self._what = what
        self._lock = threading.Lock()
        self._at_work = 0
        self._pace = Pace()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """
        Raises:
            BusyError: there is too much to do already.
        """
        with self._lock:
            if self._at_work >= _ALWAYS and self._at_work * self._pace.each_s > MOST_WAIT_S:
                raise BusyError(self._what)
            if not self._at_work:
                self._pace.begin(time.monotonic())
            self._at_work += 1
        done = super().submit(fn, *args, **kwargs)
        done.add_done_callback(self._ended)
        return done

    def _ended(self, _: Future[_T]) -> None:
        with self._lock:
            self._at_work -= 1
            self._pace.step(time.monotonic())
