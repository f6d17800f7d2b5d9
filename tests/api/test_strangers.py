"""Who reaches the port and is no API server: what he can do, and what keeps him out."""

from __future__ import annotations

import io

import orjson
import pytest

from tests.api.gate import Gate, records
from tests.builders import make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review

POLICY = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"blocked": True}))
REVIEW = make_review(
    object=make_pod(hostNetwork=True), userInfo={"username": "ada", "groups": ["system:masters"]}
)


@pytest.mark.parametrize("door", ["/mutate", "/validate"])
async def test_who_lacks_the_certificate_learns_nothing_and_leaves_no_record(
    door: str, log: io.StringIO
) -> None:
    async with Gate(POLICY, client_certificate_required=True) as gate:
        answer = await gate.post(door, orjson.dumps(REVIEW))
        text = await answer.text()
        counted = {name for name, _ in await gate.series()}

    assert answer.status == 403
    assert "hostNetwork" not in text
    assert records(log.getvalue().splitlines()) == []
    assert "gatewright_reviews_total" not in counted


async def test_without_that_demand_a_record_says_what_the_caller_says(log: io.StringIO) -> None:
    """So records are no proof: docs/threats.md says what is."""
    async with Gate(POLICY) as gate:
        response = await gate.ask("/validate", **REVIEW["request"])

    (record,) = records(log.getvalue().splitlines())
    assert (response["allowed"], record["user"], record["outcome"]) == (False, "ada", "denied")
