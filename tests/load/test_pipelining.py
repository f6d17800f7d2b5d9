"""Requests that are sent ahead, of which an API server sends none: one server, as a process."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import orjson
import pytest

from tests.builders import make_pod
from tests.controlplane.wait import wait_until
from tests.e2e.gate import Gate
from tests.load.overload import heavy_review, request_of
from tests.unit.admission.builders import make_review

# Each holds the request that is answered, what is read ahead of the others, and buffers. Measured
# were 35 MiB, and 105 where the library takes 32 requests ahead.
CROWD, AHEAD = 100, 40
MOST_OF_A_CROWD_MIB = 70.0
# One after the other, with more than is answered until they end: nothing of one may be left when
# the next one comes. Measured were 2 MiB, and a whole one for each else.
ONE_BY_ONE, FAR_AHEAD = 60, 200
MOST_LEFT_MIB = 20.0
PADDING_BYTES = 18 * 1024
SEND_FOR_S = 0.3


@pytest.fixture
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    gate = Gate(tmp_path_factory.mktemp("gate"))
    try:
        yield gate.start()
    finally:
        gate.stop()


@pytest.fixture(scope="module")
def request_bytes() -> bytes:
    """One that takes the server some time, and nearly as much as is read ahead of each."""
    review = orjson.loads(heavy_review())
    review["request"]["object"]["metadata"]["annotations"] = {"text": "x" * PADDING_BYTES}
    return request_of(orjson.dumps(review))


def connect(gate: Gate) -> ssl.SSLSocket:
    trust = ssl.create_default_context(cadata=gate.ca_pem)
    connection = socket.create_connection(("127.0.0.1", gate.port), timeout=30.0)
    return trust.wrap_socket(connection, server_hostname="127.0.0.1")


def send_ahead(connection: ssl.SSLSocket, requests: bytes) -> None:
    """Send as much as the server takes without reading an answer."""
    connection.settimeout(SEND_FOR_S)
    with suppress(OSError):
        connection.sendall(requests)


def test_requests_that_are_sent_ahead_take_no_memory(gate: Gate, request_bytes: bytes) -> None:
    before_mib = gate.resident_mib
    with ExitStack() as stack:
        for _ in range(CROWD):
            send_ahead(stack.enter_context(connect(gate)), request_bytes * AHEAD)
        after_mib = gate.resident_mib

    assert after_mib - before_mib < MOST_OF_A_CROWD_MIB


def test_nothing_of_them_is_left_when_their_connection_ends(
    gate: Gate, request_bytes: bytes
) -> None:
    """The collector of garbage looks late: it counts objects, and not how large they are."""
    before_mib = gate.resident_mib
    for _ in range(ONE_BY_ONE):
        connection = connect(gate)
        send_ahead(connection, request_bytes * FAR_AHEAD)
        reset(connection)

    assert gate.resident_mib - before_mib < MOST_LEFT_MIB


def test_requests_that_were_sent_ahead_are_answered(gate: Gate, request_bytes: bytes) -> None:
    with connect(gate) as connection:
        connection.sendall(request_bytes * 5)
        read_answers(connection, 5)


def test_what_comes_with_the_end_of_a_body_is_answered(gate: Gate) -> None:
    body = orjson.dumps(make_review(object=make_pod()))
    one = request_of(body)
    with connect(gate) as connection:
        for _ in range(3):
            connection.sendall(one[: -len(body)])
            wait_until(lambda: is_running(gate), 10.0, "the request to begin")
            connection.sendall(body + one * 3)
            read_answers(connection, 4)


def read_answers(connection: ssl.SSLSocket, wanted: int) -> None:
    """Return when so many reviews are answered, each with 200."""
    answers = b""
    while answers.count(b"HTTP/1.1 200 OK") < wanted:
        received = connection.recv(65536)
        assert received, answers[-200:]
        answers += received


def is_running(gate: Gate) -> bool:
    return "gatewright_reviews_running 1.0" in gate.ops("/metrics")[1]


def test_who_resets_amid_them_is_no_fault_of_the_server(gate: Gate, request_bytes: bytes) -> None:
    for _ in range(30):
        connection = connect(gate)
        connection.sendall(request_bytes + request_bytes[: len(request_bytes) // 2])
        reset(connection)
    with connect(gate) as connection:
        # Answered after all that came before it has been looked at.
        connection.sendall(request_bytes)
        assert connection.recv(12) == b"HTTP/1.1 200"
    wait_until(lambda: not is_running(gate), 10.0, "the last answer")

    assert '"level":"error"' not in gate.log_text
    assert 'code="500"' not in gate.ops("/metrics")[1]


def reset(connection: ssl.SSLSocket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(connection.detach())
