from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from webhook.api import threads as module
from webhook.api.bodies import BusyError
from webhook.api.threads import BoundedThreads

WORK_S = 0.02
# As much as ten pieces of work take, one after the other.
MOST_WAIT_S = 10 * WORK_S


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[BoundedThreads]:
    monkeypatch.setattr(module, "MOST_WAIT_S", MOST_WAIT_S)
    with BoundedThreads(2, "test", "things") as threads:
        yield threads


class Work:
    """Pieces of work that wait for one another."""

    def __init__(self, threads: BoundedThreads) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self.taken: list[Future[None]] = []
        self.refused: list[str] = []

    def submit(self, count: int, work: Callable[[], None] = lambda: None) -> None:
        def wait_and_work() -> None:
            with self._lock:
                time.sleep(WORK_S)
                work()

        for _ in range(count):
            try:
                self.taken.append(self._threads.submit(wait_and_work))
            except BusyError as error:
                self.refused.append(str(error))

    def learn(self) -> None:
        """Have it known how long each takes, and some be there still."""
        self.submit(8)
        self.taken[4].exception()

    def finish(self) -> None:
        for done in self.taken:
            if not done.cancelled():
                done.exception()


@pytest.fixture
def work(threads: BoundedThreads) -> Iterator[Work]:
    work = Work(threads)
    yield work
    work.finish()


def test_what_would_have_to_wait_for_too_long_is_refused_at_once(work: Work) -> None:
    work.learn()
    begun = time.monotonic()

    work.submit(40)

    assert time.monotonic() - begun < WORK_S
    assert set(work.refused) == {"too many things at once"}
    # Of those that were there some may have ended meanwhile.
    assert 8 < len(work.taken) < 20


def test_what_comes_at_once_is_taken_until_it_is_known_how_long_it_takes(work: Work) -> None:
    work.submit(40)

    assert not work.refused


def test_there_is_room_again_when_it_is_done(work: Work) -> None:
    work.learn()
    work.submit(40)
    work.finish()
    before = len(work.taken)

    work.submit(5)

    assert len(work.taken) == before + 5


def test_what_fails_or_is_cancelled_takes_no_room(work: Work, threads: BoundedThreads) -> None:
    def fail() -> None:
        raise ValueError

    work.submit(8, fail)
    assert [done.cancel() for done in work.taken[6:]] == [True, True]
    work.finish()
    work.learn()

    assert not work.refused


def test_few_are_taken_however_long_they_take(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAIT_S", 0.0)
    work.submit(2)
    work.taken[0].exception()

    work.submit(3)
    assert not work.refused
    work.submit(40)
    assert work.refused
