"""
Many connections that are open and idle: `python -m tests.load.crowd PORT CA_FILE COUNT BODY_BYTES`.

Unless BODY_BYTES is 0, each has begun a review of that size, and never sends its end. A program of
its own, as each of them costs a file. It says how many it could open, and ends with its input. Of
the ends here only the files are kept: TLS would take more memory than the server.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import ssl
import sys

# Beside the connections.
SPARE_FILES = 100


# Of a body, the end that is never sent, and the most that is: more than a server reads unasked.
END_BYTES, SENT_BYTES = 1024, 250 * 1024


def unfinished_review(body_bytes: int) -> bytes:
    head = (
        "POST /validate?timeout=30s HTTP/1.1\r\nHost: gate\r\n"
        f"Content-Type: application/json\r\nContent-Length: {body_bytes}\r\n\r\n"
    )
    return head.encode() + b" " * min(body_bytes - END_BYTES, SENT_BYTES)


def open_connection(port: int, context: ssl.SSLContext, sent: bytes) -> int:
    """
    One that a handshake was made on, and *sent* over; its file.

    Raises:
        OSError: the server would not.
    """
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30.0) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(sent)
        return connection.detach()


def files_at_most() -> int:
    """How many files a process may open, after it has asked for all that it can have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def main() -> int:
    port, count = int(sys.argv[1]), min(int(sys.argv[3]), files_at_most() - SPARE_FILES)
    body_bytes = int(sys.argv[4])
    sent = unfinished_review(body_bytes) if body_bytes else b""
    context = ssl.create_default_context(cafile=sys.argv[2])
    files: list[int] = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            files.append(open_connection(port, context, sent))
    print(len(files), flush=True)
    sys.stdin.read()
    for file in files:
        os.close(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
