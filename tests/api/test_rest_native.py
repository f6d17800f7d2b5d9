"""Hierarchical policies of native workload types: one for each type, scope and unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.rest import TRAININGS, Api
from tests.builders import make_workload_policy
from webhook.api.rest.native_policy_places import TYPES

TENANT: dict[str, Any] = {
    "meta": {"name": "Guard rails", "scope": "tenant"},
    "policy": {
        "defaults": {"compute": {"gpuDevicesRequest": 1}, "createHomeDir": True},
        "rules": {"compute": {"gpuDevicesRequest": {"max": 4}}},
        "imposedAssets": None,
    },
}


def make_policy(policy: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"meta": {"scope": "tenant", **meta}, "policy": policy}


async def test_a_put_writes_the_policy_of_a_type_and_scope(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        created = await api.put(TRAININGS, TENANT)
        got = await api.get(f"{TRAININGS}?scope=tenant")
        again = await api.put(TRAININGS, make_policy({"rules": {"image": {"required": True}}}))
        (stored,) = await api.store.list_documents("WorkloadPolicy")

    assert (created.status, again.status) == (201, 200)
    assert got.body == created.body
    assert got.headers["ETag"] == f'"{got.body["meta"]["resourceVersion"]}"'
    assert got.body["type"] == "training"
    assert {key: got.body["meta"][key] for key in ("name", "scope", "document")} == {
        "name": "Guard rails",
        "scope": "tenant",
        "document": "training-tenant",
    }
    assert got.body["policy"] == {
        "defaults": TENANT["policy"]["defaults"],
        "rules": TENANT["policy"]["rules"],
    }
    assert again.body["policy"] == {"rules": {"image": {"required": True}}}
    assert again.body["meta"]["name"] == "Guard rails"
    assert stored.manifest["spec"]["workloadType"] == "training"


async def test_what_is_in_force_comes_with_where_it_comes_from(tmp_path: Path) -> None:
    policy = {
        "defaults": {"compute": {"gpuDevicesRequest": 2}},
        "rules": {"image": {"required": True}},
    }
    place = {"scope": "project", "projectId": "team-a"}
    async with Api(tmp_path) as api:
        await api.must("PUT", TRAININGS, TENANT)
        answer = await api.must("PUT", TRAININGS, make_policy(policy, **place))

    effective = answer["effective"]
    assert effective["defaults"]["compute"] == {"gpuDevicesRequest": 2}
    assert effective["defaults"]["createHomeDir"] is True
    assert effective["rules"]["compute"]["gpuDevicesRequest"] == {
        "max": 4,
        "sourceOfRule": {"scope": "tenant", "policy": "training-tenant"},
    }
    assert effective["rules"]["image"]["sourceOfRule"] == {
        **place,
        "policy": "training-project-team-a",
    }
    assert effective["rules"]["security"]["privileged"]["sourceOfRule"]["scope"] == "system"


async def test_items_and_attributes_in_force_are_shown_as_a_policy_has_them(
    tmp_path: Path,
) -> None:
    policy = {
        "defaults": {
            "tolerations": {"instances": [{"name": "gpu", "key": "gpu", "operator": "Exists"}]},
            "storage": {"nfs": {"attributes": {"readOnly": True}}},
            "environmentVariables": {"instances": [{"name": "A", "value": "hunter2"}]},
        },
        "rules": {
            "tolerations": {"instances": {"canAdd": False, "locked": ["gpu"]}},
            "storage": {"nfs": {"attributes": {"server": {"options": [{"value": "nfs.a"}]}}}},
        },
    }
    async with Api(tmp_path) as api:
        answer = await api.must("PUT", TRAININGS, make_policy(policy))

    effective = answer["effective"]
    source = {"scope": "tenant", "policy": "training-tenant"}
    assert effective["defaults"]["tolerations"] == {
        "instances": [{"name": "gpu", "key": "gpu", "operator": "Exists"}]
    }
    assert effective["defaults"]["storage"] == {"nfs": {"attributes": {"readOnly": True}}}
    assert effective["rules"]["tolerations"] == {
        "instances": {"canAdd": False, "locked": ["gpu"], "sourceOfRule": source}
    }
    (server,) = effective["rules"]["storage"]["nfs"]["attributes"].items()
    assert (server[0], server[1]["sourceOfRule"]) == ("server", source)
    # The policy itself is for those who may read the document; what is in force is for others.
    assert "hunter2" in str(answer["policy"])
    assert "hunter2" not in str(effective)


async def test_an_item_that_two_scopes_give_is_one_in_what_is_in_force(tmp_path: Path) -> None:
    def toleration(**attributes: Any) -> dict[str, Any]:
        item = {"name": "gpu", "key": "gpu", "operator": "Exists", **attributes}
        return {"defaults": {"tolerations": {"instances": [item]}}}

    place = {"scope": "project", "projectId": "a"}
    async with Api(tmp_path) as api:
        await api.must("PUT", TRAININGS, make_policy(toleration(effect="NoSchedule")))
        narrow = make_policy(toleration(operator="Equal", value="yes"), **place)
        answer = await api.must("PUT", TRAININGS, narrow)

    (one,) = answer["effective"]["defaults"]["tolerations"]["instances"]
    assert one == {
        "name": "gpu",
        "key": "gpu",
        "operator": "Equal",
        "value": "yes",
        "effect": "NoSchedule",
    }


async def test_spellings_of_the_source_are_stored_and_shown_canonically(tmp_path: Path) -> None:
    policy = {
        "Defaults": {"Compute": {"gpuDeviceRequest": 1}, "terminateAfterPreemtpion": True},
        "rules": {
            "compute": {"gpudevicesrequest": {"Max": 4, "Step": 1}},
            "storage": {"hostpath": {"Instances": {"canadd": False}}},
        },
    }
    async with Api(tmp_path) as api:
        answer = await api.put(TRAININGS, make_policy(policy))
        (stored,) = await api.store.list_documents("WorkloadPolicy")

    assert answer.status == 201, answer
    assert answer.body["policy"]["defaults"] == {
        "compute": {"gpuDevicesRequest": 1},
        "terminateAfterPreemption": True,
    }
    assert answer.body["policy"]["rules"]["compute"] == {"gpuDevicesRequest": {"max": 4, "step": 1}}
    assert "instances" in answer.body["policy"]["rules"]["storage"]["hostPath"]
    assert stored.manifest["spec"]["defaults"] == answer.body["policy"]["defaults"]


async def test_a_patch_resets_first_and_merges_then(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("PUT", TRAININGS, TENANT)
        answer = await api.patch(
            TRAININGS,
            {
                **make_policy({"defaults": {"createHomeDir": None, "image": "a"}}),
                "reset": ["$.compute.gpuDeviceRequest"],
            },
        )
        section = await api.patch(TRAININGS, {"meta": {"scope": "tenant"}, "reset": ["Image"]})

    assert answer.status == 200, answer
    assert answer.body["policy"] == {"defaults": {"image": "a"}, "rules": {}}
    assert section.body["policy"] == {"defaults": {}, "rules": {}}


async def test_validate_only_says_what_would_be_and_writes_nothing(tmp_path: Path) -> None:
    wrong = make_policy({"rules": {"compute": {"gpuDevicesRequest": {"min": 5, "max": 4}}}})
    async with Api(tmp_path) as api:
        good = await api.put(f"{TRAININGS}?validateOnly=true", TENANT)
        bad = await api.put(f"{TRAININGS}?validateOnly=true", wrong)
        absent = await api.get(f"{TRAININGS}?scope=tenant")
        await api.must("PUT", TRAININGS, TENANT)
        patched = await api.patch(f"{TRAININGS}?validateOnly=true", wrong)
        after = await api.must("GET", f"{TRAININGS}?scope=tenant")

    assert (good.status, bad.status, absent.status) == (200, 400, 404)
    assert good.body["policy"]["rules"] == TENANT["policy"]["rules"]
    assert "rules.compute.gpuDevicesRequest" in bad.details
    assert patched.status == 400
    assert after["policy"]["rules"] == TENANT["policy"]["rules"]


@pytest.mark.slow
async def test_every_unit_has_a_policy_of_its_own(tmp_path: Path) -> None:
    units = [
        {"scope": "tenant"},
        {"scope": "cluster"},
        {"scope": "cluster", "clusterId": "west"},
        {"scope": "department", "departmentId": "vision"},
        {"scope": "project", "projectId": "vision"},
        {"scope": "project", "projectId": "Vision"},
    ]
    async with Api(tmp_path) as api:
        for unit in units:
            answer = await api.put(TRAININGS, make_policy({"defaults": {}}, **unit))
            assert answer.status == 201, answer
        listed = await api.must("GET", "/api/v2/policy?workloadType=Training")
        one = await api.must("GET", "/api/v2/policy?scope=project&projectId=vision")
        deleted = await api.delete(f"{TRAININGS}?scope=project&projectId=vision")
        again = await api.delete(f"{TRAININGS}?scope=project&projectId=vision")
        other = await api.get(f"{TRAININGS}?scope=project&projectId=Vision")
        # Written second, it has another name than it would have alone; it is ours all the same.
        changed = await api.put(TRAININGS, make_policy({"defaults": {}}, **units[-1]))
        gone = await api.delete(f"{TRAININGS}?scope=project&projectId=Vision")

    written = [
        policy["meta"] for policy in listed["policies"] if policy["meta"]["scope"] != "system"
    ]
    assert len(written) == len(units)
    assert [policy["meta"]["projectId"] for policy in one["policies"]] == ["vision"]
    assert (deleted.status, again.status, other.status) == (204, 404, 200)
    assert (changed.status, gone.status) == (200, 204)


@pytest.mark.slow
@pytest.mark.parametrize("segment", TYPES)
async def test_every_native_type_has_a_path(tmp_path: Path, segment: str) -> None:
    path = f"/api/v2/policy/{segment}"
    role = {"distributed": "worker", "distributed-inferences": "leader"}.get(segment)
    defaults: dict[str, Any] = {"image": "ghcr.io/a/b:1"}
    policy = {"defaults": {role: defaults} if role else defaults}
    async with Api(tmp_path) as api:
        answer = await api.put(path, make_policy(policy))

    assert answer.status == 201, answer
    assert answer.body["type"] == TYPES[segment]
    assert answer.body["policy"] == policy
    effective = answer.body["effective"]["defaults"]
    assert (effective[role] if role else effective)["image"] == "ghcr.io/a/b:1"


async def test_a_type_that_is_none_is_not_found(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        answer = await api.put("/api/v2/policy/training", TENANT)

    assert (answer.status, "trainings" in answer.details) == (404, True)


async def test_where_another_document_holds_the_place_nothing_is_written(tmp_path: Path) -> None:
    given = make_workload_policy(
        workload_type=["training", "workspace"],
        defaults={"image": "a"},
        name="by-hand",
    )
    async with Api(tmp_path, given) as api:
        shown = await api.must("GET", f"{TRAININGS}?scope=tenant")
        refused = [
            await api.put(TRAININGS, TENANT),
            await api.put(f"{TRAININGS}?validateOnly=true", TENANT),
            await api.patch(TRAININGS, TENANT),
            await api.delete(f"{TRAININGS}?scope=tenant"),
        ]
        elsewhere = await api.put(TRAININGS, make_policy({}, scope="project", projectId="a"))

    assert shown["meta"]["document"] == "by-hand"
    assert shown["policy"] == {"defaults": {"image": "a"}, "rules": None}
    assert [answer.status for answer in refused] == [409] * 4
    assert all("by-hand" in answer.details for answer in refused)
    assert elsewhere.status == 201


async def test_a_field_that_a_wider_policy_rules_is_a_conflict_that_names_it(
    tmp_path: Path,
) -> None:
    rules = {"rules": {"compute": {"gpuDevicesRequest": {"max": 2}}}}
    async with Api(tmp_path) as api:
        await api.must("PUT", TRAININGS, TENANT)
        answer = await api.put(TRAININGS, make_policy(rules, scope="project", projectId="a"))

    assert answer.status == 409
    assert "field compute.gpuDevicesRequest already has rules" in answer.details
    assert "training-tenant" in answer.details


async def test_a_policy_of_the_system_is_shown_and_replaced_by_one_of_its_scope(
    tmp_path: Path,
) -> None:
    rules = {"rules": {"terminationGracePeriodSeconds": {"max": 600}}}
    async with Api(tmp_path) as api:
        shipped = await api.must("GET", f"{TRAININGS}?scope=system")
        refused = await api.delete(f"{TRAININGS}?scope=system")
        replaced = await api.put(TRAININGS, make_policy(rules, scope="system"))

    assert shipped["meta"]["scope"] == "system"
    assert refused.status == 409
    assert refused.details == f"{shipped['meta']['name']} is a system policy; it can't be changed"
    assert replaced.status == 201
    effective = replaced.body["effective"]["rules"]["terminationGracePeriodSeconds"]
    assert effective["max"] == 600


@pytest.mark.slow
async def test_what_was_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        first = await api.must("PUT", TRAININGS, TENANT)
        version = first["meta"]["resourceVersion"]
        sent_back = await api.put(TRAININGS, {**first, "policy": {"defaults": {"image": "b"}}})
        late = [
            await api.put(TRAININGS, first),
            await api.patch(TRAININGS, TENANT, If_Match=f'"{version}"'),
            await api.delete(f"{TRAININGS}?scope=tenant", If_Match=f'"{version}"'),
        ]
        gone = await api.put(
            TRAININGS, make_policy({}, scope="project", projectId="a"), If_Match='"1"'
        )

    assert sent_back.status == 200
    assert [answer.status for answer in late] == [409, 409, 409]
    assert gone.status == 409


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("", {"tenant", "cluster", "west", "vision", "a", "b"}, id="all"),
        pytest.param("?scope=project", {"a", "b"}, id="of-a-scope"),
        pytest.param("?scope=Department", {"vision"}, id="in-another-case"),
        pytest.param("?scope=project&projectId=a", {"a"}, id="of-a-unit"),
        # An id says its scope.
        pytest.param("?projectId=b", {"b"}, id="id-alone"),
        pytest.param("?departmentId=vision&projectId=a", {"a"}, id="wider-id-says-where"),
        # This cluster, whose name is left out, is one that can be named.
        pytest.param("?scope=cluster", {"cluster", "west"}, id="clusters"),
        pytest.param("?scope=cluster&clusterId=west", {"west"}, id="a-cluster"),
        pytest.param("?scope=project&projectId=none", set(), id="nothing"),
    ],
)
async def test_the_list_is_filtered_by_scope_with_or_without_a_unit(
    tmp_path: Path, query: str, found: set[str]
) -> None:
    places = (
        {"scope": "tenant"},
        {"scope": "cluster"},
        {"scope": "cluster", "clusterId": "west"},
        {"scope": "department", "departmentId": "vision"},
        {"scope": "project", "projectId": "a"},
        {"scope": "project", "projectId": "b"},
    )
    async with Api(tmp_path) as api:
        for place in places:
            await api.must("PUT", TRAININGS, {"meta": place, "policy": {}})
        listed = await api.must("GET", f"/api/v2/policy{query}")

    metas = [one["meta"] for one in listed["policies"] if one["meta"]["scope"] != "system"]
    ids = ("projectId", "departmentId", "clusterId")
    assert {next((meta[key] for key in ids if key in meta), meta["scope"]) for meta in metas} == (
        found
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "details"),
    [
        ("scope=team", "scope: must be one of system, tenant, cluster, department, project"),
        (
            "scope=&clusterId=a",
            "scope: must be one of system, tenant, cluster, department, project",
        ),
        ("scope=department&projectId=a", "projectId: does not go with scope department"),
    ],
)
async def test_a_list_of_no_scope_is_refused(tmp_path: Path, query: str, details: str) -> None:
    async with Api(tmp_path) as api:
        answer = await api.get(f"/api/v2/policy?{query}")

    assert (answer.status, answer.details) == (400, details)
