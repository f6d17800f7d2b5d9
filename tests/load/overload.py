"""
More reviews than a server can answer, from callers who do not wait for one another.

`python -m tests.load.overload` does it for ten minutes and prints what became of them.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.builders import make_container, make_pytorch_job
from tests.e2e.callers import TIMEOUT_S, Caller, Connection, Load
from tests.e2e.gate import Gate
from tests.unit.admission.builders import UID, make_review

# So large that the server has some ten times as much to do with a review as the callers.
CONTAINERS = 60
# Of a review that is answered; more than an API server has of them in flight.
AT_ONCE = 16
SOAK_S = 600.0


class Dropped(Connection):
    """One that is not closed in order: with a server that is busy, that takes as long as a call."""

    def close(self) -> None:
        self._writer.transport.abort()


class GateDoor:
    """The admission port of a server, over TLS."""

    def __init__(self, gate: Gate) -> None:
        self._port = int(gate.url.rpartition(":")[2])
        self.trust = ssl.create_default_context(cadata=gate.ca_pem)

    async def open(self) -> Connection:
        return await Dropped.open(self._port, "127.0.0.1", self.trust)


def heavy_review() -> bytes:
    """A job whose containers all are judged, and need values of their own."""
    job = make_pytorch_job(container=make_container(image="ghcr.io/team/train:1"))
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"] = [
            make_container(f"c{number}", image="ghcr.io/team/train:1")
            for number in range(CONTAINERS)
        ]
    kind = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}
    return orjson.dumps(make_review(kind=kind, object=job))


@dataclass
class Reviews:
    """Reviews of one object, each with a uid of its own. *statuses* are those of the answers."""

    caller: Caller
    answered: set[str] = field(default_factory=set)
    statuses: Counter[int] = field(default_factory=Counter)
    reasons: set[str] = field(default_factory=set)
    body: bytes = field(default_factory=heavy_review)
    made: int = 0

    async def ask(self, _number: int) -> tuple[int, str]:
        self.made += 1
        uid = f"{id(self):x}-{self.made}"
        head = b"POST /mutate?timeout=5s HTTP/1.1\r\nHost: gatewright\r\nContent-Type: application/json"
        body = self.body.replace(UID.encode(), uid.encode())
        port, status, answer = await self.caller.post(head, body)
        self.statuses[status] += 1
        if status == 200:
            self.answered.add(uid)
            return port, "" if uid.encode() in answer else "an answer to something else"
        told: dict[str, Any] = orjson.loads(answer)
        self.reasons.add(told["message"])
        return port, "" if status in (429, 503) else f"{status}: {told['message']}"

    async def close(self) -> None:
        await self.caller.close()
        # Those that were given up while they were opened.
        await asyncio.sleep(0.2)


def sustainable_per_s(gate: Gate, lasts_s: float, *, at_once: int = AT_ONCE) -> float:
    """How many reviews are answered where each caller waits for his answer; one each at least."""

    async def call_all() -> float:
        reviews = Reviews(Caller(GateDoor(gate)))
        begun = time.monotonic()

        async def call() -> None:
            await reviews.ask(0)
            while time.monotonic() < begun + lasts_s:
                await reviews.ask(0)

        await asyncio.gather(*[call() for _ in range(at_once)])
        await reviews.close()
        return len(reviews.answered) / (time.monotonic() - begun)

    return asyncio.run(call_all())


@dataclass(frozen=True)
class Outcome:
    """What became of reviews at *rate_per_s*, twice what the server can do."""

    rate_per_s: float
    load: Load
    reviews: Reviews
    # What `/readyz` answered meanwhile.
    ready: Counter[int]

    @property
    def goodput_per_s(self) -> float:
        return len(self.reviews.answered) / self.load.lasted_s

    def __str__(self) -> str:
        return (
            f"sustainable {self.rate_per_s / 2:.0f}/s, called {self.load.made_per_s:.0f}/s for "
            f"{self.load.lasted_s:.0f} s, answered {self.goodput_per_s:.0f}/s; statuses "
            f"{dict(self.reviews.statuses)}, reasons {sorted(self.reviews.reasons)}, failures "
            f"{dict(self.load.failures)}, half within {self.load.quantile_s(0.5):.2f} s, 99 % "
            f"within {self.load.quantile_s(0.99):.2f} s, readyz {dict(self.ready)}"
        )


def overload(gate: Gate, lasts_s: float) -> Outcome:
    """Call *gate* for *lasts_s* with twice as many reviews as it can answer."""
    # The best of some: while others want the same cores, it is less than the server can do.
    rate_per_s = 2 * max(sustainable_per_s(gate, 1.0) for _ in range(3))
    reviews = Reviews(Caller(GateDoor(gate)))
    load = Load(rate_per_s, reviews)
    ready: Counter[int] = Counter()
    with load:
        end = time.monotonic() + lasts_s
        while time.monotonic() < end:
            ready[gate.ops("/readyz")[0]] += 1
            time.sleep(0.2)
    return Outcome(rate_per_s, load, reviews, ready)


def recorded(gate: Gate) -> Counter[str]:
    """How often each review is in the decision records, by its uid."""
    return Counter(record["uid"] for record in gate.decisions())


def recovery_s(gate: Gate) -> float:
    """How long it takes from now on until a review is answered within a second again."""
    begun = time.monotonic()
    while time.monotonic() < begun + 3 * TIMEOUT_S:
        before = time.monotonic()
        if sustainable_per_s(gate, 0.0, at_once=1) and time.monotonic() - before < 1.0:
            return time.monotonic() - begun
    raise AssertionError("the server does not recover")


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        gate = Gate(Path(directory)).start()
        try:
            outcome = overload(gate, float(sys.argv[1]) if sys.argv[1:] else SOAK_S)
            recovered_s = recovery_s(gate)
            lost = outcome.reviews.answered - set(recorded(gate))
        finally:
            gate.stop()
    print(
        f"{outcome}; recovered within {recovered_s:.2f} s; {len(lost)} decisions without a record"
    )
    is_good = not lost and set(outcome.ready) == {200}
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
