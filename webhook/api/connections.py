"""Connections: so many at most, and of those that are idle the newest stay."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Hashable

from aiohttp import web

from webhook.telemetry.metrics import Metrics

log = logging.getLogger("gatewright.api")

# Each takes some 40 KB with TLS (290 KB without uvloop). An API server keeps as many as it has
# calls in flight, by its own default 600 at most (`--max-requests-inflight` and
# `--max-mutating-requests-inflight`).
MAX_CONNECTIONS = 4096
# Kubelet and Prometheus have one each.
OPS_CONNECTIONS = 256

# An API server in the same cluster needs two trips, and gives up after ten seconds as well.
_HANDSHAKE_S = 10.0

_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_FILES_PAUSE_S = 0.1

# Those who come while the loop is at something else.
_BACKLOG = 1024
# In one round of the loop. A handshake takes half a millisecond.
_ACCEPTED_AT_ONCE = 32

End = Callable[[], None]


class Connections:
    """
    Holds *most* at a time, and one for whoever comes next.

    For him the one goes that has been idle for longest: first of those that have never asked
    anything, then of those that were answered. One that is being answered never goes.
    """

    def __init__(self, metrics: Metrics, most: int = MAX_CONNECTIONS) -> None:
        self._metrics = metrics
        self._most = most
        self._strangers: dict[Hashable, End] = {}
        self._idle: dict[Hashable, End] = {}
        self._busy: dict[Hashable, End] = {}

    def __len__(self) -> int:
        return len(self._strangers) + len(self._idle) + len(self._busy)

    def enter(self, key: Hashable, end: End) -> bool:
        """Take one more, which *end* would end; False where all others are being answered."""
        if len(self) >= self._most and not self._make_room():
            self._metrics.connections_shed.labels("refused").inc()
            return False
        self._strangers[key] = end
        return True

    def begin(self, key: Hashable, *, is_whole: bool = True) -> None:
        """
        A request has come. Unless it *is_whole*, its sender is taken for one who has asked nothing
        yet: many who send slowly would keep all others out.
        """
        end = self._take(key)
        if end is not None:
            held = self._busy if is_whole else self._strangers
            held[key] = end

    def done(self, key: Hashable) -> None:
        """It is answered."""
        end = self._take(key)
        if end is not None:
            self._idle[key] = end

    def leave(self, key: Hashable) -> None:
        """It is closed."""
        self._take(key)

    def _take(self, key: Hashable) -> End | None:
        for held in (self._idle, self._busy, self._strangers):
            if key in held:
                return held.pop(key)
        return None

    def _make_room(self) -> bool:
        for held in (self._strangers, self._idle):
            if held:
                end = held.pop(next(iter(held)))
                end()
                self._metrics.connections_shed.labels("ended").inc()
                return True
        return False


class BoundedSite(web.BaseSite):
    """
    Listens on an address, for no more than *connections* holds.

    The library's own knows of a connection only when its handshake is done, so that it could not
    end those that never do one.
    """

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str | None,
        port: int,
        *,
        connections: Connections,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner, ssl_context=tls, backlog=_BACKLOG)
        self._host = host
        self._port = port
        self._connections = connections
        self._listeners: list[socket.socket] = []
        self._shaking_hands: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        return f"{self._host or '*'}:{self._port}"

    async def start(self) -> None:
        """
        Raises:
            OSError: nothing can listen there.
        """
        await super().start()
        loop = asyncio.get_running_loop()
        # It finds all addresses of the host and binds them; accepting is ours.
        self._server = await loop.create_server(
            asyncio.Protocol, self._host, self._port, start_serving=False
        )
        for bound in self._server.sockets:
            listener = socket.socket(fileno=socket.dup(bound.fileno()))
            self._listeners.append(listener)
            listener.setblocking(False)
            listener.listen(self._backlog)
            loop.add_reader(listener, self._accept, listener)

    async def stop(self) -> None:
        """Accept no more. Who is connected stays so."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener)
            listener.close()
        self._listeners.clear()
        await super().stop()

    def _accept(self, listener: socket.socket) -> None:
        """Take some of those who wait, and leave the loop to others."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as e:
                # Who hung up already is no reason to wait.
                if e.errno in _NO_MORE_FILES:
                    self._pause(listener, e)
                return
            self._take(accepted)

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Wait until there may be files again: the loop would call at once."""
        log.error("connections can't be accepted: %s", error.strerror)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)

        def go_on() -> None:
            if listener in self._listeners:
                loop.add_reader(listener, self._accept, listener)

        loop.call_later(_NO_FILES_PAUSE_S, go_on)

    def _take(self, accepted: socket.socket) -> None:
        server = self._runner.server
        assert server is not None, "the runner is set up before a site is made"
        connection = server()
        task: asyncio.Task[None] | None = None

        def end() -> None:
            assert task is not None, "nobody comes in between"
            task.cancel()
            if connection.transport is not None:
                # In order, it would wait for the other end.
                connection.transport.abort()

        if not self._connections.enter(connection, end):
            accepted.close()
            return
        task = asyncio.get_running_loop().create_task(self._connect(accepted, connection))
        self._shaking_hands.add(task)

        def greeted(task: asyncio.Task[None]) -> None:
            self._shaking_hands.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None or task.cancelled():
                self._connections.leave(connection)
                accepted.close()
            # What is no handshake of TLS, or does not trust us: whoever calls says so himself.
            if error is not None and not isinstance(error, OSError):
                log.error("a connection can't be used", exc_info=error)

        task.add_done_callback(greeted)

    async def _connect(self, accepted: socket.socket, connection: web.RequestHandler) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection,
            accepted,
            ssl=self._ssl_context,
            ssl_handshake_timeout=None if self._ssl_context is None else _HANDSHAKE_S,
        )
