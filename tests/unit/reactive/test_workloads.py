"""Which workloads are looked at, for whom, and whose a pod is."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import JsonObject
from tests.gpu import FRACTION, MEMORY, make_gpu_container
from tests.gpu_cluster import (
    NAMESPACE,
    make_cluster,
    make_object,
    make_reference,
    make_running_pod,
    see_pod,
    see_workload,
)
from tests.gpu_documents import make_cluster_policy, make_policy, make_settings
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.workloads import ObservedWorkload, observe

POLICY = make_policy(namespace=NAMESPACE)
DEPLOYMENT = make_object("Deployment")
REPLICA_SET = make_object("ReplicaSet", "llm-5d8", owner=DEPLOYMENT)
CRON_JOB = make_object("CronJob", "nightly")
JOB = make_object("Job", "nightly-29000000", owner=CRON_JOB)
ROLLOUT = make_object("Rollout")
ANALYSIS = make_object("AnalysisRun", "check")
STATEFUL_SET = make_object("StatefulSet", "db")


def owner_of(cluster: Cluster, pod: JsonObject) -> str:
    owner = cluster.owner_of(see_pod(pod))
    return "" if owner is None else str(owner)


def seen(cluster: Cluster) -> list[str]:
    return [str(observed.workload) for observed in observe(cluster)]


def only(cluster: Cluster) -> ObservedWorkload:
    (observed,) = observe(cluster)
    return observed


# --- whose a pod is ---


@pytest.mark.parametrize(
    ("made_by", "around", "want"),
    [
        pytest.param(
            REPLICA_SET, [REPLICA_SET, DEPLOYMENT], "Deployment team-a/llm", id="deployment"
        ),
        pytest.param(JOB, [JOB, CRON_JOB], "CronJob team-a/nightly", id="cron-job"),
        pytest.param(STATEFUL_SET, [STATEFUL_SET], "StatefulSet team-a/db", id="stateful-set"),
        pytest.param(
            make_object("DaemonSet", "agent"),
            [make_object("DaemonSet", "agent")],
            "DaemonSet team-a/agent",
            id="daemon-set",
        ),
        pytest.param(
            make_object("Model", "qwen"),
            [make_object("Model", "qwen")],
            "Model team-a/qwen",
            id="model",
        ),
        pytest.param(
            make_object("StrimziPodSet", "kafka", api_version="core.strimzi.io/v1"),
            [make_object("StrimziPodSet", "kafka")],
            "StrimziPodSet team-a/kafka",
            id="another-version-of-its-kind",
        ),
        pytest.param(
            make_object("ReplicaSet", "llm-5d8", owner=ROLLOUT),
            [make_object("ReplicaSet", "llm-5d8", owner=ROLLOUT), ROLLOUT],
            "Rollout team-a/llm",
            id="rollout",
        ),
        pytest.param(
            make_object("Job", "check-1", owner=ANALYSIS),
            [make_object("Job", "check-1", owner=ANALYSIS), ANALYSIS],
            "AnalysisRun team-a/check",
            id="analysis-run",
        ),
        pytest.param(
            make_object("Job", "train"),
            [make_object("Job", "train")],
            "Job team-a/train",
            id="job",
        ),
        pytest.param(
            make_object("Job", "train-workers-0"),
            [
                make_object(
                    "Job",
                    "train-workers-0",
                    owner=make_object("JobSet", "train", api_version="jobset.x-k8s.io/v1alpha2"),
                )
            ],
            "Job team-a/train-workers-0",
            id="job-of-a-kind-that-no-policy-can-name",
        ),
    ],
)
def test_a_pod_is_of_the_nearest_supported_owner(
    made_by: JsonObject, around: list[JsonObject], want: str
) -> None:
    assert owner_of(make_cluster(*around), make_running_pod(owner=made_by)) == want


@pytest.mark.parametrize(
    ("made_by", "around"),
    [
        pytest.param(None, [DEPLOYMENT], id="nobodys"),
        pytest.param(REPLICA_SET, [DEPLOYMENT], id="replica-set-is-gone"),
        pytest.param(REPLICA_SET, [REPLICA_SET], id="deployment-is-gone"),
        pytest.param(
            make_object("ReplicaSet", "alone"),
            [make_object("ReplicaSet", "alone")],
            id="replica-set-of-nobody",
        ),
        pytest.param(
            make_object("ReplicaSet", "llm-5d8", uid="forged"),
            [REPLICA_SET, DEPLOYMENT],
            id="forged-replica-set",
        ),
        pytest.param(make_object("Deployment", uid="forged"), [DEPLOYMENT], id="forged-deployment"),
        pytest.param(
            REPLICA_SET,
            [REPLICA_SET, make_object("Deployment", uid="made-anew")],
            id="deployment-was-made-anew",
        ),
        pytest.param(JOB, [JOB], id="cron-job-is-gone"),
        pytest.param(
            make_object("Deployment", api_version="example.com/v1"), [DEPLOYMENT], id="other-group"
        ),
        pytest.param(
            make_object("ReplicaSet", "llm-5d8", api_version="example.com/v1"),
            [REPLICA_SET, DEPLOYMENT],
            id="replica-set-of-another-group",
        ),
        pytest.param(
            make_object("Node", "node-1", api_version="v1"), [DEPLOYMENT], id="unsupported"
        ),
    ],
)
def test_a_pod_of_nobody_who_is_there_is_of_no_workload(
    made_by: JsonObject | None, around: list[JsonObject]
) -> None:
    """Anybody may write a name into a pod; the uid must be that of the object that is there."""
    assert owner_of(make_cluster(*around), make_running_pod(owner=made_by)) == ""


def test_an_owner_of_another_namespace_is_none() -> None:
    pod = make_running_pod(owner=STATEFUL_SET, namespace="team-b")

    assert owner_of(make_cluster(STATEFUL_SET), pod) == ""


def test_an_owner_that_is_no_controller_is_none() -> None:
    pod = make_running_pod()
    pod["metadata"]["ownerReferences"] = [make_reference(STATEFUL_SET, controller=False)]

    assert owner_of(make_cluster(STATEFUL_SET), pod) == ""


# --- which workloads, and for which policies ---


def test_workloads_in_scope_come_in_order_with_their_policies() -> None:
    cluster = make_cluster(
        make_cluster_policy(),
        POLICY,
        make_policy("other", namespace="team-b"),
        make_object("Deployment", "z"),
        STATEFUL_SET,
        make_object("Deployment", "a"),
        make_object("Deployment", "elsewhere", namespace="team-b"),
    )

    found = [
        (str(observed.workload), [policy.key.name for policy in observed.policies])
        for observed in observe(cluster)
    ]

    assert found == [
        ("Deployment team-a/a", ["gpu-reactive-cluster", "gpu-reactive"]),
        ("Deployment team-a/z", ["gpu-reactive-cluster", "gpu-reactive"]),
        ("StatefulSet team-a/db", ["gpu-reactive-cluster", "gpu-reactive"]),
        ("Deployment team-b/elsewhere", ["gpu-reactive-cluster", "other"]),
    ]


@pytest.mark.parametrize(
    ("scope", "want"),
    [
        pytest.param({}, ["Deployment team-a/llm", "StatefulSet team-a/db"], id="all"),
        pytest.param({"workloadTypes": ["StatefulSet"]}, ["StatefulSet team-a/db"], id="types"),
        pytest.param(
            {"labelSelector": {"matchLabels": {"tier": "gpu"}}},
            ["StatefulSet team-a/db"],
            id="labels-of-the-workload",
        ),
        pytest.param({"labelSelector": {"matchLabels": {"app": "pod"}}}, [], id="labels-of-a-pod"),
    ],
)
def test_scopes_are_those_of_the_workload_object(scope: JsonObject, want: list[str]) -> None:
    stateful_set = make_object("StatefulSet", "db", labels={"tier": "gpu"})
    pod = make_running_pod(owner=stateful_set)
    pod["metadata"]["labels"] = {"app": "pod"}
    policy = make_policy(namespace=NAMESPACE, scope=scope)

    assert seen(make_cluster(policy, DEPLOYMENT, stateful_set, pod)) == want


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param({"operator": "In", "values": ["team-*"]}, 2, id="in"),
        pytest.param({"operator": "In", "values": ["team-b"]}, 1, id="in-one"),
        pytest.param({"operator": "NotIn", "values": ["team-*"]}, 0, id="not-in"),
    ],
)
def test_a_policy_of_the_whole_cluster_names_its_namespaces(
    selector: JsonObject, want: int
) -> None:
    policy = make_cluster_policy(scope={"namespaceSelector": selector})
    cluster = make_cluster(policy, DEPLOYMENT, make_object("Deployment", namespace="team-b"))

    assert len(observe(cluster)) == want


def test_protected_namespaces_are_left_alone() -> None:
    settings = make_settings(protectedNamespacePatterns=["team-*"])

    assert seen(make_cluster(POLICY, DEPLOYMENT)) == ["Deployment team-a/llm"]
    assert seen(make_cluster(POLICY, DEPLOYMENT, settings)) == []


@pytest.mark.parametrize("types", [["Job"], ["CronJob"], ["Job", "CronJob"]])
def test_a_job_of_a_cron_job_is_no_workload_itself(types: list[str]) -> None:
    """It will never be made again, whatever a policy names."""
    policy = make_policy(namespace=NAMESPACE, scope={"workloadTypes": types})
    cluster = make_cluster(policy, CRON_JOB, JOB, make_object("Job", "train"))

    want = {"CronJob": "CronJob team-a/nightly", "Job": "Job team-a/train"}
    assert seen(cluster) == [want[kind] for kind in sorted(types)]


# --- kinds beyond the nine ---


def make_mapped(kind: str, name: str, api_version: str, **more: Any) -> JsonObject:
    return make_object(kind, name, api_version=api_version, **more)


PYTORCH_JOB = make_mapped("PyTorchJob", "train", "kubeflow.org/v1")
PYTORCH_POLICY = make_policy(
    namespace=NAMESPACE, scope={"workloadTypes": ["PyTorchJob.kubeflow.org"]}
)


def test_pods_that_a_mapped_kind_makes_itself_are_its_own() -> None:
    pod = make_running_pod("train-master-0", owner=PYTORCH_JOB)

    observed = only(make_cluster(PYTORCH_POLICY, PYTORCH_JOB, pod))

    assert str(observed.workload) == "PyTorchJob team-a/train"
    assert observed.workload.ref.api_version == "kubeflow.org/v1"
    assert [each.pod_name for each in observed.pods] == ["train-master-0"]
    assert observed.has_gpus


def test_a_policy_for_all_that_others_know_does_not_concern_it() -> None:
    assert seen(make_cluster(POLICY, PYTORCH_JOB)) == []


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param({**PYTORCH_JOB, "apiVersion": "other.example/v1"}, id="another-group"),
        pytest.param(make_mapped("PyTorchJob", "train", "kubeflow.org/v1", uid="x"), id="its-uid"),
        pytest.param(make_mapped("PyTorchJob", "gone", "kubeflow.org/v1"), id="its-name"),
    ],
)
def test_a_reference_to_a_mapped_kind_counts_where_that_object_is_there(owner: JsonObject) -> None:
    pod = make_running_pod(owner=owner)

    assert only(make_cluster(PYTORCH_POLICY, PYTORCH_JOB, pod)).pods == ()


def test_two_kinds_of_one_name_are_two() -> None:
    """Volcano has Jobs as well."""
    theirs = make_mapped("Job", "train", "batch.volcano.sh/v1alpha1", uid="volcano")
    ours = make_object("Job", "train", uid="batch")
    policy = make_policy(
        namespace=NAMESPACE, scope={"workloadTypes": ["Job", "Job.batch.volcano.sh"]}
    )
    cluster = make_cluster(
        policy,
        *(theirs, ours),
        make_running_pod("theirs-0", owner=theirs),
        make_running_pod("ours-0", owner=ours),
    )

    found = {each.workload.type: [pod.pod_name for pod in each.pods] for each in observe(cluster)}
    assert found == {"Job": ["ours-0"], "Job.batch.volcano.sh": ["theirs-0"]}


def test_a_replica_set_that_nobody_keeps_is_a_workload_where_a_policy_names_it() -> None:
    alone = make_object("ReplicaSet", "alone")
    policy = make_policy(
        namespace=NAMESPACE, scope={"workloadTypes": ["Deployment", "ReplicaSet.apps"]}
    )
    cluster = make_cluster(
        *(policy, DEPLOYMENT, REPLICA_SET, alone),
        make_running_pod("llm-0", owner=REPLICA_SET),
        make_running_pod("alone-0", owner=alone),
    )
    kinds = {
        "ReplicaSet.apps": {each.name: each for each in map(see_workload, [REPLICA_SET, alone])}
    }
    cluster = replace(cluster, workloads={**cluster.workloads, **kinds})

    found = {str(each.workload): [pod.pod_name for pod in each.pods] for each in observe(cluster)}
    assert found == {"Deployment team-a/llm": ["llm-0"], "ReplicaSet team-a/alone": ["alone-0"]}


def test_nothing_is_looked_at_without_a_policy() -> None:
    assert seen(make_cluster(DEPLOYMENT, make_settings())) == []


def test_the_same_pods_in_any_order_are_the_same() -> None:
    pods = [make_running_pod(f"db-{number}", owner=STATEFUL_SET) for number in range(5)]

    first = observe(make_cluster(POLICY, STATEFUL_SET, *pods))
    second = observe(make_cluster(*reversed(pods), STATEFUL_SET, POLICY))

    assert first == second
    assert [pod.pod_name for pod in first[0].pods] == [f"db-{number}" for number in range(5)]


# --- what its pods show ---


def test_pods_that_end_are_shown_but_count_for_nothing() -> None:
    observed = only(
        make_cluster(
            POLICY,
            STATEFUL_SET,
            make_running_pod("db-0", owner=STATEFUL_SET),
            make_running_pod("db-1", owner=STATEFUL_SET, deleted=True),
            make_running_pod("db-2", owner=STATEFUL_SET, phase="Failed"),
            make_running_pod("db-3", owner=STATEFUL_SET, phase="Failed"),
        )
    )

    assert len(observed.pods) == 4
    assert [pod.name for pod in observed.evidence] == ["db-0"]
    assert observed.reasons == (
        "left out, as it is being deleted: pod db-1",
        "left out, as it has ended (Failed): pod db-2 and 1 more",
    )


@pytest.mark.parametrize(
    ("kind", "want"),
    [("StatefulSet", True), ("StrimziPodSet", True), ("DaemonSet", False), ("Model", False)],
)
def test_pods_of_some_kinds_have_the_names_of_their_predecessors(kind: str, want: bool) -> None:
    owner = make_object(kind)
    policy = make_policy(namespace="team-a", scope={"workloadTypes": [kind]})

    (pod,) = only(make_cluster(policy, owner, make_running_pod(owner=owner))).evidence

    assert pod.keeps_name is want


def test_a_pod_whose_gpus_can_not_be_told_is_named() -> None:
    pod = make_running_pod(
        "db-0", make_gpu_container(), owner=STATEFUL_SET, annotations={MEMORY: "4096"}
    )
    observed = only(make_cluster(POLICY, STATEFUL_SET, pod))

    assert observed.evidence[0].allocations == {"main": None}
    assert observed.reasons == (
        "left out, as its GPUs can't be told (what part of a GPU its gpu-memory is, depends on the"
        " node): pod db-0",
    )


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param({}, True, id="whole"),
        pytest.param({"annotations": {MEMORY: "100"}}, True, id="in-a-way-that-can't-be-told"),
        pytest.param({"phase": "Succeeded"}, True, id="of-a-pod-that-ended"),
    ],
)
def test_a_workload_with_a_gpu_is_known_as_one(pod: dict[str, Any], want: bool) -> None:
    cluster = make_cluster(POLICY, STATEFUL_SET, make_running_pod(owner=STATEFUL_SET, **pod))

    assert only(cluster).has_gpus is want


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([], id="without-pods"),
        pytest.param(
            [make_running_pod("db-0", make_gpu_container(), owner=STATEFUL_SET)], id="without-gpus"
        ),
    ],
)
def test_most_of_a_cluster_has_no_gpus(pods: list[JsonObject]) -> None:
    assert not only(make_cluster(POLICY, STATEFUL_SET, *pods)).has_gpus


def test_a_share_of_a_gpu_is_one_too() -> None:
    pod = make_running_pod(
        "db-0", make_gpu_container(), owner=STATEFUL_SET, annotations={FRACTION: "0.5"}
    )

    assert only(make_cluster(POLICY, STATEFUL_SET, pod)).has_gpus


def written(name: str, count: str, note: str | None = None, **more: Any) -> JsonObject:
    """A pod whose container main has *count* GPUs, with what was noted when it was made."""
    annotations = {} if note is None else {GPU_BEFORE: note}
    container = make_gpu_container(limit=count, request=count)
    return make_running_pod(name, container, owner=STATEFUL_SET, annotations=annotations, **more)


@pytest.mark.parametrize(
    ("pods", "own", "counts"),
    [
        pytest.param([written("a", "2")], {"main": "2"}, ["2"], id="as-it-is"),
        pytest.param([written("a", "2", "main=1")], {"main": "1"}, ["2"], id="as-it-was"),
        pytest.param(
            [written("a", "2", "main=1"), written("b", "1")], {"main": "1"}, ["2", "1"], id="both"
        ),
        pytest.param([written("a", "2"), written("b", "1")], {}, ["2", "1"], id="no-agreement"),
        pytest.param([written("a", "2", "main=0")], {"main": None}, [None], id="none-any-more"),
        pytest.param(
            [written("a", "2", "main=0"), written("b", "1")], {}, ["2", "1"], id="none-of-some"
        ),
        pytest.param([written("a", "2", "other=1")], {"main": "2"}, ["2"], id="of-another"),
        pytest.param([written("a", "2", "main: 1")], {"main": "2"}, ["2"], id="no-note"),
        pytest.param(
            [written("a", "2"), written("b", "1", deleted=True)], {"main": "2"}, ["2"], id="ending"
        ),
        pytest.param([], {}, [], id="no-pods"),
    ],
)
def test_what_containers_have_without_us_is_what_all_pods_say(
    pods: list[JsonObject], own: dict[str, str | None], counts: list[str | None]
) -> None:
    observed = only(make_cluster(make_policy(namespace="team-a"), STATEFUL_SET, *pods))

    assert observed.own == {n: None if a is None else Decimal(a) for n, a in own.items()}
    found = [pod.allocations["main"] for pod in observed.evidence]
    assert found == [None if count is None else Decimal(count) for count in counts]


def test_only_wanted_workloads_are_looked_at() -> None:
    other = make_object("StatefulSet", "other")
    cluster = make_cluster(
        make_policy(namespace=NAMESPACE, scope={"workloadTypes": ["Deployment", "StatefulSet"]}),
        *(DEPLOYMENT, other),
        *(make_running_pod("other-0", owner=other), make_running_pod("other-1", owner=other)),
    )
    assert seen(cluster) == ["Deployment team-a/llm", "StatefulSet team-a/other"]

    (found,) = observe(cluster, lambda workload: workload.workload_name == "other")

    assert [pod.pod_name for pod in found.pods] == ["other-0", "other-1"]
