"""Objects that are there already: judged as they stand, and each once."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.builders import (
    JOB,
    POD,
    PYTORCH_JOB,
    JsonObject,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
    make_snapshot,
)
from webhook.admission.existing import judge_existing, kinds_to_judge, request_of
from webhook.model.kinds import NATIVE_KINDS, GroupVersionKind
from webhook.store.snapshot import Snapshot

IMAGES = make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]})
PODS = make_gvk_policy(IMAGES, kind=POD, name="pods")
JOBS = make_gvk_policy(IMAGES, kind=JOB, name="jobs")
BAD = "docker.io/x"


def pod(image: str = BAD, **more: Any) -> JsonObject:
    """A Pod of the cluster; *more* are parts beside its spec."""
    made = make_pod(containers=[make_container(image=image)])
    metadata = {**made["metadata"], **more.pop("metadata", {})}
    return {**made, **more, "metadata": metadata}


def owned(api_version: str, kind: str, *, controller: bool = True) -> JsonObject:
    owner = {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "1"}
    return {"ownerReferences": [{**owner, "controller": controller}]}


def test_a_rule_that_is_broken_is_told_as_at_admission() -> None:
    decision = judge_existing(pod(), make_snapshot(PODS))

    assert not decision.allowed
    assert [violation.value for violation in decision.violations] == [BAD]


def test_what_keeps_the_rules_is_allowed_and_judged() -> None:
    decision = judge_existing(pod("ghcr.io/x"), make_snapshot(PODS))

    assert (decision.allowed, decision.reason) == (True, "")


@pytest.mark.parametrize(
    ("enforcement", "broken"),
    [
        pytest.param({"default": "/work"}, [], id="a-default-is-filled-into-new-ones-only"),
        pytest.param({"set": "/work"}, ["set"], id="a-set-value-is-not-there"),
        pytest.param({"required": True}, ["required"], id="a-value-is-missing"),
    ],
)
def test_nothing_is_filled_in(enforcement: JsonObject, broken: list[str]) -> None:
    rule = make_rule("workingDir", "allContainers", enforcement)
    snapshot = make_snapshot(make_gvk_policy(rule, kind=POD))
    document = pod()
    before = copy.deepcopy(document)

    decision = judge_existing(document, snapshot)

    assert [violation.rule for violation in decision.violations] == broken
    assert (document, decision.changes, decision.patch) == (before, (), [])


@pytest.mark.parametrize(
    ("metadata", "judged"),
    [
        pytest.param(owned("batch/v1", "Job"), False, id="of-a-job-that-is-judged"),
        pytest.param(owned("batch/v1", "Job", controller=False), True, id="of-no-controller"),
        pytest.param(owned("apps/v1", "ReplicaSet"), True, id="of-a-kind-without-policy"),
        pytest.param({}, True, id="bare"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False, id="on-its-way-out"),
    ],
)
def test_what_is_made_for_a_judged_owner_is_not_judged_again(
    metadata: JsonObject, judged: bool
) -> None:
    decision = judge_existing(pod(metadata=metadata), make_snapshot(PODS, JOBS))

    assert decision.allowed is not judged
    assert bool(decision.reason) is not judged


def test_an_owner_counts_only_where_a_policy_concerns_it() -> None:
    elsewhere = make_gvk_policy(IMAGES, kind=JOB, name="jobs", scope="project", unit="other")

    assert not judge_existing(
        pod(metadata=owned("batch/v1", "Job")), make_snapshot(PODS, elsewhere)
    ).allowed


@pytest.mark.parametrize("owner", ["Node", "Service"])
def test_a_pod_of_a_node_itself_is_nobodys(owner: str) -> None:
    """Of nodes that its kubelet made, and not of whoever writes the annotation."""
    metadata = {**owned("v1", owner), "annotations": {"kubernetes.io/config.mirror": "abc"}}

    decision = judge_existing(pod(metadata=metadata), make_snapshot(PODS))

    assert decision.allowed is (owner == "Node")


def test_a_reservation_of_the_kai_scheduler_is_not_judged() -> None:
    metadata = {"namespace": "kai-resource-reservation"}

    assert judge_existing(pod(metadata=metadata), make_snapshot(PODS)).allowed


@pytest.mark.parametrize(
    ("kind", "status", "judged"),
    [
        pytest.param("Pod", {"phase": "Running"}, True, id="pod-runs"),
        pytest.param("Pod", {"phase": "Pending"}, True, id="pod-waits"),
        pytest.param("Pod", {"phase": "Succeeded"}, False, id="pod-is-done"),
        pytest.param("Pod", {"phase": "Failed"}, False, id="pod-has-failed"),
        pytest.param("Job", {}, True, id="job-runs"),
        pytest.param(
            "Job", {"conditions": [{"type": "Complete", "status": "True"}]}, False, id="job-is-done"
        ),
        pytest.param(
            "Job", {"conditions": [{"type": "Suspended", "status": "True"}]}, True, id="job-waits"
        ),
        pytest.param("Job", {"conditions": ["x", None]}, True, id="job-with-nonsense"),
    ],
)
def test_what_has_ended_runs_no_more(kind: str, status: JsonObject, judged: bool) -> None:
    document = pod(status=status)
    if kind == "Job":
        template = {"spec": document["spec"]}
        document |= {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}

    assert judge_existing(document, make_snapshot(PODS, JOBS)).allowed is not judged


def test_the_place_is_that_of_the_namespace() -> None:
    policy = make_gvk_policy(IMAGES, kind=POD, scope="project", unit="team-a")
    snapshot = make_snapshot(policy)

    assert not judge_existing(pod(metadata={"namespace": "team-a"}), snapshot).allowed
    assert judge_existing(pod(metadata={"namespace": "team-b"}), snapshot).allowed


@pytest.mark.parametrize(
    ("mode", "warned"), [pytest.param("Warn", True, id="warn"), pytest.param("Audit", False)]
)
def test_a_policy_that_is_only_tried_refuses_nothing(mode: str, warned: bool) -> None:
    policy = make_gvk_policy(IMAGES, kind=POD)
    policy["spec"]["mode"] = mode

    decision = judge_existing(pod(), make_snapshot(policy))

    assert decision.allowed
    assert bool(decision.warnings) is warned
    assert [len(preview.violations) for preview in decision.previews] == [1]


def test_the_kinds_to_look_at_have_a_policy_or_are_native() -> None:
    tried = make_gvk_policy(IMAGES, kind=PYTORCH_JOB, name="tried")
    tried["spec"]["mode"] = "Audit"
    kinds = kinds_to_judge(make_snapshot(PODS, tried))

    concerned = [GroupVersionKind.parse(name) for name in ("v1/Pod", "kubeflow.org/v1/PyTorchJob")]
    assert set(kinds) == {*concerned, *NATIVE_KINDS.values()}


def test_an_object_of_the_cluster_is_named_as_it_is() -> None:
    request = request_of(pod(metadata={"name": "web", "namespace": "team-a", "uid": "7"}))

    assert (str(request.kind), request.namespace, request.name, request.uid) == (
        *("v1/Pod", "team-a", "web", "7"),
    )


def test_metadata_of_another_shape_stops_nothing() -> None:
    snapshot: Snapshot = make_snapshot(PODS)
    document = {**pod(), "metadata": "x", "status": []}

    assert not judge_existing(document, snapshot).allowed
