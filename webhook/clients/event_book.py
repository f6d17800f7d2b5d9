"""
Which Events are to be written, and when: what is alike is one, and none of it grows without end.

Pure: times are given. Refusals may come by the thousand a second (a controller that tries again
and again, or somebody who means it), and each Event is an object in etcd.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from webhook.model.refusals import Refusal


@dataclass(frozen=True, slots=True)
class EventLimits:
    """How much is told. Times in seconds."""

    # Events that are known at once. With their texts, about 2 KiB each.
    series: int = 1000
    # Objects of which the same is said by name; of others it is said without.
    alike: int = 10
    # New Events of one namespace: so many at once, and one more each so often.
    namespace_burst: int = 20
    namespace_period_s: float = 30.0
    # A count is written no more often than this.
    update_period_s: float = 30.0
    # What did not happen again for so long begins anew.
    idle_s: float = 600.0
    # A namespace that is going or gone is left alone for so long.
    muted_s: float = 300.0
    # One whose Events are refused: for so long at first, then each time for twice as long.
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0


class TokenBucket:
    """Lets through *burst* at once, and one more every *period_s*."""

    def __init__(self, burst: int, period_s: float, now: float) -> None:
        self._burst = burst
        self._period_s = period_s
        self._tokens = float(burst)
        self._filled_at = now

    def take(self, now: float) -> bool:
        """Whether one may pass now."""
        if self.wait_s(now) > 0:
            return False
        self._tokens -= 1
        return True

    def wait_s(self, now: float) -> float:
        """How long until one may pass."""
        gained = (now - self._filled_at) / self._period_s
        self._tokens = min(self._burst, self._tokens + gained)
        self._filled_at = now
        return max(0.0, (1 - self._tokens) * self._period_s)


def new_name(namespace: str) -> str:
    """A name for an Event. Names of namespaces leave room for it."""
    return f"{namespace}.{secrets.token_hex(8)}"


@dataclass(slots=True)
class Series:
    """One Event, and how often it was seen to happen. *name* is empty before it is written."""

    namespace: str
    note: str
    first: datetime
    last: datetime
    seen_at: float
    due_at: float
    count: int = 1
    # Of these, the cluster knows.
    written: int = 0
    name: str = ""

    def wrote(self, count: int, due_at: float) -> None:
        """Note that the cluster knows of *count*; the next time to tell it of more is *due_at*."""
        self.written = count
        self.due_at = due_at

    def begin_anew(self) -> None:
        """The cluster has forgotten it, as it does after an hour."""
        self.count -= self.written
        self.written = 0
        self.name = ""
        self.first = self.last


@dataclass(slots=True)
class _Room:
    """What is known of one namespace."""

    bucket: TokenBucket
    muted_until: float = 0.0
    paused_until: float = 0.0
    pause_s: float = 0.0
    # By group note: how many notes of it were begun, and since when.
    alike: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)


class EventBook:
    """Takes refusals, and gives what has to be written. *dropped* counts those left out."""

    def __init__(self, limits: EventLimits = EventLimits()) -> None:
        self._limits = limits
        self._series: OrderedDict[tuple[str, str], Series] = OrderedDict()
        self._rooms: OrderedDict[str, _Room] = OrderedDict()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._series)

    def add(self, refusal: Refusal, now: float, time: datetime) -> bool:
        """Take one refusal. False if it is not going to be told."""
        if self._count(refusal.namespace, refusal.note, now, time):
            return True
        room = self._room(refusal.namespace, now)
        if now < room.muted_until:
            return self._drop()
        note = refusal.note
        begun, since = room.alike.get(refusal.group_note, (0, now))
        if now - since > self._limits.idle_s:
            begun, since = 0, now
        if begun >= self._limits.alike:
            note = refusal.group_note
            if self._count(refusal.namespace, note, now, time):
                return True
        if not room.bucket.take(now) or not self._make_room(now):
            return self._drop()
        room.alike[refusal.group_note] = (begun + 1, since)
        _trim(room.alike, self._limits.namespace_burst)
        due_at = max(now, room.paused_until)
        self._series[refusal.namespace, note] = Series(
            refusal.namespace, note, first=time, last=time, seen_at=now, due_at=due_at
        )
        return True

    def next(self) -> Series | None:
        """What has to be written first, which may be later; None if there is nothing."""
        due = [series for series in self._series.values() if series.count > series.written]
        return min(due, key=lambda series: series.due_at, default=None)

    def wrote(self, series: Series, count: int, now: float) -> None:
        """The cluster knows of *count* now."""
        series.wrote(count, now + self._limits.update_period_s)
        self._room(series.namespace, now).pause_s = 0.0
        self._forget_idle(now)

    def forget(self, series: Series) -> None:
        """It can't be written."""
        self.dropped += series.count - series.written
        self._series.pop((series.namespace, series.note), None)

    def mute(self, namespace: str, now: float) -> None:
        """Nothing can be written into *namespace*."""
        self._room(namespace, now).muted_until = now + self._limits.muted_s
        for series in [one for one in self._series.values() if one.namespace == namespace]:
            self.forget(series)

    def refuse(self, series: Series, now: float) -> None:
        """It was refused, as all of its namespace may be: a quota, say. The others go on."""
        self.forget(series)
        room = self._room(series.namespace, now)
        limits = self._limits
        room.pause_s = min(limits.longest_pause_s, room.pause_s * 2) or limits.first_pause_s
        room.paused_until = now + room.pause_s
        for other in self._series.values():
            if other.namespace == series.namespace:
                other.due_at = max(other.due_at, room.paused_until)

    def _count(self, namespace: str, note: str, now: float, time: datetime) -> bool:
        key = namespace, note
        series = self._series.get(key)
        if series is None:
            return False
        if series.count == series.written and now - series.seen_at > self._limits.idle_s:
            del self._series[key]
            return False
        series.count += 1
        series.last = time
        series.seen_at = now
        self._series.move_to_end(key)
        return True

    def _room(self, namespace: str, now: float) -> _Room:
        room = self._rooms.get(namespace)
        if room is None:
            limits = self._limits
            room = _Room(TokenBucket(limits.namespace_burst, limits.namespace_period_s, now))
            self._rooms[namespace] = room
            # As many as there are Events: the one that was used longest ago has its tokens back.
            _trim(self._rooms, limits.series)
        self._rooms.move_to_end(namespace)
        return room

    def _make_room(self, now: float) -> bool:
        if len(self._series) >= self._limits.series:
            self._forget_idle(now)
        return len(self._series) < self._limits.series

    def _forget_idle(self, now: float) -> None:
        # The one that happened longest ago is the first.
        while self._series:
            key, oldest = next(iter(self._series.items()))
            if now - oldest.seen_at <= self._limits.idle_s or oldest.count > oldest.written:
                return
            del self._series[key]

    def _drop(self) -> bool:
        self.dropped += 1
        return False


def _trim(items: OrderedDict[str, _Room] | OrderedDict[str, tuple[int, float]], size: int) -> None:
    while len(items) > size:
        items.popitem(last=False)
