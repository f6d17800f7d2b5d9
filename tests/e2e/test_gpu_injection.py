"""Recommendations written into pods on a real API server, with the rights that we say we need."""

from __future__ import annotations

import json
import math
import ssl
import urllib.request
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import JsonObject, make_container
from tests.controlplane.documents import Rule
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.manual import bind, roles_of_the_manual
from tests.gpu import (
    CONTAINER,
    FRACTION,
    GPU,
    QUEUE,
    kai_refusals,
    make_gpu_container,
    make_gpu_pod,
    share_of,
    whole_gpus,
)
from tests.unit.admission.builders import make_review
from webhook.catalog.crds import build_crds
from webhook.model.rightsizing.recommendations import API_VERSION, KIND, PLURAL, recommendation_name
from webhook.policy.gpu.before import GPU_BEFORE

NAMESPACE = "team-a"
OWN_NAMESPACE = "gatewright"
SERVER = "gatewright"
# Has what a server without recommendations needs.
BARE = "bare"
PATIENCE_S = 30.0
RULES = (
    Rule("", ("v1",), ("pods",)),
    Rule("apps", ("v1",), ("deployments",)),
)
RESOURCE = f"{PLURAL}.policy.gatewright.io"
PATH = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/{PLURAL}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(users={SERVER: (), BARE: ()})
    with plane.start(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.apply(*build_crds())
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        for name in (NAMESPACE, OWN_NAMESPACE):
            cluster.kubectl_checked("create", "namespace", name)
        role = roles_of_the_manual()["ClusterRole", "gatewright"]
        bind(cluster, role, SERVER)
        rules = [rule for rule in role["rules"] if not is_for_recommendations(rule)]
        bind(
            cluster, {**role, "metadata": {"name": "without-recommendations"}, "rules": rules}, BARE
        )
        yield cluster


def is_for_recommendations(rule: JsonObject) -> bool:
    return bool({"replicasets", "jobs", "resourcequotas"} & set(rule["resources"]))


@pytest.fixture(scope="module")
def gate(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterGate]:
    flags = ("--own-namespace", OWN_NAMESPACE)
    gate = ClusterGate(tmp_path_factory.mktemp("gate"), cluster.kubeconfig(SERVER), *flags)
    try:
        gate.start()
        cluster.register_webhooks(
            f"{gate.url}/mutate", f"{gate.url}/validate", gate.ca_pem, rules=RULES
        )
        yield gate
    finally:
        gate.stop()


@pytest.fixture(autouse=True)
def clean(cluster: ControlPlane, gate: ClusterGate) -> Iterator[None]:
    yield
    for kind in ("deployments", "cronjobs", "jobs", RESOURCE, "resourcequotas", "limitranges"):
        cluster.kubectl_checked("delete", kind, "--all", "-n", NAMESPACE, timeout_s=60)
    wait_until(lambda: known(gate) == 0, PATIENCE_S, "the recommendations to be gone")


def known(gate: ClusterGate, resource: str = RESOURCE) -> float:
    return gate.metric("gatewright_watch_objects", resource=resource)


def recommend(
    cluster: ControlPlane,
    gate: ClusterGate,
    workload: JsonObject,
    amounts: dict[str, str],
    **more: Any,
) -> None:
    """What the reconciler does; returns when the server gives it to pods."""
    reference = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": workload["metadata"].get("uid", ""),
    }
    selected: JsonObject = {
        "policy": {"kind": "GpuReactivePolicy", "namespace": NAMESPACE, "name": "llm"},
        "strategy": {"kind": "AutomationStrategy", "namespace": NAMESPACE, "name": "gpu"},
        "amounts": amounts,
        "scheduler": "none",
        "upsize": True,
        "downsize": True,
        "setFromUnspecified": True,
        **more,
    }
    name = recommendation_name(reference["kind"], reference["name"])
    cluster.apply(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"workloadRef": reference},
        }
    )
    now = cluster.request("GET", f"{PATH}/{name}").json()
    now["status"] = {"selected": selected}
    answer = cluster.request("PUT", f"{PATH}/{name}/status", now)
    assert answer.status == 200, answer.text
    stored = answer.json()["status"]["selected"]
    assert stored == selected
    scheduler = selected["scheduler"]
    wait_until(
        lambda: is_given(cluster, workload, amounts["main"], scheduler),
        PATIENCE_S,
        "the recommendation to be given",
    )


def is_given(cluster: ControlPlane, workload: JsonObject, amount: str, scheduler: str) -> bool:
    """Whether a pod of *workload* that asks for nothing is given the amount of main."""
    found = try_pod(cluster, owned(make_gpu_pod(make_container("main")), workload))
    if scheduler == "kai":
        return FRACTION in share_of(found)
    whole = str(math.ceil(Decimal(amount)))
    return whole_gpus(found) == {"main": (whole, whole)}


def owned(pod: JsonObject, workload: JsonObject) -> JsonObject:
    """*pod* as a controller of *workload* makes it, without a name."""
    reference = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": workload["metadata"].get("uid", "not-known"),
        "controller": True,
    }
    metadata = {key: part for key, part in pod["metadata"].items() if key != "name"}
    metadata |= {"generateName": "llm-", "ownerReferences": [reference], "namespace": NAMESPACE}
    return {**pod, "metadata": metadata}


def try_pod(cluster: ControlPlane, pod: JsonObject) -> JsonObject:
    """The pod as the API server would store it. It is accepted."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods?dryRun=All"
    answer = cluster.request("POST", path, pod)
    assert answer.status == 201, answer.text
    stored: JsonObject = answer.json()
    return stored


def patch_by(gate: ClusterGate, pod: JsonObject) -> str:
    """The patch, asked for as an API server would ask."""
    body = json.dumps(make_review(object=pod, namespace=NAMESPACE)).encode()
    request = urllib.request.Request(
        f"{gate.url}/mutate", data=body, headers={"Content-Type": "application/json"}
    )
    tls = ssl.create_default_context(cadata=gate.ca_pem)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )
    with opener.open(request, timeout=10) as answer:
        return str(json.load(answer)["response"].get("patch", ""))


def make_deployment(*containers: JsonObject, name: str = "llm") -> JsonObject:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": list(containers)}},
        },
    }


def deployed(cluster: ControlPlane, deployment: JsonObject) -> JsonObject:
    """The Deployment as it is stored, once it has its pod."""
    cluster.apply(deployment)
    name = deployment["metadata"]["name"]
    wait_until(lambda: len(pods_of(cluster, name)) == 1, PATIENCE_S, "the pod")
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
    stored: JsonObject = cluster.request("GET", path).json()
    return stored


def pods_of(cluster: ControlPlane, app: str) -> list[JsonObject]:
    text = cluster.kubectl_checked("get", "pods", "-n", NAMESPACE, "-l", f"app={app}", "-o", "json")
    items: list[JsonObject] = json.loads(text)["items"]
    return [item for item in items if "deletionTimestamp" not in item["metadata"]]


def recreated(cluster: ControlPlane, app: str) -> JsonObject:
    """The pod that comes in the place of the one that is there."""
    (old,) = pods_of(cluster, app)
    name = old["metadata"]["name"]
    cluster.kubectl_checked("delete", "pod", name, "-n", NAMESPACE, timeout_s=60)

    def names() -> set[str]:
        return {pod["metadata"]["name"] for pod in pods_of(cluster, app)}

    wait_until(lambda: bool(names()) and name not in names(), PATIENCE_S, "the next pod")
    (new,) = pods_of(cluster, app)
    return new


# -- through the controllers -----------------------------------------------------------------------


def test_the_pod_that_a_replica_set_makes_anew_carries_the_amount(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    deployment = deployed(cluster, make_deployment(make_gpu_container("main", "1")))
    (before,) = pods_of(cluster, "llm")
    assert whole_gpus(before) == {"main": ("1", "1")}

    recommend(cluster, gate, deployment, {"main": "1.5"})
    after = recreated(cluster, "llm")

    assert whole_gpus(after) == {"main": ("2", "2")}
    records = [
        change
        for record in gate.decisions()
        for change in record.get("changes", [])
        if change["policy"] == "GpuReactivePolicy team-a/llm"
    ]
    assert {record["rule"] for record in records} == {"set"}
    assert {record["field"] for record in records} == {
        "annotations[gatewright.io/gpu-before]",
        "compute.gpuDevicesRequest",
    }
    assert {record["unit"] for record in records} == {NAMESPACE}


def test_with_kai_the_new_pod_has_a_share_that_kai_accepts(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    containers = (make_container("log"), make_gpu_container("main", "2"))
    deployment = deployed(cluster, make_deployment(*containers))

    kai = {"scheduler": "kai", "queue": "gpus", "schedulerName": "kai-scheduler"}
    recommend(cluster, gate, deployment, {"main": "0.333333"}, **kai)
    after = recreated(cluster, "llm")

    assert whole_gpus(after) == {}
    assert share_of(after) == {FRACTION: "0.34", CONTAINER: "main"}
    assert after["spec"]["schedulerName"] == "kai-scheduler"
    assert after["metadata"]["labels"][QUEUE] == "gpus"
    assert kai_refusals(after) == []


def test_a_note_that_was_copied_into_a_template_is_not_believed(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    """Beside it stands what the owner wants now; the note would have made his one GPU of it."""
    deployment = make_deployment(make_gpu_container("main", "4"))
    metadata = deployment["spec"]["template"]["metadata"]
    metadata["annotations"] = {GPU_BEFORE: "main=1"}
    stored = deployed(cluster, deployment)
    (before,) = pods_of(cluster, "llm")
    assert GPU_BEFORE not in before["metadata"].get("annotations", {})

    recommend(cluster, gate, stored, {"main": "6"})
    after = recreated(cluster, "llm")

    assert whole_gpus(after) == {"main": ("6", "6")}
    assert after["metadata"]["annotations"][GPU_BEFORE] == "main=4"


def test_a_replica_set_that_is_new_gives_the_amount_at_once(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    deployment = deployed(cluster, make_deployment(make_gpu_container("main", "1")))
    recommend(cluster, gate, deployment, {"main": "3"})

    for image in ("two", "three", "four"):
        before = {pod["metadata"]["name"] for pod in pods_of(cluster, "llm")}
        cluster.kubectl_checked(
            "set", "image", "deployment/llm", f"main=ghcr.io/example/{image}", "-n", NAMESPACE
        )

        def new(before: set[str] = before) -> list[JsonObject]:
            pods = pods_of(cluster, "llm")
            return [pod for pod in pods if pod["metadata"]["name"] not in before]

        wait_until(lambda: bool(new()), PATIENCE_S, "the pod of the new template")  # Waits here.
        assert [whole_gpus(pod) for pod in new()] == [{"main": ("3", "3")}]


def test_a_pod_of_a_job_gets_what_its_cron_job_is_recommended(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    spec = {"restartPolicy": "Never", "containers": [make_gpu_container("main", "1")]}
    template = {"metadata": {"labels": {"app": "nightly"}}, "spec": spec}
    cluster.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "nightly", "namespace": NAMESPACE},
            "spec": {
                "schedule": "0 0 1 1 *",
                "jobTemplate": {"spec": {"template": template}},
            },
        }
    )
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs/nightly"
    recommend(cluster, gate, cluster.request("GET", path).json(), {"main": "2"})

    # As the controller names it, so that it need not be known.
    cluster.kubectl_checked(
        "create", "job", "nightly-29123456", "--from=cronjob/nightly", "-n", NAMESPACE
    )
    wait_until(lambda: len(pods_of(cluster, "nightly")) == 1, PATIENCE_S, "the pod of the job")

    (pod,) = pods_of(cluster, "nightly")
    assert whole_gpus(pod) == {"main": ("2", "2")}


# -- what the API server accepts -------------------------------------------------------------------


@pytest.mark.parametrize("amount", ["0.5", "1", "1.5", "2"])
def test_limit_and_request_are_whole_and_equal_whatever_is_asked_for(
    cluster: ControlPlane, gate: ClusterGate, amount: str
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "llm"}}
    recommend(cluster, gate, owner, {"main": amount})

    written = {"0.5": "1", "1": "1", "1.5": "2", "2": "2"}[amount]
    rows = {
        "limit-only": make_gpu_container("main", "4"),
        "both": make_gpu_container("main", "4", "4"),
        "neither": make_gpu_container("main"),
    }
    for name, container in rows.items():
        stored = try_pod(cluster, owned(make_gpu_pod(container), owner))
        assert (name, whole_gpus(stored)) == (name, {"main": (written, written)})

    mig = "nvidia.com/mig-1g.5gb"
    for limit, request in ((1, None), (1, 1)):
        container = make_gpu_container("main", limit, request, resource=mig)
        stored = try_pod(cluster, owned(make_gpu_pod(container), owner))
        assert whole_gpus(stored) == {}
        assert stored["spec"]["containers"][0]["resources"]["limits"][mig] == "1"


def test_a_quota_and_a_limit_range_are_left_whole(cluster: ControlPlane, gate: ClusterGate) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "llm"}}
    pod = owned(make_gpu_pod(make_gpu_container("main", "1")), owner)
    kai = {"scheduler": "kai", "queue": "gpus", "schedulerName": "kai-scheduler"}
    recommend(cluster, gate, owner, {"main": "3"})
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": NAMESPACE},
        "spec": {"hard": {f"requests.{GPU}": "2"}},
    }

    cluster.apply(quota)
    wait_until(
        lambda: whole_gpus(try_pod(cluster, pod)) == {"main": ("1", "1")}, PATIENCE_S, "the quota"
    )
    cluster.kubectl_checked("delete", "resourcequota", "gpus", "-n", NAMESPACE)
    wait_until(
        lambda: whole_gpus(try_pod(cluster, pod)) == {"main": ("3", "3")}, PATIENCE_S, "no quota"
    )

    recommend(cluster, gate, owner, {"main": "0.5"}, **kai)
    assert whole_gpus(try_pod(cluster, pod)) == {}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "gpus", "namespace": NAMESPACE},
            "spec": {"limits": [{"type": "Container", "max": {GPU: "4"}}]},
        }
    )
    wait_until(lambda: known(gate, "limitranges") == 1, PATIENCE_S, "the limit range to be known")
    # The API server's own view of it comes a moment later.
    wait_until(
        lambda: whole_gpus(try_pod(cluster, pod)) == {"main": ("1", "1")}, PATIENCE_S, "the limit"
    )


def test_a_pause_of_the_namespace_holds_until_it_is_taken_away(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "llm"}}
    pod = owned(make_gpu_pod(make_gpu_container("main", "1")), owner)
    recommend(cluster, gate, owner, {"main": "2"})
    note = "rightsizing.kubex.ai/pause-until"

    cluster.kubectl_checked("annotate", "namespace", NAMESPACE, f"{note}=infinite")
    wait_until(
        lambda: whole_gpus(try_pod(cluster, pod)) == {"main": ("1", "1")}, PATIENCE_S, "the pause"
    )
    cluster.kubectl_checked("annotate", "namespace", NAMESPACE, f"{note}-")
    wait_until(
        lambda: whole_gpus(try_pod(cluster, pod)) == {"main": ("2", "2")}, PATIENCE_S, "the end"
    )


# -- the server ------------------------------------------------------------------------------------


def test_a_probe_in_our_namespace_comes_back_changed(
    cluster: ControlPlane, gate: ClusterGate
) -> None:
    pod = make_gpu_pod(make_container("main"), labels={"gatewright.io/probe": "true"})
    pod["metadata"]["namespace"] = OWN_NAMESPACE

    stored = try_pod(cluster, pod)

    assert stored["metadata"]["annotations"]["gatewright.io/probed"]
    pod["metadata"]["namespace"] = NAMESPACE
    assert "annotations" not in try_pod(cluster, pod)["metadata"]


def test_a_server_without_the_rights_is_ready_and_leaves_pods_alone(
    cluster: ControlPlane, gate: ClusterGate, tmp_path: Path
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "llm"}}
    recommend(cluster, gate, owner, {"main": "2"})
    bare = ClusterGate(tmp_path, cluster.kubeconfig(BARE))
    try:
        bare.start()
        assert bare.metric("gatewright_watch_connected", resource=RESOURCE) == 1
        assert bare.metric("gatewright_watch_connected", resource="replicasets.apps") == 0
        pod = owned(make_gpu_pod(make_gpu_container("main", "1")), owner)
        assert [bool(patch_by(server, pod)) for server in (gate, bare)] == [True, False]
    finally:
        bare.stop()


def test_without_the_definition_the_server_is_ready_and_pods_are_as_written(
    cluster: ControlPlane, gate: ClusterGate, tmp_path: Path
) -> None:
    """Last: the definition is gone afterwards."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "llm"}}
    pod = owned(make_gpu_pod(make_gpu_container("main", "1")), owner)
    recommend(cluster, gate, owner, {"main": "2"})
    (crd,) = [crd for crd in build_crds() if crd["metadata"]["name"] == RESOURCE]

    cluster.kubectl_checked("delete", "crd", RESOURCE)
    try:
        wait_until(
            lambda: whole_gpus(try_pod(cluster, pod)) == {"main": ("1", "1")}, PATIENCE_S, "nothing"
        )
        other = ClusterGate(tmp_path, cluster.kubeconfig(SERVER))
        try:
            other.start()
        finally:
            other.stop()
        assert gate.ops("/readyz")[0] == 200
    finally:
        cluster.apply(crd)
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", RESOURCE)
