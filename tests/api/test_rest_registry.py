"""Formatters and field groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.rest import FIELD_GROUPS, FORMATTERS, Api
from tests.builders import POLICY_API

JOB = {"name": "acmeJobSpec", "fields": {"parallelism": {"type": "integer"}}}
READ = {"getExpr": ".a", "setExpr": "{a: $ARGS.named.value}", "argsInfo": {"value": "string"}}
FORMATTER = {"name": "acme-a", "description": "reads a", "fields": {"a": READ}}


def names(answer: Any, key: str, scope: str) -> list[str]:
    return [one["name"] for one in answer[key] if one["scope"] == scope]


@pytest.mark.slow
async def test_what_ships_is_listed_beside_what_is_registered(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FORMATTERS, FORMATTER)
        await api.must("POST", FIELD_GROUPS, JOB)
        formatters = await api.must("GET", FORMATTERS)
        groups = await api.must("GET", FIELD_GROUPS)

    assert names(formatters, "formatters", "system") == [
        "ChartImage",
        "KeyValue",
        "KeyValueMap",
        "NimImage",
        "SparkConfGpus",
        "SparkGpus",
        "VirtualMachineGpus",
    ]
    assert names(formatters, "formatters", "tenant") == ["acme-a"]
    shipped = names(groups, "fieldGroups", "system")
    assert {"podSpec", "podSpecContainer", "podSpecAndContainer", "metadata"} <= set(shipped)
    assert names(groups, "fieldGroups", "tenant") == ["acmeJobSpec"]
    assert formatters["next"] is None


async def test_an_object_is_answered_as_it_was_written(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        created = await api.post(FIELD_GROUPS, JOB)
        got = await api.get(f"{FIELD_GROUPS}/ACMEjobspec")

    assert (created.status, got.status) == (201, 200)
    assert created.body == got.body
    assert got.headers["ETag"] == f'"{got.body["resourceVersion"]}"'
    shown = dict(got.body)
    del shown["resourceVersion"], shown["id"], shown["updatedAt"]
    assert shown == {**JOB, "scope": "tenant"}


async def test_the_document_has_a_dns_name_and_says_the_given_one(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB)
        (stored,) = await api.store.list_documents("FieldGroup")

    assert stored.name == "acmejobspec"
    assert stored.manifest["spec"]["name"] == "acmeJobSpec"
    assert (tmp_path / "policies" / "api-fieldgroup-acmejobspec.yaml").exists()


async def test_a_name_whose_document_is_taken_gets_another_document(tmp_path: Path) -> None:
    """`metadata.name` is anybody's choice; what names an object is `spec.name`."""
    taken = {
        "apiVersion": POLICY_API,
        "kind": "FieldGroup",
        "metadata": {"name": "acmejobspec"},
        "spec": {"name": "other", "fields": {}},
    }
    async with Api(tmp_path, taken) as api:
        created = await api.post(FIELD_GROUPS, JOB)
        documents = await api.store.list_documents("FieldGroup")
        listed = await api.must("GET", FIELD_GROUPS)

    assert created.status == 201
    assert len({document.name for document in documents}) == 2
    assert sorted(names(listed, "fieldGroups", "tenant")) == ["acmeJobSpec", "other"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["acmeJobSpec", "ACMEJOBSPEC", "podSpec", "PodSpec"])
async def test_a_name_is_given_once_whatever_its_case(tmp_path: Path, name: str) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, JOB)
        again = await api.post(FIELD_GROUPS, {**JOB, "name": name})

    assert again.status == 409
    assert "already" in again.details


@pytest.mark.slow
async def test_a_patch_merges_maps_by_name_and_null_removes(tmp_path: Path) -> None:
    first = {"a": READ, "b": READ}
    async with Api(tmp_path) as api:
        await api.must("POST", FORMATTERS, {**FORMATTER, "fields": first})
        patch = {"description": None, "fields": {"b": None, "c": {"setExpr": "{c: 1}"}}}
        answer = await api.patch(f"{FORMATTERS}/acme-a", patch)
        got = await api.must("GET", f"{FORMATTERS}/acme-a")

    assert answer.status == 200, answer
    assert got == answer.body
    assert got["fields"] == {"a": READ, "c": {"setExpr": "{c: 1}"}}
    assert "description" not in got


@pytest.mark.slow
async def test_an_answer_can_be_sent_back(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FORMATTERS, FORMATTER)
        shown = await api.must("GET", f"{FORMATTERS}/acme-a")
        answer = await api.patch(f"{FORMATTERS}/acme-a", {**shown, "description": "new"})

    assert answer.status == 200, answer
    assert answer.body["description"] == "new"


async def test_a_name_stays(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        await api.must("POST", FORMATTERS, FORMATTER)
        same = await api.patch(f"{FORMATTERS}/acme-a", {"name": "ACME-A", "description": "x"})
        other = await api.patch(f"{FORMATTERS}/acme-a", {"name": "acme-b"})

    assert (same.status, same.body["name"]) == (200, "acme-a")
    assert (other.status, other.details) == (400, "name: can't be changed")


@pytest.mark.parametrize("name", ["KeyValue", "keyvaluemap"])
async def test_formatters_of_the_system_are_immutable(tmp_path: Path, name: str) -> None:
    async with Api(tmp_path) as api:
        answers = [
            await api.post(FORMATTERS, {**FORMATTER, "name": name}),
            await api.patch(f"{FORMATTERS}/{name}", {"description": "x"}),
            await api.delete(f"{FORMATTERS}/{name}"),
        ]

    assert [answer.status for answer in answers] == [409, 409, 409]
    assert all("system formatter" in answer.details for answer in answers)


@pytest.mark.slow
async def test_a_group_of_the_system_is_added_to_and_nothing_else(tmp_path: Path) -> None:
    path = f"{FIELD_GROUPS}/podSpec"
    async with Api(tmp_path) as api:
        before = await api.must("GET", path)
        added = await api.patch(path, {"fields": {"overhead": {"type": "object"}}})
        twice = await api.patch(path, {"fields": {"schedulingGates": {"type": "namesArray"}}})
        listed = await api.must("GET", FIELD_GROUPS)
        (document,) = await api.store.list_documents("FieldGroup")
        refused = [
            await api.patch(path, {"fields": {"hostNetwork": {"type": "string"}}}),
            await api.patch(path, {"fields": {"hostNetwork": None}}),
            await api.patch(path, {"description": "mine"}),
            await api.delete(path),
        ]
        await api.must("PATCH", path, {"fields": {"overhead": None}})
        left = await api.must("GET", path)
        await api.must("PATCH", path, {"fields": {"schedulingGates": None}})
        after = await api.must("GET", path)
        documents = await api.store.list_documents("FieldGroup")

    assert added.body["fields"] == {**before["fields"], "overhead": {"type": "object"}}
    assert twice.body["scope"] == "system"
    assert {"overhead", "schedulingGates"} <= twice.body["fields"].keys()
    assert document.manifest["spec"].keys() == {"name", "fields"}
    assert [one for one in listed["fieldGroups"] if one["name"] == "podSpec"] == [twice.body]
    assert [answer.status for answer in refused] == [409] * 4
    assert "hostNetwork can't be changed" in refused[0].details
    assert "overhead" not in left["fields"]
    assert after == before
    assert list(documents) == []


@pytest.mark.slow
async def test_what_was_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = f"{FORMATTERS}/acme-a"
    async with Api(tmp_path) as api:
        first = await api.must("POST", FORMATTERS, FORMATTER)
        version = first["resourceVersion"]
        second = await api.patch(path, {"description": "2", "resourceVersion": version})
        late = [
            await api.patch(path, {"description": "3", "resourceVersion": version}),
            await api.patch(path, {"description": "3"}, If_Match=f'"{version}"'),
            await api.delete(path, If_Match=f'"{version}"'),
        ]
        now = second.body["resourceVersion"]
        in_time = await api.patch(path, {"description": "3"}, If_Match=f'W/"{now}"')
        anything = await api.patch(path, {"description": "4"}, If_Match="*")
        odd = await api.patch(path, {"resourceVersion": now}, If_Match='"other"')

    assert second.status == 200
    assert [answer.status for answer in late] == [409, 409, 409]
    assert all("changed meanwhile" in answer.details for answer in late)
    assert (in_time.status, anything.status, odd.status) == (200, 200, 400)


async def test_documents_in_files_of_others_are_read_only(tmp_path: Path) -> None:
    given = {
        "apiVersion": POLICY_API,
        "kind": "FieldGroup",
        "metadata": {"name": "mine"},
        "spec": {"fields": {"a": {"type": "string"}}},
    }
    async with Api(tmp_path, given) as api:
        shown = await api.must("GET", f"{FIELD_GROUPS}/mine")
        refused = [
            await api.patch(f"{FIELD_GROUPS}/mine", {"description": "x"}),
            await api.delete(f"{FIELD_GROUPS}/mine"),
        ]

    assert shown["fields"] == {"a": {"type": "string"}}
    assert "given.yaml" in shown["readOnly"]
    assert [answer.status for answer in refused] == [409, 409]
    assert all("given.yaml" in answer.details for answer in refused)


async def test_documents_that_are_not_in_force_are_shown_with_the_reason(tmp_path: Path) -> None:
    broken = {
        "apiVersion": POLICY_API,
        "kind": "FieldGroup",
        "metadata": {"name": "broken"},
        "spec": {"fields": {"a": {"typ": "string"}}},
    }
    async with Api(tmp_path, broken) as api:
        shown = await api.must("GET", f"{FIELD_GROUPS}/broken")

    assert shown["problems"] == ['fields.a.typ: unknown field; did you mean "type"?']


@pytest.mark.slow
async def test_a_list_is_filtered_sorted_and_cut_into_pages(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        for name in ("beta", "alpha", "gamma"):
            await api.must("POST", FORMATTERS, {**FORMATTER, "name": name})
        mine = f"{FORMATTERS}?filterBy=scope==tenant&sortOrder=desc&limit=2"
        first = await api.must("GET", mine)
        second = await api.must("GET", f"{mine}&next={first['next']}")

    assert [one["name"] for one in first["formatters"]] == ["gamma", "beta"]
    assert [one["name"] for one in second["formatters"]] == ["alpha"]
    assert second["next"] is None
