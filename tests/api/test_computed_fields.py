"""Kinds whose fields jq reads and writes, through the whole application."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import orjson
import pytest

from tests.api.gate import Gate, apply
from tests.builders import JsonObject, make_gvk_policy, make_pod, make_rule
from tests.jq import ACME, make_acme_job, make_formatter, make_group, make_mapping
from tests.unit.admission.builders import make_review
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits

# Four nested walks: nothing on a small list, and without end on a long one.
CARTESIAN = "[.list[]? as $a | .list[]? as $b | .list[]? as $c | .list[]? as $d | 1] | length"
LONG = [{"name": str(number)} for number in range(500)]

FORMATTER = make_formatter(
    {
        "got": {"getExpr": CARTESIAN, "argsInfo": {"value": "integer"}},
        "written": {
            "getExpr": ".written",
            "setExpr": f"{{written: ($ARGS.named.value + ({CARTESIAN}) * 0)}}",
            "argsInfo": {"value": "integer"},
        },
        "limit": {
            "getExpr": ".limits.cpu",
            "setExpr": "{limits: {cpu: $ARGS.named.value}}",
            "argsInfo": {"value": "quantity"},
        },
    }
)
GROUP = make_group(
    {
        **{name: {"formatter": "acme"} for name in ("got", "written", "limit")},
        "list": {"type": "object", "itemSelectors": ["slow"]},
    },
    itemSelectors={"slow": {"query": CARTESIAN.replace(".list[]?", ".names[]?") + " > 0"}},
)
MAPPING = make_mapping(dependency={"path": "spec"})
ON_PODS = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"blocked": True}))


def under(*rules: JsonObject) -> list[Any]:
    return [FORMATTER, GROUP, MAPPING, make_gvk_policy(*rules, kind=ACME, name="acme"), ON_PODS]


async def post(gate: Gate, door: str, document: JsonObject) -> tuple[int, dict[str, Any]]:
    kind = {**ACME, "group": ACME["group"]}
    body = orjson.dumps(make_review(object=document, kind=kind, namespace="team-a"))
    answer = await gate.post(door, body)
    return answer.status, orjson.loads(await answer.read())


async def test_a_formatter_writes_at_mutate_and_is_judged_at_validate() -> None:
    async with Gate(*under(make_rule("limit", "s", {"default": 2}, {"max": 4}))) as gate:
        _, mutated = await post(gate, "/mutate", make_acme_job())
        _, allowed = await post(gate, "/validate", make_acme_job(limits={"cpu": "4000m"}))
        _, denied = await post(gate, "/validate", make_acme_job(limits={"cpu": "5"}))

    assert apply(mutated["response"], make_acme_job())["spec"] == {"limits": {"cpu": "2"}}
    assert allowed["response"]["allowed"]
    assert denied["response"]["status"]["message"] == (
        "AcmeJob train breaks a rule:\n"
        "limit [s]: above the maximum, got 5; ≤ 4 (policy acme, tenant)"
    )


@pytest.mark.parametrize(
    ("rule", "spec"),
    [
        pytest.param(make_rule("got", "s", {"max": 10**12}), {"list": LONG}, id="getExpr"),
        pytest.param(make_rule("written", "s", {"default": 1}), {"list": LONG}, id="setExpr"),
        pytest.param(
            make_rule("list", "s", {"blocked": True}, itemSelector="slow"),
            {"list": [{"names": LONG}]},
            id="item-selector",
        ),
    ],
)
async def test_an_expression_without_end_fails_its_own_review_and_no_other(
    rule: JsonObject, spec: JsonObject
) -> None:
    """The cluster's failurePolicy decides on that object; all else is answered meanwhile."""
    jq = JqWorker(WorkerLimits(evaluate_ms=400))
    async with Gate(*under(rule), jq=jq) as gate:
        slow = asyncio.create_task(post(gate, "/mutate", make_acme_job(**spec)))
        meanwhile = await gate.ask("/validate", object=make_pod(hostNetwork=True))
        status, got = await slow
        after, allowed = await post(gate, "/mutate", make_acme_job(list=[]))
        series = await gate.series()

    assert not meanwhile["allowed"]
    assert status == 500
    assert re.search(r"did not end within \d+ ms", got["message"])
    assert (after, allowed["response"]["allowed"]) == (200, True)
    assert ("gatewright_query_failures_total", ()) in series
