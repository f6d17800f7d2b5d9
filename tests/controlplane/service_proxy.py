"""
What kube-proxy does for an API server: calls of a Service reach a Pod of it.

The API server asks a proxy for the address of the Service (`build_egress`); here that proxy looks
up who is behind it. So the Service's own address, port and selector are what is used.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

# A local port for host and port of a Service; None where nobody is behind it.
Route = Callable[[str, int], int | None]

_HEADER_MAX_BYTES = 8192
_CONNECT_TIMEOUT_S = 5.0


class ServiceProxy:
    """An HTTP proxy on the Unix socket *path* that knows CONNECT, and where to connect by *route*."""

    def __init__(self, path: Path, route: Route) -> None:
        self._path = path
        self._route = route
        self._listener = socket.socket(socket.AF_UNIX)

    def start(self) -> Self:
        self._listener.bind(str(self._path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def stop(self) -> None:
        """Take no more calls. Those that are open end with their ends."""
        # Closing it alone would not wake up the thread.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with closing(caller), suppress(OSError):
            host, port = _read_target(caller)
            local = self._route(host, port)
            if local is None:
                caller.sendall(b"HTTP/1.1 503 Nobody\r\n\r\n")
                return
            try:
                server = socket.create_connection(("127.0.0.1", local), _CONNECT_TIMEOUT_S)
            except OSError:
                caller.sendall(b"HTTP/1.1 502 Refused\r\n\r\n")
                return
            with closing(server):
                server.settimeout(None)
                caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=_pump, args=(server, caller), daemon=True)
                back.start()
                _pump(caller, server)
                back.join()


def _read_target(caller: socket.socket) -> tuple[str, int]:
    header = b""
    while b"\r\n\r\n" not in header:
        part = caller.recv(_HEADER_MAX_BYTES)
        if not part or len(header) > _HEADER_MAX_BYTES:
            raise OSError("no request")
        header += part
    method, target, *_ = header.decode("ascii").split(" ")
    if method != "CONNECT":
        raise OSError(f"{method} is not known")
    host, _, port = target.rpartition(":")
    return host.strip("[]"), int(port)


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes, and its end."""
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
