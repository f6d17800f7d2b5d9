"""How the benchmarks call a server."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass

JSON = {"Content-Type": "application/json"}
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """*took_ms*: from before the request is written to the last byte of the answer."""

    status: int
    body: bytes
    took_ms: float

    @property
    def text(self) -> str:
        """The body for people, whatever it is."""
        return self.body.decode(errors="replace")


class Link:
    """
    One connection to a server of this machine, over TLS, that is kept open: for one thread.

    Raises:
        OSError: there was no answer, from any method but `close`.
        http.client.HTTPException: what came is none.
    """

    def __init__(self, port: int, ca_pem: str) -> None:
        """*ca_pem*: the certificate of who vouches for the server."""
        tls = ssl.create_default_context(cadata=ca_pem)
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=TIMEOUT_S, context=tls
        )

    def connect(self) -> None:
        """Shake hands now, and not with the first request."""
        self._connection.connect()

    def post(self, path: str, body: bytes, headers: Mapping[str, str] = JSON) -> Answer:
        started_s = time.perf_counter()
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        return Answer(response.status, answer, (time.perf_counter() - started_s) * 1000)

    def close(self) -> None:
        self._connection.close()
