"""Whether the webhook is called and mutates, by pods that are never made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from webhook.errors import KubeError
from webhook.model.rightsizing.policies import WebhookHealth
from webhook.reactive.recreation.probing import WebhookProbe

MUTATED = json.dumps({"metadata": {"annotations": {"gatewright.io/probed": "960c"}}}).encode()
AWAY = KubeError(0, "Unreachable", "connection refused")


class FakeApi:
    """Answers a probe with the next of *answers*, the last one again and again."""

    def __init__(self, *answers: bytes | KubeError) -> None:
        self.answers = list(answers)
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
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer


def make_probe(*answers: bytes | KubeError, seen: list[bool] | None = None) -> WebhookProbe:
    return WebhookProbe(
        FakeApi(*answers),
        namespace="gatewright",
        settings=lambda: WebhookHealth(failures=2, successes=3),
        on_probe=lambda passed: None if seen is None else seen.append(passed),
    )


async def health_after(*answers: bytes | KubeError) -> list[bool]:
    """After each of the probes."""
    probe = make_probe(*answers)
    found = []
    for _ in answers:
        await probe.check()
        found.append(probe.healthy)
    return found


async def test_a_probe_is_a_dry_run_of_a_labelled_pod_in_our_own_namespace() -> None:
    api = FakeApi(MUTATED)
    probe = WebhookProbe(api, namespace="gatewright", settings=WebhookHealth)

    assert await probe.check()

    ((method, path, pod),) = api.calls
    assert (method, path) == ("POST", "/api/v1/namespaces/gatewright/pods?dryRun=All")
    assert pod["metadata"]["labels"] == {"gatewright.io/probe": "true"}
    assert "annotations" not in pod["metadata"]


async def test_it_is_healthy_after_so_many_successes_and_down_after_so_many_failures() -> None:
    up, down = MUTATED, AWAY

    assert await health_after(up, up, up) == [False, False, True]
    assert await health_after(up, up, down, up, up, up) == [False] * 5 + [True]
    assert await health_after(up, up, up, down, up, down, down) == [
        *[False, False, True],
        *[True, True, True, False],
    ]


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(AWAY, "a pod can't be tried: Unreachable: connection refused", id="away"),
        pytest.param(
            KubeError(403, "Forbidden", "may not"),
            "a pod can't be tried: Forbidden: may not",
            id="forbidden",
        ),
        pytest.param(b"<html>", "a pod can't be tried: the answer is no JSON", id="no-json"),
        pytest.param(
            b'{"metadata": {}}',
            "a probe came back without the annotation gatewright.io/probed",
            id="untouched",
        ),
        pytest.param(
            b'{"metadata": {"annotations": {"a": "b"}}}',
            "a probe came back without the annotation gatewright.io/probed",
            id="touched-by-others",
        ),
        pytest.param(
            b"[]", "a probe came back without the annotation gatewright.io/probed", id="a-list"
        ),
    ],
)
async def test_what_is_wrong_is_said(answer: bytes | KubeError, want: str) -> None:
    probe = make_probe(answer)

    assert not await probe.check()

    assert probe.problem == f"the webhook does not mutate pods: {want}"


async def test_one_failure_holds_evictions_before_it_counts_as_down() -> None:
    probe = make_probe(MUTATED, MUTATED, MUTATED, AWAY, MUTATED)
    for _ in range(3):
        await probe.check()
    assert (probe.healthy, probe.problem) == (True, "")

    await probe.check()
    assert probe.healthy
    assert "does not mutate pods" in probe.problem

    await probe.check()
    assert probe.problem == ""


async def test_nothing_is_evicted_before_it_was_tried_often_enough() -> None:
    probe = make_probe(MUTATED)
    assert probe.problem == "the webhook was not tried yet"
    assert probe.report() == {}

    await probe.check()

    assert probe.problem == "the webhook has not mutated 3 probes in a row yet"
    report = probe.report()["webhookHealth"]
    assert report["lastProbeResult"] == "Success"
    assert (report["consecutiveFailures"], report["consecutiveSuccesses"]) == (0, 1)


async def test_each_probe_is_counted() -> None:
    seen: list[bool] = []
    probe = make_probe(MUTATED, AWAY, seen=seen)

    await probe.check()
    await probe.check()

    assert seen == [True, False]
