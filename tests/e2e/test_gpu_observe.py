"""What the reconciler sees of a real cluster, with no more rights than it needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
import yaml

from tests.builders import JsonObject
from tests.controlplane.run import ControlPlane
from tests.gpu import FRACTION, make_gpu_container
from tests.gpu_documents import (
    make_cluster_policy,
    make_cluster_strategy,
    make_settings,
    with_value,
)
from webhook.catalog.crds import build_crds
from webhook.clients.kube import load_kube_client
from webhook.model.rightsizing.controls import PAUSE_UNTIL, Controls
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.watches import Watches
from webhook.reactive.observation.workloads import ObservedWorkload, observe
from webhook.telemetry.metrics import Metrics

NAMESPACE = "team-a"
RECONCILER = "reconciler"
PATIENCE_S = 30.0
EVERYTHING = "pods,deployments,statefulsets,cronjobs,jobs,horizontalpodautoscalers"

WATCH = ["list", "watch"]
# What the watches need; the rest of the reconciler needs more.
RULES: list[JsonObject] = [
    {"apiGroups": ["rightsizing.kubex.ai"], "resources": ["*"], "verbs": WATCH},
    {
        "apiGroups": ["policy.gatewright.io"],
        "resources": ["gpurecommendations"],
        "verbs": WATCH,
    },
    {
        "apiGroups": [""],
        "resources": ["pods", "namespaces", "resourcequotas", "limitranges"],
        "verbs": WATCH,
    },
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "statefulsets", "daemonsets", "replicasets"],
        "verbs": WATCH,
    },
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": WATCH},
    {
        "apiGroups": ["autoscaling"],
        "resources": ["horizontalpodautoscalers"],
        "verbs": WATCH,
    },
    {
        "apiGroups": ["autoscaling.k8s.io"],
        "resources": ["verticalpodautoscalers"],
        "verbs": WATCH,
    },
    # Those of the kinds with CRDs that are installed.
    {"apiGroups": ["argoproj.io"], "resources": ["rollouts", "analysisruns"], "verbs": WATCH},
    {"apiGroups": ["core.strimzi.io"], "resources": ["strimzipodsets"], "verbs": WATCH},
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(users={RECONCILER: ()})
    with plane.start(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.apply(*build_crds())
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        cluster.kubectl_checked("create", "namespace", NAMESPACE)
        give_rights(cluster)
        yield cluster


def give_rights(cluster: ControlPlane) -> None:
    group = "rbac.authorization.k8s.io"
    named = {"metadata": {"name": RECONCILER}, "apiVersion": f"{group}/v1"}
    cluster.apply(
        {**named, "kind": "ClusterRole", "rules": RULES},
        {
            **named,
            "kind": "ClusterRoleBinding",
            "subjects": [{"kind": "User", "name": RECONCILER, "apiGroup": group}],
            "roleRef": {"kind": "ClusterRole", "name": RECONCILER, "apiGroup": group},
        },
    )


@pytest.fixture(autouse=True)
def policy(cluster: ControlPlane) -> Iterator[JsonObject]:
    """One policy for all workloads, and nothing left of them afterwards."""
    policy = make_cluster_policy()
    cluster.apply(make_cluster_strategy(), policy)
    yield policy
    cluster.kubectl_checked("delete", EVERYTHING, "--all", "-n", NAMESPACE, timeout_s=60)
    cluster.kubectl_checked("delete", "clustergpureactivepolicies", "--all")


class Seeing:
    """Watches at work on the cluster."""

    def __init__(self, watches: Watches) -> None:
        self.watches = watches

    async def until(self, condition: Callable[[Cluster], bool]) -> Cluster:
        """The first view of the cluster that meets *condition*."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if not self.watches.obstacle:
                    cluster = self.watches.take()
                    if condition(cluster):
                        return cluster
                await asyncio.sleep(0.05)

    async def workload(
        self, name: str, condition: Callable[[ObservedWorkload], bool]
    ) -> ObservedWorkload:
        """The workload *name* (`Deployment team-a/llm`), once it meets *condition*."""

        def found(cluster: Cluster) -> list[ObservedWorkload]:
            return [
                observed
                for observed in observe(cluster)
                if str(observed.workload) == name and condition(observed)
            ]

        return found(await self.until(lambda cluster: bool(found(cluster))))[0]


@asynccontextmanager
async def seeing(cluster: ControlPlane) -> AsyncIterator[Seeing]:
    client = load_kube_client(cluster.kubeconfig(RECONCILER))
    watches = Watches(client, metrics=Metrics())
    task = asyncio.create_task(watches.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await watches.settled(patience_s=0.5)
        yield Seeing(watches)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


def make_template(container: JsonObject, **metadata: Any) -> JsonObject:
    return {
        "metadata": {"labels": {"app": "llm"}, **metadata},
        "spec": {"containers": [container]},
    }


def make_deployment(name: str = "llm", replicas: int = 2, **metadata: Any) -> JsonObject:
    """Each of its pods has two GPUs."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "llm"}},
            "template": make_template(make_gpu_container(limit="2")),
        },
    }


def run_pods(cluster: ControlPlane) -> list[str]:
    """What a kubelet says of pods that it runs. Returns their names."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    names = []
    for pod in cluster.request("GET", path).json()["items"]:
        name = pod["metadata"]["name"]
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}
        pod["status"] |= {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [ready],
        }
        answer = cluster.request("PUT", f"{path}/{name}/status", pod)
        assert answer.status == 200, answer.text
        names.append(name)
    return sorted(names)


async def test_the_pods_of_a_deployment_are_seen_as_its_own(cluster: ControlPlane) -> None:
    cluster.apply(make_deployment(annotations={PAUSE_UNTIL: "infinite"}, labels={"tier": "gpu"}))
    async with seeing(cluster) as seen:
        await seen.workload("Deployment team-a/llm", lambda each: len(each.pods) == 2)
        names = run_pods(cluster)
        observed = await seen.workload(
            "Deployment team-a/llm", lambda each: all(pod.ready_since for pod in each.pods)
        )

    assert [pod.name for pod in observed.evidence] == names
    assert {pod.allocations["main"] for pod in observed.evidence} == {Decimal(2)}
    assert all(pod.started is not None for pod in observed.evidence)
    workload = observed.workload
    assert workload.controls == Controls(pause_until="infinite")
    assert dict(workload.labels) == {"tier": "gpu"}
    # 25 % of two pods, which Kubernetes rounds down, would be none.
    assert workload.rollout is not None
    assert (workload.rollout.replicas, workload.rollout.unavailable_allowed) == (2, 1)


async def test_the_pods_of_a_cron_job_are_its_own(cluster: ControlPlane) -> None:
    job = {"template": make_template(make_gpu_container(limit="1"))}
    job["template"]["spec"]["restartPolicy"] = "Never"
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": NAMESPACE},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}},
    }
    cluster.apply(cron_job)
    cluster.kubectl_checked("create", "job", "tonight", "--from=cronjob/nightly", "-n", NAMESPACE)
    async with seeing(cluster) as seen:
        observed = await seen.workload("CronJob team-a/nightly", lambda each: bool(each.pods))
        everything = observe(seen.watches.take())

    assert observed.pods[0].owner is not None
    assert observed.pods[0].owner.kind == "Job"
    assert [str(each.workload) for each in everything] == ["CronJob team-a/nightly"]


async def test_a_share_of_a_stateful_set_is_seen(cluster: ControlPlane) -> None:
    template = make_template(make_gpu_container(), annotations={FRACTION: "0.5"})
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": NAMESPACE},
            "spec": {
                "serviceName": "db",
                "selector": {"matchLabels": {"app": "llm"}},
                "template": template,
            },
        }
    )
    async with seeing(cluster) as seen:
        observed = await seen.workload("StatefulSet team-a/db", lambda each: bool(each.pods))

    assert observed.evidence[0].allocations == {"main": Decimal("0.5")}
    # It waits for a node, and has not begun.
    assert observed.evidence[0].started is None


async def test_a_pod_that_names_a_foreign_owner_is_nobodys(cluster: ControlPlane) -> None:
    """Anybody may write this into a pod of his own."""
    cluster.apply(make_deployment(replicas=1))
    async with seeing(cluster) as seen:
        real = await seen.workload("Deployment team-a/llm", lambda each: bool(each.pods))
        owner = real.pods[0].owner
        assert owner is not None
        forged = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "forged",
                "namespace": NAMESPACE,
                # Or the garbage collector takes it away.
                "finalizers": ["example.com/held"],
                "ownerReferences": [
                    {
                        "apiVersion": owner.api_version,
                        "kind": owner.kind,
                        "name": owner.name,
                        "uid": "00000000-0000-0000-0000-000000000000",
                        "controller": True,
                    }
                ],
            },
            "spec": {"containers": [make_gpu_container(limit="8")]},
        }
        cluster.apply(forged)
        now = await seen.until(lambda now: "team-a/forged" in now.pods)
        release(cluster, "forged")

    assert now.owner_of(now.pods["team-a/forged"]) is None
    (observed,) = observe(now)
    assert [pod.name for pod in observed.pods] == [pod.name for pod in real.pods]


def release(cluster: ControlPlane, name: str) -> None:
    patch = '{"metadata": {"finalizers": null}}'
    cluster.kubectl_checked("patch", "pod", name, "-n", NAMESPACE, "--type=merge", "-p", patch)


async def test_a_pod_that_is_deleted_is_no_evidence_until_it_is_gone(
    cluster: ControlPlane,
) -> None:
    deployment = make_deployment(replicas=1)
    deployment["spec"]["template"]["metadata"]["finalizers"] = ["example.com/held"]
    cluster.apply(deployment)
    async with seeing(cluster) as seen:
        before = await seen.workload("Deployment team-a/llm", lambda each: bool(each.pods))
        name = before.pods[0].pod_name
        cluster.kubectl_checked("delete", "pod", name, "-n", NAMESPACE, "--wait=false")
        held = await seen.workload(
            "Deployment team-a/llm", lambda each: any(pod.is_terminating for pod in each.pods)
        )
        cluster.kubectl_checked("delete", "deployment", "llm", "-n", NAMESPACE)
        await seen.until(lambda now: all(pod.is_terminating for pod in now.pods.values()))
        for pod in seen.watches.take().pods.values():
            release(cluster, pod.pod_name)
        await seen.until(lambda now: not now.pods)

    assert name not in [pod.name for pod in held.evidence]
    assert f"left out, as it is being deleted: pod {name}" in held.reasons


async def test_a_policy_that_changes_is_told_and_its_status_is_not(
    cluster: ControlPlane, policy: JsonObject
) -> None:
    name = policy["metadata"]["name"]
    async with seeing(cluster) as seen:
        changed = seen.watches.policies_changed
        changed.clear()
        (key,) = [each.key for each in seen.watches.take().policies]
        conditions = (
            '[{"type":"Ready","status":"True","reason":"Evaluated","message":"",'
            '"lastTransitionTime":"2026-01-01T00:00:00Z"}]'
        )
        cluster.kubectl_checked(
            "patch",
            "clustergpureactivepolicies",
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            f'{{"status": {{"conditions": {conditions}}}}}',
        )
        told = await seen.until(lambda now: bool(now.documents[key].conditions))
        assert not changed.is_set()

        cluster.apply(with_value(policy, "spec.weight", 7))
        async with asyncio.timeout(PATIENCE_S):
            await changed.wait()
        heavier = seen.watches.take()
        cluster.kubectl_checked("delete", "clustergpureactivepolicies", name)
        changed.clear()
        gone = await seen.until(lambda now: not now.policies)

    assert told.documents[key].conditions[0]["reason"] == "Evaluated"
    assert [each.weight for each in heavier.policies] == [7]
    assert gone.pods == {}


async def test_settings_and_strategies_are_taken_with_their_defaults(
    cluster: ControlPlane,
) -> None:
    cluster.apply(make_settings(protectedNamespacePatterns=["team-*"]))
    cluster.apply(make_deployment())
    async with seeing(cluster) as seen:
        found = await seen.until(
            lambda now: now.workload("Deployment", NAMESPACE, "llm") is not None
        )
        cluster.kubectl_checked("delete", "globalconfigurations", "--all")
        later = await seen.until(lambda now: now.settings.protected_namespaces[0] != "team-*")

    assert observe(found) == ()
    assert [str(each.workload) for each in observe(later)] == ["Deployment team-a/llm"]
    assert [key.name for key in later.strategies] == ["gpu"]


ROLLOUTS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.argoproj.io}
spec:
  group: argoproj.io
  scope: Namespaced
  names: {kind: Rollout, plural: rollouts}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


async def test_a_kind_that_is_installed_later_is_seen_and_one_out_of_reach_is_named(
    cluster: ControlPlane,
) -> None:
    """Models may not be read by this account, if there are any; nothing waits for them."""
    rollout = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "web", "namespace": NAMESPACE, "labels": {"tier": "gpu"}},
        "spec": {"template": make_template(make_gpu_container(limit="1"))},
    }
    async with seeing(cluster) as seen:
        first = await seen.until(lambda now: len(now.unknown_kinds) < 2)
        cluster.apply(yaml.safe_load(ROLLOUTS))
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        cluster.apply(rollout)
        observed = await seen.workload("Rollout team-a/web", lambda each: True)
        cluster.kubectl_checked("delete", "crd", "rollouts.argoproj.io")
        await seen.until(lambda now: now.workload("Rollout", NAMESPACE, "web") is None)

    assert first.workloads["Rollout"] == {}
    assert dict(observed.workload.labels) == {"tier": "gpu"}
    assert list(first.unknown_kinds) == ["Model"]
    assert "Forbidden" in first.unknown_kinds["Model"]
