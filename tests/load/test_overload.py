"""A server of its own process under more than it can do."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import orjson
import pytest

from tests.api.gate import WIDGET, WIDGET_MAPPING, make_widget, of_kind
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.controlplane.wait import wait_until
from tests.e2e.callers import TIMEOUT_S
from tests.e2e.gate import PROJECT, Gate
from tests.load.crowds import OPENED_WITHIN_S, crowded, most_connections
from tests.load.overload import (
    BRIEF_BOUNDS,
    JQ_BOUNDS,
    call_for,
    faults,
    heavy_review,
    overload,
    recorded,
    recovery_s,
    request_of,
)
from tests.unit.admission.builders import UID, make_review
from webhook.api.limits.connections import MAX_CONNECTIONS

# Each of them costs this process a file, too.
CROWD = 500
# As many as a server with that setting holds.
FEW = 400

# Calling again as soon as they are answered, also by a refusal.
IMPATIENT = 400

# Who floods the port from an address of his own, and what is left of the reviews of others at least.
FLOODING, FLOODED_FROM = 1000, "127.0.0.2"
LEAST_ANSWERED = 0.9
# So many refusals tell that there is too much to do.
REFUSED = 500

MANY = 10_000
# As many as are held by default, of 40 KB each, and what is around them.
MOST_MANY_MIB = 250.0
OTHER_FILES = 100


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    gate = Gate(tmp_path_factory.mktemp("gate"))
    try:
        yield gate.start()
    finally:
        gate.stop()


@pytest.fixture(scope="module")
def small_gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """One with room for fewer connections than a crowd has."""
    gate = Gate(tmp_path_factory.mktemp("small-gate"), f"--max-connections={FEW}")
    try:
        yield gate.start()
    finally:
        gate.stop()


def test_at_twice_the_rate_some_are_shed_and_no_decision_is_lost(gate: Gate) -> None:
    """`make soak` does the same for ten minutes."""
    outcome = overload(gate, 5.0)
    recovered_s = recovery_s(gate)

    assert not faults(outcome, recorded(gate), recovered_s, BRIEF_BOUNDS), str(outcome)
    assert outcome.reviews.reasons == {"too many reviews at once"}
    # Operators see it.
    assert busy(gate) >= outcome.shed


def test_at_twice_the_rate_that_jq_can_answer_the_same_holds(gate: Gate) -> None:
    """What a mapping asks jq takes no time of the server's own, and waits elsewhere."""
    rule = make_rule("priorityClassName", "parts", {"default": "x"})
    gate.write_policies("w.yaml", WIDGET_MAPPING, make_gvk_policy(rule, kind=WIDGET, name="w"))
    item = {"role": "side", "text": "y" * 850, "numbers": [1, 2, 3]}
    widget = make_widget([{**item, "index": n} for n in range(100)])
    try:
        outcome = overload(gate, 5.0, orjson.dumps(make_review(**of_kind(widget))))
        recovered_s = recovery_s(gate)
    finally:
        gate.remove_policies("w.yaml")

    assert not faults(outcome, recorded(gate), recovered_s, JQ_BOUNDS), str(outcome)
    # Who comes first to an end of what there is: the line, the room for bodies, or jq.
    assert outcome.reviews.reasons <= {
        "too many reviews at once",
        "too many large reviews at once",
        "too many reviews that need jq at once",
    }


# What each of a crowd sends before it sends no more.
SILENT = {
    "nothing": b"",
    "half-a-handshake": b"\x16\x03\x01\x02\x00\x01",
    "no-tls": b"POST /mutate HTTP/1.1\r\nHost: gate\r\nContent-Length: 0\r\n\r\n",
    "garbage": bytes(range(256)) * 4,
}


def test_callers_who_call_again_at_once_leave_the_server_its_time(gate: Gate) -> None:
    """Refusals alone would take it."""
    body = orjson.dumps(make_review(object=make_pod(), uid=UID))
    few = call_for(gate, 2.0, body=body)
    many = call_for(gate, 4.0, at_once=IMPATIENT, body=body)

    assert set(many.statuses) <= {200, 503}
    assert many.answered_per_s > 0.4 * few.answered_per_s


@contextmanager
def flooded(gate: Gate) -> Iterator[None]:
    """*FLOODING* impatient callers are there, and some have been refused."""
    ca_file = gate.directory / "certificates" / "ca.crt"
    refused = busy(gate)
    program = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.load.impatient", str(gate.port), str(ca_file)),
            *(str(FLOODING), FLOODED_FROM),
        ],
        cwd=PROJECT,
    )
    try:
        wait_until(lambda: busy(gate) > refused + REFUSED, OPENED_WITHIN_S, "a flood")
        yield
    finally:
        program.kill()
        program.wait()


def test_who_floods_the_port_from_another_address_keeps_nobody_from_an_answer(gate: Gate) -> None:
    """Turns go round the addresses that call."""
    body = orjson.dumps(make_review(object=make_pod(), uid=UID))
    with flooded(gate):
        refused = busy(gate)
        few = call_for(gate, 3.0, at_once=4, body=body)
        refused_meanwhile = busy(gate) - refused

    assert few.statuses[200] >= LEAST_ANSWERED * few.statuses.total(), few.statuses
    assert few.within_s(200, 0.5) < TIMEOUT_S / 2
    # They did not stop.
    assert refused_meanwhile > few.statuses[503]


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
    small_gate: Gate, sent: bytes
) -> None:
    with crowd(small_gate, sent):
        assert call_for(small_gate, 0.5).answered
        assert small_gate.ops("/readyz")[0] == 200
        assert open_files(small_gate) < FEW + OTHER_FILES


def test_half_a_request_over_tls_keeps_nobody_from_an_answer(small_gate: Gate) -> None:
    host, port = "127.0.0.1", int(small_gate.url.rpartition(":")[2])
    context = ssl.create_default_context(cadata=small_gate.ca_pem)
    ended = 'gatewright_connections_shed_total{outcome="ended"}'
    before = samples(small_gate).get(ended, 0.0)
    with ExitStack() as stack:
        for _ in range(CROWD):
            plain = stack.enter_context(socket.create_connection((host, port), timeout=TIMEOUT_S))
            connection = stack.enter_context(context.wrap_socket(plain, server_hostname=host))
            connection.sendall(b"POST /mutate HTTP/1.1\r\nHost: ga")

        assert call_for(small_gate, 0.5).answered
        assert samples(small_gate)[ended] - before >= CROWD - FEW


def test_who_hangs_up_without_an_answer_leaves_nothing_behind(small_gate: Gate) -> None:
    """Callers that give up, as API servers do after their timeout."""
    host, context = "127.0.0.1", ssl.create_default_context(cadata=small_gate.ca_pem)
    request = request_of(heavy_review())
    before = open_files(small_gate)
    for _ in range(CROWD):
        with socket.create_connection((host, small_gate.port), timeout=TIMEOUT_S) as plain:
            connection = context.wrap_socket(plain, server_hostname=host)
            connection.sendall(request)
            connection.close()

    wait_until(lambda: open_files(small_gate) <= before + 20, OPENED_WITHIN_S, "connections to go")
    wait_until(
        lambda: samples(small_gate)["gatewright_reviews_running"] == 0.0,
        OPENED_WITHIN_S,
        "reviews to end",
    )
    assert call_for(small_gate, 0.5).answered


def test_ten_thousand_connections_are_borne(gate: Gate) -> None:
    """Those that have been idle for longest are ended, so that there is room for who has work."""
    files_before, mib_before = open_files(gate), gate.resident_mib
    with crowded(gate, MANY) as opened:
        assert opened == min(MANY, most_connections())
        # Else there was nobody to end.
        assert opened > MAX_CONNECTIONS
        reviews = call_for(gate, 0.5)
        assert set(reviews.statuses) == {200}
        assert reviews.within_s(200, 0.99) < TIMEOUT_S / 2
        assert gate.ops("/readyz")[0] == 200
        assert open_files(gate) <= MAX_CONNECTIONS + OTHER_FILES
        assert gate.resident_mib - mib_before < MOST_MANY_MIB

    wait_until(
        lambda: open_files(gate) <= files_before + 20, TIMEOUT_S, "the connections to be closed"
    )


def busy(gate: Gate) -> float:
    """How many it has refused as it had too much to do."""
    return samples(gate).get('gatewright_requests_rejected_total{reason="busy"}', 0.0)


def open_files(gate: Gate) -> float:
    """How many the server has."""
    return samples(gate)["process_open_fds"]


def samples(gate: Gate) -> dict[str, float]:
    """What the server tells Prometheus, by series."""
    lines = [line for line in gate.ops("/metrics")[1].splitlines() if line[:1] != "#"]
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}
