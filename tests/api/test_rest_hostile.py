"""Expressions that would stall a server, sent over HTTP while it is asked how it is (trial B32)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient

from tests.api.gate import GateServer, of_kind
from tests.api.rest import ACME, FIELD_GROUPS, FORMATTERS, MAPPINGS, POLICIES, Api
from tests.builders import make_rule
from tests.unit.admission.builders import make_review
from tests.unit.store.test_hostile_mappings import HOSTILE
from webhook.api.app import build_ops_app

# A kubelet asks with a time-out of one second.
PROBE_TIMEOUT_S = 1.0
PROBE_PERIOD_S = 0.02
# Longer than the longest trial and the longest review may take; what is meant is that they end.
DEADLINE_S = 20.0

FIELD = {"getExpr": ".a", "setExpr": "{a: $ARGS.named.value}"}
OUTPUTS = 1_000_000

MORE = [
    pytest.param(f"range({OUTPUTS})", id="a-million-outputs"),
    pytest.param("empty", id="nothing"),
    pytest.param('error("no")', id="error"),
]


class Probe:
    """Asks `/healthz` again and again; *slowest_s* is how long the slowest answer took."""

    def __init__(self, ops: TestClient[Any, Any]) -> None:
        self._ops = ops
        self.answers = 0
        self.slowest_s = 0.0

    async def run(self) -> None:
        while True:
            started = time.monotonic()
            async with self._ops.get("/healthz") as answer:
                assert answer.status == 200
            self.slowest_s = max(self.slowest_s, time.monotonic() - started)
            self.answers += 1
            await asyncio.sleep(PROBE_PERIOD_S)


@asynccontextmanager
async def probed(api: Api) -> AsyncIterator[Probe]:
    """`/healthz` has to answer all the time."""
    async with TestClient(GateServer(build_ops_app(api.services))) as ops:
        probe = Probe(ops)
        probing = asyncio.create_task(probe.run())
        try:
            yield probe
        finally:
            probing.cancel()
            (ended,) = await asyncio.gather(probing, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), ended
    assert probe.answers > 0
    assert probe.slowest_s < PROBE_TIMEOUT_S


def mapping(query: str) -> dict[str, Any]:
    selector = {"query": query, "fieldGroups": ["podSpec"]}
    return {"workloadType": ACME, "specSelectors": {"s": selector}}


@pytest.mark.slow
@pytest.mark.parametrize("query", [*HOSTILE, *MORE])
async def test_a_hostile_mapping_is_refused_and_the_server_answers_meanwhile(
    tmp_path: Path, query: str
) -> None:
    async with Api(tmp_path) as api, probed(api):
        started = time.monotonic()
        answer = await api.post(MAPPINGS, mapping(query))
        took_s = time.monotonic() - started
        listed = await api.must("GET", f"{MAPPINGS}?filterBy=group==acme.io")

    assert answer.status == 400
    assert answer.details.startswith("specSelectors.s.query: ")
    assert os.environ["PATH"] not in answer.details
    assert took_s < DEADLINE_S
    assert listed["mappings"] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", ["getExpr", "setExpr"])
@pytest.mark.parametrize("query", [row for row in HOSTILE if row.id != "exponential"])
async def test_a_hostile_formatter_is_refused_and_the_server_answers_meanwhile(
    tmp_path: Path, part: str, query: str
) -> None:
    body = {"name": "acme", "fields": {"f": {**FIELD, part: query}}}
    async with Api(tmp_path) as api, probed(api):
        answer = await api.post(FORMATTERS, body)

    assert answer.status == 400
    assert answer.details.startswith(f"fields.f.{part}: ")
    assert os.environ["PATH"] not in answer.details


@pytest.mark.slow
async def test_a_review_that_is_hard_for_an_expression_ends_and_the_server_answers_meanwhile(
    tmp_path: Path,
) -> None:
    """Sound on what it is tried on, cubic on a list: ours to fail, nobody else's to wait for."""
    query = (
        ".spec | .l[]? as $x | .l[]? as $y | .l[]? as $z | select($x == $y and $y == $z and $x < 0)"
    )
    group = {"name": "acme", "fields": {"size": {"type": "integer"}}}
    selector = {"query": query, "fieldGroups": ["acme"]}
    rule = make_rule("size", "s", {"max": 3})
    hard = {
        "apiVersion": "acme.io/v1",
        "kind": "AcmeJob",
        "metadata": {"name": "a", "namespace": "team-a"},
        "spec": {"l": list(range(3000)), "size": 9},
    }
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, group)
        body = {"workloadType": ACME, "specSelectors": {"s": selector}}
        await api.must("POST", MAPPINGS, body)
        policy = {"workloadType": ACME, "scope": "tenant", "rules": [rule]}
        await api.must("POST", POLICIES, policy)
        async with probed(api):
            started = time.monotonic()
            answer = await api.call(
                "POST", "/validate", raw=orjson.dumps(make_review(**of_kind(hard)))
            )
            took_s = time.monotonic() - started
            easy = {**hard, "spec": {"l": [1], "size": 9}}
            after = await api.call(
                "POST", "/validate", raw=orjson.dumps(make_review(**of_kind(easy)))
            )

    assert answer.status == 500
    assert took_s < DEADLINE_S
    assert after.status == 200
