"""Defaults that don't go with what a submitter gives, or that need what he doesn't give."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from tests.builders import (
    JsonObject,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)
from webhook.catalog import native_rows
from webhook.mapping.fields import Field, native_groups
from webhook.policy.native.agreement import refused_attributes
from webhook.policy.native.schema import judge_native

PORTION = {"gpuRequestType": "portion", "gpuPortionRequest": 0.5}


def make_inference(**spec: Any) -> JsonObject:
    return {**make_training(**spec), "kind": "Inference"}


def compute(**fields: Any) -> JsonObject:
    return {"compute": fields}


def serving(**fields: Any) -> JsonObject:
    return {"servingPort": fields}


@pytest.mark.parametrize(
    ("kind", "defaults", "spec", "wanted"),
    [
        pytest.param(
            "training",
            compute(**PORTION, gpuDevicesRequest=1),
            compute(gpuDevicesRequest=2),
            compute(gpuDevicesRequest=2),
            id="a-portion-beside-two-devices",
        ),
        pytest.param(
            "training",
            compute(**PORTION, gpuDevicesRequest=1),
            compute(gpuRequestType="memory", gpuMemoryRequest="4G"),
            compute(gpuRequestType="memory", gpuMemoryRequest="4G", gpuDevicesRequest=1),
            id="a-portion-beside-memory",
        ),
        pytest.param(
            "training",
            compute(**PORTION),
            compute(gpuMemoryRequest="4G"),
            compute(gpuMemoryRequest="4G"),
            id="memory-without-its-type",
        ),
        pytest.param(
            "training",
            compute(gpuDevicesRequest=2),
            compute(**PORTION),
            compute(**PORTION),
            id="two-devices-beside-a-portion",
        ),
        pytest.param(
            "training",
            compute(**PORTION),
            compute(gpuPortionRequest=0.25),
            compute(gpuRequestType="portion", gpuPortionRequest=0.25),
            id="a-smaller-portion",
        ),
        pytest.param(
            "training", compute(**PORTION), {}, compute(**PORTION), id="nothing-was-submitted"
        ),
        pytest.param("training", {"tty": True}, {}, {}, id="tty-alone"),
        pytest.param(
            "training",
            {"tty": True},
            {"stdin": True},
            {"tty": True, "stdin": True},
            id="tty-with-the-stdin-it-needs",
        ),
        pytest.param(
            "training",
            {"tty": True, "stdin": True},
            {"stdin": False},
            {"stdin": False},
            id="tty-without-stdin",
        ),
        pytest.param(
            "training", compute(gpuRequestType="portion"), {}, {}, id="a-type-without-its-amount"
        ),
        pytest.param(
            "inference",
            serving(authorizedUsers=["a"]),
            serving(authorizedGroups=["g"]),
            serving(authorizedGroups=["g"]),
            id="users-beside-groups",
        ),
        pytest.param(
            "inference",
            serving(authorizationType="authorizedUsers", authorizedUsers=["a"]),
            serving(authorizationType="public"),
            serving(authorizationType="public"),
            id="users-of-a-public-url",
        ),
        pytest.param(
            "inference",
            {"autoscaling": {"minReplicas": 1, "maxReplicas": 3}},
            {},
            {},
            id="replicas-without-a-metric",
        ),
        pytest.param(
            "inference",
            {"autoscaling": {"minReplicas": 1, "maxReplicas": 3, "metricThreshold": 5}},
            {"autoscaling": {"metric": "latency"}},
            {
                "autoscaling": {
                    "minReplicas": 1,
                    "maxReplicas": 3,
                    "metric": "latency",
                    "metricThreshold": 5,
                }
            },
            id="replicas-with-the-metric-of-the-submitter",
        ),
        pytest.param(
            "inference",
            {"autoscaling": {"metric": "latency", "metricThreshold": 5}},
            {"autoscaling": {"minReplicas": 0}},
            {"autoscaling": {"minReplicas": 0}},
            id="a-metric-that-cannot-scale-to-zero",
        ),
    ],
)
def test_a_default_that_does_not_go_with_the_rest_is_left_out(
    kind: str, defaults: JsonObject, spec: JsonObject, wanted: JsonObject
) -> None:
    snapshot = make_snapshot(make_workload_policy(workload_type=kind, defaults=defaults))
    make = make_inference if kind == "inference" else make_training

    answer = submit(snapshot, make(**copy.deepcopy(spec)))

    assert answer.decision.violations == ()
    found = answer.document["spec"]
    found.pop("terminationGracePeriodSeconds", None)  # The shipped system policies.
    found.pop("security", None)
    assert found == wanted


def test_what_was_left_out_is_told_with_reason_and_policy() -> None:
    snapshot = make_snapshot(make_workload_policy(defaults=compute(**PORTION)))

    answer = submit(snapshot, make_training(**compute(gpuDevicesRequest=2)))

    left_out = {item.field: item.reason for item in answer.decision.not_applied}
    assert left_out == {
        "compute.gpuRequestType": "only with one GPU device, and compute.gpuDevicesRequest is 2",
        "compute.gpuPortionRequest": "it goes with compute.gpuRequestType portion, which is not"
        " applied",
    }
    assert {item.source.policy for item in answer.decision.not_applied} == {"guardrails"}
    assert len(answer.decision.warnings) == 2


def test_what_a_submission_breaks_itself_takes_no_default_away() -> None:
    """It is refused for what was written, not for what a policy would add."""
    snapshot = make_snapshot(make_workload_policy(defaults=compute(gpuPortionRequest=0.5)))
    spec = compute(gpuRequestType="portion", gpuDevicesRequest=2)

    answer = submit(snapshot, make_training(**spec))

    assert answer.broken == [("/spec/compute/gpuRequestType", "schema")]


@pytest.mark.parametrize(
    ("rule", "source", "reason"),
    [
        pytest.param(
            {"max": 4}, 8, "8 is no value that the policy accepts: ≤ 4", id="above-its-own-max"
        ),
        pytest.param({"max": 8}, 8, "", id="within"),
    ],
)
def test_a_derived_default_outside_its_own_rules_is_left_out(
    rule: JsonObject, source: int, reason: str
) -> None:
    """The submitter wrote the limit only: he is not refused for what follows from it."""
    policy = make_workload_policy(
        rules=compute(cpuCoreRequest={"defaultFrom": {"Field": "cpuCoreLimit"}, **rule})
    )

    answer = submit(make_snapshot(policy), make_training(**compute(cpuCoreLimit=source)))

    assert answer.allowed
    assert [item.reason for item in answer.decision.not_applied] == [reason] * bool(reason)
    assert ("cpuCoreRequest" in answer.document["spec"]["compute"]) is not bool(reason)


def test_a_derived_default_that_does_not_go_with_the_rest_is_left_out() -> None:
    policy = make_workload_policy(
        rules=compute(gpuMemoryRequest={"defaultFrom": {"field": "gpuMemoryLimit"}})
    )
    spec = compute(**PORTION, gpuMemoryLimit="4Gi")

    answer = submit(make_snapshot(policy), make_training(**spec))

    assert answer.document["spec"]["compute"] == spec["compute"]
    (left_out,) = answer.decision.not_applied
    assert left_out.reason == "does not go with compute.gpuRequestType portion"


def test_a_default_can_wait_for_one_that_is_derived() -> None:
    policy = make_workload_policy(
        defaults=compute(gpuRequestType="memory"),
        rules=compute(gpuMemoryRequest={"defaultFrom": {"field": "gpuMemoryLimit"}}),
    )

    answer = submit(make_snapshot(policy), make_training(**compute(gpuMemoryLimit="4Gi")))

    assert answer.at("/spec/compute/gpuRequestType") == "memory"
    assert answer.decision.not_applied == ()


# -- items ---------------------------------------------------------------------------------------


def native_field(name: str) -> Field:
    return native_groups(native_rows())["training"].fields[name]


@pytest.mark.parametrize(
    ("given", "defaults", "refused"),
    [
        ({"key": "a", "effect": "NoSchedule"}, {"seconds": 30}, {"seconds"}),
        ({"key": "a", "effect": "NoExecute"}, {"seconds": 30}, set()),
        ({"key": "a"}, {"seconds": 30, "effect": "NoSchedule"}, {"seconds", "effect"}),
        ({"operator": "Exists"}, {"value": "x", "effect": "Any"}, {"value"}),
        ({"key": "a", "effect": 5}, {"seconds": 30}, set()),
    ],
)
def test_an_attribute_is_not_filled_into_an_item_that_it_does_not_go_with(
    given: JsonObject, defaults: JsonObject, refused: set[str]
) -> None:
    assert set(refused_attributes(native_field("tolerations"), given, defaults)) == refused


# -- whatever is given ---------------------------------------------------------------------------

SAMPLES: dict[str, list[Any]] = {
    "compute.gpuRequestType": ["portion", "memory"],
    "compute.gpuPortionRequest": [0.5, 2],
    "compute.gpuPortionLimit": [0.25, 1],
    "compute.gpuMemoryRequest": ["2Gi", "8Gi"],
    "compute.gpuMemoryLimit": ["4Gi"],
    "compute.gpuDevicesRequest": [1, 2],
    "autoscaling.minReplicas": [0, 1, 3],
    "autoscaling.maxReplicas": [1, 2, 3],
    "autoscaling.metric": ["latency", "throughput"],
    "autoscaling.metricThreshold": [5],
    "autoscaling.scaleToZeroRetentionSeconds": [60],
    "servingPort.authorizationType": ["public", "authorizedUsers", "authorizedUsersOrGroups"],
    "servingPort.authorizedUsers": [["a"]],
    "servingPort.authorizedGroups": [["g"]],
}


def draw(chance: random.Random, share: float) -> JsonObject:
    spec: JsonObject = {}
    for name, values in SAMPLES.items():
        if chance.random() < share:
            section, leaf = name.split(".")
            spec.setdefault(section, {})[leaf] = chance.choice(values)
    return spec


def conditions_broken(document: JsonObject) -> set[str]:
    rows = {name: row for name, row in native_rows().items() if "inference" in row["workloads"]}
    return {problem.check for problem in judge_native("inference", document, rows)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_no_default_breaks_what_holds_without_it(seed: int) -> None:
    """Whatever policies give: a right submission stays right, and a second pass changes nothing."""
    chance = random.Random(seed)
    documents = [
        make_workload_policy(
            workload_type="inference", name=f"p{index}", scope=scope, unit=unit, defaults=values
        )
        for index, (scope, unit, values) in enumerate(
            [("tenant", "", draw(chance, 0.4)), ("project", "team-a", draw(chance, 0.3))]
        )
    ]
    snapshot = make_snapshot(*documents)

    for _ in range(20):
        document = make_inference(**draw(chance, 0.3))
        answer = submit(snapshot, document)
        if not conditions_broken(document):
            assert answer.decision.violations == ()


def test_the_samples_are_fields_of_an_inference() -> None:
    assert set(SAMPLES) <= set(native_groups(native_rows())["inference"].fields)
