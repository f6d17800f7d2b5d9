"""What must be so before anything is written: versions, and that there is one or none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api.acme import FORMATTER, JOB_GROUP, MAPPING, POLICY, VOLUME_GROUP
from tests.api.rest import ACME, FIELD_GROUPS, FORMATTERS, MAPPINGS, POLICIES, TRAININGS, Api
from tests.builders import make_workload_policy
from tests.jq import make_group

ID = "{id}"
SCOPE = {"scope": "tenant"}
NATIVE = {"meta": SCOPE, "policy": {"defaults": {"image": "ghcr.io/a/b:1"}}}

# What each resource needs, and the request that makes one.
NEEDS: dict[str, list[tuple[str, Any]]] = {
    FORMATTERS: [],
    FIELD_GROUPS: [],
    MAPPINGS: [(FORMATTERS, FORMATTER), (FIELD_GROUPS, JOB_GROUP), (FIELD_GROUPS, VOLUME_GROUP)],
    POLICIES: [
        (FORMATTERS, FORMATTER),
        (FIELD_GROUPS, JOB_GROUP),
        (FIELD_GROUPS, VOLUME_GROUP),
        (MAPPINGS, MAPPING),
    ],
    TRAININGS: [],
}
CREATE = [
    pytest.param("POST", FORMATTERS, FORMATTER, id="formatter"),
    pytest.param("POST", FIELD_GROUPS, JOB_GROUP, id="field-group"),
    pytest.param("POST", MAPPINGS, MAPPING, id="mapping"),
    pytest.param("POST", POLICIES, POLICY, id="policy"),
    pytest.param("PUT", TRAININGS, NATIVE, id="native-policy"),
]
BODIES: dict[str, Any] = {parameters.values[1]: parameters.values[2] for parameters in CREATE}  # type: ignore[misc]  # pytest


@dataclass(frozen=True)
class Route:
    """A route that changes what is there; *version_at* is where its body may name a version."""

    resource: str
    method: str
    path: str
    body: Any = None
    version_at: str | None = "resourceVersion"


NEW = {"description": "new"}
CHANGE = [
    Route(FORMATTERS, "PATCH", f"{FORMATTERS}/podSpecVolumes", NEW),
    Route(FORMATTERS, "DELETE", f"{FORMATTERS}/podSpecVolumes", version_at=None),
    Route(FIELD_GROUPS, "PATCH", f"{FIELD_GROUPS}/acmeJobSpec", NEW),
    Route(FIELD_GROUPS, "DELETE", f"{FIELD_GROUPS}/acmeJobSpec", version_at=None),
    Route(MAPPINGS, "PATCH", MAPPINGS, {"workloadType": ACME, **NEW}),
    Route(MAPPINGS, "DELETE", MAPPINGS, {"workloadType": ACME}),
    Route(POLICIES, "PUT", f"{POLICIES}/{ID}", {"rules": POLICY["rules"], **NEW}),
    Route(POLICIES, "PATCH", f"{POLICIES}/{ID}", NEW),
    Route(POLICIES, "DELETE", f"{POLICIES}/{ID}", version_at=None),
    Route(TRAININGS, "PUT", TRAININGS, NATIVE, "meta"),
    Route(TRAININGS, "PATCH", TRAININGS, NATIVE, "meta"),
    Route(TRAININGS, "DELETE", f"{TRAININGS}?scope=tenant", version_at=None),
    Route(TRAININGS, "PUT", f"{TRAININGS}?validateOnly=true", NATIVE, "meta"),
    Route(TRAININGS, "PATCH", f"{TRAININGS}?validateOnly=true", NATIVE, "meta"),
]
changing = pytest.mark.parametrize("route", CHANGE, ids=lambda one: f"{one.method} {one.path}")


def written(api: Api) -> dict[str, str]:
    """All that the API has written."""
    return {file.name: file.read_text() for file in api.policies.iterdir()}


async def prepare(api: Api, resource: str) -> None:
    for path, body in NEEDS[resource]:
        await api.must("POST", path, body)


async def make(api: Api, resource: str) -> tuple[str, str]:
    """The id and the version of a new object of *resource*."""
    await prepare(api, resource)
    made = await api.must("PUT" if resource == TRAININGS else "POST", resource, BODIES[resource])
    told = made.get("meta", made)
    return told["id"], told["resourceVersion"]


def filled(headers: dict[str, Any], version: str) -> dict[str, Any]:
    return {name: text.replace("{version}", version) for name, text in headers.items()}


def with_version(route: Route, version: Any) -> Any:
    if route.version_at == "meta":
        return {**route.body, "meta": {**route.body["meta"], "resourceVersion": version}}
    return {**route.body, "resourceVersion": version}


REFUSED: list[tuple[dict[str, Any], int]] = [
    ({"If_Match": '"other"'}, 409),
    ({"If_Match": '"other", "more"'}, 409),
    ({"If_None_Match": "*"}, 412),
    ({"If_None_Match": '"{version}"'}, 412),
    ({"If_Match": '"open'}, 400),
    ({"If_None_Match": '*, "a"'}, 400),
    ({"If_Match": ""}, 400),
    ({"If_Match": " , "}, 400),
    ({"If_None_Match": ""}, 400),
    ({"If_None_Match": ","}, 400),
    # A tag may be empty, and is that of no version.
    ({"If_Match": '""'}, 409),
]


@pytest.mark.slow
@changing
async def test_where_it_is_not_so_nothing_is_changed(tmp_path: Path, route: Route) -> None:
    async with Api(tmp_path) as api:
        made, version = await make(api, route.resource)
        before = written(api)
        answers = [
            await api.call(
                route.method,
                route.path.replace(ID, made),
                route.body,
                **filled(headers, version),
            )
            for headers, _ in REFUSED
        ]
        after = written(api)

    assert [answer.status for answer in answers] == [status for _, status in REFUSED]
    assert all(answer.details for answer in answers)
    assert after == before


@pytest.mark.slow
@changing
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"If_Match": "*"}, id="any-version"),
        pytest.param({"If_Match": '"other", W/"{version}"'}, id="one-that-a-proxy-made-weak"),
        pytest.param({"If_None_Match": '"other"'}, id="not-another-version"),
    ],
)
async def test_where_it_is_so_the_request_is_carried_out(
    tmp_path: Path, route: Route, headers: dict[str, Any]
) -> None:
    async with Api(tmp_path) as api:
        made, version = await make(api, route.resource)
        path = route.path.replace(ID, made)
        answer = await api.call(route.method, path, route.body, **filled(headers, version))

    assert answer.status in (200, 204), answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "route",
    [route for route in CHANGE if route.version_at],
    ids=lambda one: f"{one.method} {one.path}",
)
async def test_a_version_in_the_body_counts_as_one_in_the_head(
    tmp_path: Path, route: Route
) -> None:
    async with Api(tmp_path) as api:
        made, version = await make(api, route.resource)
        path = route.path.replace(ID, made)
        before = written(api)
        stale = await api.call(route.method, path, with_version(route, "other"))
        two = await api.call(route.method, path, with_version(route, version), If_Match='"other"')
        after = written(api)
        good = await api.call(route.method, path, with_version(route, version))

    assert (stale.status, two.status, good.status) == (409, 400, 204 if good.body is None else 200)
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize("version", ["", None, 1, ["1"]], ids=repr)
@pytest.mark.parametrize(
    "route",
    [route for route in CHANGE if route.version_at],
    ids=lambda one: f"{one.method} {one.path}",
)
async def test_a_version_in_the_body_that_says_none_is_refused(
    tmp_path: Path, route: Route, version: Any
) -> None:
    async with Api(tmp_path) as api:
        made, _ = await make(api, route.resource)
        before = written(api)
        body = with_version(route, version)
        answer = await api.call(route.method, route.path.replace(ID, made), body)
        after = written(api)

    assert (answer.status, after) == (400, before), answer
    assert "resourceVersion" in answer.details


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "body"), CREATE)
async def test_what_must_be_there_already_is_not_made(
    tmp_path: Path, method: str, path: str, body: Any
) -> None:
    async with Api(tmp_path) as api:
        await prepare(api, path)
        before = written(api)
        any_version = await api.call(method, path, body, If_Match="*")
        one_version = await api.call(method, path, body, If_Match='"1"')
        after = written(api)

    assert (any_version.status, one_version.status) == (412, 409)
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "body"), CREATE)
async def test_what_must_not_be_there_is_made_once(
    tmp_path: Path, method: str, path: str, body: Any
) -> None:
    async with Api(tmp_path) as api:
        await prepare(api, path)
        first = await api.call(method, path, body, If_None_Match="*")
        before = written(api)
        second = await api.call(method, path, body, If_None_Match="*")
        after = written(api)

    assert (first.status, second.status) == (201, 412)
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        pytest.param(
            {"fields": {"own": {"type": "string"}}}, {"If_None_Match": "*"}, 412, id="none"
        ),
        pytest.param(
            {"fields": {"own": {"type": "string"}}}, {"If_Match": '"1"'}, 409, id="version"
        ),
        pytest.param({"fields": {"own": {"type": "string"}}}, {"If_Match": "*"}, 200, id="any"),
    ],
)
async def test_a_group_of_the_system_is_there_and_has_no_version(
    tmp_path: Path, body: Any, headers: dict[str, Any], status: int
) -> None:
    async with Api(tmp_path) as api:
        answer = await api.patch(f"{FIELD_GROUPS}/podSpec", body, **headers)
        files = written(api)

    assert (answer.status, bool(files)) == (status, status == 200), answer


ADDED = {"fields": {"own": {"type": "string"}}}
MORE = {"fields": {"more": {"type": "string"}}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        pytest.param({"If_Match": '"{version}"'}, MORE, 200, id="this-version"),
        pytest.param({}, {**MORE, "resourceVersion": "{version}"}, 200, id="in-the-body"),
        pytest.param({"If_Match": '"other"'}, MORE, 409, id="another-version"),
        pytest.param({"If_None_Match": "*"}, MORE, 412, id="none"),
        pytest.param({"If_None_Match": '"{version}"'}, MORE, 412, id="not-this-version"),
    ],
)
async def test_what_was_added_to_a_group_of_the_system_has_a_version(
    tmp_path: Path, headers: dict[str, Any], body: Any, status: int
) -> None:
    group = f"{FIELD_GROUPS}/podSpec"
    async with Api(tmp_path) as api:
        shipped = await api.get(group)
        made = await api.patch(group, ADDED)
        shown = await api.get(group)
        (listed,) = [
            one
            for one in (await api.get(FIELD_GROUPS)).body["fieldGroups"]
            if one["name"] == "podSpec"
        ]
        version = shown.body["resourceVersion"]
        answer = await api.patch(
            group,
            {key: version if key == "resourceVersion" else value for key, value in body.items()},
            **filled(headers, version),
        )
        now = await api.get(group)

    assert "resourceVersion" not in shipped.body
    assert "ETag" not in shipped.headers
    assert made.body["resourceVersion"] == listed["resourceVersion"] == version
    assert made.headers["ETag"] == shown.headers["ETag"] == f'"{version}"'
    assert shown.body["id"] == shipped.body["id"]
    assert answer.status == status, answer
    assert ("more" in now.body["fields"]) == (status == 200)
    assert (now.body["resourceVersion"] != version) == (status == 200)


@pytest.mark.slow
async def test_a_version_of_a_group_of_the_system_goes_with_what_was_added(tmp_path: Path) -> None:
    group = f"{FIELD_GROUPS}/podSpec"
    async with Api(tmp_path) as api:
        made = await api.patch(group, ADDED)
        taken = await api.patch(
            group, {"fields": {"own": None}, "resourceVersion": made.body["resourceVersion"]}
        )
        files = written(api)
        again = await api.patch(group, {**ADDED, "resourceVersion": made.body["resourceVersion"]})

    assert (made.status, taken.status, again.status) == (200, 200, 409)
    assert "resourceVersion" not in taken.body
    assert files == {}


@pytest.mark.slow
async def test_what_a_person_added_to_a_group_of_the_system_is_not_ours_to_change(
    tmp_path: Path,
) -> None:
    group = f"{FIELD_GROUPS}/podSpec"
    async with Api(tmp_path, make_group(ADDED["fields"], name="podSpec")) as api:
        shown = await api.get(group)
        answer = await api.patch(group, MORE)

    assert "own" in shown.body["fields"]
    assert "resourceVersion" not in shown.body
    assert (answer.status, answer.details) == (409, shown.body["readOnly"])


# -- trials ---------------------------------------------------------------------------------------

OTHER_RULES = {"meta": SCOPE, "policy": {"rules": {"compute": {"gpuDevicesRequest": {"max": 2}}}}}
WRONG = {
    "meta": SCOPE,
    "policy": {"rules": {"compute": {"gpuDevicesRequest": {"min": 5, "max": 4}}}},
}
IN_PROJECT = {**OTHER_RULES, "meta": {"scope": "project", "projectId": "a"}}
GIVEN = make_workload_policy(defaults={"image": "a"}, name="by-hand")


async def nothing(_api: Api) -> None:
    pass


async def native(api: Api) -> None:
    await api.must("PUT", TRAININGS, NATIVE)


async def rules(api: Api) -> None:
    await api.must("PUT", TRAININGS, OTHER_RULES)


async def file_in_the_way(api: Api) -> None:
    (api.policies / "api-workloadpolicy-training-tenant.yaml").write_text("# nothing yet\n")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("given", "before", "body", "headers"),
    [
        pytest.param([], nothing, NATIVE, {}, id="absent"),
        pytest.param([], nothing, NATIVE, {"If_Match": "*"}, id="absent-and-must-be-there"),
        pytest.param([], nothing, NATIVE, {"If_Match": '"1"'}, id="absent-and-a-version"),
        pytest.param(
            [], nothing, NATIVE, {"If_None_Match": "*"}, id="absent-and-must-not-be-there"
        ),
        pytest.param([], nothing, WRONG, {}, id="wrong"),
        pytest.param([], native, OTHER_RULES, {}, id="there"),
        pytest.param([], native, OTHER_RULES, {"If_Match": '"old"'}, id="another-version"),
        pytest.param([], native, OTHER_RULES, {"If_None_Match": "*"}, id="must-not-be-there"),
        pytest.param([], native, WRONG, {"If_Match": "*"}, id="there-and-wrong"),
        pytest.param(
            [],
            native,
            {**NATIVE, "meta": {**SCOPE, "resourceVersion": "old"}},
            {},
            id="version-in-the-body",
        ),
        pytest.param([], rules, IN_PROJECT, {}, id="a-wider-one-holds-the-field"),
        pytest.param([GIVEN], nothing, NATIVE, {}, id="another-document-holds-the-slot"),
        pytest.param([], nothing, {**NATIVE, "meta": {"scope": "system"}}, {}, id="of-the-system"),
        pytest.param([], file_in_the_way, NATIVE, {}, id="a-file-stands-in-the-way"),
    ],
)
async def test_a_trial_answers_as_the_write_would_and_writes_nothing(
    tmp_path: Path,
    method: str,
    given: list[Any],
    before: Callable[[Api], Awaitable[None]],
    body: Any,
    headers: dict[str, Any],
) -> None:
    async with Api(tmp_path, *given) as api:
        await before(api)
        there = written(api)
        trial = await api.call(method, f"{TRAININGS}?validateOnly=true", body, **headers)
        after = written(api)
        real = await api.call(method, TRAININGS, body, **headers)

    assert after == there
    if real.status in (200, 201):
        assert trial.status == 200
        assert trial.body["policy"] == real.body["policy"]
    else:
        assert (trial.status, trial.body) == (real.status, real.body)
