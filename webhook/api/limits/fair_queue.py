"""A queue in which nobody stands behind a crowd from elsewhere."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


def turns_before(own: int, other_peers: int, everybody: int) -> int:
    """
    How many have a turn, at most, before one who comes now, of all who are there: *everybody*.

    *own* are of his peer, and so many *other_peers* have somebody there.
    """
    return min(everybody, own + (own + 1) * other_peers)


class FairQueue(Generic[_T]):
    """
    Those who wait, by their peer. Turns go round the peers, one each, and within a peer in the
    order of arrival.

    A peer is known only as long as somebody of it waits.
    """

    def __init__(self) -> None:
        # In the order of their turns; none is empty.
        self._peers: OrderedDict[str, deque[_T]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def peers(self) -> int:
        """How many there are of whom somebody waits."""
        return len(self._peers)

    def add(self, peer: str, one: _T) -> None:
        self._peers.setdefault(peer, deque()).append(one)
        self._count += 1

    def newest(self, peer: str) -> _T | None:
        """Who of *peer* came last, if somebody of it waits."""
        own = self._peers.get(peer)
        return own[-1] if own else None

    def turns_before(self, peer: str) -> int:
        """How many have a turn, at most, before one of *peer* who comes now."""
        own = len(self._peers.get(peer, ()))
        return turns_before(own, self.peers - bool(own), self._count)

    def give_turn(self, goes_on: Callable[[_T], bool]) -> None:
        """
        Take out the next one who *goes_on*.

        Those before him who do not are taken out as well, which is no turn of their peer.
        """
        while self._peers:
            peer, own = next(iter(self._peers.items()))
            one = own.popleft()
            self._count -= 1
            if not own:
                del self._peers[peer]
            if goes_on(one):
                if own:
                    self._peers.move_to_end(peer)
                return
