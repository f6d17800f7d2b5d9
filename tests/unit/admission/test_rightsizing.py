"""Reviews of documents that say how GPU allocations follow usage."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.gpu_documents import (
    JsonObject,
    make_cluster_policy,
    make_policy,
    make_settings,
    make_strategy,
    with_value,
)
from tests.unit.admission.builders import decoded
from webhook.admission.rightsizing import is_about_rightsizing, judge_rightsizing
from webhook.model.request import Phase
from webhook.store.rightsizing import strategies_in

BAD = make_policy(scope={"containers": ["a", "a"]}, weight=-1)
# About its thresholds there is nothing to say.
QUIET = with_value(make_policy(), "spec.metrics.compute.upsize.thresholdPercent", 90)


def answer(
    document: JsonObject | None,
    *known: JsonObject,
    phase: Phase = Phase.VALIDATE,
    is_known: bool = True,
    kinds: dict[str, str] | None = None,
    **fields: Any,
) -> JsonObject:
    """The response to *document* in a cluster that has the strategies *known*."""
    kind = (document or fields["oldObject"])["kind"]
    review = decoded(
        **{
            "kind": {"group": "rightsizing.kubex.ai", "version": "v1alpha1", "kind": kind},
            "namespace": "default",
            "object": document,
            **fields,
        }
    )
    assert is_about_rightsizing(review.request)
    strategies = strategies_in(known) if is_known else None
    decision, body = judge_rightsizing(review, phase, strategies, kinds)
    response: JsonObject = orjson.loads(body)["response"]
    assert response["allowed"] is decision.allowed
    return response


def test_a_sound_policy_is_allowed_without_a_word() -> None:
    response = answer(QUIET, make_strategy())

    assert response == {"uid": response["uid"], "allowed": True}


def test_a_kind_that_no_mapping_covers_is_admitted_with_a_warning() -> None:
    """Its mapping may come later."""
    policy = with_value(QUIET, "spec.scope", {"workloadTypes": ["AcmeJob.acme.example.com"]})

    mapped = answer(policy, make_strategy(), kinds={"AcmeJob.acme.example.com": ""})
    assert "warnings" not in mapped
    response = answer(policy, make_strategy(), kinds={"AcmeJobs.acme.example.com": ""})
    assert response["allowed"]
    (told,) = response["warnings"]
    assert 'did you mean "AcmeJobs.acme.example.com"?' in told


def test_a_bad_one_is_refused_with_everything_that_is_wrong() -> None:
    response = answer(BAD)

    assert not response["allowed"]
    assert response["status"]["code"] == 403
    assert response["status"]["message"].splitlines() == [
        "spec.scope.containers: named more than once: a",
        "spec.weight: must be at least 0, not -1",
    ]
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == [
        "spec.scope.containers",
        "spec.weight",
    ]


def test_what_can_hardly_be_meant_is_a_warning() -> None:
    response = answer(make_policy(), make_strategy())

    assert response["allowed"]
    assert response["warnings"] == [
        "spec.metrics.compute.upsize.thresholdPercent: 120 % of whole GPUs is never exceeded: this"
        " can fire on fractions only"
    ]


def test_a_missing_strategy_is_a_warning_since_it_may_come_later() -> None:
    response = answer(QUIET)

    assert response["allowed"]
    assert response["warnings"] == [
        "spec.automationStrategyRef.name: there is no AutomationStrategy default/gpu; until it is"
        " there, nothing is resized"
    ]


def test_where_strategies_are_not_known_none_is_missed() -> None:
    assert "warnings" not in answer(QUIET, is_known=False)


def test_a_strategy_is_looked_for_in_the_namespace_of_the_request() -> None:
    elsewhere = make_policy(namespace="")
    elsewhere["spec"] = QUIET["spec"]
    response = answer(elsewhere, make_strategy(namespace="team-a"), namespace="team-a")

    assert "warnings" not in response


def test_a_second_global_configuration_is_refused() -> None:
    response = answer(make_settings("mine"), namespace="")

    assert response["status"]["message"] == (
        "metadata.name: there is one GlobalConfiguration, named global-config, not mine"
    )


def test_one_that_gets_its_name_later_is_judged() -> None:
    document = make_policy()
    document["metadata"] = {"generateName": "gpu-", "namespace": "default"}
    document["spec"] = QUIET["spec"]

    assert answer(document, make_strategy())["allowed"]


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        pytest.param({"metadata.labels": {"a": "b"}}, True, id="labels"),
        pytest.param({"metadata.finalizers": ["x"]}, True, id="finalizers"),
        pytest.param({"status": {"conditions": []}}, True, id="status"),
        pytest.param({"spec.weight": -2}, False, id="spec"),
        pytest.param(
            {"metadata.annotations": {"gatewright.io/mode": "Recommend"}}, False, id="the-mode"
        ),
        pytest.param(
            {"metadata.annotations": {"gatewright.io/evict-jobs": "true"}}, False, id="jobs-too"
        ),
    ],
)
def test_a_bad_one_stays_editable_in_what_does_not_count(
    change: dict[str, Any], allowed: bool
) -> None:
    """It may have been written while we were away, and must be got rid of."""
    ((path, value),) = change.items()
    response = answer(with_value(BAD, path, value), operation="UPDATE", oldObject=BAD)

    assert response["allowed"] is allowed


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"phase": Phase.MUTATE}, id="to-be-mutated"),
        pytest.param({"subResource": "status"}, id="its-status"),
        pytest.param({"operation": "DELETE", "oldObject": BAD, "document": None}, id="deleted"),
    ],
)
def test_the_rest_is_let_through(fields: dict[str, Any]) -> None:
    assert answer(**{"document": BAD, **fields})["allowed"]


def test_other_kinds_of_the_group_are_none_of_our_business() -> None:
    assert answer({**make_cluster_policy(), "kind": "ClusterStaticPolicy"})["allowed"]
