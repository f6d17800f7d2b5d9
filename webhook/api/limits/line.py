"""Reviews that wait for one another: in a line, where nobody stands for longer than is of use."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from webhook.api.limits.bodies import BusyError
from webhook.api.limits.fair_queue import FairQueue
from webhook.errors import WebhookError

# Of each round of the event loop, for reviews that need not wait. Only between rounds does the
# loop see who else has called or hung up, and answer the kubelet. It costs some 0.02 ms.
ROUND_S = 0.02

# Of the time that a caller still has, for the line. What he has waited already, for a handshake
# and until the loop looked, is not known, and in a burst of new connections that is as much.
PATIENCE_RATIO = 0.5

# If those of a peer have not been answered all for so long, this is no burst: they would stay
# however many they may be, and all of them would wait for nothing. Then they are kept few. Both are
# guesses, after the queues that B. Maurer describes in "Fail at Scale" (ACM Queue 13, 2015): longer
# ones take longer bursts.
STANDING_AFTER_S = 1.0
STANDING_WAIT_S = 0.5

# How much the last one counts, of the times from one to the next.
_NEWEST_WEIGHT = 1 / 16


class Pace:
    """
    How long it takes from one to the next while there are more: *each_s*, 0 until it is known.

    Measured so, it holds all that goes on beside the work. What was before counts no more when
    there was nothing to do: it may have been work of another kind.
    """

    def __init__(self) -> None:
        self.each_s = 0.0
        self._last: float | None = None
        self._count = 0

    def begin(self) -> None:
        """There is something to do."""
        self.each_s, self._last, self._count = 0.0, None, 0

    def step(self, now: float, started: float | None = None) -> None:
        """One is done that *started* then, or when the one before it was done."""
        since = max((t for t in (self._last, started) if t is not None), default=None)
        if since is not None:
            self._count += 1
            weight = max(_NEWEST_WEIGHT, 1 / self._count)
            self.each_s += (now - since - self.each_s) * weight
        self._last = now


class GoneError(WebhookError):
    """A caller hung up before it was his turn."""

    def __init__(self) -> None:
        super().__init__("the caller has hung up")


def patience_s(wait_until: float, now: float) -> float:
    """How long somebody may wait who can do so until then (times of the event loop)."""
    return (wait_until - now) * PATIENCE_RATIO


def _longest_s(stood_s: float, longest_s: float) -> float:
    """How long somebody may wait who can for *longest_s*, where his peer has *stood_s*."""
    return min(STANDING_WAIT_S, longest_s) if stood_s > STANDING_AFTER_S else longest_s


@dataclass(eq=False, slots=True)
class _Waiter:
    turn: asyncio.Future[None]
    wait_until: float
    is_gone: Callable[[], bool]
    # Since when (time of the event loop) somebody of his peer has always been waiting.
    standing_since: float


class Line:
    """
    Lets reviews go on one after the other, and refuses those that could not be answered in time.

    As long as there is time for all, nobody waits. Else whoever comes is refused at once if
    those before him would take longer, as long as turns take now, than he can wait. So no time is
    spent on an answer that nobody waits for any more, and what can be answered still is.

    Turns go round the peers, so that one that calls too much waits for itself: it has what the
    others leave.
    """

    def __init__(self) -> None:
        self._waiting: FairQueue[_Waiter] = FairQueue()
        # Those before them: what has been done for these already would be lost.
        self._returned: deque[_Waiter] = deque()
        # Times of the event loop. None: no review has been let through in this round.
        self._round_until: float | None = None
        self._pace = Pace()

    @property
    def waiting(self) -> int:
        """How many stand in it."""
        return len(self._returned) + len(self._waiting)

    async def wait_turn(
        self, *, wait_until: float, is_gone: Callable[[], bool], peer: Callable[[], str]
    ) -> None:
        """
        Return when it is the caller's turn to do, at once, what takes processor time.

        Nobody asks for his *peer*, the address that he calls from, if he need not wait.

        Raises:
            BusyError: it will not be his turn long enough before *wait_until* (time of the event
                loop).
            GoneError: it was, and he *is_gone*.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if not self.waiting and self._goes_on_in_round(loop, now):
            return
        address = peer()
        newest = self._waiting.newest(address)
        since = newest.standing_since if newest else now
        waiter = _Waiter(loop.create_future(), math.inf, is_gone, since)
        # With nobody before him, there is nothing to refuse him for.
        if self.waiting:
            longest_s = patience_s(wait_until, now)
            before = len(self._returned) + self._waiting.turns_before(address)
            if before * self._pace.each_s > _longest_s(now - since, longest_s):
                raise BusyError("reviews")
            waiter.wait_until = now + longest_s
        self._begin(loop)
        self._waiting.add(address, waiter)
        await waiter.turn

    async def return_for_turn(self, *, is_gone: Callable[[], bool]) -> None:
        """
        As `wait_turn`, for one who has had a turn and waited elsewhere since, where few are let in.

        Raises:
            GoneError: it was his turn, and he *is_gone*.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if not self.waiting and self._goes_on_in_round(loop, now):
            return
        waiter = _Waiter(loop.create_future(), math.inf, is_gone, now)
        self._begin(loop)
        self._returned.append(waiter)
        await waiter.turn

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Somebody is about to stand."""
        if not self.waiting:
            # The first one waits for those who need not wait.
            self._pace.begin()
            loop.call_soon(self._move, loop)

    def _goes_on_in_round(self, loop: asyncio.AbstractEventLoop, now: float) -> bool:
        if self._round_until is None:
            self._round_until = now + ROUND_S
            loop.call_soon(self._end_round)
        return now < self._round_until

    def _end_round(self) -> None:
        self._round_until = None

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the next one his turn, which he takes before this is called again."""
        now = loop.time()
        self._pace.step(now)
        while self._returned:
            if self._let_go(self._returned.popleft(), now):
                break
        else:
            self._waiting.give_turn(lambda waiter: self._let_go(waiter, now))
        if self.waiting:
            loop.call_soon(self._move, loop)

    def _let_go(self, waiter: _Waiter, now: float) -> bool:
        """End the waiting of one, and say whether he goes on."""
        if waiter.turn.done():
            # Cancelled.
            return False
        if waiter.is_gone():
            waiter.turn.set_exception(GoneError())
        elif now > waiter.wait_until:
            waiter.turn.set_exception(BusyError("reviews"))
        else:
            waiter.turn.set_result(None)
            return True
        return False
