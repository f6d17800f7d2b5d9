"""Who may call the API, and what it says to the others."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.api.gate import Gate
from tests.api.rest import (
    ACME,
    ADMIN,
    FIELD_GROUPS,
    FORMATTERS,
    MAPPINGS,
    NOBODY,
    POLICIES,
    TRAININGS,
    VIEWER,
    Api,
)
from tests.builders import make_gvk_policy
from webhook.api.app import API_PREFIX

POD = {"version": "v1", "kind": "Pod"}
PLACE = {"workloadType": POD, "scope": "tenant"}
NO_ID = "00000000-0000-0000-0000-000000000000"
META = {"meta": {"scope": "tenant"}}

READING: list[tuple[str, str, Any]] = [
    ("GET", FORMATTERS, None),
    ("GET", f"{FORMATTERS}/KeyValue", None),
    ("GET", FIELD_GROUPS, None),
    ("GET", f"{FIELD_GROUPS}/podSpec", None),
    ("GET", MAPPINGS, None),
    ("POST", f"{MAPPINGS}/minimal", {"workloadType": POD}),
    ("POST", f"{MAPPINGS}/field-info", {"workloadType": POD}),
    ("GET", POLICIES, None),
    ("POST", f"{POLICIES}/effective", PLACE),
    ("GET", "/api/v2/policy", None),
    ("GET", f"{TRAININGS}?scope=system", None),
    ("GET", "/api/v1/decisions", None),
    ("POST", "/api/v1/review", {"apiVersion": "v1", "kind": "Pod"}),
    ("GET", "/api/openapi.json", None),
]
WRITING: list[tuple[str, str, Any]] = [
    ("POST", FORMATTERS, {"name": "a"}),
    ("PATCH", f"{FORMATTERS}/a", {}),
    ("DELETE", f"{FORMATTERS}/a", None),
    ("POST", FIELD_GROUPS, {"name": "a"}),
    ("PATCH", f"{FIELD_GROUPS}/podSpec", {}),
    ("DELETE", f"{FIELD_GROUPS}/podSpec", None),
    ("POST", MAPPINGS, {"workloadType": ACME}),
    ("PATCH", MAPPINGS, {"workloadType": ACME}),
    ("DELETE", MAPPINGS, {"workloadType": ACME}),
    ("POST", POLICIES, PLACE),
    ("PUT", f"{POLICIES}/{NO_ID}", {}),
    ("PATCH", f"{POLICIES}/{NO_ID}", {}),
    ("DELETE", f"{POLICIES}/{NO_ID}", None),
    ("PUT", TRAININGS, META),
    ("PUT", f"{TRAININGS}?validateOnly=true", META),
    ("PATCH", TRAININGS, META),
    ("DELETE", f"{TRAININGS}?scope=tenant", None),
]
RIGHTS = {
    ("POST", FORMATTERS): "create formatters.policy.gatewright.io",
    ("PATCH", f"{FORMATTERS}/a"): "patch formatters.policy.gatewright.io a",
    ("DELETE", f"{FIELD_GROUPS}/podSpec"): "delete fieldgroups.policy.gatewright.io podspec",
    ("PATCH", MAPPINGS): "patch specmappings.policy.gatewright.io acme.io-v1-acmejob",
    ("PUT", f"{POLICIES}/{NO_ID}"): "update gvkpolicies.policy.gatewright.io",
    # PUT of what is not there yet.
    ("PUT", TRAININGS): "create workloadpolicies.policy.gatewright.io",
    ("PUT", f"{TRAININGS}?validateOnly=true"): "create workloadpolicies.policy.gatewright.io",
    ("PATCH", TRAININGS): "patch workloadpolicies.policy.gatewright.io training-tenant",
}


async def test_nobody_gets_in_without_a_valid_token(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        for method, path, body in (*READING, *WRITING):
            for shown, error in (
                ("", ""),
                (f"Basic {ADMIN}", ""),
                ("Bearer ", ""),
                (f"Bearer {ADMIN.upper()}", ', error="invalid_token"'),
                ("Bearer ä", ', error="invalid_token"'),
                ("Bearer " + "x" * 7000, ', error="invalid_token"'),
            ):
                answer = await api.call(method, path, body, token=None, Authorization=shown)
                challenge = f'Bearer realm="gatewright"{error}'
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, challenge)
                assert "bearer token" in answer.details


@pytest.mark.parametrize("shown", [None, "wrong-token", NOBODY], ids=["nothing", "wrong", "nobody"])
async def test_no_door_is_open_to_who_has_no_right(tmp_path: Path, shown: str | None) -> None:
    """Each that there is, whatever was added since this was written."""
    async with Api(tmp_path) as api:
        doors = {
            (route.method, re.sub(r"\{[^}]*\}", NO_ID, route.resource.canonical))
            for route in api.client.app.router.routes()
            if route.resource is not None and route.resource.canonical.startswith(API_PREFIX)
        }
        before = sorted(api.policies.iterdir())
        answers = {
            (method, path): (await api.client.request(method, path, json={}, headers=head(shown)))
            for method, path in doors
        }

    assert len(answers) > 40
    wanted = {403} if shown == NOBODY else {401}
    # What is needed to know the right is looked at before it.
    allowed = wanted | ({400, 404} if shown == NOBODY else set())
    assert {door: a.status for door, a in answers.items() if a.status not in allowed} == {}
    assert wanted <= {answer.status for answer in answers.values()}
    assert sorted(api.policies.iterdir()) == before


def head(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


async def test_a_viewer_reads_everything_and_writes_nothing(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        for method, path, body in READING:
            answer = await api.call(method, path, body, token=VIEWER)
            assert answer.status == 200, (method, path, answer)
        for method, path, body in WRITING:
            answer = await api.call(method, path, body, token=VIEWER)
            assert answer.status == 403, (method, path, answer)
            right = RIGHTS.get((method, path), "")
            assert answer.details.startswith(f"vera may not {right}")


async def test_who_is_known_and_has_no_right_is_told_which(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        refusals = {
            (method, path): (await api.call(method, path, body, token=NOBODY))
            for method, path, body in (*READING, *WRITING)
        }

    assert {answer.status for answer in refusals.values()} == {403}
    assert refusals["GET", FORMATTERS].details == (
        "nick may not list formatters.policy.gatewright.io"
    )
    assert refusals["GET", f"{FIELD_GROUPS}/podSpec"].details == (
        "nick may not get fieldgroups.policy.gatewright.io podspec"
    )
    assert refusals["GET", "/api/v1/decisions"].details == (
        "nick may not get the path /api/v1/decisions"
    )


async def test_what_is_not_there_is_told_to_those_only_who_may_read_it(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        path = f"{FORMATTERS}/nothing"
        assert (await api.get(path, token=NOBODY)).status == 403
        assert (await api.get(path, token=VIEWER)).status == 404


async def test_a_token_that_is_taken_away_counts_no_more(tmp_path: Path) -> None:
    async with Api(tmp_path) as api:
        assert (await api.get(FORMATTERS)).status == 200
        api.tokens.write_text(f"{VIEWER},vera,2,gatewright:viewers\n")

        assert (await api.get(FORMATTERS)).status == 401
        assert (await api.get(FORMATTERS, token=VIEWER)).status == 200


async def test_where_nobody_could_be_let_in_there_is_no_api() -> None:
    async with Gate(make_gvk_policy()) as gate:
        for path in (FORMATTERS, "/api/v1/decisions", "/api/openapi.json"):
            answer = await gate.client.get(path, headers={"Authorization": f"Bearer {ADMIN}"})
            assert answer.status == 404


async def test_tokens_and_bodies_are_not_logged(tmp_path: Path, log: io.StringIO) -> None:
    async with Api(tmp_path) as api:
        await api.get(FORMATTERS)
        await api.get(FORMATTERS, token="wrong-canary")
        policy = {
            "defaults": {
                "environmentVariables": {"instances": [{"name": "A", "value": "body-canary"}]}
            }
        }
        written = await api.put(TRAININGS, {**META, "policy": policy})
        assert written.status == 201
        await api.put(TRAININGS, {**META, "policy": {"defaults": {"image": ["body-canary"]}}})

    assert ADMIN not in log.getvalue()
    assert "canary" not in log.getvalue()
    assert '"document written"' in log.getvalue()
    assert '"user":"adam"' in log.getvalue()


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_paths_and_methods_that_are_not_there_have_the_shape_of_all_refusals(
    tmp_path: Path, method: str
) -> None:
    async with Api(tmp_path) as api:
        nowhere = await api.call(method, "/api/v1/nothing")
        assert (nowhere.status, nowhere.details) == (404, "")
        wrong = await api.call("PUT", FORMATTERS, {})
        assert (wrong.status, wrong.details) == (405, "")
        assert wrong.headers["Allow"] == "GET,HEAD,POST"
