"""Objects in no namespace are made to go with ours: written once, and nobody else's owner lost."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from tests.builders import JsonObject
from webhook.errors import KubeError
from webhook.registrations.belonging import Belongings, cluster_paths
from webhook.registrations.wanted import Configuration

NAMES = {Configuration.MUTATING: "ours", Configuration.VALIDATING: "ours"}
PATHS = cluster_paths(NAMES, cluster_role="ours")
NAMESPACE_PATH = "/api/v1/namespaces/gate"
US = {"apiVersion": "v1", "kind": "Namespace", "name": "gate", "uid": "uid-gate"}
OTHER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "uid-n"}


class ApiServer:
    """Objects by path, with the merge of their metadata and a check of the version."""

    def __init__(self, *paths: str) -> None:
        self.objects: dict[str, JsonObject] = {
            path: {"uid": f"uid-{path}", "resourceVersion": "1"} for path in paths
        }
        self.objects[NAMESPACE_PATH] = {"uid": "uid-gate"}
        self.writes: list[str] = []
        self.fault: KubeError | None = None

    async def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = ""
    ) -> bytes:
        if self.fault is not None and path != NAMESPACE_PATH:
            raise self.fault
        if path not in self.objects:
            raise KubeError(404, "NotFound", path)
        if method == "PATCH":
            assert content_type == "application/merge-patch+json"
            assert body["metadata"]["uid"] == self.objects[path]["uid"]
            assert body["metadata"]["resourceVersion"] == self.objects[path]["resourceVersion"]
            self.objects[path] = {**self.objects[path], **body["metadata"], "resourceVersion": "2"}
            self.writes.append(path)
        return orjson.dumps({"metadata": self.objects[path]})

    def owners(self, path: str) -> list[JsonObject]:
        found: list[JsonObject] = self.objects[path].get("ownerReferences", [])
        return found


def belongings(server: ApiServer) -> Belongings:
    return Belongings(server, namespace="gate", paths=PATHS)


def test_all_four_are_named() -> None:
    assert PATHS == [
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/ours",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/ours",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/ours",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/ours",
    ]


def test_without_a_role_the_registrations_are_all() -> None:
    assert cluster_paths(NAMES, cluster_role="") == PATHS[:2]


async def test_each_is_written_once() -> None:
    server = ApiServer(*PATHS)
    ours = belongings(server)
    await ours.look()
    await ours.look()

    assert server.writes == PATHS
    assert all(server.owners(path) == [US] for path in PATHS)


async def test_other_owners_stay() -> None:
    server = ApiServer(*PATHS)
    server.objects[PATHS[0]]["ownerReferences"] = [OTHER]
    await belongings(server).look()

    assert server.owners(PATHS[0]) == [OTHER, US]


async def test_one_that_is_not_there_is_not_made_and_nothing_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ApiServer(PATHS[1])
    await belongings(server).look()

    assert server.writes == [PATHS[1]]
    assert caplog.records == []


async def test_one_that_was_made_anew_is_written_again() -> None:
    server = ApiServer(*PATHS)
    ours = belongings(server)
    await ours.look()
    server.objects[PATHS[0]] = {"uid": "another", "resourceVersion": "9"}
    await ours.look()

    assert server.owners(PATHS[0]) == [US]


async def test_a_right_that_is_missing_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    server = ApiServer(*PATHS)
    server.fault = KubeError(403, "Forbidden", "no")
    ours = belongings(server)
    with caplog.at_level(logging.WARNING):
        await ours.look()
        await ours.look()

    assert [vars(each)["object"] for each in caplog.records] == PATHS
    server.fault = None
    await ours.look()
    assert server.writes == PATHS
