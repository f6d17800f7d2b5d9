"""Our own Deployment as the owner of what we make."""

from __future__ import annotations

import logging

import orjson
import pytest

from webhook.clients import owner
from webhook.clients.owner import OwnDeployment
from webhook.errors import KubeError

FOUND = orjson.dumps({"kind": "Deployment", "metadata": {"uid": "u-1"}})


class ApiServer:
    """Answers each call with the next step, and with the last one for ever."""

    def __init__(self, *steps: bytes | KubeError) -> None:
        self.steps = list(steps)
        self.paths: list[str] = []

    async def request(self, method: str, path: str) -> bytes:
        self.paths.append(f"{method} {path}")
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, KubeError):
            raise step
        return step


def deployment(server: ApiServer, name: str = "gatewright") -> OwnDeployment:
    return OwnDeployment(server, namespace="gate", name=name, retry_s=0.001)


async def test_it_is_asked_for_once_and_is_no_controller_of_what_we_make() -> None:
    server = ApiServer(FOUND)
    ours = deployment(server)

    for _ in range(2):
        assert await ours.reference() == {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "gatewright",
            "uid": "u-1",
            "blockOwnerDeletion": False,
        }
    assert server.paths == ["GET /apis/apps/v1/namespaces/gate/deployments/gatewright"]


async def test_without_a_name_nobody_is_asked() -> None:
    server = ApiServer(FOUND)

    assert await deployment(server, "").reference() is None
    assert server.paths == []


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(KubeError(0, "Unreachable", "connection refused"), id="away"),
        pytest.param(KubeError(503, "ServiceUnavailable", "not yet"), id="not-ready"),
        pytest.param(b"<html>", id="no-answer-of-an-api-server"),
        pytest.param(b"{}", id="no-object"),
    ],
)
async def test_an_api_server_that_does_not_say_is_asked_again(fault: bytes | KubeError) -> None:
    reference = await deployment(ApiServer(fault, fault, FOUND)).reference()

    assert reference is not None
    assert reference["uid"] == "u-1"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        pytest.param(403, "Forbidden", id="no-right"),
        pytest.param(404, "NotFound", id="not-there"),
    ],
)
async def test_what_will_not_change_is_said_and_we_go_on_without(
    status: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger=owner.log.name)

    assert await deployment(ApiServer(KubeError(status, reason, "no"))).reference() is None
    assert "our Deployment can't be read" in caplog.text
