"""What a message proposes in place of a name that is wrong, or stands where it has no meaning."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import make_snapshot, make_training, make_workload_policy, submit
from tests.unit.catalog.policies import problems_of, tree
from webhook.model.kinds import NATIVE_KINDS

JsonObject = dict[str, Any]


@pytest.mark.parametrize(
    ("workload_type", "path", "wanted"),
    [
        pytest.param("training", "gpuDevicesRequest", "compute.gpuDevicesRequest", id="section"),
        pytest.param(
            "training", "gpuDevices", "compute.gpuDevicesRequest", id="misspelt-without-section"
        ),
        pytest.param("training", "env", "environmentVariables", id="word-of-kubernetes"),
        pytest.param("training", "runAsUser", "security.runAsUid", id="field-of-kubernetes"),
        pytest.param("training", "imge", "image", id="misspelt"),
        pytest.param("distributed", "worker.replicas", "numWorkers", id="replicas-of-workers"),
        pytest.param("distributed", "workers", "numWorkers", id="workers"),
        pytest.param("distributed", "masterSpec", "master", id="key-of-the-object"),
    ],
)
def test_an_unknown_field_is_answered_with_the_one_that_is_meant(
    workload_type: str, path: str, wanted: str
) -> None:
    ((at, problem),) = problems_of(workload_type, rules=tree(path, {"max": 1}))

    assert at == f"spec.rules.{path}"
    assert problem == f'unknown field; did you mean "{wanted}"?'


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        pytest.param(
            {"labels": {"required": True}}, "write instances: {canAdd, locked}", id="rule-of-values"
        ),
        pytest.param(
            {"environmentVariables": {"canAdd": False}},
            "write instances: {canAdd: …}",
            id="rule-of-items",
        ),
        pytest.param(
            {"labels": {"attributes": {"value": {"required": True}}}},
            "no default or rule can be given for attributes of labels",
            id="attributes",
        ),
        pytest.param(
            {"ports": {"attributes": {"name": {"required": True}}}},
            "it tells the items apart",
            id="key",
        ),
        pytest.param(
            {"imagePullPolicy": {"default": "Always"}}, "it stands in spec.defaults", id="default"
        ),
        pytest.param(
            {"compute": {"cpuCoreRequest": {"defaultFrom": {"field": "cpuCoreRequest"}}}},
            "is the field itself",
            id="default-from-itself",
        ),
    ],
)
def test_a_rule_that_stands_where_it_has_no_meaning_is_told_where_it_has(
    rules: JsonObject, wanted: str
) -> None:
    ((_, problem),) = problems_of("training", rules=rules)

    assert wanted in problem


@pytest.mark.parametrize(
    ("workload_type", "wanted"),
    [
        pytest.param("batch/v1/Job", "write {group: batch, version: v1, kind: Job}", id="kind"),
        pytest.param("v1/Pod", "write {version: v1, kind: Pod}", id="core-kind"),
        pytest.param("trainig", 'did you mean "training"?', id="misspelt"),
        pytest.param("DistributedTraining", 'did you mean "distributed"?', id="kind-of-ours"),
    ],
)
def test_a_workload_type_is_answered_with_how_it_is_written(
    workload_type: str, wanted: str
) -> None:
    (problem,) = make_snapshot(make_workload_policy(workload_type=workload_type)).problems

    assert problem.path == "spec.workloadType"
    assert wanted in problem.problem


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        pytest.param(("batch", "v1beta1", "Job"), "there is one for batch/v1/Job", id="version"),
        pytest.param(("apps", "v1", "Deploymnt"), 'did you mean "apps/v1/Deployment"?', id="name"),
        pytest.param(("a.io", "v1", "Deploymnt"), "a SpecMapping of yours", id="other-group"),
    ],
)
def test_a_kind_without_a_mapping_is_answered_with_kinds_that_have_one(
    kind: tuple[str, str, str], wanted: str
) -> None:
    named = dict(zip(("group", "version", "kind"), kind, strict=True))

    (problem,) = make_snapshot(make_workload_policy(workload_type=named)).problems

    assert wanted in problem.problem


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("master", 'the master is described by "masterSpec", beside "spec"'),
        ("masterSpec", '"masterSpec" stands beside "spec", not in it'),
        ("worker", 'the workers are described by "spec" itself'),
    ],
)
def test_roles_in_the_wrong_place_of_a_training_are_told_the_right_one(
    key: str, wanted: str
) -> None:
    kind = NATIVE_KINDS["distributed"]
    training = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {key: {"image": "a"}},
    }

    assert submit(make_snapshot(), training).violation.accepted == wanted


def test_a_contradiction_of_one_policy_does_not_repeat_the_field() -> None:
    policy = make_workload_policy(
        defaults={"nodePools": ["a", "b"]}, rules={"nodePools": {"options": ["a"]}}
    )

    (problem,) = make_snapshot(policy).problems

    assert str(problem) == (
        "test.yaml#0: spec.defaults.nodePools: default [a, b]: not an allowed value"
        ' (one of a; "b" is none of them)'
    )


@pytest.mark.parametrize(
    ("rule", "pools", "wanted"),
    [
        pytest.param({"options": ["a"]}, ["a", "b"], 'one of a; "b" is none of them', id="options"),
        pytest.param(
            {"pattern": ["a*"]}, ["a", "b", "c"], 'like a*; "b" and others are not', id="pattern"
        ),
    ],
)
def test_of_a_list_the_elements_that_are_wrong_are_named(
    rule: JsonObject, pools: list[str], wanted: str
) -> None:
    policy = make_workload_policy(rules={"nodePools": rule})

    answer = submit(make_snapshot(policy), make_training(nodePools=pools))

    assert answer.violation.accepted == wanted
