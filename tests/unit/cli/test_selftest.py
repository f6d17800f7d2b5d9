"""`gatewright selftest`: passes only if it was us who refused."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.cli.selftest import build_forbidden, selftest
from webhook.errors import KubeError

REFUSED = KubeError(
    403,
    "Forbidden",
    'admission webhook "workloads.gatewright.io" denied the request: Training\n security.privileged',
)
BY_OTHERS = KubeError(403, "Forbidden", 'admission webhook "a.example" denied the request: no')
NO_RIGHT = KubeError(403, "Forbidden", 'trainings is forbidden: User "x" cannot create resource')
NOT_SERVED = KubeError(404, "NotFound", "the server could not find the requested resource")
UNANSWERED = KubeError(
    500, "InternalError", 'failed calling webhook "workloads.gatewright.io": refused'
)


class ApiServer:
    """Answers with *answers*, the last one again and again; None: admitted."""

    def __init__(self, *answers: KubeError | None) -> None:
        self._answers = list(answers)
        self.calls: list[tuple[str, str, Any, Any]] = []

    async def request(
        self, method: str, path: str, *, params: dict[str, str] | None = None, body: Any = None
    ) -> bytes:
        self.calls.append((method, path, params, body))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is not None:
            raise answer
        return b"{}"


async def run(server: ApiServer, timeout_s: float = 0.0) -> tuple[int, str]:
    said: list[str] = []
    code = await selftest(
        server, namespace="team-a", timeout_s=timeout_s, say=said.append, pause_s=0.0
    )
    (line,) = said
    return code, line


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        pytest.param(REFUSED, 0, "refused, as it must be: ", id="refused-by-us"),
        pytest.param(None, 1, "a privileged Training was admitted in namespace team-a", id="in"),
        pytest.param(BY_OTHERS, 2, "it could not be tried: Forbidden", id="refused-by-others"),
        pytest.param(NO_RIGHT, 2, "cannot create resource", id="no-right"),
        pytest.param(NOT_SERVED, 2, "it could not be tried: NotFound", id="no-crd"),
        pytest.param(UNANSWERED, 2, "failed calling webhook", id="no-server"),
    ],
)
async def test_the_exit_code_tells_what_happened(
    answer: KubeError | None, code: int, text: str
) -> None:
    got, line = await run(ApiServer(answer))

    assert got == code
    assert text in line
    assert "\n" not in line


async def test_it_is_tried_until_the_api_server_asks_us() -> None:
    server = ApiServer(NOT_SERVED, None, UNANSWERED, REFUSED)

    assert (await run(server, timeout_s=30.0))[0] == 0
    assert len(server.calls) == 4


async def test_nothing_is_made() -> None:
    server = ApiServer(REFUSED)
    await run(server)

    path = "/apis/workload.gatewright.io/v1alpha1/namespaces/team-a/trainings"
    assert server.calls == [("POST", path, {"dryRun": "All"}, build_forbidden())]
