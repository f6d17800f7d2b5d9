"""What somebody sends to the API shows up in no refusal, log or metric (trial B25)."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.api.gate import make_widget
from tests.api.rest import FIELD_GROUPS, FORMATTERS, MAPPINGS, POLICIES, TRAININGS, Api
from tests.api.test_secrets import CANARY, SECRET, SECRET_POD
from tests.api.test_secrets import POLICIES as DOCUMENTS
from tests.builders import DEPLOYMENT, make_rule
from webhook.telemetry.logs import LEVELS, configure_logging

REVIEW = "/api/v1/review"
ENV = {"environmentVariables": {"instances": [{"name": "TOKEN", "value": CANARY}]}}
ENCODED = base64.b64encode(CANARY.encode()).decode()


def dumps(value: Any) -> bytes:
    return orjson.dumps(value)


def flat(*rules: Any, **more: Any) -> dict[str, Any]:
    return {"workloadType": DEPLOYMENT, "scope": "tenant", "rules": list(rules), **more}


def native(**policy: Any) -> dict[str, Any]:
    return {"meta": {"scope": "tenant"}, "policy": policy}


# What is refused, of whatever shape.
REFUSED: dict[str, tuple[int, str, str, bytes]] = {
    "cut-off": (400, "POST", POLICIES, dumps({"name": CANARY})[:-3]),
    "no-utf-8": (400, "POST", POLICIES, f'{{"a": "{CANARY}\xff"}}'.encode("latin-1")),
    "key-twice": (400, "POST", POLICIES, f'{{"a": "{CANARY}", "a": "{CANARY}"}}'.encode()),
    "an-array": (400, "POST", POLICIES, dumps([CANARY])),
    "a-text": (400, "POST", POLICIES, dumps(CANARY)),
    "rules-are-text": (400, "POST", POLICIES, dumps(flat() | {"rules": CANARY})),
    "rule-is-text": (400, "POST", POLICIES, dumps(flat(CANARY))),
    "value-of-the-wrong-type": (
        400,
        "POST",
        POLICIES,
        dumps(flat(make_rule("replicas", "workload", {"max": {"value": {"a": CANARY}}}))),
    ),
    "env-of-the-wrong-type": (
        400,
        "POST",
        POLICIES,
        dumps(flat(make_rule("env", "allContainers", {"set": CANARY}))),
    ),
    "sensitive-default-against-its-rule": (
        400,
        "PUT",
        TRAININGS,
        dumps(native(defaults={"args": CANARY}, rules={"args": {"options": [{"value": "x"}]}})),
    ),
    "item-twice": (
        400,
        "PUT",
        TRAININGS,
        dumps(
            native(
                defaults={
                    "environmentVariables": {
                        "instances": [
                            {"name": "TOKEN", "value": CANARY},
                            {"name": "TOKEN", "value": f"{CANARY}-2"},
                        ]
                    }
                }
            )
        ),
    ),
    "asset-with-credentials": (
        400,
        "PUT",
        TRAININGS,
        dumps(native(imposedAssets={"s3": {"accessKeyOfSecret": CANARY}})),
    ),
    "description-of-the-wrong-type": (
        400,
        "POST",
        POLICIES,
        dumps(flat(description={"password": CANARY})),
    ),
    "group-of-text": (400, "POST", FIELD_GROUPS, dumps({"name": "a", "fields": CANARY})),
    "formatter-of-text": (400, "POST", FORMATTERS, dumps({"name": "a", "fields": {"f": CANARY}})),
    "mapping-of-text": (
        400,
        "POST",
        MAPPINGS,
        dumps(
            {
                "workloadType": {"version": "v1", "kind": "A"},
                "specSelectors": {"s": {"query": {"a": CANARY}, "fieldGroups": []}},
            }
        ),
    ),
    "review-of-no-object": (400, "POST", REVIEW, dumps(CANARY)),
    "review-of-half-an-object": (400, "POST", REVIEW, dumps(SECRET_POD)[:-3]),
    "review-of-a-list-of-text": (
        400,
        "POST",
        REVIEW,
        dumps({"apiVersion": "v1", "kind": "List", "items": [CANARY]}),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("situation", REFUSED)
async def test_a_refusal_shows_nothing_of_what_was_sent(
    tmp_path: Path, situation: str, level: str, log: io.StringIO
) -> None:
    configure_logging(level, log)
    status, method, path, body = REFUSED[situation]
    async with Api(tmp_path) as api:
        answer = await api.call(method, path, raw=body)
        scraped = api.services.metrics.render()[0].decode()

    assert answer.status == status, answer
    assert answer.details
    assert CANARY not in str(answer.body)
    assert CANARY not in log.getvalue()
    assert CANARY not in scraped


@pytest.mark.slow
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(SECRET_POD, id="denied"),
        pytest.param(SECRET, id="kind-without-policy"),
        pytest.param(make_widget([{"password": CANARY}]), id="allowed"),
        pytest.param(make_widget(CANARY), id="mapping-fails"),
    ],
)
async def test_a_review_gives_its_caller_his_own_object_and_shows_it_nowhere_else(
    tmp_path: Path, document: dict[str, Any], log: io.StringIO
) -> None:
    async with Api(tmp_path, *DOCUMENTS) as api:
        (report,) = await api.must("POST", REVIEW, document)
        scraped = api.services.metrics.render()[0].decode()

    assert CANARY in str(document)
    # That is the caller's own object.
    del report["object"], report["patch"]
    assert CANARY not in str(report)
    assert ENCODED not in str(report)
    assert CANARY not in log.getvalue()
    assert CANARY not in scraped


async def test_a_review_says_that_there_was_a_value(tmp_path: Path) -> None:
    async with Api(tmp_path, *DOCUMENTS) as api:
        (report,) = await api.must("POST", REVIEW, SECRET_POD)

    assert not report["allowed"]
    assert "(not shown)" in {violation["value"] for violation in report["violations"]}


async def test_a_policy_that_is_written_is_logged_without_its_values(
    tmp_path: Path, log: io.StringIO
) -> None:
    async with Api(tmp_path) as api:
        written = await api.must("PUT", TRAININGS, native(defaults=ENV))
        scraped = api.services.metrics.render()[0].decode()

    # Whoever may read the document sees it; what is in force is for others too.
    assert CANARY in str(written["policy"])
    assert CANARY not in str(written["effective"])
    assert '"document written"' in log.getvalue()
    assert CANARY not in log.getvalue()
    assert CANARY not in scraped


@pytest.mark.parametrize(
    ("token", "path", "status"),
    [
        pytest.param(CANARY, POLICIES, 401, id="as-token"),
        pytest.param("admin-token", f"{POLICIES}?token={CANARY}", 400, id="as-parameter"),
    ],
)
async def test_what_stands_in_the_head_is_not_logged(
    tmp_path: Path, token: str, path: str, status: int, log: io.StringIO
) -> None:
    async with Api(tmp_path) as api:
        answer = await api.get(path, token=token)

    assert answer.status == status
    assert CANARY not in str(answer.body)
    assert CANARY not in log.getvalue()
