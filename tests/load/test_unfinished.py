"""Thousands of callers that stop short of the end of their bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import orjson
import pytest

from tests.builders import make_pod
from tests.e2e.gate import Gate
from tests.load.crowds import crowded
from tests.load.overload import call_for
from tests.unit.admission.builders import UID, make_review
from webhook.api.limits.bodies import BIG_BODY_BYTES, FREE_BODY_BYTES
from webhook.api.limits.connections import MAX_CONNECTIONS

# What `docs/sizing.md` leaves the server. Measured were 400 to 435 MiB.
MOST_MIB = 512.0
# Takes room, as those of the slow do.
POLITE_BYTES = 100 * 1024
# Of those who send all of it. Measured were nine of ten; the rest is for a machine that is busy.
LEAST_ANSWERED = 0.8

# Of each of the slow.
SIZES = {
    "that-need-no-room": FREE_BODY_BYTES,
    "that-are-decided-in-the-loop": BIG_BODY_BYTES,
    "that-are-large": 8_000_000,
}


@pytest.fixture
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A new one for each, since what one took is not given back at once."""
    gate = Gate(tmp_path_factory.mktemp("gate"))
    try:
        yield gate.start()
    finally:
        gate.stop()


def polite_review() -> bytes:
    pod = make_pod()
    pod["metadata"]["annotations"] = {"note": "x" * POLITE_BYTES}
    return orjson.dumps(make_review(object=pod, uid=UID))


@pytest.mark.parametrize("size_bytes", SIZES.values(), ids=SIZES)
def test_bodies_that_never_end_leave_others_their_answers_and_the_server_its_memory(
    gate: Gate, size_bytes: int
) -> None:
    """As many of them as there may be connections, while they come and when they are here."""
    body = polite_review()
    statuses: Counter[int] = Counter()
    most_mib = 0.0
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        crowd = crowded(gate, MAX_CONNECTIONS, size_bytes)
        opening = pool.submit(stack.enter_context, crowd)
        while True:
            is_here = opening.done()
            statuses += call_for(gate, 0.5, at_once=2, body=body).statuses
            most_mib = max(most_mib, gate.resident_mib)
            if is_here:
                break
        opened = opening.result()

    assert opened == MAX_CONNECTIONS
    assert statuses[200] >= LEAST_ANSWERED * statuses.total(), statuses
    assert most_mib < MOST_MIB
