"""Bodies of requests: read to their end, within bounds of memory and of time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import StreamReader, web
from aiohttp.hdrs import CONTENT_ENCODING
from aiohttp.web import RequestPayloadError

from webhook.errors import DecodeError, WebhookError

# Larger bodies are worked on in a thread of their own, and few at once.
BIG_BODY_BYTES = 256 * 1024

# What each may hold without taking room, so that an ordinary review never waits for it. Whoever
# sends no more can hold it for ten seconds on each connection, and as much again in each of the
# buffers that it came through: with 2,048 the server took 435 MiB, and 485 MiB with twice as much.
FREE_BODY_BYTES = 16 * 1024

# The largest update that can be stored: object and old object, each of up to 1.5 MiB in etcd (its
# request limit), up to 3 MiB as JSON (the limit of what an API server is sent). It writes `<`, `>`,
# `&` and control characters, which take one byte there, as six (`\u003c`): so twice 1.5 MiB of
# these, sixfold, and the rest of the 3 MiB, with what is around them.
MAX_BODY_BYTES = 24 * 2**20
# Without what is written so, such an update is as long as twice those 3 MiB. Whatever is longer
# comes from nobody who stores it, and takes as much memory as if it did.
MAX_PLAIN_BYTES = 8 * 2**20
_ESCAPED, _ESCAPED_BYTES = b"\\u00", 6

# Of bodies that take room. Hardly one is larger than 6 MB, so these are four at a time; of 100 KB,
# 250.
ROOM_BYTES = 24 * 2**20
# That wait for it. Each holds what came before and what was sent ahead, some 0.2 MB; as many as
# these are answered in the time that one waits at most, if they are small.
MOST_WAITING = 256

# Whoever sends less than this much in every one of so many looks in a row is slow: 320 KiB/s.
# An API server sends a hundred times that. A look is late where the server itself is busy, so
# that one or two without a byte prove nothing.
LOOK_PERIOD_S = 0.1
SLOW_LOOKS = 4
SLOW_BYTES = 32 * 1024


# Those that the framework unpacks while it reads.
_ENCODINGS = ("", "identity", "gzip", "deflate")


class BodyTooLargeError(WebhookError):
    """A body is larger than we read."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the body is larger than {max_bytes} bytes")


class SlowBodyError(WebhookError):
    """A body did not arrive in time."""


class LostError(WebhookError):
    """The connection ended before all of a body was here: by the caller, or for somebody else."""


class BusyError(WebhookError):
    """Too many reviews came at once for this one to be answered in time."""

    def __init__(self, what: str = "large reviews") -> None:
        super().__init__(f"too many {what} at once")


@dataclass(eq=False, slots=True)
class _Body:
    # The most that it may have.
    announced_bytes: int
    # Where it comes from.
    peer: str = ""
    # Counts those that take room, or wait for it.
    number: int = 0
    received_bytes: int = 0
    # Of the room; none up to `FREE_BODY_BYTES`.
    held_bytes: int = 0
    # Set while the sender is to send.
    arriving: asyncio.Timeout | None = None
    looked_at_bytes: int = 0
    slow_looks: int = 0

    def look(self) -> None:
        """See how much came since the last look; end the reading if that is too little."""
        arrived_bytes = self.received_bytes - self.looked_at_bytes
        self.looked_at_bytes = self.received_bytes
        if self.arriving is None or arrived_bytes >= SLOW_BYTES:
            self.slow_looks = 0
            return
        self.slow_looks += 1
        if self.slow_looks >= SLOW_LOOKS and not self.arriving.expired():
            self.arriving.reschedule(asyncio.get_running_loop().time())

    def forget_looks(self) -> None:
        self.looked_at_bytes, self.slow_looks = self.received_bytes, 0


class BodyRoom:
    """
    Bounds the memory for bodies over `FREE_BODY_BYTES`: who would exceed *total_bytes* waits.

    Bytes count from when they arrive to when the body is answered: what is only announced takes
    no room. While somebody waits, senders that are slow are cut off. Of those who wait, one comes
    first whose address holds least, and of one address the newest: those that have sat there for
    long are the slow, or will not be answered in time anyway. So of more than *most_waiting* the
    oldest is refused of the address that has most of them.

    One at a time may exceed the total, or many could wait for one another with half of their
    bodies here. So there is more than *total_bytes* by up to one body.
    """

    def __init__(self, total_bytes: int = ROOM_BYTES, *, most_waiting: int = MOST_WAITING) -> None:
        self._total_bytes = total_bytes
        self._most_waiting = most_waiting
        self.used_bytes = 0
        # By address; none that holds nothing.
        self._held_by: Counter[str] = Counter()
        # Those that take room or wait for it, in the order in which they began to.
        self._bodies: dict[_Body, None] = {}
        self._last_number = 0
        # Whether one may try again; else it is refused.
        self._waiting: dict[_Body, asyncio.Future[bool]] = {}
        # The one that may exceed the total.
        self._guest: _Body | None = None
        self._next_look: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def read(
        self,
        content: StreamReader,
        *,
        announced_bytes: int | None,
        max_bytes: int,
        timeout_s: float,
        wait_until: float,
        peer: str = "",
    ) -> AsyncIterator[bytes]:
        """
        Read *content* to its end, and keep room for it to the end of the block.

        It comes from the address *peer*, and has *announced_bytes* at most, if that is known. The
        sender may take *timeout_s*. We take no longer than *wait_until* (time of the event loop) to
        make room.

        Raises:
            BodyTooLargeError: there are more than *max_bytes*, or see `check_plain_size`.
            SlowBodyError: the sender took too long.
            BusyError: there was no room in time.
            LostError: its connection has ended.
            DecodeError: it is not what its encoding says.
        """
        body = _Body(max_bytes if announced_bytes is None else announced_bytes, peer)
        now = asyncio.get_running_loop().time
        chunks: list[bytes] = []
        try:
            if body.announced_bytes > max_bytes:
                raise BodyTooLargeError(max_bytes)
            while True:
                started = now()
                chunk = await _next_chunk(body, content, timeout_s)
                timeout_s -= now() - started
                if not chunk:
                    break
                body.received_bytes += len(chunk)
                if body.received_bytes > max_bytes:
                    raise BodyTooLargeError(max_bytes)
                if body.received_bytes > FREE_BODY_BYTES:
                    await self._make_room(body, wait_until)
                chunks.append(chunk)
            whole = b"".join(chunks)
            # Or all of it would be here twice.
            chunks.clear()
            self._give_back(body)
            check_plain_size(whole, max_bytes)
            yield whole
        finally:
            self._release(body)

    async def _make_room(self, body: _Body, wait_until: float) -> None:
        """Let *body* hold all that it has received, or, if it has to wait, all that may come."""
        if body not in self._bodies:
            self._last_number += 1
            body.number = self._last_number
            self._bodies[body] = None
        if self._has_room(body, body.received_bytes):
            self._hold(body, body.received_bytes)
            return
        whole_bytes = max(body.announced_bytes, body.received_bytes)
        while not self._has_room(body, whole_bytes):
            if not self._is_first(body):
                # Who is may have become so by what others took meanwhile.
                self._wake()
            elif self._guest is None:
                self._guest = body
                break
            await self._wait(body, wait_until)
        self._hold(body, whole_bytes)
        self._wake()

    def _has_room(self, body: _Body, size_bytes: int) -> bool:
        if size_bytes <= body.held_bytes:
            return True
        fits = self.used_bytes + size_bytes - body.held_bytes <= self._total_bytes
        return fits and self._is_first(body)

    def _is_first(self, body: _Body) -> bool:
        """Whether nobody waits who comes before it."""
        first = self._first_waiting()
        return first is None or self._rank(body) <= self._rank(first)

    def _first_waiting(self) -> _Body | None:
        return min(self._waiting, key=self._rank, default=None)

    def _rank(self, body: _Body) -> tuple[int, int]:
        return self._held_by[body.peer], -body.number

    def _hold(self, body: _Body, size_bytes: int) -> None:
        self._change(body, max(0, size_bytes - body.held_bytes))

    def _change(self, body: _Body, by_bytes: int) -> None:
        body.held_bytes += by_bytes
        self.used_bytes += by_bytes
        self._held_by[body.peer] += by_bytes
        if not self._held_by[body.peer]:
            del self._held_by[body.peer]

    def _give_back(self, body: _Body) -> None:
        """It is all here: what was kept for more of it is not needed."""
        if body.held_bytes > body.received_bytes:
            self._change(body, body.received_bytes - body.held_bytes)
            self._wake()

    def _release(self, body: _Body) -> None:
        self._change(body, -body.held_bytes)
        if self._guest is body:
            self._guest = None
        if body in self._bodies:
            del self._bodies[body]
            self._wake()

    async def _wait(self, body: _Body, wait_until: float) -> None:
        if len(self._waiting) >= self._most_waiting:
            self._refuse_oldest()
        self._waiting[body] = asyncio.get_running_loop().create_future()
        if self._next_look is None:
            for other in self._bodies:
                other.forget_looks()
            self._look_later()
        try:
            async with asyncio.timeout_at(wait_until):
                may_try = await self._waiting[body]
        except TimeoutError:
            raise BusyError from None
        finally:
            del self._waiting[body]
        if not may_try:
            raise BusyError

    def _refuse_oldest(self) -> None:
        waiting = [body for body, freed in self._waiting.items() if not freed.done()]
        if waiting:
            [(peer, _)] = Counter(body.peer for body in waiting).most_common(1)
            theirs = [body for body in waiting if body.peer == peer]
            oldest = min(theirs, key=lambda body: body.number)
            self._waiting[oldest].set_result(False)

    def _wake(self) -> None:
        """
        Let the first of those who wait try again.

        No other may, and to ask each of hundreds would take longer than to answer one. When it has
        what it waits for, or goes, it does the same for the next.
        """
        first = self._first_waiting()
        if first is not None and not self._waiting[first].done():
            self._waiting[first].set_result(True)

    def _look(self) -> None:
        self._next_look = None
        if self._waiting:
            for body in self._bodies:
                body.look()
            self._look_later()

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(LOOK_PERIOD_S, self._look)


def encoding_of(request: web.BaseRequest) -> str | None:
    """
    How the body is packed, in small letters; `""` where it is not, None where that can't be read.

    The library unpacks it by one of several headers, and knows encodings that bounds of ours don't.
    """
    told = request.headers.getall(CONTENT_ENCODING, ("",))
    encoding = told[0].lower()
    return encoding if len(told) == 1 and encoding in _ENCODINGS else None


async def read_small(content: StreamReader, timeout_s: float) -> bytes:
    """
    Read *content* to its end, which is announced to be no more than `FREE_BODY_BYTES` away.

    Such a body needs no room. The sender may take *timeout_s*.

    Raises:
        SlowBodyError: the sender took too long.
        BodyTooLargeError: there is more than that all the same.
        LostError: its connection has ended.
        DecodeError: it is not what HTTP says.
    """
    body = _Body(FREE_BODY_BYTES)
    now = asyncio.get_running_loop().time
    end = now() + timeout_s
    # Mostly there is one.
    chunks = [await _next_chunk(body, content, timeout_s)]
    body.received_bytes = len(chunks[0])
    while body.received_bytes <= FREE_BODY_BYTES:
        if not (chunk := await _next_chunk(body, content, end - now())):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        body.received_bytes += len(chunk)
        chunks.append(chunk)
    raise BodyTooLargeError(FREE_BODY_BYTES)


async def _next_chunk(body: _Body, content: StreamReader, timeout_s: float) -> bytes:
    """What has arrived, or arrives next; nothing at the end."""
    try:
        if content.is_eof():
            # All of it is here, so there is nothing to wait for.
            return content.read_nowait()
        async with asyncio.timeout(timeout_s) as body.arriving:
            return await content.readany()
    except TimeoutError:
        raise SlowBodyError("the body did not arrive in time") from None
    except RequestPayloadError:
        raise DecodeError("the body cannot be read to its end") from None
    except (OSError, RuntimeError):
        # Of TLS as well, which is no ConnectionError. The other comes of one that ended before
        # anybody read: the library has no error of its own for that.
        raise LostError("the connection ended before the body") from None
    finally:
        body.arriving = None


def check_plain_size(body: bytes, max_bytes: int) -> None:
    """
    A body may have *max_bytes* only thanks to characters that are written as several bytes each.

    Raises:
        BodyTooLargeError: it is longer than objects are, even without these.
    """
    # Of other limits than the default ones the same part.
    max_plain_bytes = max(MAX_PLAIN_BYTES, max_bytes * MAX_PLAIN_BYTES // MAX_BODY_BYTES)
    if len(body) <= max_plain_bytes:
        return
    if len(body) - body.count(_ESCAPED) * (_ESCAPED_BYTES - 1) > max_plain_bytes:
        raise BodyTooLargeError(max_plain_bytes)


class Turns:
    """Lets few go on at once, in the order in which they came."""

    def __init__(self, at_once: int) -> None:
        self._free = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def take(self, *, wait_until: float) -> AsyncIterator[None]:
        """
        Wait for a turn, and keep it to the end of the block.

        Raises:
            BusyError: there was none by *wait_until* (time of the event loop).
        """
        try:
            async with asyncio.timeout_at(wait_until):
                await self._free.acquire()
        except TimeoutError:
            raise BusyError from None
        try:
            yield
        finally:
            self._free.release()
