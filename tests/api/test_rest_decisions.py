"""What the gate did, and what it would do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.api.rest import POLICIES, VIEWER, Api
from tests.builders import (
    DEPLOYMENT,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
)
from tests.unit.admission.builders import make_review
from webhook.cli import main

DECISIONS = "/api/v1/decisions"
REVIEW = "/api/v1/review"
POLICY = make_gvk_policy(
    make_rule("hostNetwork", "podSpec", {"options": [False]}),
    make_rule("priorityClassName", "podSpec", {"default": "train"}),
    make_rule("env", "allContainers", {"blocked": True}),
    name="pods",
)
GREEDY = make_pod(hostNetwork=True)
SECRET = make_pod(
    hostNetwork=True,
    containers=[make_container(env=[{"name": "TOKEN", "value": "hunter2-canary"}])],
)


async def admit(api: Api, door: str = "/mutate", **fields: Any) -> None:
    answer = await api.call("POST", door, raw=orjson.dumps(make_review(**fields)), token=None)
    assert answer.status == 200, answer


async def test_denials_and_mutations_are_found_again_newest_first(tmp_path: Path) -> None:
    async with Api(tmp_path, POLICY) as api:
        await admit(api, object=GREEDY)
        await admit(api, object=make_pod())
        # Changes nothing and refuses nothing.
        await admit(api, "/validate", object=make_pod(priorityClassName="train"))
        answer = await api.must("GET", DECISIONS, token=VIEWER)
        denied = await api.must("GET", f"{DECISIONS}?outcome=denied&policy=pods&kind=v1/Pod")
        nothing = [
            await api.must("GET", f"{DECISIONS}?{query}")
            for query in (
                "namespace=team-b",
                "policy=other",
                "kind=Job",
                "since=2100-01-01T00:00:00Z",
            )
        ]
        recent = await api.must("GET", f"{DECISIONS}?since=5m&namespace=team-a")

    assert answer["replica"] == "replica-1"
    assert answer["next"] is None
    assert [one["outcome"] for one in answer["decisions"]] == ["mutated", "denied"]
    (denial,) = denied["decisions"]
    assert denial == answer["decisions"][1]
    assert denial["violations"][0]["field"] == "hostNetwork"
    assert denial["time"].endswith("Z")
    assert [one["decisions"] for one in nothing] == [[]] * 4
    assert recent["decisions"] == answer["decisions"]


async def test_decisions_come_in_pages_that_new_ones_do_not_shift(tmp_path: Path) -> None:
    async with Api(tmp_path, POLICY) as api:
        for _ in range(3):
            await admit(api, object=GREEDY)
        whole = (await api.must("GET", DECISIONS))["decisions"]
        first = await api.must("GET", f"{DECISIONS}?limit=2")
        await admit(api, object=make_pod())
        second = await api.must("GET", f"{DECISIONS}?limit=2&next={first['next']}")

    assert first["decisions"] + second["decisions"] == whole
    assert second["next"] is None


async def test_no_value_of_a_secret_field_is_kept(tmp_path: Path) -> None:
    async with Api(tmp_path, POLICY) as api:
        await admit(api, object=SECRET)
        answer = await api.must("GET", DECISIONS)

    assert "(not shown)" in str(answer)
    assert "canary" not in str(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("outcome=allowed", "outcome"),
        ("since=yesterday", "since"),
        ("since=2026-01-01", "since"),
        ("since=99999999d", "since"),
        ("since=999999d", "since"),
        ("limit=0", "limit"),
        ("next=x", "next"),
        ("outcom=denied", "query"),
        ("kind=a&kind=b", "kind"),
    ],
)
async def test_a_question_that_means_nothing_is_refused(
    tmp_path: Path, query: str, path: str
) -> None:
    async with Api(tmp_path) as api:
        answer = await api.get(f"{DECISIONS}?{query}")

    assert answer.status == 400
    assert answer.details.startswith(f"{path}: ")


async def test_review_answers_what_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submissions = [GREEDY, make_pod(), {**make_pod(), "kind": "Unmapped"}]
    file = tmp_path / "body"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": submissions}))
    async with Api(tmp_path, POLICY) as api:
        as_array = await api.must("POST", REVIEW, submissions)
        as_list = await api.must("POST", REVIEW, {"kind": "List", "items": submissions})
        alone = await api.must("POST", REVIEW, GREEDY)
        kept = await api.must("GET", DECISIONS)
    code = main(["review", "--policies", str(tmp_path / "policies"), "-o", "json", str(file)])
    printed = json.loads(capsys.readouterr().out.replace(f"{file}#", "body#"))

    assert code == 1
    assert as_array == printed
    assert as_list == printed
    assert alone == printed[:1]
    # Nothing was submitted.
    assert kept["decisions"] == []


async def test_review_is_told_where_and_by_whom(tmp_path: Path) -> None:
    policy = make_gvk_policy(
        make_rule("hostNetwork", "podSpec", {"options": [False]}), scope="project", unit="blue"
    )
    async with Api(tmp_path, policy) as api:
        found = [
            (await api.must("POST", f"{REVIEW}?{query}", GREEDY))[0]["allowed"]
            for query in ("", "namespace=blue", "project=blue", "namespace=x&user=eve")
        ]

    assert found == [True, False, False, True]


async def test_review_keeps_large_integers(tmp_path: Path) -> None:
    body = b'{"apiVersion": "v1", "kind": "Pod", "spec": {"big": 18446744073709551617}}'
    async with Api(tmp_path, POLICY) as api:
        answer = await api.client.session.post(
            api.client.make_url(REVIEW),
            data=body,
            headers={"Authorization": f"Bearer {VIEWER}", "Content-Type": "application/json"},
        )
        text = await answer.text()

    assert '"big":18446744073709551617' in text


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param([], "body: holds no object", id="nothing"),
        pytest.param(["x"], "body#0: is no Kubernetes object", id="text"),
        pytest.param([GREEDY, {}], "body#1: apiVersion and kind are needed", id="no-kind"),
    ],
)
async def test_what_is_no_submission_is_refused(tmp_path: Path, body: Any, problem: str) -> None:
    async with Api(tmp_path, POLICY) as api:
        answer = await api.post(REVIEW, body)

    assert (answer.status, answer.details) == (400, problem)


async def test_a_policy_through_the_api_is_that_of_the_directory(tmp_path: Path) -> None:
    """What REST wrote, the command reads."""
    body = {
        "workloadType": DEPLOYMENT,
        "scope": "tenant",
        "rules": [make_rule("replicas", "workload", {"max": 4})],
    }
    file = tmp_path / "d.json"
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"replicas": 9},
    }
    file.write_text(json.dumps(deployment))
    async with Api(tmp_path) as api:
        await api.must("POST", POLICIES, body)
        (rest,) = await api.must("POST", REVIEW, deployment)

    assert not rest["allowed"]
    assert main(["review", "--policies", str(tmp_path / "policies"), str(file)]) == 1
