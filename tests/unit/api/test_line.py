from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from webhook.api.limits import line as module
from webhook.api.limits.bodies import BusyError
from webhook.api.limits.line import ROUND_S, STANDING_AFTER_S, STANDING_WAIT_S, GoneError, Line

# A review that takes as much as all that go on without waiting in a round.
WORK_S = ROUND_S


class Callers:
    """Reviews of *work_s* each, which note what becomes of them."""

    def __init__(self, line: Line, work_s: float = WORK_S) -> None:
        self.line = line
        self.done: list[int] = []
        self.refused: list[int] = []
        self.gone: list[int] = []
        self.waited_s: dict[int, float] = {}
        self.work_s = work_s

    async def call(
        self,
        number: int,
        patience_s: float = 60.0,
        is_gone: Callable[[], bool] = bool,
        peer: str = "10.0.0.1",
    ) -> None:
        until = asyncio.get_running_loop().time() + patience_s
        turn = self.line.wait_turn(wait_until=until, is_gone=is_gone, peer=lambda: peer)
        await self._note(number, turn)

    async def return_(self, number: int, is_gone: Callable[[], bool] = bool) -> None:
        await self._note(number, self.line.return_for_turn(is_gone=is_gone))

    async def _note(self, number: int, turn: Awaitable[None]) -> None:
        begun = asyncio.get_running_loop().time()
        try:
            await turn
        except BusyError:
            self.refused.append(number)
        except GoneError:
            self.gone.append(number)
        else:
            time.sleep(self.work_s)  # noqa: ASYNC251  # as a review does: the loop stands
            self.done.append(number)
        finally:
            self.waited_s[number] = asyncio.get_running_loop().time() - begun


@pytest.mark.slow
async def test_who_comes_first_goes_first() -> None:
    callers = Callers(Line())

    await asyncio.gather(*[callers.call(number) for number in range(10)])

    assert callers.done == list(range(10))


async def test_who_comes_while_others_wait_does_not_pass_them() -> None:
    callers = Callers(Line())
    first = [asyncio.create_task(callers.call(number)) for number in range(4)]
    # Two go on, one after the other, and two wait.
    await asyncio.sleep(0)
    assert callers.line.waiting

    await asyncio.gather(callers.call(4), *first)

    assert callers.done == list(range(5))


async def test_those_for_whom_there_is_time_do_not_wait() -> None:
    callers = Callers(Line(), work_s=0.0)

    await asyncio.gather(*[callers.call(number) for number in range(10)])

    assert max(callers.waited_s.values()) < ROUND_S
    assert callers.line.waiting == 0


@pytest.mark.slow
async def test_the_loop_goes_on_between_the_turns() -> None:
    """A kubelet is answered, and it is seen who else has come and who has gone."""
    callers = Callers(Line())
    waiting = asyncio.gather(*[callers.call(number) for number in range(10)])
    longest_s, last = 0.0, time.monotonic()
    while not waiting.done():
        await asyncio.sleep(0)
        now = time.monotonic()
        longest_s, last = max(longest_s, now - last), now

    assert longest_s < 4 * WORK_S


@pytest.mark.slow
async def test_who_could_not_be_answered_in_time_is_refused_at_once() -> None:
    callers = Callers(Line())
    first = [asyncio.create_task(callers.call(number)) for number in range(40)]
    # Until it is known how long turns take.
    await first[20]

    await callers.call(100, patience_s=WORK_S)
    assert callers.refused == [100]
    assert callers.waited_s[100] < WORK_S
    await asyncio.gather(*first)

    assert callers.done == list(range(40))


async def test_who_was_hoped_to_be_answered_and_was_not_is_refused_in_his_turn() -> None:
    """At first it is not known how long turns take."""
    callers = Callers(Line())

    await asyncio.gather(*[callers.call(number, patience_s=3.5 * WORK_S) for number in range(10)])

    assert callers.done
    assert callers.refused == list(range(len(callers.done), 10))


async def test_a_burst_is_not_refused_for_how_long_others_took_before_it() -> None:
    callers = Callers(Line(), work_s=5 * WORK_S)
    await asyncio.gather(*[callers.call(number) for number in range(5)])

    callers.work_s = WORK_S / 10
    await asyncio.gather(*[callers.call(5 + number, patience_s=2.0) for number in range(100)])

    assert not callers.refused


async def test_whose_time_is_up_is_refused_only_for_others() -> None:
    """He was slow to send, and this round's time is used up; but nobody is before him."""
    callers = Callers(Line(), work_s=1.5 * WORK_S)

    await asyncio.gather(callers.call(0), callers.call(1, patience_s=-0.1))
    assert callers.done == [0, 1]

    waiting = [asyncio.create_task(callers.call(number)) for number in (2, 3)]
    await asyncio.gather(callers.call(4, patience_s=-0.1), *waiting)
    assert callers.refused == [4]


async def test_who_has_had_a_turn_and_comes_back_goes_before_those_who_have_not() -> None:
    callers = Callers(Line())
    waiting = [asyncio.create_task(callers.call(number)) for number in range(5)]
    await asyncio.sleep(0)

    back = [callers.return_(10), callers.return_(11, is_gone=lambda: True), callers.return_(12)]
    await asyncio.gather(*back, *waiting)

    # The first two went on at once, or were next.
    assert [number for number in callers.done if number >= 2] == [10, 12, 2, 3, 4]
    assert callers.gone == [11]


async def test_who_comes_back_waits_as_all_do_and_counts_for_those_who_come() -> None:
    callers = Callers(Line())
    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(callers.return_(number))
        await asyncio.sleep(0)
        assert callers.line.waiting >= 4

        group.create_task(callers.call(6, patience_s=-0.1))

    assert callers.done == list(range(6))
    assert callers.refused == [6]


async def test_who_has_hung_up_costs_nothing() -> None:
    callers = Callers(Line())

    await asyncio.gather(
        *[callers.call(number, is_gone=lambda: True) for number in range(10)],
    )

    # Those that did not wait go on: nobody looks.
    assert callers.done + callers.gone == list(range(10))
    assert len(callers.gone) >= 8


async def test_who_is_cancelled_holds_up_nobody() -> None:
    callers = Callers(Line())
    waiting = [asyncio.create_task(callers.call(number)) for number in range(6)]
    await asyncio.sleep(0)
    waiting[3].cancel()

    await asyncio.gather(*waiting, return_exceptions=True)

    assert callers.done == [0, 1, 2, 4, 5]


CROWD, POLITE = "10.0.0.2", "10.0.0.3"


async def test_turns_go_round_the_peers_and_in_a_peer_who_comes_first_goes_first() -> None:
    callers = Callers(Line())
    crowd = [asyncio.create_task(callers.call(number, peer=CROWD)) for number in range(8)]
    await asyncio.sleep(0)
    # The first two went on at once, or are next.
    assert callers.line.waiting >= 6

    await asyncio.gather(*[callers.call(10 + number, peer=POLITE) for number in range(2)], *crowd)

    assert [number for number in callers.done if number < 10] == list(range(8))
    # After one of the crowd each.
    assert callers.done.index(10) <= 3
    assert callers.done.index(11) == callers.done.index(10) + 2


@pytest.mark.slow
async def test_nobody_is_refused_for_a_crowd_from_elsewhere_but_for_his_own() -> None:
    callers = Callers(Line())
    crowd = [asyncio.create_task(callers.call(number, peer=CROWD)) for number in range(40)]
    # Until it is known how long turns take.
    await crowd[10]

    # Half of that he can wait. Of the crowd as many go before him as of his own, and one.
    patience_s = 2 * 20 * WORK_S
    polite = [callers.call(100 + number, patience_s, peer=POLITE) for number in range(15)]
    await asyncio.gather(callers.call(50, patience_s, peer=CROWD), *polite, *crowd)

    assert 50 in callers.refused
    answered = [number for number in callers.done if number >= 100]
    assert answered == list(range(100, 100 + len(answered)))
    assert 1 <= len(answered) <= 10


@pytest.mark.slow
async def test_a_crowd_of_which_each_has_an_address_of_his_own_is_refused_as_well() -> None:
    callers = Callers(Line())
    crowd = [
        asyncio.create_task(callers.call(number, peer=f"10.1.0.{number}")) for number in range(40)
    ]
    await crowd[10]

    await asyncio.gather(callers.call(50, 2 * 5 * WORK_S, peer=POLITE), *crowd)

    assert callers.refused == [50]


@pytest.mark.slow
async def test_a_crowd_that_stands_is_kept_few_and_not_who_comes_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STANDING_AFTER_S", 2 * WORK_S)
    monkeypatch.setattr(module, "STANDING_WAIT_S", 0.0)
    callers = Callers(Line())
    crowd = [asyncio.create_task(callers.call(number, peer=CROWD)) for number in range(20)]
    await crowd[10]

    await asyncio.gather(callers.call(50, peer=CROWD), callers.call(51, peer=POLITE), *crowd)

    assert callers.refused == [50]
    assert 51 in callers.done


async def test_nobody_is_asked_where_he_comes_from_who_need_not_wait() -> None:
    line = Line()
    asked: list[str] = []

    def peer() -> str:
        asked.append(CROWD)
        return CROWD

    until = asyncio.get_running_loop().time() + 60.0
    await asyncio.gather(
        *[line.wait_turn(wait_until=until, is_gone=bool, peer=peer) for _ in range(10)]
    )

    assert not asked


async def test_who_comes_back_goes_before_all_peers() -> None:
    callers = Callers(Line())
    crowd = [asyncio.create_task(callers.call(number, peer=CROWD)) for number in range(4)]
    await asyncio.sleep(0)

    await asyncio.gather(callers.call(10, peer=POLITE), callers.return_(11), *crowd)

    assert callers.done.index(11) < callers.done.index(10)


@pytest.mark.slow
async def test_a_line_that_stands_is_kept_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst may wait as long as its callers do. What goes on and on would keep all waiting."""
    monkeypatch.setattr(module, "STANDING_AFTER_S", 0.05)
    monkeypatch.setattr(module, "STANDING_WAIT_S", 0.1)
    callers = Callers(Line(), work_s=0.005)
    tasks: list[asyncio.Task[None]] = []

    async def call_for(lasts_s: float) -> None:
        end = time.monotonic() + lasts_s
        while time.monotonic() < end:
            # Together they take more than a round.
            for _ in range(6):
                tasks.append(asyncio.create_task(callers.call(len(tasks))))
            await asyncio.sleep(0)

    await call_for(1.0)
    await asyncio.gather(*tasks)
    late = [callers.waited_s[number] for number in callers.done[-10:]]

    assert callers.refused
    assert max(late) < 0.4
    # It is over with the burst.
    refused = len(callers.refused)
    await asyncio.gather(*[callers.call(1000 + number) for number in range(3)])
    assert len(callers.refused) == refused


def test_a_line_that_stands_is_shorter_than_what_an_api_server_waits() -> None:
    """By the settings that we recommend: five seconds."""
    assert STANDING_AFTER_S + STANDING_WAIT_S < 5.0
