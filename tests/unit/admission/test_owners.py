"""Objects that controllers make: judged once, with their owner, and by their own kind else."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    JOB,
    POD,
    PYTORCH_JOB,
    JsonObject,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
    make_snapshot,
    submit,
)
from webhook.model.settings import EngineSettings

JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
OPERATOR = "system:serviceaccount:kubeflow:training-operator"
WITH_OPERATOR = EngineSettings(
    trusted_controllers=("system:serviceaccount:kube-system:*", "system:serviceaccount:kubeflow:*")
)

RULE = make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]})
TRAININGS = make_gvk_policy(RULE, kind=PYTORCH_JOB, name="trainings")
DEPLOYMENTS = make_gvk_policy(RULE, kind=DEPLOYMENT, name="deployments")
JOBS = make_gvk_policy(RULE, kind=JOB, name="jobs")
PODS = make_gvk_policy(RULE, kind=POD, name="pods")


def owner(api_version: str, kind: str, *, controller: bool = True) -> JsonObject:
    reference = {"apiVersion": api_version, "kind": kind, "name": "resnet", "uid": "1"}
    return {**reference, "controller": controller}


A_JOB = owner("batch/v1", "Job")
A_TRAINING = owner("kubeflow.org/v1", "PyTorchJob")
A_REPLICA_SET = owner("apps/v1", "ReplicaSet")
GONE = owner("gone.example.com/v1", "Gone")


def bad_pod(*owners: Any) -> JsonObject:
    """A Pod with an image that every policy here refuses."""
    pod = make_pod(containers=[make_container(image="docker.io/x")])
    if owners:
        pod["metadata"]["ownerReferences"] = copy.deepcopy(list(owners))
    return pod


OWNERS = [
    pytest.param([A_JOB], id="of-a-job"),
    pytest.param([A_TRAINING], id="of-the-covered-kind"),
    pytest.param([], id="bare"),
    pytest.param([A_JOB, owner("kubeflow.org/v1", "PyTorchJob", controller=False)], id="two"),
    pytest.param([GONE], id="of-a-kind-that-is-not-there"),
    pytest.param(["x", None, {}, {"controller": True}], id="of-nothing-readable"),
]


@pytest.mark.parametrize("owners", OWNERS)
@pytest.mark.parametrize("user", ["alice", JOB_CONTROLLER, OPERATOR])
def test_a_policy_for_one_kind_blocks_no_pods_whosever_they_are(
    owners: list[Any], user: str
) -> None:
    snapshot = make_snapshot(TRAININGS, settings=WITH_OPERATOR)

    assert submit(snapshot, bad_pod(*owners), user=user).allowed


@pytest.mark.parametrize(
    ("owners", "user", "judged"),
    [
        pytest.param([A_JOB], JOB_CONTROLLER, True, id="of-a-job-that-no-policy-concerns"),
        pytest.param([A_TRAINING], OPERATOR, False, id="of-the-covered-kind"),
        pytest.param([A_TRAINING], JOB_CONTROLLER, False, id="by-another-trusted-controller"),
        pytest.param([A_TRAINING], "alice", True, id="of-the-covered-kind-says-a-user"),
        pytest.param([A_TRAINING], "system:serviceaccount:team-a:x", True, id="says-an-account"),
        pytest.param([], OPERATOR, True, id="bare"),
        pytest.param(
            [owner("kubeflow.org/v1", "PyTorchJob", controller=False)],
            OPERATOR,
            True,
            id="of-an-owner-that-does-not-control-it",
        ),
        pytest.param(
            [owner("batch/v1", "Job", controller=False), A_TRAINING],
            OPERATOR,
            False,
            id="two-of-which-the-covered-one-controls",
        ),
        pytest.param(
            [A_JOB, owner("kubeflow.org/v1", "PyTorchJob", controller=False)],
            JOB_CONTROLLER,
            True,
            id="two-of-which-the-other-one-controls",
        ),
        pytest.param([GONE], OPERATOR, True, id="of-a-kind-that-is-not-there"),
        pytest.param([{"controller": True}], OPERATOR, True, id="of-an-owner-without-a-kind"),
        pytest.param(
            [owner("kubeflow.org/v2", "PyTorchJob")], OPERATOR, True, id="of-another-version"
        ),
    ],
)
def test_pods_are_judged_by_their_own_policies_unless_their_owner_was(
    owners: list[Any], user: str, judged: bool
) -> None:
    snapshot = make_snapshot(TRAININGS, PODS, settings=WITH_OPERATOR)

    answer = submit(snapshot, bad_pod(*owners), user=user)

    assert answer.allowed is not judged
    if judged:
        assert answer.violation.source.policy == "pods"
    else:
        assert answer.decision.reason == f"made by {user} for a PyTorchJob, which was judged"


@pytest.mark.parametrize(
    ("reference", "policy", "judged"),
    [
        pytest.param(A_REPLICA_SET, DEPLOYMENTS, False, id="replica-set-of-a-deployment"),
        pytest.param(A_REPLICA_SET, JOBS, True, id="replica-set-and-a-policy-for-jobs"),
        pytest.param(A_JOB, JOBS, False, id="job"),
        pytest.param(A_JOB, DEPLOYMENTS, True, id="job-and-a-policy-for-deployments"),
    ],
)
def test_an_owner_stands_for_the_workload_above_it(
    reference: JsonObject, policy: JsonObject, judged: bool
) -> None:
    """A Deployment makes ReplicaSets, which make Pods; nobody looks the chain up."""
    snapshot = make_snapshot(policy, PODS)

    assert submit(snapshot, bad_pod(reference), user=JOB_CONTROLLER).allowed is not judged


def test_the_owner_has_to_be_concerned_where_the_pod_is() -> None:
    elsewhere = make_gvk_policy(RULE, kind=JOB, name="jobs", scope="project", unit="team-b")
    snapshot = make_snapshot(elsewhere, PODS)
    pod = bad_pod(A_JOB)

    assert not submit(snapshot, pod, user=JOB_CONTROLLER).allowed
    assert submit(snapshot, pod, user=JOB_CONTROLLER, namespace="team-b").allowed


def test_a_job_that_a_cron_job_made_is_judged_with_it() -> None:
    cron_jobs = make_gvk_policy(
        RULE, kind={"group": "batch", "version": "v1", "kind": "CronJob"}, name="cron-jobs"
    )
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "nightly-1",
            "namespace": "team-a",
            "ownerReferences": [owner("batch/v1", "CronJob")],
        },
        "spec": {"template": {"spec": {"containers": [make_container(image="docker.io/x")]}}},
    }
    controller = "system:serviceaccount:kube-system:cronjob-controller"

    both = submit(make_snapshot(cron_jobs, JOBS), copy.deepcopy(job), user=controller)
    jobs_only = submit(make_snapshot(JOBS), copy.deepcopy(job), user=controller)
    by_a_user = submit(make_snapshot(cron_jobs, JOBS), copy.deepcopy(job))

    assert (both.broken, len(jobs_only.broken), len(by_a_user.broken)) == ([], 1, 1)


def test_a_policy_for_replica_sets_concerns_pods_of_replica_sets() -> None:
    replica_sets = make_gvk_policy(
        RULE, kind={"group": "apps", "version": "v1", "kind": "ReplicaSet"}, name="replica-sets"
    )
    controller = "system:serviceaccount:kube-system:replicaset-controller"

    answer = submit(make_snapshot(replica_sets, PODS), bad_pod(A_REPLICA_SET), user=controller)

    assert answer.broken == []


def test_no_name_of_a_user_is_kept() -> None:
    """It can be as long as a body, and somebody may have many."""
    snapshot = make_snapshot(PODS)
    submit(snapshot, bad_pod(A_JOB), user="ada")
    tracemalloc.start()
    try:
        for number in range(300):
            submit(snapshot, bad_pod(A_JOB), user=f"{number}" * 10_000)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept_bytes < 1_000_000
