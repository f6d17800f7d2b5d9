"""An address that is listened on, for a bounded number of connections."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
import ssl

from aiohttp import web

from webhook.api.runner import GateRunner

log = logging.getLogger("gatewright.api")

# An API server in the same cluster needs two trips, and gives up after ten seconds as well.
_HANDSHAKE_S = 10.0

_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_FILES_PAUSE_S = 0.02
# Files that were lacking so long ago are another story, and told again.
_NO_FILES_SPELL_S = 60.0

# What the kernel takes for a connection before we read it, in memory that counts as ours: by its
# own choice 128 KB and more. Also, what is read of that at once stays with the connection twice,
# in buffers of TLS that never shrink. A body of 1 MB takes 1.5 ms more of the processor so, one
# of 20 KB nothing.
_RECEIVED_BYTES = 24 * 1024

# Those who come while the loop is at something else.
_BACKLOG = 1024
# In one round of the loop. A handshake takes half a millisecond.
_ACCEPTED_AT_ONCE = 32


class BoundedSite(web.BaseSite):
    """
    Listens on an address, for no more connections than those of *runner* may be.

    The library's own knows of a connection only when its handshake is done, so that it could not
    end those that never do one.
    """

    def __init__(
        self,
        runner: GateRunner,
        host: str | None,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner, ssl_context=tls, backlog=_BACKLOG)
        self._host = host
        self._port = port
        self._connections = runner.connections
        self._listeners: list[socket.socket] = []
        self._shaking_hands: set[asyncio.Task[None]] = set()
        self._lacked_files_at = -math.inf

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
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
            listener.listen(self._backlog)
            loop.add_reader(listener, self._accept, listener)

    async def stop(self) -> None:
        """Accept no more than those who have called already. Who is connected stays so."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener)
            # What the kernel has accepted for us would be reset, with what was sent over it. It
            # holds no more, so that whoever comes meanwhile does not keep us here.
            self._accept(listener, 2 * self._backlog)
            listener.close()
        self._listeners.clear()
        await super().stop()

    async def wait_greeted(self, timeout_s: float) -> None:
        """Wait until all handshakes that are under way have ended, for *timeout_s* at most."""
        if self._shaking_hands:
            await asyncio.wait(self._shaking_hands, timeout=timeout_s)

    def _accept(self, listener: socket.socket, most: int = _ACCEPTED_AT_ONCE) -> None:
        """Take some of those who wait, and leave the loop to others."""
        for _ in range(most):
            try:
                accepted, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as e:
                if e.errno in _NO_MORE_FILES:
                    self._pause(listener, e)
                    return
                # Who hung up already is no reason to wait.
                continue
            self._take(accepted)

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Wait until there may be files again: the loop would call at once."""
        self._connections.miss_files()
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._lacked_files_at > _NO_FILES_SPELL_S:
            log.error("connections can't be accepted: %s", error.strerror)
        self._lacked_files_at = now
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
