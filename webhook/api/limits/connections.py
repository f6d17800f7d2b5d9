"""Connections: so many at most, and of those that are idle the newest stay."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from webhook.telemetry.metrics import Metrics

# Each takes some 40 KB with TLS (290 KB without uvloop), and up to 0.2 MB if it is made to. An API
# server keeps as many as it has calls in flight, by its own default 600 at most
# (`--max-requests-inflight` and `--max-mutating-requests-inflight`): three have room.
MAX_CONNECTIONS = 2048
# Kubelet and Prometheus have one each.
OPS_CONNECTIONS = 256

End = Callable[[], None]


class Connections:
    """
    Holds *most* at a time, and one for whoever comes next.

    For him the one goes that has been idle for longest: of those that have never been answered, if
    they have half of the places, else of those that have. So a crowd that asks nothing ends none of
    an API server's, and one that was answered once leaves room to those who come. One whose request
    is here, and is being decided, never goes. Who has his answer and is slow to read it may, as
    one who is slow to send: many of them would keep all others out.
    """

    def __init__(self, metrics: Metrics, most: int) -> None:
        self._metrics = metrics
        self._most = most
        self._strangers: dict[Hashable, End] = {}
        self._idle: dict[Hashable, End] = {}
        self._busy: dict[Hashable, End] = {}
        # Of those that are not busy, whose request has begun to come.
        self._receiving: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._idle) + len(self._busy)

    def enter(self, key: Hashable, end: End) -> bool:
        """Take one more, which *end* would end; False where all others are being answered."""
        if len(self) >= self._most and not self.make_room():
            self._metrics.connections_shed.labels("refused").inc()
            return False
        self._strangers[key] = end
        return True

    def begin(self, key: Hashable, *, is_whole: bool = True) -> None:
        """
        A request has come. Unless it *is_whole*, its sender is no better than one who sends
        nothing, until the rest has `arrived`: many who send slowly would keep all others out.
        """
        waits_among = self._idle if key in self._idle else self._strangers
        end = self._take(key)
        if end is None:
            return
        if is_whole:
            self._busy[key] = end
        else:
            waits_among[key] = end
            self._receiving.add(key)

    def arrived(self, key: Hashable) -> None:
        """The rest of a request is here. It may be answered already."""
        if key in self._receiving:
            self._receiving.discard(key)
            end = self._take(key)
            if end is not None:
                self._busy[key] = end

    def done(self, key: Hashable) -> None:
        """It is answered."""
        self._receiving.discard(key)
        end = self._take(key)
        if end is not None:
            self._idle[key] = end

    def leave(self, key: Hashable) -> None:
        """It is closed."""
        self._receiving.discard(key)
        self._take(key)

    def make_room(self) -> bool:
        """End the one that goes first; False where there is none."""
        has_share = 2 * len(self._strangers) >= self._most
        groups = (self._strangers, self._idle) if has_share else (self._idle, self._strangers)
        held = next(filter(None, groups), None)
        if held is None:
            return False
        key = next(iter(held))
        self._receiving.discard(key)
        held.pop(key)()
        self._metrics.connections_shed.labels("ended").inc()
        return True

    def miss_files(self) -> None:
        """Somebody could not be let in, since this process can open no more files."""
        self._metrics.connections_shed.labels("no_files").inc()
        self.make_room()

    def end_strangers(self) -> None:
        """End all that have asked nothing."""
        for end in list(self._strangers.values()):
            end()
        self._receiving.difference_update(self._strangers)
        self._strangers.clear()

    def _take(self, key: Hashable) -> End | None:
        for held in (self._idle, self._busy, self._strangers):
            if key in held:
                return held.pop(key)
        return None
