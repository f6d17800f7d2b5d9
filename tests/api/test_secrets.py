"""Values of environment variables, arguments and annotations stay where they were (B25)."""

from __future__ import annotations

import io
import logging
from typing import Any

import orjson
import pytest

from tests.api.gate import WIDGET, WIDGET_MAPPING, Gate, make_widget, of_kind
from tests.builders import make_container, make_gvk_policy, make_pod, make_rule
from tests.unit.admission.builders import make_review
from webhook.mapping.evaluator import JqWorker
from webhook.telemetry.logs import LEVELS, configure_logging

CANARY = "hunter2-canary"

POLICIES = (
    make_gvk_policy(
        make_rule("env", "allContainers", {"blocked": True}),
        make_rule("args", "allContainers", {"options": ["--fast"]}),
        make_rule("command", "allContainers", {"blocked": True}),
        make_rule("annotations", "metadata", {"set": {"key": "token", "value": "other"}}),
        make_rule("annotations", "metadata", {"pattern": {"key": "note", "values": ["x*"]}}),
        make_rule("priorityClassName", "podSpec", {"default": "train"}),
    ),
    WIDGET_MAPPING,
    make_gvk_policy(make_rule("hostNetwork", "parts", {"set": False}), kind=WIDGET, name="w"),
)

SECRET_POD = make_pod(
    containers=[
        make_container(
            env=[{"name": "API_TOKEN", "value": CANARY}],
            args=[f"--token={CANARY}"],
            command=["sh", "-c", f"echo {CANARY}"],
        )
    ]
)
SECRET_POD["metadata"]["annotations"] = {"token": CANARY, "note": CANARY}

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "token", "annotations": {"last-applied": CANARY}},
    "data": {"password": CANARY},
    "stringData": {"password": CANARY},
}

REQUESTS: dict[str, tuple[int, bytes]] = {
    "denied": (200, orjson.dumps(make_review(object=SECRET_POD))),
    "kind-without-policy": (200, orjson.dumps(make_review(**of_kind(SECRET)))),
    "allowed": (
        200,
        orjson.dumps(make_review(**of_kind(make_widget([{"password": CANARY}])))),
    ),
    "mapping-fails": (500, orjson.dumps(make_review(**of_kind(make_widget(CANARY))))),
    "cut-off": (400, orjson.dumps(make_review(object=SECRET_POD))[:-3]),
    "not-decodable": (400, orjson.dumps(make_review(object=CANARY))),
    "no-operation": (400, orjson.dumps(make_review(object=SECRET_POD, operation=CANARY))),
}


class BrokenJq(JqWorker):
    """Stands for a bug whose exception quotes the object."""

    def evaluate_paths(
        self, sources: tuple[str, ...], document_json: bytes, begin_until: float | None = None
    ) -> Any:
        try:
            raise KeyError(document_json.decode())
        except KeyError as e:
            raise ValueError(f"in {document_json!r}") from e


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("door", ["/mutate", "/validate"])
@pytest.mark.parametrize("situation", REQUESTS)
async def test_no_value_appears_in_logs_metrics_or_refusals(
    situation: str, door: str, level: str, log: io.StringIO
) -> None:
    configure_logging(level, log)
    status, body = REQUESTS[situation]
    async with Gate(*POLICIES) as gate:
        answer = await gate.post(door, body)
        told = orjson.loads(await answer.read())
        scraped = await (await gate.ops.get("/metrics")).text()

    assert answer.status == status
    told.get("response", {}).pop("patch", None)  # that is the caller's own object
    assert CANARY not in str(told)
    assert CANARY not in log.getvalue()
    assert CANARY not in scraped


async def test_a_denial_says_that_there_was_a_value() -> None:
    async with Gate(*POLICIES) as gate:
        response = await gate.ask("/validate", object=SECRET_POD)

    assert "(not shown)" in response["status"]["message"]
    assert "(not shown)" in response["auditAnnotations"]["decision"]


async def test_a_bug_that_quotes_the_object_quotes_it_nowhere(log: io.StringIO) -> None:
    widget = make_widget([{"password": CANARY}])
    async with Gate(*POLICIES, jq=BrokenJq()) as gate:
        answer = await gate.post("/mutate", orjson.dumps(make_review(**of_kind(widget))))
        told = await answer.text()

    assert answer.status == 500
    assert CANARY not in told
    assert CANARY not in log.getvalue()
    assert "ValueError at " in log.getvalue()


async def test_nothing_of_http_itself_is_logged(log: io.StringIO) -> None:
    logging.getLogger("aiohttp").setLevel(logging.DEBUG)
    async with Gate(*POLICIES) as gate:
        await gate.client.get(f"/{CANARY}?token={CANARY}", headers={"Cookie": CANARY})

    assert CANARY not in log.getvalue()
