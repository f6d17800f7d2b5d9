"""Workloads with roles, and what the shipped policies do to each native type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Answer, JsonObject, make_snapshot, make_workload_policy, submit
from tests.unit.catalog.policies import TYPES, builtin, problems_of
from webhook.model.kinds import NATIVE_KINDS

MASTER = "masterSpec"


def make_native(workload_type: str, spec: JsonObject | None = None, **more: Any) -> JsonObject:
    """A workload that satisfies its type, and whatever *spec* says beside that."""
    kind = NATIVE_KINDS[workload_type]
    least: dict[str, JsonObject] = {
        "distributed": {"distributedFramework": "PyTorch", "numWorkers": 2, "image": "train:1"},
        "distributedInference": {"workers": 0, "leader": {"image": "serve:1"}},
        "inference": {"image": "serve:1", "servingPort": {"container": 8080}},
        "nimService": {"image": "nim:1", "servingPort": {"port": 8000}},
    }
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "bert", "namespace": "team-a"},
        "spec": {**least.get(workload_type, {"image": "train:1"}), **(spec or {})},
        **more,
    }


def submit_under(
    document: JsonObject,
    workload_type: str,
    *,
    defaults: JsonObject | None = None,
    rules: JsonObject | None = None,
) -> Answer:
    policy = make_workload_policy(workload_type=workload_type, defaults=defaults, rules=rules)
    snapshot = make_snapshot(policy)
    assert snapshot.problems == ()
    return submit(snapshot, document)


def written(answer: Answer, name: str) -> list[str]:
    """Where the patch writes something that ends in *name*."""
    return [
        "/" + "/".join(map(str, change.path))
        for change in answer.decision.changes
        if change.path[-1] == name
    ]


# --- distributed training ---


@pytest.mark.parametrize(
    ("defaults", "paths"),
    [
        pytest.param({"nodeType": "a100"}, ["/spec/nodeType", "/masterSpec/nodeType"], id="flat"),
        pytest.param({"master": {"nodeType": "a100"}}, ["/masterSpec/nodeType"], id="master"),
        pytest.param({"worker": {"nodeType": "a100"}}, ["/spec/nodeType"], id="worker"),
    ],
)
def test_a_field_of_a_distributed_training_is_that_of_the_roles_that_are_named(
    defaults: JsonObject, paths: list[str]
) -> None:
    document = make_native("distributed", masterSpec={"image": "train:1"})

    answer = submit_under(document, "distributed", defaults=defaults)

    assert sorted(written(answer, "nodeType")) == sorted(paths)


def test_a_field_that_only_workers_have_is_set_for_them_alone() -> None:
    document = make_native("distributed", masterSpec={"image": "train:1"})

    answer = submit_under(document, "distributed", defaults={"cleanPodPolicy": "None"})

    assert written(answer, "cleanPodPolicy") == ["/spec/cleanPodPolicy"]


def test_no_default_makes_a_master() -> None:
    document = make_native("distributed", masterSpecSameAsWorker=True)
    defaults = {"nodeType": "a100", "master": {"workingDir": "/work"}}

    answer = submit_under(document, "distributed", defaults=defaults)

    assert MASTER not in answer.document
    assert answer.at("/spec/nodeType") == "a100"
    assert "workingDir" not in answer.document["spec"]


def test_a_flat_rule_judges_both_halves_and_names_them() -> None:
    document = make_native(
        "distributed", {"compute": {"gpuDevicesRequest": 9}}, masterSpec={"image": "train:1"}
    )
    document[MASTER]["compute"] = {"gpuDevicesRequest": 10}

    answer = submit_under(
        document, "distributed", rules={"compute": {"gpuDevicesRequest": {"max": 8}}}
    )

    assert {(v.selector, v.value) for v in answer.decision.violations} == {
        ("worker", 9),
        ("master", 10),
    }


def test_a_rule_for_one_role_leaves_the_other_alone() -> None:
    document = make_native("distributed", masterSpec={"image": "train:1"})

    answer = submit_under(
        document, "distributed", rules={"master": {"image": {"pattern": ["nvcr.io/*"]}}}
    )

    assert answer.broken == [("/masterSpec/image", "pattern")]


def test_a_master_that_is_no_object_is_a_violation() -> None:
    answer = submit_under(
        make_native("distributed", masterSpec="none"),
        "distributed",
        rules={"image": {"required": True}},
    )

    assert ("/masterSpec", "type") in answer.broken


# --- distributed inference ---


@pytest.mark.parametrize(
    ("defaults", "paths"),
    [
        pytest.param(
            {"nodeType": "a100"}, ["/spec/leader/nodeType", "/spec/worker/nodeType"], id="flat"
        ),
        pytest.param({"leader": {"nodeType": "a100"}}, ["/spec/leader/nodeType"], id="leader"),
        pytest.param({"worker": {"nodeType": "a100"}}, ["/spec/worker/nodeType"], id="worker"),
    ],
)
def test_a_field_of_a_distributed_inference_is_that_of_the_roles_that_are_named(
    defaults: JsonObject, paths: list[str]
) -> None:
    document = make_native("distributedInference", {"workers": 1, "worker": {"image": "serve:1"}})

    answer = submit_under(document, "distributedInference", defaults=defaults)

    assert written(answer, "nodeType") == paths


def test_what_the_inference_as_a_whole_is_stays_beside_its_roles() -> None:
    document = make_native("distributedInference")

    answer = submit_under(document, "distributedInference", defaults={"priorityClass": "high"})

    assert written(answer, "priorityClass") == ["/spec/priorityClass"]


def test_a_default_may_begin_the_leader_and_never_the_workers() -> None:
    document = make_native("distributedInference")
    del document["spec"]["leader"]

    answer = submit_under(document, "distributedInference", defaults={"image": "serve:1"})

    assert written(answer, "image") == ["/spec/leader/image"]


# --- names ---


@pytest.mark.parametrize(
    ("workload_type", "defaults", "path", "hint"),
    [
        pytest.param(
            "distributed",
            {"master": {"numWorkers": 2}},
            "spec.defaults.master.numWorkers",
            'did you mean "worker.numWorkers"?',
            id="a-field-that-another-role-has",
        ),
        pytest.param(
            "distributedInference",
            {"leader": {"nodePools": ["a"]}},
            "spec.defaults.leader.nodePools",
            'did you mean "nodePools"?',
            id="a-field-of-the-whole",
        ),
        pytest.param(
            "distributedInference",
            {"LEADER": {"nodepools": ["a"]}},
            "spec.defaults.LEADER.nodepools",
            'did you mean "nodePools"?',
            id="in-any-case",
        ),
        pytest.param(
            "distributed",
            {"leader": {"image": "a"}},
            "spec.defaults.leader",
            "its roles are master, worker",
            id="a-role-of-another-type",
        ),
        pytest.param(
            "distributed",
            {"mastr": {"image": "a"}},
            "spec.defaults.mastr",
            'did you mean "master"?',
            id="a-role-misspelt",
        ),
        pytest.param(
            "distributed",
            {"worker": {"compute": {"gpuDevicesRequests": 1}}},
            "spec.defaults.worker.compute.gpuDevicesRequests",
            'did you mean "gpuDevicesRequest"?',
            id="a-field-of-a-role-misspelt",
        ),
        pytest.param(
            "training",
            {"worker": {"image": "a"}},
            "spec.defaults.worker",
            "it has no roles",
            id="a-type-without-roles",
        ),
    ],
)
def test_a_name_that_a_role_does_not_have_is_unknown(
    workload_type: str, defaults: JsonObject, path: str, hint: str
) -> None:
    ((where, problem),) = problems_of(workload_type, defaults=defaults)

    assert where == path
    assert problem.startswith("unknown field; ") or " has no role " in problem
    assert hint in problem


def test_spellings_are_read_behind_a_role_too() -> None:
    policy = make_workload_policy(
        workload_type="distributed", rules={"master": {"compute": {"gpuDeviceRequest": {"max": 8}}}}
    )

    snapshot = make_snapshot(policy)

    (problem,) = snapshot.problems
    assert problem.warning
    assert problem.problem == "gpuDeviceRequest is read as master.compute.gpuDevicesRequest"


@pytest.mark.parametrize(
    ("spec", "path", "problem"),
    [
        pytest.param(
            {"defaults": {"image": "a", "master": {"image": "b"}}},
            "spec.defaults.master.image",
            "the same default of master.image stands at spec.defaults.image;"
            " write it for each role",
            id="default",
        ),
        pytest.param(
            {"rules": {"worker": {"tty": {"canEdit": False}}, "tty": {"canEdit": False}}},
            "spec.rules.tty.canEdit",
            "the same rule of worker.tty stands at spec.rules.worker.tty.canEdit;"
            " write it for each role",
            id="rule",
        ),
    ],
)
def test_a_policy_speaks_about_a_field_of_a_role_once(
    spec: JsonObject, path: str, problem: str
) -> None:
    assert problems_of("distributed", **spec) == [(path, problem)]


def test_different_rules_may_stand_with_and_without_the_role() -> None:
    rules = {"image": {"required": True}, "master": {"image": {"pattern": ["nvcr.io/*"]}}}

    assert problems_of("distributed", rules=rules) == []


def test_what_is_wrong_with_a_flat_value_is_said_once() -> None:
    assert problems_of("distributed", defaults={"tty": "yes"}) == [
        ("spec.defaults.tty", "must be true or false, got text")
    ]


def test_a_policy_for_one_role_leaves_the_other_to_another_policy() -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            name="one", workload_type="distributed", rules={"master": {"image": {"required": True}}}
        ),
        make_workload_policy(
            name="two", workload_type="distributed", rules={"worker": {"image": {"required": True}}}
        ),
    )

    assert snapshot.problems == ()


def test_two_policies_for_one_role_are_a_conflict_that_is_told_once() -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            name="one", workload_type="distributed", rules={"image": {"required": True}}
        ),
        make_workload_policy(
            name="two", workload_type="distributed", rules={"image": {"required": True}}
        ),
    )

    (problem,) = snapshot.problems
    assert "already has rules" in problem.problem


# --- shipped policies ---

PRIVILEGED = ("workspace", "training", "distributed", "inference")
GRACE = ("workspace", "training", "distributed")


@pytest.mark.parametrize("workload_type", TYPES)
def test_privileged_is_false_where_a_type_has_it(workload_type: str) -> None:
    answer = submit(builtin(), make_native(workload_type))

    assert answer.allowed
    assert bool(written(answer, "privileged")) is (workload_type in PRIVILEGED)
    assert bool(written(answer, "terminationGracePeriodSeconds")) is (workload_type in GRACE)


@pytest.mark.parametrize("workload_type", PRIVILEGED)
def test_a_privileged_workload_is_refused(workload_type: str) -> None:
    document = make_native(workload_type, {"security": {"privileged": True}})

    answer = submit(builtin(), document)

    assert answer.broken == [("/spec/security/privileged", "canEdit")]


def test_a_privileged_master_is_refused() -> None:
    document = make_native("distributed", masterSpec={"security": {"privileged": True}})

    answer = submit(builtin(), document)

    assert answer.broken == [("/masterSpec/security/privileged", "canEdit")]


@pytest.mark.parametrize("workload_type", GRACE)
def test_a_long_grace_period_is_refused(workload_type: str) -> None:
    document = make_native(workload_type, {"terminationGracePeriodSeconds": 301})

    answer = submit(builtin(), document)

    assert answer.broken == [("/spec/terminationGracePeriodSeconds", "max")]
