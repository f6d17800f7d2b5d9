"""A server that answers each request on a connection in another way."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.server import Server
from webhook.tls.directory import ensure_development_certificate


def http_answer(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


@contextmanager
def answering(directory: Path, answers: Sequence[bytes]) -> Iterator[Server]:
    """
    A server that sends these *answers* on each connection, and hangs up instead of one more.

    Its process is this one.
    """
    made = ensure_development_certificate(directory, ("127.0.0.1",))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(made.certificate, made.key)

    def answer_all(connection: socket.socket) -> None:
        with connection, suppress(OSError), tls.wrap_socket(connection, server_side=True) as link:
            for answer in answers:
                _read_request(link)
                link.sendall(answer)
            _read_request(link)

    def accept_all() -> None:
        # To the end of the block, which closes it.
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer_all, args=[connection], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept_all)
        thread.start()
        try:
            yield Server(os.getpid(), listener.getsockname()[1], made.ca, 0.0, 0.0)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _read_request(link: ssl.SSLSocket) -> None:
    """To the end of a body, which is a JSON object without another one."""
    received = b""
    while not received.endswith(b"}"):
        chunk = link.recv(2**16)
        if not chunk:
            raise ConnectionError
        received += chunk
