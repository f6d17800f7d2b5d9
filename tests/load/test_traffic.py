"""Much of the same: nothing may grow with it."""

from __future__ import annotations

import gc

from tests.api.gate import Gate
from tests.api.test_bad_requests import BODIES, DOORS, GOOD, POLICY


async def test_thousands_of_bad_requests_in_a_row_cost_no_memory() -> None:
    bodies = [body for name, body in BODIES.items() if name != "deep"]

    async def flood(gate: Gate) -> int:
        for n in range(2000):
            await (await gate.post(DOORS[n % 2], bodies[n % len(bodies)])).read()
        gc.collect()
        return len(gc.get_objects())

    async with Gate(POLICY) as gate:
        await flood(gate)
        before = await flood(gate)
        after = await flood(gate)

        assert after - before < 200
        assert (await gate.post("/validate", GOOD)).status == 200


async def test_no_traffic_adds_series_without_end() -> None:
    """Names, namespaces, kinds, users and paths are no labels (B26)."""

    async def traffic(gate: Gate, start: int) -> None:
        for n in range(start, start + 1000):
            await gate.ask(
                "/validate",
                uid=f"uid-{n}",
                namespace=f"namespace-{n}",
                kind={"group": f"g{n}.example", "version": "v1", "kind": f"Kind{n}"},
                userInfo={"username": f"user-{n}", "groups": [f"group-{n}"]},
                object={"metadata": {"name": f"name-{n}"}},
            )
            await gate.client.get(f"/path-{n}/{n}?q={n}")
            await gate.client.request("PUT" if n % 2 else "GET", "/mutate")

    async with Gate(POLICY) as gate:
        await gate.series()
        await traffic(gate, 0)
        before = await gate.series()
        await traffic(gate, 1000)
        after = await gate.series()

    assert after - before == set()
    assert len(after) < 150
