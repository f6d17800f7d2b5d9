"""What is said in the status of policies and of the GlobalConfiguration."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.gpu_documents import make_policy, make_settings
from webhook.errors import PrometheusError, PrometheusFault
from webhook.model.rightsizing.policies import DocumentKey
from webhook.model.rightsizing.recommendations import StatusCondition
from webhook.reactive.observation.documents import SeenReactive, decode_document
from webhook.reactive.rounds.policy_status import (
    PolicySituation,
    Tally,
    global_conditions,
    policy_conditions,
    written_conditions,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STRATEGY = DocumentKey("AutomationStrategy", "team-a", "gpu")
THERE = PolicySituation(frozenset({STRATEGY}), frozenset())
ANSWERED = Tally(workloads=3, recommending=1, asked=True)
TIMEOUT = PrometheusError(PrometheusFault.TIMEOUT, "no whole answer within 30 s")
FAILURE = "the round failed: KeyError"
SPOILT = {"Deployment team-a/llm": "ValueError"}
NOTHING_CAME = "nothing came of its workloads: see Ready"


def see(manifest: Any) -> SeenReactive:
    return decode_document(json.dumps(manifest).encode(), manifest["kind"])


POLICY = see(make_policy("llm", namespace="team-a"))


def told(tally: Tally = ANSWERED, situation: PolicySituation = THERE) -> dict[str, StatusCondition]:
    found = policy_conditions(POLICY, tally, situation)
    return {condition.type: condition for condition in found}


def test_kinds_that_can_not_be_looked_at_are_named() -> None:
    situation = PolicySituation(
        frozenset({STRATEGY}), frozenset(), unknown={"Deployment": "may not list", "Foo.bar": "no"}
    )

    assert told(situation=situation)["Ready"].message.endswith("; not looked at: may not list")


def test_a_policy_that_has_what_it_needs_is_ready() -> None:
    found = told()

    assert {kind: (each.status, each.reason) for kind, each in found.items()} == {
        "AutomationStrategyResolved": ("True", "Resolved"),
        "PrometheusReachable": ("True", "Answered"),
        "Ready": ("True", "Evaluated"),
    }
    assert found["Ready"].message == "workloads with GPUs: 3; with a recommendation: 1"


FOREIGN = "GpuRecommendation deployment.llm: it is of apps/v1 Deployment/other"


@pytest.mark.parametrize(("workloads", "status"), [(1, "False"), (2, "True")])
def test_workloads_that_are_left_alone_are_named(workloads: int, status: str) -> None:
    """One object of a stranger does not make a policy useless for all the others."""
    stopped = {"Deployment team-a/llm": FOREIGN}
    found = told(Tally(workloads=workloads, asked=workloads > 1, stopped=stopped))

    assert (found["Ready"].status, found["Ready"].reason) == (status, "RecommendationForeign")
    assert found["Ready"].message == (
        f"workloads with GPUs: {workloads}; with a recommendation: 0;"
        f" left alone: Deployment team-a/llm ({FOREIGN})"
    )
    reachable = found["PrometheusReachable"]
    assert "has a GPU" not in reachable.message


def test_of_many_that_are_left_alone_some_are_named() -> None:
    stopped = {f"Deployment team-a/llm-{number}": "foreign" for number in range(5)}

    message = told(Tally(workloads=9, asked=True, stopped=stopped))["Ready"].message

    assert message.endswith("; Deployment team-a/llm-2 (foreign); and 2 more")


@pytest.mark.parametrize(
    ("situation", "reason"),
    [
        pytest.param(PolicySituation(frozenset(), frozenset()), "StrategyNotFound", id="missing"),
        pytest.param(
            PolicySituation(frozenset(), frozenset({STRATEGY})), "StrategyInvalid", id="unreadable"
        ),
    ],
)
def test_a_strategy_that_is_not_there_is_named(situation: PolicySituation, reason: str) -> None:
    found = told(situation=situation)

    for kind in ("AutomationStrategyResolved", "Ready"):
        assert (found[kind].status, found[kind].reason) == ("False", reason)
        assert "AutomationStrategy team-a/gpu" in found[kind].message


def test_what_is_wrong_with_prometheus_is_said() -> None:
    found = told(Tally(workloads=1, asked=True, fault=TIMEOUT))

    want = StatusCondition("PrometheusReachable", "False", "Timeout", "no whole answer within 30 s")
    assert found["PrometheusReachable"] == want
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "Timeout")


def test_a_policy_that_had_nothing_to_ask_does_not_say_that_it_was_answered() -> None:
    found = told(Tally())

    assert (found["PrometheusReachable"].status, found["Ready"].status) == ("Unknown", "True")


def test_a_policy_that_is_passed_over_is_said_to_be_not_asked() -> None:
    found = told(Tally(passed_over=2))

    reachable = found["PrometheusReachable"]
    assert (reachable.status, reachable.reason) == ("Unknown", "NotAsked")
    assert found["Ready"].message.endswith("; left to policies that come first: 2")


@pytest.mark.parametrize(
    ("tally", "ready"),
    [
        pytest.param(Tally(workloads=1), "False", id="the-only-one"),
        pytest.param(Tally(workloads=2), "True", id="one-of-two"),
        pytest.param(Tally(workloads=0, passed_over=2), "True", id="passed-over"),
    ],
)
def test_a_workload_that_failed_is_named_and_does_not_speak_for_others(
    tally: Tally, ready: str
) -> None:
    tally.failed["Deployment team-a/llm"] = "ValueError"

    found = told(tally)["Ready"]

    assert (found.status, found.reason) == (ready, "WorkloadsFailed")
    assert "failed (see the log of the reconciler): Deployment team-a/llm (Va" in found.message


@pytest.mark.parametrize(
    ("tally", "failure", "text"),
    [
        pytest.param(Tally(), FAILURE, FAILURE, id="round"),
        pytest.param(Tally(passed_over=1), FAILURE, FAILURE, id="round-after-one-passed-over"),
        pytest.param(Tally(workloads=1, failed=SPOILT), "", NOTHING_CAME, id="workload"),
        pytest.param(
            Tally(workloads=1, passed_over=1, failed=SPOILT),
            "",
            NOTHING_CAME,
            id="workload-and-one-passed-over",
        ),
    ],
)
def test_what_failed_before_anything_was_asked_is_not_said_to_have_no_gpu(
    tally: Tally, failure: str, text: str
) -> None:
    found = told(tally, replace(THERE, failure=failure))["PrometheusReachable"]

    assert found == StatusCondition("PrometheusReachable", "Unknown", "NotAsked", text)


def test_what_was_answered_before_something_failed_stays_answered() -> None:
    found = told(replace(ANSWERED, failed=SPOILT))["PrometheusReachable"]

    assert (found.status, found.reason) == ("True", "Answered")


def test_a_round_that_came_to_no_end_leaves_no_policy_ready() -> None:
    situation = replace(THERE, failure=FAILURE)

    assert told(situation=situation)["Ready"] == StatusCondition(
        "Ready", "False", "RoundFailed", FAILURE
    )


def test_a_crd_without_containers_is_said() -> None:
    situation = PolicySituation(
        frozenset({STRATEGY}), frozenset(), {"GpuReactivePolicy": "it does not know it"}
    )

    want = StatusCondition("Ready", "False", "ScopeContainersUnknown", "it does not know it")
    assert told(situation=situation)["Ready"] == want


def test_a_document_that_cant_be_read_says_why() -> None:
    broken = see(make_policy("llm", namespace="team-a", weight=-1))

    (condition,) = policy_conditions(broken, Tally(), THERE)

    assert (condition.type, condition.status, condition.reason) == ("Ready", "False", "Invalid")
    assert "spec.weight" in condition.message


def test_the_settings_say_whether_the_webhook_mutates() -> None:
    seen = see(make_settings())

    assert [(each.type, each.status) for each in global_conditions(seen, "")] == [
        ("PodAdmissionWebhookHealthy", "True"),
        ("Ready", "True"),
    ]
    webhook, _ = global_conditions(seen, "it is away")
    assert (webhook.status, webhook.message) == ("False", "it is away")


# --- what is written ---

READY = StatusCondition("Ready", "True", "Evaluated", "fine")


def written(
    conditions: list[StatusCondition], before: list[dict[str, Any]], generation: int = 2
) -> list[dict[str, Any]] | None:
    return written_conditions(conditions, before, generation, NOW)


def test_conditions_have_their_generation_and_time() -> None:
    assert written([READY], []) == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Evaluated",
            "message": "fine",
            "observedGeneration": 2,
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }
    ]


def test_what_stands_there_already_is_not_written_again() -> None:
    before = written([READY], [])
    assert before is not None

    assert written([READY], before) is None
    assert written([READY], before, generation=3) is not None


def test_a_status_that_stays_keeps_its_time_and_those_of_others_stay() -> None:
    theirs = {"type": "Theirs", "status": "True"}
    earlier = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}

    found = written([READY], [theirs, earlier])

    assert found is not None
    assert [each["type"] for each in found] == ["Ready", "Theirs"]
    assert found[0]["lastTransitionTime"] == "2025-01-01T00:00:00Z"
    down = StatusCondition("Ready", "False", "Timeout")
    changed = written([down], [earlier])
    assert changed is not None
    assert changed[0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"


def test_a_long_message_is_cut() -> None:
    found = written([StatusCondition("Ready", "False", "Invalid", "x" * 5000)], [])

    assert found is not None
    assert len(found[0]["message"]) == 1024
