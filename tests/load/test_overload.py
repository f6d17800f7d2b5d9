"""A server of its own process under more than it can do."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.e2e.callers import TIMEOUT_S
from tests.e2e.gate import Gate
from tests.load.overload import overload, recorded, recovery_s, sustainable_per_s

# Each of them costs this process a file, too.
CROWD = 500


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    gate = Gate(tmp_path_factory.mktemp("gate"))
    try:
        yield gate.start()
    finally:
        gate.stop()


def test_at_twice_the_rate_no_decision_is_lost_and_the_server_recovers(gate: Gate) -> None:
    """`make soak` does the same for ten minutes."""
    outcome = overload(gate, 5.0)

    assert outcome.reviews.answered, outcome
    # Who was answered finds the decision in the record, once.
    records = recorded(gate)
    assert {uid: records[uid] for uid in outcome.reviews.answered} == dict.fromkeys(
        outcome.reviews.answered, 1
    )
    assert set(outcome.ready) == {200}, outcome
    # What was given up by its callers is worked on until there is none of it left.
    assert recovery_s(gate) < 2 * TIMEOUT_S


# What each of a crowd sends before it sends no more.
SILENT = {
    "nothing": b"",
    "half-a-handshake": b"\x16\x03\x01\x02\x00\x01",
    "no-tls": b"POST /mutate HTTP/1.1\r\nHost: gate\r\nContent-Length: 0\r\n\r\n",
    "garbage": bytes(range(256)) * 4,
}


@contextmanager
def crowd(gate: Gate, sent: bytes) -> Iterator[None]:
    """*CROWD* connections that are open, or were until the server closed them."""
    address = ("127.0.0.1", int(gate.url.rpartition(":")[2]))
    with ExitStack() as stack:
        for _ in range(CROWD):
            connection = stack.enter_context(socket.create_connection(address, timeout=TIMEOUT_S))
            connection.sendall(sent)
        yield


@pytest.mark.parametrize("sent", SILENT.values(), ids=SILENT)
def test_a_crowd_that_says_nothing_of_use_keeps_nobody_from_an_answer(
    gate: Gate, sent: bytes
) -> None:
    with crowd(gate, sent):
        assert sustainable_per_s(gate, 0.5) > 0
        assert gate.ops("/readyz")[0] == 200


def test_half_a_request_over_tls_keeps_nobody_from_an_answer(gate: Gate) -> None:
    host, port = "127.0.0.1", int(gate.url.rpartition(":")[2])
    context = ssl.create_default_context(cadata=gate.ca_pem)
    with ExitStack() as stack:
        for _ in range(CROWD // 10):
            plain = stack.enter_context(socket.create_connection((host, port), timeout=TIMEOUT_S))
            connection = stack.enter_context(context.wrap_socket(plain, server_hostname=host))
            connection.sendall(b"POST /mutate HTTP/1.1\r\nHost: ga")

        assert sustainable_per_s(gate, 0.5) > 0


def test_who_hangs_up_without_an_answer_leaves_nothing_behind(gate: Gate) -> None:
    """Callers that give up, as API servers do after their timeout."""
    before = open_files(gate)
    for _ in range(3):
        with crowd(gate, SILENT["half-a-handshake"]):
            pass

    deadline = time.monotonic() + TIMEOUT_S
    while (after := open_files(gate)) > before + 20 and time.monotonic() < deadline:
        time.sleep(0.1)

    assert after <= before + 20


def open_files(gate: Gate) -> float:
    """How many the server has, as it tells Prometheus."""
    (line,) = [
        line
        for line in gate.ops("/metrics")[1].splitlines()
        if line.startswith("process_open_fds ")
    ]
    return float(line.split()[1])
