from __future__ import annotations

import itertools

import pytest

from webhook.api.limits.fair_queue import FairQueue


def make_queue(waiting: str) -> FairQueue[str]:
    """One of *waiting*, as `a1 b1 a2`: who came, and the letter is the peer."""
    queue: FairQueue[str] = FairQueue()
    for one in waiting.split():
        queue.add(one[0], one)
    return queue


def take_all(queue: FairQueue[str], gone: str = "") -> str:
    """Those who go on, in the order of their turns."""
    done: list[str] = []

    def goes_on(one: str) -> bool:
        if one in gone.split():
            return False
        done.append(one)
        return True

    while queue:
        queue.give_turn(goes_on)
    return " ".join(done)


@pytest.mark.parametrize(
    ("waiting", "want"),
    [
        pytest.param("a1 a2 a3", "a1 a2 a3", id="of-one-peer-in-order"),
        pytest.param("a1 a2 a3 b1 b2", "a1 b1 a2 b2 a3", id="one-of-each-peer"),
        pytest.param("a1 a2 b1 c1 a3 c2", "a1 b1 c1 a2 c2 a3", id="peers-in-the-order-they-came"),
    ],
)
def test_turns_go_round_the_peers(waiting: str, want: str) -> None:
    assert take_all(make_queue(waiting)) == want


def test_a_peer_that_comes_again_waits_for_one_turn_of_each_other() -> None:
    queue = make_queue("a1 a2 a3 b1 c1")
    for _ in range(2):
        queue.give_turn(bool)
    queue.add("b", "b2")

    assert take_all(queue) == "c1 a2 b2 a3"


@pytest.mark.parametrize(
    ("gone", "want"),
    [
        pytest.param("b1 b2", "a1 b3 a2 a3", id="of-a-peer-that-goes-on"),
        pytest.param("b1 b2 b3", "a1 a2 a3", id="all-of-a-peer"),
        pytest.param("a1 a2 a3 b1 b2 b3", "", id="everybody"),
    ],
)
def test_who_does_not_go_on_costs_his_peer_no_turn(gone: str, want: str) -> None:
    assert take_all(make_queue("a1 a2 a3 b1 b2 b3"), gone) == want


@pytest.mark.parametrize(
    ("waiting", "want"),
    [
        pytest.param("", 0, id="nobody-waits"),
        pytest.param("p1 p2 p3", 3, id="of-one-peer-all"),
        pytest.param("a1 a2 a3 a4 a5", 1, id="one-of-a-crowd"),
        pytest.param("a1 a2 a3 a4 a5 p1", 3, id="own-ones-and-as-many-of-a-crowd"),
        pytest.param("a1 b1 c1 d1", 4, id="one-of-each-peer"),
        pytest.param("a1 b1 p1 p2", 4, id="never-more-than-all"),
    ],
)
def test_it_is_known_how_many_have_a_turn_before_who_comes(waiting: str, want: int) -> None:
    assert make_queue(waiting).turns_before("p") == want


def test_it_is_never_more_than_that() -> None:
    for each in itertools.product("abp", repeat=6):
        queue = make_queue(" ".join(f"{peer}{number}" for number, peer in enumerate(each)))
        most = queue.turns_before("p")
        queue.add("p", "p-last")

        assert take_all(queue).split().index("p-last") <= most, each


def test_a_peer_is_forgotten_when_nobody_of_it_waits() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(100):
        queue.add(f"10.0.0.{number}", "here" if number % 2 else "")
    assert (len(queue), queue.peers) == (100, 100)

    while queue:
        # Half of them do not go on.
        queue.give_turn(bool)
        assert queue.peers == len(queue)

    assert queue.newest("10.0.0.1") is None
