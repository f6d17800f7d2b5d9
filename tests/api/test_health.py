from __future__ import annotations

import orjson
import pytest

from tests.api.gate import Gate
from tests.builders import make_gvk_policy, make_rule, make_snapshot
from tests.unit.admission.builders import make_review

POLICY = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}))


async def test_a_server_with_policies_is_healthy_and_ready() -> None:
    async with Gate(POLICY) as gate:
        for path in ("/healthz", "/readyz"):
            answer = await gate.ops.get(path)
            assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_before_the_first_snapshot_a_server_is_healthy_but_not_ready() -> None:
    async with Gate() as gate:
        ready = await gate.ops.get("/readyz")

        assert (await gate.ops.get("/healthz")).status == 200
        assert ready.status == 503
        assert (await ready.json())["message"] == "no policies are loaded yet"

        gate.current.replace(make_snapshot(POLICY))
        assert (await gate.ops.get("/readyz")).status == 200


async def test_before_it_listens_a_server_is_not_ready() -> None:
    async with Gate(POLICY) as gate:
        gate.services.readiness.listening = False

        assert "not listening" in (await (await gate.ops.get("/readyz")).json())["message"]


async def test_a_server_that_drains_is_unready_and_answers_for_the_last_time() -> None:
    async with Gate(POLICY) as gate:
        gate.services.readiness.draining = True

        ready = await gate.ops.get("/readyz")
        answer = await gate.post("/mutate", orjson.dumps(make_review()))

        assert (ready.status, (await ready.json())["message"]) == (503, "shutting down")
        assert answer.status == 200
        assert answer.headers["Connection"] == "close"


async def test_a_server_that_does_not_drain_keeps_its_connections() -> None:
    async with Gate(POLICY) as gate:
        answer = await gate.post("/mutate", orjson.dumps(make_review()))

        assert "Connection" not in answer.headers


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/"])
async def test_reviews_are_not_answered_without_tls(path: str) -> None:
    async with Gate(POLICY) as gate:
        assert (await gate.ops.post(path, data=b"{}")).status == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_callers_of_reviews_see_neither_health_nor_metrics(path: str) -> None:
    async with Gate(POLICY) as gate:
        assert (await gate.client.get(path)).status == 404


async def test_metrics_come_in_a_format_that_was_asked_for() -> None:
    async with Gate(POLICY) as gate:
        plain = await gate.ops.get("/metrics")
        asked = await gate.ops.get(
            "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
        )

        assert plain.headers["Content-Type"].startswith("text/plain; version=")
        assert asked.headers["Content-Type"].startswith("application/openmetrics-text; version=1")
        assert (await asked.text()).endswith("# EOF\n")


async def test_answers_do_not_tell_which_software_made_them() -> None:
    async with Gate(POLICY) as gate:
        for answer in (await gate.client.get("/"), await gate.ops.get("/healthz")):
            assert answer.headers["Server"] == "gatewright"
