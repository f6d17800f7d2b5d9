"""Mappings, named by the workload type in the body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.rest import ACME, FIELD_GROUPS, MAPPINGS, Api
from tests.builders import DEPLOYMENT
from webhook.catalog import builtin_documents

JOB_GROUP = {
    "name": "acmeJobSpec",
    "fields": {"parallelism": {"type": "integer", "description": "pods at once"}},
}
MAPPING: dict[str, Any] = {
    "workloadType": ACME,
    "description": "AcmeJob",
    "specSelectors": {
        "job": {"description": "the job", "query": ".spec", "fieldGroups": ["acmeJobSpec"]},
        "podSpec": {"query": ".spec.template.spec", "fieldGroups": ["podSpec"]},
    },
}


@pytest.mark.slow
async def test_mappings_are_listed_filtered_by_workload_type(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        created = await api.must("POST", MAPPINGS, MAPPING)
        everything = await api.must("GET", MAPPINGS)
        mine = await api.must(
            "GET", f"{MAPPINGS}?filterBy=group==acme.io,kind==AcmeJob,version==v1"
        )
        core = await api.must("GET", f"{MAPPINGS}?filterBy=group==")

    shipped = [document for document in builtin_documents() if document.kind == "SpecMapping"]
    assert len(everything["mappings"]) == len(shipped) + 1
    assert mine == {"mappings": [created], "next": None}
    assert [one["workloadType"] for one in core["mappings"]] == [
        {"group": "", "version": "v1", "kind": "Pod"}
    ]


@pytest.mark.slow
async def test_a_mapping_is_answered_as_it_was_written(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        answer = await api.post(MAPPINGS, MAPPING)
        (stored,) = await api.store.list_documents("SpecMapping")

    shown = dict(answer.body)
    del shown["id"], shown["resourceVersion"], shown["updatedAt"]
    assert (answer.status, shown) == (201, {**MAPPING, "scope": "tenant"})
    assert stored.name == "acme.io-v1-acmejob"


@pytest.mark.slow
async def test_a_patch_merges_selectors_by_name(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        await api.must("POST", MAPPINGS, MAPPING)
        patch = {
            "workloadType": ACME,
            "specSelectors": {
                "podSpec": None,
                "job": {"dependency": {"path": "spec"}, "podTemplate": False},
                "metadata": {"query": ".metadata", "fieldGroups": ["metadata"]},
            },
        }
        answer = await api.patch(MAPPINGS, patch)

    selectors = answer.body["specSelectors"]
    assert answer.status == 200, answer
    assert selectors.keys() == {"job", "metadata"}
    assert selectors["job"] == {
        **MAPPING["specSelectors"]["job"],
        "dependency": {"path": "spec"},
        "podTemplate": False,
    }
    assert answer.body["workloadType"] == ACME


@pytest.mark.slow
async def test_a_mapping_is_deleted_by_its_workload_type(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        await api.must("POST", MAPPINGS, MAPPING)
        answers = [
            await api.delete(MAPPINGS, {"workloadType": {**ACME, "version": "v2"}}),
            await api.delete(MAPPINGS, {"workloadType": ACME}),
            await api.delete(MAPPINGS, {"workloadType": ACME}),
        ]

    assert [answer.status for answer in answers] == [404, 204, 404]
    assert answers[2].details == "there is no mapping for acme.io/v1/AcmeJob"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ACME, DEPLOYMENT], ids=["registered", "system"])
async def test_a_workload_type_has_one_mapping(tmp_path: Path, kind: dict[str, str]) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        await api.must("POST", MAPPINGS, MAPPING)
        again = await api.post(MAPPINGS, {**MAPPING, "workloadType": kind})

    assert again.status == 409
    assert "already" in again.details


async def test_mappings_of_the_system_are_immutable(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        answers = [
            await api.patch(MAPPINGS, {"workloadType": DEPLOYMENT, "description": "x"}),
            await api.delete(MAPPINGS, {"workloadType": DEPLOYMENT}),
        ]

    assert [answer.status for answer in answers] == [409, 409]
    assert answers[0].details == "apps-v1-deployment is a system mapping; it can't be changed"


async def test_minimal_tells_fields_and_selectors_and_no_expression(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        await api.must("POST", MAPPINGS, MAPPING)
        answer = await api.must("POST", f"{MAPPINGS}/minimal", {"workloadType": ACME})
        unknown = await api.post(f"{MAPPINGS}/minimal", {"workloadType": {**ACME, "kind": "Acme"}})

    assert answer["specSelectors"] == {"job": "the job", "podSpec": ""}
    assert answer["fields"]["parallelism"] == {"job": {}}
    assert answer["fields"]["hostNetwork"] == {"podSpec": {}}
    assert ".spec" not in str(answer)
    assert unknown.status == 404
    assert 'did you mean "acme.io/v1/AcmeJob"?' in unknown.details


async def test_field_info_tells_the_variations_of_a_field(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        await api.must("POST", MAPPINGS, MAPPING)
        body = {"workloadType": ACME, "fieldsRef": [{"field": "parallelism"}, {"field": "nothing"}]}
        one = await api.must("POST", f"{MAPPINGS}/field-info", body)
        everywhere = await api.must(
            "POST", f"{MAPPINGS}/field-info", {"fieldsRef": [{"field": "parallelism"}]}
        )
        at_selector = await api.must(
            "POST",
            f"{MAPPINGS}/field-info",
            {
                "workloadType": DEPLOYMENT,
                "fieldsRef": [{"field": "image", "specSelector": "allContainers"}],
            },
        )

    assert one == {
        "breakdown": {
            "parallelism": [
                {
                    "type": "integer",
                    "isMap": False,
                    "formatter": "",
                    "description": "pods at once",
                    "enforcements": one["breakdown"]["parallelism"][0]["enforcements"],
                    "itemSelectors": {},
                    "specSelectors": [
                        {"workloadType": ACME, "specSelector": "job", "description": "the job"}
                    ],
                }
            ]
        }
    }
    assert {"default", "set", "max"} <= set(one["breakdown"]["parallelism"][0]["enforcements"])
    kinds = [
        place["workloadType"]["kind"]
        for variation in everywhere["breakdown"]["parallelism"]
        for place in variation["specSelectors"]
    ]
    assert {"AcmeJob", "Job"} <= set(kinds)
    (variation,) = at_selector["breakdown"]["image"]
    assert [place["specSelector"] for place in variation["specSelectors"]] == ["allContainers"]


class FakeCluster:
    """Serves of acme.io the *kinds*, in version v1."""

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds

    async def kinds_of(self, group: str) -> dict[str, list[str]]:
        return {kind: ["v1"] for kind in self._kinds} if group == "acme.io" else {}


async def test_a_version_beside_those_that_are_served_is_refused(tmp_path: Path) -> None:
    async with Api(tmp_path, served=FakeCluster("AcmeJob")) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        wrong = await api.post(MAPPINGS, {**MAPPING, "workloadType": {**ACME, "version": "v2"}})
        # Whose CRD may be installed later.
        later = await api.post(MAPPINGS, {**MAPPING, "workloadType": {**ACME, "kind": "AcmeSet"}})
        right = await api.post(MAPPINGS, MAPPING)

    assert wrong.status == 400
    assert wrong.details == "workloadType.version: AcmeJob is not served as v2, but as v1"
    assert (later.status, right.status) == (201, 201)


IN_LOWER_CASE = {**ACME, "kind": "acmejob"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("served", "status", "details"),
    [
        pytest.param(
            FakeCluster("AcmeJob"),
            400,
            "workloadType.kind: AcmeJob is served, not acmejob: kinds are told apart by case",
            id="the-other-is-served",
        ),
        pytest.param(
            FakeCluster(),
            409,
            "there is a mapping for acme.io/v1/AcmeJob already; acme.io/v1/acmejob differs from it"
            " in case only, by which kinds are told apart",
            id="none-is-served",
        ),
        pytest.param(
            None,
            409,
            "there is a mapping for acme.io/v1/AcmeJob already; acme.io/v1/acmejob differs from it"
            " in case only, by which kinds are told apart",
            id="nobody-knows",
        ),
    ],
)
async def test_a_kind_that_differs_in_case_only_is_refused(
    tmp_path: Path, served: Any, status: int, details: str
) -> None:
    async with Api(tmp_path, served=served) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        await api.must("POST", MAPPINGS, MAPPING)
        answer = await api.post(MAPPINGS, {**MAPPING, "workloadType": IN_LOWER_CASE})

    assert (answer.status, answer.details) == (status, details)


async def test_a_kind_that_differs_in_case_only_is_taken_where_it_is_served(tmp_path: Path) -> None:
    async with Api(tmp_path, served=FakeCluster("AcmeJob", "acmejob")) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        first = await api.must("POST", MAPPINGS, MAPPING)
        second = await api.must("POST", MAPPINGS, {**MAPPING, "workloadType": IN_LOWER_CASE})
        deleted = await api.delete(MAPPINGS, {"workloadType": IN_LOWER_CASE})
        left = await api.must("GET", f"{MAPPINGS}?filterBy=group==acme.io")

    assert second["id"] != first["id"]
    assert deleted.status == 204
    assert [one["id"] for one in left["mappings"]] == [first["id"]]


async def test_a_system_kind_in_another_case_is_refused_too(tmp_path: Path) -> None:
    kind = {**DEPLOYMENT, "kind": "deployment"}
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB_GROUP)
        answer = await api.post(MAPPINGS, {**MAPPING, "workloadType": kind})

    assert answer.status == 409
    assert answer.details.startswith("there is a system mapping for apps/v1/Deployment already; ")


@pytest.mark.parametrize("body", [None, {}], ids=["no-body", "empty-object"])
async def test_what_is_to_be_deleted_has_to_be_named(tmp_path: Path, body: Any) -> None:
    async with Api(tmp_path) as api:
        answer = await api.delete(MAPPINGS, body)

    assert (answer.status, answer.details) == (
        400,
        "workloadType: is needed: {group, version, kind}",
    )
