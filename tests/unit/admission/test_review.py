"""Who and what is judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    JOB,
    make_container,
    make_gvk_policy,
    make_pod,
    make_request,
    make_rule,
    make_snapshot,
    make_training,
    submit,
)
from webhook.admission.review import review
from webhook.model.decision import Outcome
from webhook.model.request import Operation, Phase
from webhook.model.settings import EngineSettings

POD_RULE = make_gvk_policy(make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}))
DEPLOYMENT_RULE = make_gvk_policy(
    make_rule("replicas", "workload", {"max": 3}), kind=DEPLOYMENT, name="deployments"
)
JOB_RULE = make_gvk_policy(
    make_rule("parallelism", "workload", {"max": 3}), kind=JOB, name="jobs", scope="tenant"
)

CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"


def bad_pod(**metadata: Any) -> dict[str, Any]:
    pod = make_pod(containers=[make_container(image="docker.io/x")])
    pod["metadata"] |= metadata
    return pod


def owned_by(api_version: str, kind: str, *, controller: bool = True) -> dict[str, Any]:
    owner = {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "1"}
    return bad_pod(ownerReferences=[{**owner, "controller": controller}])


@pytest.mark.parametrize("operation", [Operation.DELETE, Operation.CONNECT])
def test_only_create_and_update_are_judged(operation: Operation) -> None:
    request = make_request(bad_pod(), operation=operation)

    assert review(request, Phase.VALIDATE, make_snapshot(POD_RULE)).allowed


@pytest.mark.parametrize("sub_resource", ["status", "binding"])
def test_most_subresources_are_let_pass_and_said_so(sub_resource: str) -> None:
    request = make_request(bad_pod(), old=make_pod(), sub_resource=sub_resource)

    decision = review(request, Phase.MUTATE, make_snapshot(POD_RULE))

    assert decision.allowed
    assert decision.patch == []
    assert sub_resource in decision.reason


def test_a_kind_without_a_mapping_passes() -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}

    decision = review(make_request(document), Phase.REVIEW, make_snapshot(POD_RULE))

    assert (decision.allowed, decision.mapped) == (True, False)
    assert decision.outcome is Outcome.ALLOWED


def test_a_mapped_kind_that_no_policy_concerns_passes() -> None:
    decision = review(make_request(bad_pod()), Phase.REVIEW, make_snapshot(DEPLOYMENT_RULE))

    assert (decision.allowed, decision.mapped, decision.patch) == (True, True, [])


@pytest.mark.parametrize(
    ("pod", "user", "judged"),
    [
        pytest.param(owned_by("apps/v1", "ReplicaSet"), CONTROLLER, False, id="deployment-judged"),
        pytest.param(owned_by("apps/v1", "ReplicaSet"), "alice", True, id="a-user-gains-nothing"),
        pytest.param(
            owned_by("apps/v1", "ReplicaSet", controller=False),
            CONTROLLER,
            True,
            id="no-controller",
        ),
        pytest.param(owned_by("batch/v1", "Job"), CONTROLLER, True, id="no-policy-for-the-owner"),
        pytest.param(owned_by("example.com/v1", "Gone"), CONTROLLER, True, id="unknown-owner"),
        pytest.param(bad_pod(), CONTROLLER, True, id="no-owner"),
        pytest.param(bad_pod(ownerReferences="x"), CONTROLLER, True, id="owners-of-wrong-type"),
    ],
)
def test_objects_of_trusted_controllers_are_judged_once(
    pod: dict[str, Any], user: str, judged: bool
) -> None:
    """Only if the owner's kind is concerned by a policy there, and only for who may say so."""
    snapshot = make_snapshot(POD_RULE, DEPLOYMENT_RULE)

    assert submit(snapshot, pod, user=user).allowed is not judged


def test_operators_elsewhere_are_trusted_by_a_setting() -> None:
    settings = EngineSettings(trusted_controllers=("system:serviceaccount:kubeflow:*",))
    snapshot = make_snapshot(POD_RULE, JOB_RULE, settings=settings)
    pod = owned_by("batch/v1", "Job")

    assert submit(snapshot, pod, user="system:serviceaccount:kubeflow:operator").allowed
    assert not submit(snapshot, pod, user="system:kube-controller-manager").allowed


@pytest.mark.parametrize(
    "user",
    [
        "system:serviceaccount:kube-system",
        "system:serviceaccount:kube-system-2:job-controller",
        "system:serviceaccount:team-a:kube-system:job-controller",
        "System:ServiceAccount:kube-system:job-controller",
        "oidc:system:serviceaccount:kube-system:job-controller",
        "alice system:serviceaccount:kube-system:job-controller",
        "alice\nsystem:serviceaccount:kube-system:job-controller",
        "system:kube-controller-manager ",
        "system:kube-controller-manager\n",
        "",
    ],
)
def test_a_name_that_only_looks_like_a_trusted_one_is_none(user: str) -> None:
    """Nor is anybody trusted for a group: his token has those that he was given."""
    groups = ("system:serviceaccounts:kube-system", "system:masters")
    pod = owned_by("apps/v1", "ReplicaSet")

    assert not submit(
        make_snapshot(POD_RULE, DEPLOYMENT_RULE), pod, user=user, groups=groups
    ).allowed


MIRROR = {"kubernetes.io/config.mirror": "abc"}


def test_mirror_pods_are_exempt_by_requester_only() -> None:
    snapshot = make_snapshot(POD_RULE)
    node = submit(snapshot, bad_pod(annotations=MIRROR), groups=("system:nodes",))
    user = submit(snapshot, bad_pod(annotations=MIRROR), groups=("system:authenticated",))

    assert node.allowed
    assert not user.allowed


def test_reservation_pods_of_kai_are_exempt_by_requester_and_namespace() -> None:
    snapshot = make_snapshot(POD_RULE)
    kai = "system:serviceaccount:kai-scheduler:binder"

    assert submit(snapshot, bad_pod(), user=kai, namespace="kai-resource-reservation").allowed
    assert not submit(snapshot, bad_pod(), user=kai, namespace="team-a").allowed
    assert not submit(snapshot, bad_pod(), user="eve", namespace="kai-resource-reservation").allowed


@pytest.mark.parametrize("namespace", ["", "team-a"])
def test_objects_without_a_name_are_named_by_what_they_have(namespace: str) -> None:
    pod = bad_pod(generateName="train-", namespace=namespace)
    del pod["metadata"]["name"]
    request = make_request(pod)

    assert request.display_name == "train-"
    assert not review(request, Phase.MUTATE, make_snapshot(POD_RULE)).allowed
    assert make_request({"metadata": []}, kind=request.kind).display_name == request.uid


def test_dry_run_gives_the_same_answer() -> None:
    snapshot = make_snapshot(POD_RULE)

    wet = review(make_request(bad_pod()), Phase.MUTATE, snapshot)
    dry = review(make_request(bad_pod(), dry_run=True), Phase.MUTATE, snapshot)

    assert wet == dry


def test_without_early_refusal_the_first_door_lets_everything_pass() -> None:
    snapshot = make_snapshot(POD_RULE, settings=EngineSettings(refuse_early=False))

    assert review(make_request(bad_pod()), Phase.MUTATE, snapshot).allowed
    assert not review(make_request(bad_pod()), Phase.VALIDATE, snapshot).allowed


def test_early_refusal_lists_what_is_missing_too() -> None:
    snapshot = make_snapshot(
        POD_RULE,
        make_gvk_policy(
            make_rule("labels", "metadata", {"required": {"key": "owner"}}), name="owner"
        ),
    )

    decision = review(make_request(bad_pod()), Phase.MUTATE, snapshot)

    assert [violation.rule for violation in decision.violations] == ["pattern", "required"]


def test_the_offline_review_shows_the_whole_at_once() -> None:
    """It mutates and lists every violation, where the two doors share that work."""
    decision = review(make_request(make_training()), Phase.REVIEW, make_snapshot())

    assert decision.changes
    assert decision.allowed


BOOKKEEPING = [
    {"finalizers": []},
    {"managedFields": [{"manager": "x"}]},
    {"ownerReferences": [{"kind": "x"}]},
    {"resourceVersion": "2", "generation": 3},
]


@pytest.mark.parametrize("metadata", BOOKKEEPING, ids=lambda value: next(iter(value)))
def test_bookkeeping_is_let_pass_before_jq_is_asked(metadata: dict[str, Any]) -> None:
    """A mapping that fails on an object must not keep its finalizers in place."""
    snapshot = make_snapshot(POD_RULE)
    old = bad_pod(finalizers=["a"])
    new = bad_pod(finalizers=["a"]) | {"status": {"phase": "Running"}}
    new["metadata"] |= metadata

    request = make_request(new, old=old)

    assert "nothing changed" in review(request, Phase.VALIDATE, snapshot).reason
