"""What is in force, and perhaps not what its author wanted, is a warning at every door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.rest import FIELD_GROUPS, MAPPINGS, POLICIES, TRAININGS, Api
from tests.api.test_own_documents import create, open_gate
from tests.api.test_rest_mappings import JOB_GROUP, MAPPING
from tests.builders import DEPLOYMENT, POLICY_API, make_gvk_policy, make_rule
from webhook.model.manifests import dump_yaml

TWO = make_rule("replicas", "workload", {"max": 2})
FOUR = make_rule("replicas", "workload", {"max": 4})
WIDE: dict[str, Any] = {"workloadType": DEPLOYMENT, "scope": "tenant", "name": "wide"}
NARROW: dict[str, Any] = {
    "workloadType": DEPLOYMENT,
    "scope": "project",
    "projectId": "team-a",
    "name": "narrow",
}
NEVER = (
    "rules[0].enforcements[0]: never acts: policy wide, tenant holds replicas and does"
    " not say allowOverride: true"
)


@pytest.mark.slow
async def test_a_rule_that_never_acts_is_written_with_a_warning(tmp_path: Path) -> None:
    """Product: broader wins unless it says `allowOverride`; both policies may stand."""
    async with Api(tmp_path) as api:
        await api.must("POST", POLICIES, {**WIDE, "rules": [TWO]})
        created = await api.post(POLICIES, {**NARROW, "rules": [FOUR]})
        path = f"{POLICIES}/{created.body['id']}"
        got = await api.must("GET", path)
        listed = await api.must("GET", f"{POLICIES}?filterBy=name==narrow")
        same = await api.put(path, got)

    assert created.status == 201
    (warning,) = created.body["warnings"]
    assert warning == NEVER
    assert "problems" not in created.body
    assert got["warnings"] == listed["policies"][0]["warnings"] == [warning]
    assert (same.status, same.body["warnings"]) == (200, [warning])


async def test_who_makes_a_rule_of_another_never_act_is_told_whose(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", POLICIES, {**NARROW, "rules": [FOUR]})
        created = await api.must("POST", POLICIES, {**WIDE, "rules": [TWO]})
        got = await api.must("GET", f"{POLICIES}/{created['id']}")

    (warning,) = created["warnings"]
    assert warning == f"api-gvkpolicy-narrow.yaml#0: {NEVER}"
    # It is about the other one.
    assert "warnings" not in got


async def test_a_rule_that_may_be_replaced_is_nothing_to_warn_of(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", POLICIES, {**WIDE, "rules": [{**TWO, "allowOverride": True}]})
        created = await api.must("POST", POLICIES, {**NARROW, "rules": [FOUR]})

    assert created.keys() & {"warnings", "problems"} == set()


async def test_kubectl_is_warned_in_the_same_words() -> None:
    wide = make_gvk_policy(TWO, kind=DEPLOYMENT, name="wide")
    narrow = make_gvk_policy(FOUR, kind=DEPLOYMENT, name="narrow", scope="project", unit="team-a")
    async with open_gate(wide) as gate:
        got = await create(gate, narrow)

    assert got["allowed"]
    assert got["warnings"] == [f"spec.{NEVER}"]


@pytest.mark.parametrize("query", ["", "?validateOnly=true"], ids=["written", "only-tried"])
async def test_a_hierarchical_policy_is_answered_with_its_warnings(
    tmp_path: Path, query: str
) -> None:
    body = {"meta": {"scope": "tenant"}, "policy": {"defaults": {"tty": True}}}
    async with Api(tmp_path) as api:
        answer = await api.put(f"{TRAININGS}{query}", body)

    (warning,) = answer.body["meta"]["warnings"]
    assert warning.startswith("policy.defaults.tty: acts only where the submitter gives what")


async def test_a_mapping_that_differs_in_case_only_shows_so(tmp_path: Path) -> None:
    """Files may hold both; it is said of the second, which is in force all the same."""
    twin = {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": "twin"},
        "spec": {**MAPPING, "workloadType": {**MAPPING["workloadType"], "kind": "acmejob"}},
    }
    async with Api(tmp_path, twin) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        (api.policies / "api-specmapping-acme.yaml").write_text(
            dump_yaml([{**twin, "metadata": {"name": "acme"}, "spec": MAPPING}])
        )
        api.store.load()
        listed = await api.must("GET", f"{MAPPINGS}?filterBy=group==acme.io&sortBy=kind")

    told = {one["workloadType"]["kind"]: one.get("warnings") for one in listed["mappings"]}
    assert told == {
        "AcmeJob": None,
        "acmejob": [
            "workloadType: acme.io/v1/acmejob differs from acme.io/v1/AcmeJob, which"
            " api-specmapping-acme.yaml#0 is for, in case only; kinds are told apart by case, and"
            " hardly a cluster has both"
        ],
    }
    assert not [one for one in listed["mappings"] if "problems" in one]
