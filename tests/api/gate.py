"""The whole application in this process, spoken to over HTTP."""

from __future__ import annotations

import base64
import copy
import io
from collections.abc import Iterable
from typing import Any

import jsonpatch
import orjson
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import make_snapshot
from tests.unit.admission.builders import make_review
from webhook.api.app import build_app, build_ops_app
from webhook.api.limits.connections import MAX_CONNECTIONS
from webhook.api.runner import GateRunner
from webhook.api.services import Readiness, Services
from webhook.mapping.evaluator import JqWorker
from webhook.store.snapshot import Current
from webhook.telemetry.metrics import Metrics

JSON = {"Content-Type": "application/json"}

# A kind of somebody's own. Its query needs jq, and fails where `spec.parts` is no list.
WIDGET = {"group": "example.com", "version": "v1", "kind": "Widget"}
WIDGET_MAPPING = {
    "apiVersion": "policy.gatewright.io/v1alpha1",
    "kind": "SpecMapping",
    "metadata": {"name": "widgets"},
    "spec": {
        "workloadType": WIDGET,
        "specSelectors": {
            "parts": {
                "query": '.spec.parts[] | select(.role == "main") | .template',
                "fieldGroups": ["podSpec"],
            }
        },
    },
}


def make_widget(parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "widget", "namespace": "team-a"},
        "spec": {"parts": parts},
    }


class GateServer(TestServer):
    """Connections are handled as the command does it."""

    async def _make_runner(self, **options: Any) -> GateRunner:
        return GateRunner(self.app, most_connections=MAX_CONNECTIONS, **options)


class Gate:
    """Both listeners, on free ports. Use as `async with`."""

    def __init__(self, *documents: Any, jq: JqWorker | None = None, **options: Any) -> None:
        """*documents* are in force; none at all: nothing is loaded yet."""
        self.current = Current()
        if documents:
            snapshot = make_snapshot(*documents)
            assert not snapshot.problems, snapshot.problems
            self.current.replace(snapshot)
        self.services = Services(
            self.current,
            Metrics(),
            Readiness(self.current, listening=True),
            jq or JqWorker(),
            **options,
        )
        self.client = TestClient(GateServer(build_app(self.services)))
        self.ops = TestClient(GateServer(build_ops_app(self.services)))

    async def __aenter__(self) -> Gate:
        for client in (self.client, self.ops):
            await client.server.start_server(access_log=None)
            await client.start_server()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.client.close()
        await self.ops.close()
        self.services.close()

    async def post(self, door: str, body: bytes, **headers: str) -> ClientResponse:
        # The client warns of large bodies that are not read from a file.
        data = io.BytesIO(body) if len(body) > 2**20 else body
        # Not by `client.post`, which keeps every answer to its end.
        url = self.client.make_url(door)
        return await self.client.session.post(url, data=data, headers={**JSON, **headers})

    async def ask(self, door: str, **fields: Any) -> dict[str, Any]:
        """The `response` to a review whose request has *fields*."""
        answer = await self.post(door, orjson.dumps(make_review(**fields)))
        text = await answer.read()
        assert answer.status == 200, text
        found: dict[str, Any] = orjson.loads(text)["response"]
        return found

    async def series(self) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        """Name and labels of everything that a scrape shows."""
        text = await (await self.ops.get("/metrics")).text()
        return {
            (sample.name, tuple(sorted(sample.labels.items())))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def apply(response: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """*document* after the patch of *response*, by a library that is strict and not ours."""
    patch = orjson.loads(base64.b64decode(response.get("patch", base64.b64encode(b"[]"))))
    patched: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(document), patch)
    return patched


def of_kind(document: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Fields of a review that creates *document*."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    return {"kind": kind, "object": document, **fields}


def records(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The decision records among the lines of a log."""
    parsed = [orjson.loads(line) for line in lines]
    return [line for line in parsed if line["logger"] == "gatewright.decision"]
