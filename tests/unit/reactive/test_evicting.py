"""One eviction, and what the API server may say to it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_cluster import make_running_pod, see_pod
from webhook.errors import KubeError
from webhook.reactive.recreation.evicting import Evicted, Outcome, evict

POD = see_pod(make_running_pod())
BUDGET = {
    "causes": [{"reason": "DisruptionBudget", "message": "The disruption budget llm needs 1"}]
}


class FakeApi:
    def __init__(self, error: KubeError | None = None) -> None:
        self.error = error
        self.calls: list[tuple[str, str, Any]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
    ) -> bytes:
        self.calls.append((method, path, body))
        if self.error is not None:
            raise self.error
        return b"{}"


async def test_that_very_pod_is_evicted_by_the_eviction_api() -> None:
    api = FakeApi()

    assert await evict(api, POD) == Evicted(Outcome.EVICTED)

    assert api.calls == [
        (
            "POST",
            "/api/v1/namespaces/team-a/pods/llm-0/eviction",
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "llm-0", "namespace": "team-a"},
                "deleteOptions": {"preconditions": {"uid": "uid-pod-llm-0"}},
            },
        )
    ]


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(KubeError(404, "NotFound", "gone"), Evicted(Outcome.GONE), id="gone"),
        pytest.param(KubeError(409, "Conflict", "uid"), Evicted(Outcome.GONE), id="another-pod"),
        pytest.param(
            KubeError(429, "TooManyRequests", "Cannot evict", BUDGET),
            Evicted(Outcome.BUDGET, "Cannot evict; The disruption budget llm needs 1"),
            id="a-budget",
        ),
        pytest.param(
            KubeError(429, "TooManyRequests", "too busy"),
            Evicted(Outcome.BUDGET, "too busy"),
            id="a-busy-server",
        ),
        pytest.param(
            KubeError(403, "Forbidden", "may not"), Evicted(Outcome.REFUSED, "may not"), id="rights"
        ),
        pytest.param(
            KubeError(500, "InternalError", "several budgets"),
            Evicted(Outcome.FAILED, "InternalError: several budgets"),
            id="several-budgets",
        ),
        pytest.param(
            KubeError(0, "Timeout", "no answer"),
            Evicted(Outcome.FAILED, "Timeout: no answer"),
            id="no-answer",
        ),
    ],
)
async def test_what_comes_back_is_told_apart(error: KubeError, want: Evicted) -> None:
    assert await evict(FakeApi(error), POD) == want
