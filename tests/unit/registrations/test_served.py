"""What is served, as far as registrations ask for it."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from tests.builders import JsonObject
from webhook.clients.discovery import Discovery, ServedResource
from webhook.errors import KubeError
from webhook.registrations.keeper import TwoLooks

JOB = ServedResource("jobs", True)


async def test_a_kind_is_gone_when_two_looks_in_a_row_do_not_find_it() -> None:
    answers: list[Mapping[str, ServedResource]] = [{"Job": JOB}, {}, {"Job": JOB}, {}, {}]

    async def fetch(_: str) -> Mapping[str, ServedResource]:
        return answers.pop(0)

    looks = TwoLooks(fetch)
    found = [dict(await looks.fetch("batch/v1")) for _ in range(5)]

    assert found == [{"Job": JOB}] * 4 + [{}]


class ApiServer:
    def __init__(self, answers: Mapping[str, JsonObject]) -> None:
        self.answers = answers

    async def request(self, method: str, path: str) -> bytes:
        assert method == "GET"
        if path not in self.answers:
            raise KubeError(404, "NotFound", "the server could not find the requested resource")
        return orjson.dumps(self.answers[path])


async def test_a_kind_is_told_with_its_plural_its_scope_and_its_subresources() -> None:
    def resource(name: str, kind: str, *, namespaced: bool = True) -> JsonObject:
        return {"name": name, "kind": kind, "namespaced": namespaced}

    discovery = Discovery(
        ApiServer(
            {
                "/apis/apps/v1": {
                    "resources": [
                        # In this order, and a Scale is none of the group's own kinds.
                        resource("deployments/scale", "Scale"),
                        resource("deployments", "Deployment"),
                        resource("deployments/status", "Deployment"),
                    ]
                },
                "/api/v1": {"resources": [resource("nodes", "Node", namespaced=False)]},
            }
        )
    )

    assert await discovery.resources_of("apps/v1") == {
        "Deployment": ServedResource("deployments", True, frozenset({"scale", "status"}))
    }
    assert await discovery.resources_of("v1") == {"Node": ServedResource("nodes", False)}
    assert await discovery.resources_of("acme.io/v1") == {}
