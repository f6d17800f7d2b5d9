"""One problem, told as it matters to who is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.acme import MAPPING
from tests.api.rest import ACME, MAPPINGS, POLICIES, TRAININGS, Api
from tests.api.test_own_documents import create, open_gate
from tests.builders import DEPLOYMENT, POLICY_API, make_gvk_policy, make_rule, make_workload_policy

RULES = {"image": {"required": True}}
HOLDER = make_workload_policy(rules=RULES, name="holder")
NATIVE = {"meta": {"scope": "project", "projectId": "a"}, "policy": {"rules": RULES}}
FLAT = {
    "workloadType": ACME,
    "scope": "tenant",
    "rules": [make_rule("image", "pods", {"required": True})],
}


@pytest.mark.parametrize(
    ("method", "path", "body", "want"),
    [
        pytest.param(
            *("POST", POLICIES, FLAT),
            "workloadType: no mapping for acme.io/v1/AcmeJob",
            id="no-mapping",
        ),
        pytest.param(
            *("POST", MAPPINGS, MAPPING),
            "specSelectors.acmeJobSpec.fieldGroups[0]: no field group 'acmeJobSpec'",
            id="no-field-group",
        ),
        pytest.param(
            *("PUT", TRAININGS, {**NATIVE, "policy": {"imposedAssets": ["gone"]}}),
            "policy.imposedAssets[0]: no DataSource 'gone'",
            id="no-data-source",
        ),
        pytest.param(
            *("PUT", TRAININGS, NATIVE),
            "policy.rules.image.required: field image already has rules in policy holder, tenant;"
            " policy training-project-a, project a can't have any too",
            id="conflict",
        ),
    ],
)
async def test_a_refusal_of_the_api_says_what_is_wrong_and_nothing_of_later(
    tmp_path: Path, method: str, path: str, body: Any, want: str
) -> None:
    async with Api(tmp_path, HOLDER) as api:
        answer = await api.call(method, path, body)

    first = answer.details.splitlines()[0]
    assert first.startswith(want)
    assert not [word for word in ("until", "enforced", "waits") if word in answer.details]


@pytest.mark.parametrize(
    ("document", "is_allowed", "want"),
    [
        pytest.param(
            make_gvk_policy(make_rule("image", "pods", {"required": True}), kind=ACME),
            True,
            "until it is there, nothing of this document is enforced",
            id="waits",
        ),
        pytest.param(
            make_workload_policy(rules=RULES, name="late", scope="project", unit="a"),
            False,
            "Nothing of policy late, project a is enforced until the field is taken out of one of"
            " the two",
            id="conflict",
        ),
    ],
)
async def test_kubectl_is_told_what_it_costs(document: Any, is_allowed: bool, want: str) -> None:
    async with open_gate(HOLDER) as gate:
        got = await create(gate, document)

    assert got["allowed"] is is_allowed
    told = got["warnings"] if is_allowed else [got["status"]["message"]]
    assert told[0].endswith(want)


async def test_what_is_stored_and_waits_says_so_in_the_api_too(tmp_path: Path) -> None:
    waiting = {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": MAPPING,
    }
    async with Api(tmp_path, waiting) as api:
        listed = await api.must("GET", f"{MAPPINGS}?filterBy=kind==AcmeJob")

    (mapping,) = listed["mappings"]
    assert "nothing of this document is enforced" in mapping["problems"][0]


async def test_kubectl_is_told_what_is_wrong_and_then_what_it_costs() -> None:
    unit = "a. Nothing of b"
    holder = make_workload_policy(rules=RULES, name="holder", scope="project", unit=unit)
    async with open_gate(holder) as gate:
        got = await create(gate, {**holder, "metadata": {"name": "late"}})

    problem = (
        f"spec.rules.image.required: field image already has rules in policy holder, project {unit};"
        f" policy late, project {unit} can't have any too"
    )
    cost = (
        f". Nothing of policy late, project {unit} is enforced until the field is taken out of one"
        " of the two"
    )
    assert got["status"]["message"] == problem + cost


async def test_the_api_leaves_out_the_cost_and_no_more(tmp_path: Path) -> None:
    """The name of a unit is any text; no word of the problem is taken for its cost."""
    unit = "a. Nothing of b"
    rule = make_rule("image", "allContainers", {"required": True})
    place = {"scope": "project", "projectId": unit, "rules": [rule], "workloadType": DEPLOYMENT}
    async with Api(tmp_path) as api:
        await api.must("POST", POLICIES, {**place, "name": "first"})
        answer = await api.post(POLICIES, {**place, "name": "second"})

    assert answer.status == 409
    assert answer.details == (
        f"rules[0].enforcements[0]: field image already has rules in policy first, project {unit};"
        f" policy second, project {unit} can't have any too"
    )
