"""What the HTTP library would answer by itself, in our words."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from aiohttp import web, web_protocol
from aiohttp.hdrs import CONTENT_ENCODING
from aiohttp.http_exceptions import HttpProcessingError

from webhook.api.limits.connections import Connections
from webhook.api.problems import problem
from webhook.api.services import SERVICES
from webhook.telemetry.metrics import OTHER, Metrics, Rejection

# Of these the caller is the cause: what he sent is no HTTP, or he hung up.
_CALLERS_FAULTS = (HttpProcessingError, web.RequestPayloadError, ConnectionError)


# Requests that a connection may send ahead of the one that is being answered. API servers send none
# ahead. The library takes 32, with the body of each.
web_protocol.MAX_MSG_QUEUE_SIZE = 2
# What a connection may send ahead of its handler is twice this much: a sixteenth of the library's
# own, for those who wait for room.
READ_AHEAD_BYTES = 16 * 1024
# The same before TLS, where it is 256 KiB by default: once there is anything, no more is read.
_READ_AHEAD_OF_TLS_BYTES = 1


class GateRunner(web.AppRunner):
    """
    Runs one of our applications.

    What never reaches a handler is answered by the library itself: with a page that quotes what
    it could not read, which may be a secret, and with its version. Here it is answered in the
    shape of all other problems, counted, and not logged.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        most_connections: int,
        shutdown_timeout: float = 60.0,
        **options: Any,
    ) -> None:
        """
        *most_connections* are held at a time. *options* are those of the library's
        (`aiohttp.web.RequestHandler`).
        """
        self.connections = Connections(app[SERVICES].metrics, most_connections)
        self._options = {"read_bufsize": READ_AHEAD_BYTES, **options}
        super().__init__(app, shutdown_timeout=shutdown_timeout, **self._options)

    async def cleanup(self) -> None:
        """End all connections, handshakes too, which the library does not know of."""
        await super().cleanup()
        self.connections.end_strangers()

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        metrics = self.app[SERVICES].metrics
        connections = self.connections
        handle = server.request_handler

        async def handle_in_our_words(request: web.BaseRequest) -> web.StreamResponse:
            connection = request.protocol
            if isinstance(connection, _Connection):
                connection.linger(is_packed=CONTENT_ENCODING in request.headers)
            is_whole = request.content.is_eof()
            connections.begin(connection, is_whole=is_whole)
            if not is_whole:
                request.content.on_eof(partial(connections.arrived, connection))
            try:
                return await handle(request)
            except web.HTTPException as e:
                # Raised outside of all middleware: an `Expect` that nobody knows.
                metrics.observe_http(OTHER, e.status)
                return problem(e.status, headers=_SERVER)
            finally:
                connections.done(connection)

        return _Server(
            handle_in_our_words,
            request_factory=server.request_factory,
            metrics=metrics,
            connections=connections,
            **self._options,
        )


_SERVER = {"Server": "gatewright"}


def count_as_answered(request: web.BaseRequest) -> None:
    """What is left to do for *request* is no reason to keep its connection."""
    if isinstance(request.protocol, _Connection):
        request.protocol.count_as_answered()


class _Server(web.Server):
    """Makes a connection of ours for each that comes in."""

    def __init__(
        self, handler: Any, *, metrics: Metrics, connections: Connections, **options: Any
    ) -> None:
        super().__init__(handler, **options)
        self._metrics = metrics
        self._held = connections
        self._options = {
            key: value
            for key, value in options.items()
            if key not in ("request_factory", "handler_cancellation")
        }

    def __call__(self) -> web.RequestHandler:
        loop = asyncio.get_running_loop()
        return _Connection(
            self,
            loop=loop,
            metrics=self._metrics,
            connections=self._held,
            **self._options,
        )


class _Connection(web.RequestHandler):
    __slots__ = ("_held", "_lingers_s", "_metrics")

    def __init__(
        self, server: web.Server, *, metrics: Metrics, connections: Connections, **options: Any
    ) -> None:
        super().__init__(server, **options)
        self._metrics = metrics
        self._held = connections
        self._lingers_s = self._lingering_time

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # Only those of TLS have it.
        limit = getattr(transport, "set_read_buffer_limits", None)
        if limit is not None:
            limit(_READ_AHEAD_OF_TLS_BYTES)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._held.leave(self)
        super().connection_lost(exc)
        # They hold the connection, and it them: megabytes, until the collector looks. Whoever waits
        # for the first of them takes that before.
        asyncio.get_running_loop().call_soon(self._messages.clear)

    def count_as_answered(self) -> None:
        """It may be ended for somebody else from now on."""
        self._held.done(self)

    def linger(self, *, is_packed: bool) -> None:
        """
        Read what is left of the request's body after the answer, unless it *is_packed*.

        The library would read it for ten seconds, and unpack it: seconds of work for what is a
        thousandth of that when it is sent. So the connection ends, if there is anything left.
        """
        self._lingering_time = 0.0 if is_packed else self._lingers_s

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer where no handler could give one. *message* may quote what was sent."""
        self.log_exception("a request could not be handled", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")

        text = "this is no HTTP request that can be read" if status == 400 else ""
        if status == 400:
            self._metrics.rejected.labels(Rejection.MALFORMED).inc()
        self._metrics.observe_http(OTHER, status)
        answer = problem(status, text, headers=_SERVER)
        answer.force_close()
        return answer

    def log_exception(self, *args: Any, **kw: Any) -> None:
        # Whatever a port scanner sends would be an error with a stack trace.
        if not isinstance(kw.get("exc_info"), _CALLERS_FAULTS):
            super().log_exception(*args, **kw)
