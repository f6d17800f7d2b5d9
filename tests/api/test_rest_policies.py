"""Flat policies, and what is in force."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.api.rest import ACME, FIELD_GROUPS, MAPPINGS, POLICIES, Api
from tests.builders import DEPLOYMENT, JOB, make_gvk_policy, make_rule, make_workload_policy
from webhook.model.manifests import dump_yaml

CPU = {"max": {"key": "cpu", "value": "8"}}
LIMITS = make_rule("resourceLimits", "allContainers", CPU, allowOverride=True)
BODY: dict[str, Any] = {
    "workloadType": DEPLOYMENT,
    "scope": "project",
    "projectId": "team-a",
    "description": "What team-a may",
    "rules": [make_rule("replicas", "workload", {"max": 4})],
}
# A namespace that says where its project lies.
TEAM_A = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": "a",
        "labels": {"runai/queue": "team-a", "gatewright.io/department": "vision"},
    },
}


@pytest.mark.slow
async def test_a_policy_is_answered_with_what_is_in_force_beside_it(tmp_path: Path) -> None:
    wider = make_gvk_policy(LIMITS, kind=DEPLOYMENT, name="baseline")
    department = make_gvk_policy(
        make_rule("image", "allContainers", {"required": True}),
        kind=DEPLOYMENT,
        name="vision",
        scope="department",
        unit="vision",
    )
    async with Api(tmp_path, TEAM_A, wider, department) as api:
        created = await api.post(POLICIES, BODY)
        got = await api.get(f"{POLICIES}/{created.body['id']}")

    assert created.status == 201, created
    assert got.body == created.body
    assert got.headers["ETag"] == f'"{got.body["resourceVersion"]}"'
    assert {key: got.body[key] for key in BODY} == BODY
    assert got.body["name"] == "apps-v1-deployment-project-team-a"
    assert [
        (rule["field"], rule["specSelector"], rule["enforcements"], rule["sourceOfRule"])
        for rule in got.body["effectiveRules"]
    ] == [
        (
            "image",
            "allContainers",
            [{"required": True}],
            {"scope": "department", "departmentId": "vision", "policy": "vision"},
        ),
        (
            "replicas",
            "workload",
            [{"max": 4}],
            {"scope": "project", "projectId": "team-a", "policy": got.body["name"]},
        ),
        ("resourceLimits", "allContainers", [CPU], {"scope": "tenant", "policy": "baseline"}),
    ]


@pytest.mark.slow
async def test_a_patch_merges_rules_and_a_put_replaces_them(tmp_path: Path) -> None:
    more = make_rule("image", "allContainers", {"required": True})
    async with Api(tmp_path) as api:
        path = f"{POLICIES}/{(await api.must('POST', POLICIES, BODY))['id']}"
        patched = await api.patch(path, {"rules": [more], "description": None})
        put = await api.put(path, {"description": "new", "rules": [more]})
        got = await api.must("GET", path)

    assert (patched.status, put.status) == (200, 200)
    assert patched.body["rules"] == [*BODY["rules"], more]
    assert "description" not in patched.body
    assert (put.body["rules"], put.body["description"]) == ([more], "new")
    assert got == put.body
    assert {key: got[key] for key in ("workloadType", "scope", "projectId")} == {
        key: BODY[key] for key in ("workloadType", "scope", "projectId")
    }


async def test_an_answer_can_be_sent_back(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        created = await api.must("POST", POLICIES, BODY)
        path = f"{POLICIES}/{created['id']}"
        same = await api.put(path, created)
        late = await api.put(path, {**created, "resourceVersion": "other"})

    assert (same.status, late.status) == (200, 409)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 1023])
async def test_a_description_has_1_to_1023_characters(tmp_path: Path, length: int) -> None:
    text = "ä" * length
    async with Api(tmp_path) as api:
        created = await api.must("POST", POLICIES, {**BODY, "description": text})
        path = f"{POLICIES}/{created['id']}"
        refused = [
            await api.put(path, {"description": ""}),
            await api.patch(path, {"description": "ä" * 1024}),
        ]
        got = await api.must("GET", path)

    assert created["description"] == got["description"] == text
    assert [(answer.status, answer.details) for answer in refused] == [
        (
            400,
            f"description: must have 1 to 1023 characters, not {n}; a policy without one leaves it out",
        )
        for n in (0, 1024)
    ]


async def test_a_description_that_was_there_can_be_sent_back(tmp_path: Path) -> None:
    """kubectl and files know no such bound."""
    policy = make_gvk_policy(*BODY["rules"], kind=DEPLOYMENT)
    policy["spec"]["description"] = "x" * 2000
    async with Api(tmp_path) as api:
        policy["metadata"]["name"] = "long"
        (api.policies / "api-gvkpolicy-long.yaml").write_text(dump_yaml([policy]))
        api.store.load()
        (shown,) = (await api.must("GET", POLICIES))["policies"]
        same = await api.put(f"{POLICIES}/{shown['id']}", shown)

    assert (same.status, same.body["description"]) == (200, "x" * 2000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"scope": "tenant"}, "projectId", id="scope"),
        pytest.param({"projectId": "team-b"}, "scope", id="unit"),
        pytest.param({"workloadType": JOB}, "workloadType", id="kind"),
        pytest.param({"name": "other"}, "name", id="name"),
    ],
)
async def test_where_a_policy_holds_stays(tmp_path: Path, change: Any, path: str) -> None:
    async with Api(tmp_path) as api:
        url = f"{POLICIES}/{(await api.must('POST', POLICIES, BODY))['id']}"
        answers = [await api.put(url, change), await api.patch(url, change)]

    assert [answer.status for answer in answers] == [400, 400]
    assert all(answer.details.startswith(f"{path}: ") for answer in answers), answers


async def test_policies_are_filtered_by_type_and_scope(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        first = await api.must("POST", POLICIES, BODY)
        job = {"workloadType": JOB, "scope": "tenant", "rules": []}
        second = await api.must("POST", POLICIES, job)
        lists = [
            await api.must("GET", f"{POLICIES}?filterBy={filter_by}")
            for filter_by in ("type==batch/v1/Job", "scope!=tenant", f"id=={first['id']}")
        ]

    found = [[one["id"] for one in answer["policies"]] for answer in lists]
    assert found == [[second["id"]], [first["id"]], [first["id"]]]
    assert "effectiveRules" not in lists[0]["policies"][0]


@pytest.mark.slow
async def test_a_second_policy_for_kind_and_scope_needs_a_name(tmp_path: Path) -> None:
    more = {**BODY, "rules": [make_rule("image", "allContainers", {"required": True})]}
    async with Api(tmp_path) as api:
        first = await api.must("POST", POLICIES, BODY)
        again = await api.post(POLICIES, more)
        named = await api.post(POLICIES, {**more, "name": "team-a-images"})
        twice = await api.post(POLICIES, {**more, "name": "team-a-images"})
        odd = await api.post(POLICIES, {**more, "name": "Team_A"})

    assert again.status == 409
    assert first["id"] in again.details
    assert (named.status, named.body["name"]) == (201, "team-a-images")
    assert (twice.status, odd.status) == (409, 400)


@pytest.mark.slow
async def test_a_rule_that_another_policy_has_is_a_conflict_that_names_it(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", POLICIES, BODY)
        answer = await api.post(POLICIES, {**BODY, "name": "second"})

    assert answer.status == 409
    assert "field replicas already has rules" in answer.details
    assert "apps-v1-deployment-project-team-a" in answer.details


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_a_policy_that_is_gone_is_not_found(tmp_path: Path, method: str) -> None:
    async with Api(tmp_path) as api:
        path = f"{POLICIES}/{(await api.must('POST', POLICIES, BODY))['id']}"
        assert (await api.delete(path)).status == 204
        body: dict[str, Any] | None = {} if method in ("PUT", "PATCH") else None
        answer = await api.call(method, path, body)

    assert answer.status == 404


@pytest.mark.slow
async def test_unit_names_of_any_kind_give_policies_of_their_own(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        names = [
            (await api.must("POST", POLICIES, {**BODY, "projectId": unit}))["name"]
            for unit in ("team-a", "Team A", "TEAM A", "7/8")
        ]
        number = await api.must("POST", POLICIES, {**BODY, "projectId": 7})

    assert len(set(names)) == 4
    assert number["projectId"] == "7"


PLACE = {"workloadType": DEPLOYMENT, "scope": "tenant"}


async def test_effective_is_what_holds_in_all_of_the_scope(tmp_path: Path) -> None:
    documents = (
        TEAM_A,
        make_gvk_policy(LIMITS, kind=DEPLOYMENT, name="baseline"),
        make_gvk_policy(
            make_rule("replicas", "workload", {"max": 2}),
            kind=DEPLOYMENT,
            name="vision",
            scope="department",
            unit="vision",
        ),
        make_gvk_policy(
            make_rule("resourceLimits", "allContainers", {"max": {"key": "cpu", "value": "16"}}),
            kind=DEPLOYMENT,
            name="team-a",
            scope="project",
            unit="team-a",
        ),
    )
    async with Api(tmp_path, *documents) as api:
        found = {}
        for place in (
            {"scope": "tenant"},
            {"scope": "department", "departmentId": "vision"},
            {"scope": "department", "departmentId": "speech"},
            {"scope": "project", "projectId": "team-a"},
            {"scope": "project", "projectId": "team-a", "departmentId": "speech"},
            {"scope": "project", "projectId": "team-b"},
        ):
            body: dict[str, Any] = {"workloadType": DEPLOYMENT, **place}
            answer = await api.must("POST", f"{POLICIES}/effective", body)
            assert answer["workloadType"] == DEPLOYMENT
            sources = [rule["sourceOfRule"]["policy"] for rule in answer["effectiveRules"]]
            found["/".join(place.values())] = sorted(sources)
            overridden = [rule.get("overrides") for rule in answer["effectiveRules"]]

    assert found == {
        "tenant": ["baseline"],
        "department/vision": ["baseline", "vision"],
        "department/speech": ["baseline"],
        "project/team-a": ["team-a", "vision"],
        "project/team-a/speech": ["team-a"],
        "project/team-b": ["baseline"],
    }
    assert overridden == [None]


async def test_effective_shows_both_kinds_of_policy_and_hides_secrets(tmp_path: Path) -> None:
    policy = make_workload_policy(
        defaults={"environmentVariables": {"instances": [{"name": "A", "value": "hunter2"}]}}
    )
    async with Api(tmp_path, policy) as api:
        answer = await api.must(
            "POST", f"{POLICIES}/effective", {"workloadType": "training", "scope": "tenant"}
        )

    (rule,) = [one for one in answer["effectiveRules"] if one["field"] == "environmentVariables"]
    assert rule["enforcements"] == [{"default": {"key": "A", "value": "(not shown)"}}]
    assert "hunter2" not in str(answer)


@pytest.mark.slow
async def test_a_rule_on_some_items_says_which(tmp_path: Path) -> None:
    named = {"query": "select(.name == $ARGS.named.name)", "argsInfo": {"name": "string"}}
    group = {
        "name": "acmePorts",
        "fields": {"ports": {"type": "namesArray", "itemSelectors": ["named"]}},
        "itemSelectors": {"named": named},
    }
    mapping = {
        "workloadType": ACME,
        "specSelectors": {"job": {"query": ".spec", "fieldGroups": ["acmePorts"]}},
    }
    chosen = {"itemSelector": "named", "selectorParams": {"name": "http"}}
    body = {
        "workloadType": ACME,
        "scope": "tenant",
        "rules": [make_rule("ports", "job", {"required": True}, **chosen)],
    }
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, group)
        await api.must("POST", MAPPINGS, mapping)
        answer = await api.must("POST", POLICIES, body)

    assert answer["effectiveRules"] == [
        {
            "field": "ports",
            "specSelector": "job",
            **chosen,
            "enforcements": [{"required": True}],
            "sourceOfRule": {"scope": "tenant", "policy": answer["name"]},
        }
    ]


async def test_a_project_in_several_departments_needs_the_department(tmp_path: Path) -> None:
    other = {
        **TEAM_A,
        "metadata": {
            "name": "b",
            "labels": {"runai/queue": "team-a", "gatewright.io/department": "speech"},
        },
    }
    place = {"workloadType": DEPLOYMENT, "scope": "project", "projectId": "team-a"}
    async with Api(tmp_path, TEAM_A, other) as api:
        open_ = await api.post(f"{POLICIES}/effective", place)
        named = await api.post(f"{POLICIES}/effective", {**place, "departmentId": "speech"})

    assert (open_.status, named.status) == (400, 200)
    assert open_.details == "departmentId: is needed, one of: speech, vision"


@pytest.mark.slow
async def test_without_a_cluster_answers_say_when_a_file_was_written(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        first = await api.must("POST", POLICIES, BODY)
        second = await api.must("POST", POLICIES, {"workloadType": JOB, "scope": "tenant"})
        (file,) = api.policies.glob("api-gvkpolicy-apps-*.yaml")
        os.utime(file, (0, 1_700_000_000))
        api.store.load()
        got = await api.must("GET", f"{POLICIES}/{first['id']}")
        lists = [
            await api.must("GET", f"{POLICIES}?filterBy=updatedAt{condition}")
            for condition in ("<=2023-11-15", ">=2023-11-15")
        ]
        in_order = await api.must("GET", f"{POLICIES}?sortBy=updatedAt&sortOrder=desc")

    assert got["updatedAt"] == "2023-11-14T22:13:20Z"
    found = [[one["id"] for one in answer["policies"]] for answer in (*lists, in_order)]
    assert found == [[first["id"]], [second["id"]], [second["id"], first["id"]]]


@pytest.mark.slow
@pytest.mark.parametrize("query", ["filterBy=createdAt>=2020", "sortBy=createdAt"])
@pytest.mark.parametrize("path", [POLICIES, MAPPINGS, FIELD_GROUPS])
async def test_without_a_cluster_nothing_is_found_by_when_it_was_made(
    tmp_path: Path, path: str, query: str
) -> None:
    """Rather than an empty list, for which nobody knows the reason."""
    async with Api(tmp_path) as api:
        answer = await api.get(f"{path}?{query}")

    assert answer.status == 400
    assert answer.details == (
        "createdAt: is not known without a cluster: files have no such time; use updatedAt"
    )
