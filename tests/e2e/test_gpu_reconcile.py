"""
GPU reactive policies at work: a real control plane with its controllers, a real Prometheus, our
server and our reconciler, with the rights that the manual gives them.

There is no kubelet: the tests say that pods run and are ready.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import JsonObject, make_container
from tests.controlplane.documents import Rule
from tests.controlplane.openmetrics import Series
from tests.controlplane.prometheus import Prometheus
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.gate import PROJECT
from tests.e2e.manual import bind, roles_of_the_manual
from tests.e2e.reconciler import ReconcilerProcess
from tests.gpu import FRACTION, make_gpu_container, share_of, whole_gpus
from tests.gpu_documents import METRICS, make_policy, make_settings, make_source, make_strategy
from webhook.catalog.crds import build_crds
from webhook.model.rightsizing.recommendations import read_recommendation

OWN_NAMESPACE = "gatewright"
SERVER, RECONCILER = "gatewright", "reconciler"
RULES = (Rule("", ("v1",), ("pods",)),)
PATIENCE_S = 45.0
# A pod that is noted as about to be evicted, and then is not, is looked at again after a minute.
KILLED_PATIENCE_S = PATIENCE_S + 60.0
# Long enough that a wrong eviction would be seen.
QUIET_S = 8.0
STEP = timedelta(seconds=15)


@dataclass
class Place:
    """A namespace of its own for one test, and everything around it."""

    cluster: ControlPlane
    prometheus: Prometheus
    reconciler: ReconcilerProcess
    namespace: str

    _nudges = itertools.count(1)

    def nudge(self) -> None:
        """Have a round now: the settings change in a way that means nothing."""
        before = self.reconciler.rounds
        self.configure(gpuReactiveCheckInterval=f"{60 + next(self._nudges)}s")
        wait_until(lambda: self.reconciler.rounds > before, PATIENCE_S, "a round")

    def configure(self, **more: Any) -> None:
        self.cluster.apply(settings(self.prometheus.url, **more))

    def deploy(self, *containers: JsonObject, replicas: int = 1, **template: Any) -> JsonObject:
        """A Deployment whose pods run; as it was applied."""
        deployment = make_deployment("llm", self.namespace, *containers, replicas=replicas)
        deployment["spec"]["template"]["metadata"] |= template
        self.apply_and_run(deployment)
        return deployment

    def apply_and_run(self, *deployments: JsonObject) -> None:
        """Have the pods of *deployments* run, and no others be there."""
        self.cluster.apply(*deployments)
        replicas = sum(deployment["spec"]["replicas"] for deployment in deployments)
        wait_until(lambda: len(self.pods()) == replicas, PATIENCE_S, "the pods")
        for pod in self.pods():
            self.run(pod, age=timedelta(hours=1))

    def patch_template(self, spec: JsonObject) -> None:
        """Change what the Deployment's pods are made with."""
        patch = json.dumps({"spec": {"template": {"spec": spec}}})
        self.cluster.kubectl_checked(
            *("patch", "deployment", "llm", "-n", self.namespace, "--type=strategic", "-p", patch)
        )

    def apply_policy(self, strategy: Mapping[str, Any] | None = None, **policy: Any) -> None:
        self.cluster.apply(
            quick_strategy(self.namespace, **(strategy or {})),
            quick_policy(self.namespace, **policy),
        )

    def pods(self) -> list[JsonObject]:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        items: list[JsonObject] = self.cluster.request("GET", path).json()["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def pod(self) -> JsonObject:
        (pod,) = self.pods()
        return pod

    def run(self, pod: JsonObject, age: timedelta = timedelta(0)) -> None:
        """What a kubelet would say."""
        since = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        status = {"phase": "Running", "startTime": since, "conditions": [ready]}
        now = self.cluster.request("GET", path).json()
        answer = self.cluster.request("PUT", path, {**now, "status": status})
        assert answer.status == 200, answer.text

    def replaced(self, pod: JsonObject) -> JsonObject:
        """The pod that came in place of *pod*, once it is there."""
        uid = pod["metadata"]["uid"]

        def is_replaced() -> bool:
            pods = self.pods()
            return len(pods) == 1 and pods[0]["metadata"]["uid"] != uid

        wait_until(is_replaced, PATIENCE_S, "another pod")
        return self.pod()

    def stays(self, pod: JsonObject) -> None:
        """Pass if nobody takes *pod* away."""
        time.sleep(QUIET_S)
        assert [each["metadata"]["uid"] for each in self.pods()] == [pod["metadata"]["uid"]]

    def load(self, *pods: JsonObject, **percents: Mapping[str, float]) -> None:
        """How much each of *pods* uses from now on: by signal, then container."""
        now = datetime.now(UTC).replace(microsecond=0)
        times = [now + number * STEP for number in range(-20, 80)]
        self.prometheus.backfill(
            *[
                Series(
                    METRICS[signal][0],
                    {
                        "namespace": self.namespace,
                        "pod": pod["metadata"]["name"],
                        "container": container,
                        "gpu_uuid": "GPU-0",
                    },
                    [(at, percent) for at in times],
                )
                for pod in pods
                for signal, containers in percents.items()
                for container, percent in containers.items()
            ]
        )

    def recommendation(self, name: str = "deployment.llm") -> JsonObject | None:
        path = (
            f"/apis/policy.gatewright.io/v1alpha1/namespaces/{self.namespace}"
            f"/gpurecommendations/{name}"
        )
        answer = self.cluster.request("GET", path)
        return answer.json() if answer.status == 200 else None

    def status(self) -> JsonObject:
        found = self.recommendation() or {}
        status: JsonObject = found.get("status") or {}
        return status

    def selected(self) -> JsonObject:
        selected: JsonObject = (self.status().get("selected") or {}).get("amounts") or {}
        return selected

    def conditions(self, plural: str, name: str, namespace: str = "") -> dict[str, JsonObject]:
        """By type."""
        place = f"namespaces/{namespace}/" if namespace else ""
        path = f"/apis/rightsizing.kubex.ai/v1alpha1/{place}{plural}/{name}"
        status = self.cluster.request("GET", path).json().get("status") or {}
        return {condition["type"]: condition for condition in status.get("conditions") or []}

    def until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, PATIENCE_S, what)

    def evictions(self) -> float:
        return self.reconciler.metric("gatewright_evictions_total", outcome="evicted")


def make_deployment(
    name: str, namespace: str, *containers: JsonObject, replicas: int = 1
) -> JsonObject:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": list(containers)}},
        },
    }


def settings(url: str, **more: Any) -> JsonObject:
    """Of the whole cluster; *url* is that of Prometheus."""
    health = {"failureThreshold": 1, "successThreshold": 1, "transitionCheckInterval": "1s"}
    return make_settings(**{"prometheus": {"url": url}, "webhookHealth": health, **more})


def quick_policy(namespace: str, **more: Any) -> JsonObject:
    """The source's thresholds, over the shortest windows that there are."""
    metrics = {
        signal: {
            "prometheus": make_source(signal, interpretation="fullGPU"),
            "upsize": {"thresholdPercent": 80, "metricsWindow": "1m"},
            "scaleBack": {"thresholdPercent": 50, "metricsWindow": "1m"},
        }
        for signal in METRICS
    }
    return make_policy(
        "llm", namespace=namespace, **{"metrics": metrics, "minPodMetricsAge": "0s", **more}
    )


def quick_strategy(namespace: str, **more: Any) -> JsonObject:
    quick = {"minReadyDuration": "0s", "resizeRetryInterval": "1s"}
    checks = {**quick, **more.pop("safetyChecks", {})}
    return make_strategy("gpu", namespace=namespace, safetyChecks=checks, **more)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(users={SERVER: (), RECONCILER: ()})
    with plane.start(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.apply(*build_crds())
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        cluster.kubectl_checked("create", "namespace", OWN_NAMESPACE)
        roles = roles_of_the_manual()
        bind(cluster, roles["ClusterRole", "gatewright"], SERVER)
        bind(cluster, roles["ClusterRole", "gatewright-reconciler"], RECONCILER)
        bind(cluster, roles["Role", "gatewright-reconciler"], RECONCILER)
        yield cluster


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with Prometheus(tmp_path_factory.mktemp("prometheus")).start() as prometheus:
        yield prometheus


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


@pytest.fixture(scope="module")
def reconciler(
    cluster: ControlPlane,
    prometheus: Prometheus,
    gate: ClusterGate,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ReconcilerProcess]:
    cluster.apply(settings(prometheus.url))
    directory = tmp_path_factory.mktemp("reconciler")
    process = ReconcilerProcess(
        directory, cluster.kubeconfig(RECONCILER), "--namespace", OWN_NAMESPACE
    )
    try:
        yield process.start()
    finally:
        process.stop()


_NAMES = itertools.count(1)


@pytest.fixture
def place(
    cluster: ControlPlane, prometheus: Prometheus, reconciler: ReconcilerProcess
) -> Iterator[Place]:
    name = f"team-{next(_NAMES)}"
    cluster.kubectl_checked("create", "namespace", name)
    place = Place(cluster, prometheus, reconciler, name)
    yield place
    for kind in (
        "gpureactivepolicies",
        "automationstrategies",
        "deployments",
        "poddisruptionbudgets",
    ):
        cluster.kubectl_checked("delete", kind, "--all", "-n", name, timeout_s=60)


def gpus(count: str) -> JsonObject:
    """The resources of a container."""
    counts = {"nvidia.com/gpu": count}
    return {"limits": counts, "requests": counts}


def main_has(pod: JsonObject, count: str) -> bool:
    return whole_gpus(pod) == {"main": (count, count)}


def test_a_deployment_under_load_is_upsized_and_returns_to_its_baseline(place: Place) -> None:
    place.deploy(make_gpu_container(limit="1"))
    first = place.pod()
    place.load(first, compute={"main": 95}, memory={"main": 30})
    place.apply_policy()

    second = place.replaced(first)

    assert main_has(second, "2")
    # 95 % of one GPU and 20 % more.
    assert place.selected() == {"main": "1.14"}
    status = place.status()
    assert status["summary"]["driver"] == "compute"
    assert status["policies"][0]["baseline"]["main"]["amount"] == "1"

    place.run(second)
    place.load(second, compute={"main": 10}, memory={"main": 10})
    place.nudge()
    third = place.replaced(second)

    assert main_has(third, "1")
    place.run(third)
    place.load(third, compute={"main": 10}, memory={"main": 10})
    place.nudge()
    place.stays(third)
    assert place.status()["policies"][0]["recommendation"] == {"main": "1"}
    assert place.selected() == {}, "it has that by itself"


def test_nothing_is_lowered_while_prometheus_is_away(place: Place) -> None:
    place.deploy(make_gpu_container(limit="1"))
    first = place.pod()
    place.load(first, compute={"main": 95}, memory={"main": 30})
    place.apply_policy()
    second = place.replaced(first)
    place.run(second)

    def reachable() -> str:
        found = place.conditions("gpureactivepolicies", "llm", place.namespace)
        return str(found["PrometheusReachable"]["reason"])

    place.prometheus.stop()
    try:
        # It is asked for nothing before this is there.
        place.load(second, compute={"main": 10}, memory={"main": 10})
        place.nudge()
        place.until(lambda: reachable() == "Unreachable", "Prometheus to be missed")
        place.stays(second)
        assert place.selected() == {"main": "1.14"}

        place.cluster.kubectl_checked(
            *("delete", "pod", second["metadata"]["name"], "-n", place.namespace, "--now")
        )
        third = place.replaced(second)
        assert main_has(third, "2"), "what is recommended needs no Prometheus"
    finally:
        place.prometheus.start()

    place.run(third)
    place.load(third, compute={"main": 10}, memory={"main": 10})
    place.nudge()
    assert main_has(place.replaced(third), "1")


def gatewright(cluster: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as an administrator runs it."""
    return subprocess.run(
        [sys.executable, "-m", "webhook", *arguments, "--kubeconfig", str(cluster.kubeconfig())],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=PROJECT,
    )


def test_what_runs_is_explained_and_recorded(place: Place, tmp_path: Path) -> None:
    place.deploy(make_gpu_container(limit="1"))
    pod = place.pod()
    place.load(pod, compute={"main": 95}, memory={"main": 30})
    name = f"{place.namespace}/llm"
    unknown = gatewright(place.cluster, "gpu", "explain", name)
    assert (unknown.returncode, unknown.stdout) == (1, "")
    place.apply_policy(mode="Recommend")
    place.until(lambda: place.selected() == {"main": "1.14"}, "a recommendation")

    text = gatewright(place.cluster, "gpu", "explain", f"{place.namespace}/deployment/llm").stdout
    assert text.startswith(f"Deployment {name}\n  recommended: 1.14 (main 1.14), by GpuReactive")
    assert "compute: pod llm-" in text
    assert "in the way: the policy only recommends" in text
    (explained,) = json.loads(
        gatewright(place.cluster, "gpu", "explain", name, "-o", "json").stdout
    )
    assert explained["selected"]["amounts"] == {"main": "1.14"}
    assert explained["blocks"] == ["the policy only recommends"]

    recorded = gatewright(place.cluster, "gpu", "record", name, "--duration", "3m")
    assert (recorded.returncode, recorded.stderr) == (0, "")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(recorded.stdout)
    replayed = subprocess.run(
        [sys.executable, "-m", "webhook", "gpu", "simulate", str(scenario), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=PROJECT,
    )
    last = json.loads(replayed.stdout)[-1]
    assert (last["kind"], last["recommendation"]) == ("Deployment", {"main": "1.14"})


def test_a_policy_is_recorded_for_before_it_is_there(place: Place, tmp_path: Path) -> None:
    place.deploy(make_gpu_container(limit="1"))
    place.load(place.pod(), compute={"main": 95}, memory={"main": 30})
    name = f"{place.namespace}/llm"

    refused = gatewright(place.cluster, "gpu", "record", name)
    assert refused.returncode == 2
    assert "no policy concerns Deployment" in refused.stderr
    policies = tmp_path / "policies.yaml"
    documents = [quick_policy(place.namespace), settings(place.prometheus.url)]
    policies.write_text(yaml.safe_dump_all(documents))
    recorded = gatewright(
        place.cluster, "gpu", "record", name, "--duration=2m", "--policies", str(policies)
    )
    assert recorded.returncode == 0, recorded.stderr
    kinds = [document["kind"] for document in yaml.safe_load_all(recorded.stdout)]
    assert kinds == ["GpuReactivePolicy", "GlobalConfiguration", "GpuScenario"]


def test_two_containers_share_what_their_pod_needs_and_return(place: Place) -> None:
    place.deploy(make_gpu_container("main", limit="2"), make_gpu_container("draft", limit="1"))
    first = place.pod()
    place.load(first, compute={"main": 190, "draft": 80}, memory={"main": 10, "draft": 10})
    place.apply_policy()

    second = place.replaced(first)

    # 2.7 GPUs and 20 % more, two thirds of them for main.
    assert place.selected() == {"main": "2.16", "draft": "1.08"}
    assert whole_gpus(second) == {"main": ("3", "3"), "draft": ("2", "2")}

    place.run(second)
    place.load(second, compute={"main": 10, "draft": 10}, memory={"main": 10, "draft": 10})
    place.nudge()
    third = place.replaced(second)

    assert whole_gpus(third) == {"main": ("2", "2"), "draft": ("1", "1")}
    place.run(third)
    place.load(third, compute={"main": 10, "draft": 10}, memory={"main": 10, "draft": 10})
    place.nudge()
    place.stays(third)


def test_the_owner_has_the_last_word_about_the_baseline(place: Place) -> None:
    """His new amount is in each pod that is made with it, and in none is it written over."""
    place.deploy(make_gpu_container(limit="1"))
    first = place.pod()
    place.load(first, compute={"main": 95}, memory={"main": 30})
    place.apply_policy()
    second = place.replaced(first)
    place.run(second)
    place.load(second, compute={"main": 10}, memory={"main": 10})

    patch = {"containers": [{"name": "main", "resources": gpus("3")}]}
    place.patch_template(patch)
    place.until(lambda: len(place.pods()) == 2, "a pod of the new template")
    for pod in place.pods():
        place.run(pod)
    third = place.replaced(second)
    assert main_has(third, "3")
    place.run(third)
    place.load(third, compute={"main": 10}, memory={"main": 10})
    place.nudge()

    place.stays(third)
    assert place.status()["policies"][0]["recommendation"] == {"main": "3"}
    assert place.selected() == {}
    assert place.status()["policies"][0]["baseline"]["main"]["amount"] == "3"


def test_a_share_of_a_gpu_grows_as_kai_takes_it(place: Place) -> None:
    place.deploy(make_container("main"), annotations={FRACTION: "0.5"})
    first = place.pod()
    place.load(first, compute={"main": 48}, memory={"main": 10})
    requests = {"upsize": True, "downsize": True}
    enablement = {"overrideScheduler": "kai", "gpu": {"requests": requests}}
    place.apply_policy(strategy={"enablement": enablement})

    second = place.replaced(first)

    assert share_of(second)[FRACTION] == "0.58"
    assert second["spec"]["schedulerName"] == "kai-scheduler"
    place.run(second)
    place.load(second, compute={"main": 5}, memory={"main": 5})
    place.nudge()
    third = place.replaced(second)
    assert share_of(third)[FRACTION] == "0.5"


def test_a_disruption_budget_holds_until_it_is_gone(place: Place) -> None:
    place.deploy(make_gpu_container(limit="1"))
    first = place.pod()
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "llm", "namespace": place.namespace},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "llm"}}},
    }
    place.cluster.apply(budget)
    place.load(first, compute={"main": 95}, memory={"main": 30})
    place.apply_policy()

    def is_blocked() -> bool:
        return "disruption budget" in str(place.status().get("eviction", {}).get("problem", ""))

    place.until(is_blocked, "the refusal to be told")
    assert "disruption budget" in place.status()["summary"]["why"]
    place.stays(first)

    place.cluster.kubectl_checked("delete", "poddisruptionbudgets", "llm", "-n", place.namespace)
    place.nudge()

    assert main_has(place.replaced(first), "2")


def test_nothing_is_evicted_while_the_webhook_does_not_mutate(
    place: Place, gate: ClusterGate
) -> None:
    place.deploy(make_gpu_container(limit="1"))
    first = place.pod()
    place.load(first, compute={"main": 95}, memory={"main": 30})
    gate.stop()
    try:
        place.apply_policy()
        place.until(lambda: place.selected() == {"main": "1.14"}, "a recommendation")
        place.stays(first)
        place.nudge()
        assert place.reconciler.metric("gatewright_webhook_healthy") == 0.0
        assert "the webhook does not mutate pods" in place.status()["reasons"][0]
        conditions = place.conditions("globalconfigurations", "global-config")
        assert conditions["PodAdmissionWebhookHealthy"]["status"] == "False"
    finally:
        gate.start()

    # Nobody has to tell it.
    assert main_has(place.replaced(first), "2")


def test_a_policy_that_only_recommends_moves_nothing(place: Place) -> None:
    place.deploy(make_gpu_container(limit="1"))
    first = place.pod()
    place.load(first, compute={"main": 95}, memory={"main": 30})
    place.apply_policy(mode="Recommend")

    place.until(lambda: place.selected() == {"main": "1.14"}, "a recommendation")

    assert "the policy only recommends" in place.status()["reasons"]
    place.stays(first)


def test_what_no_policy_is_about_any_more_is_withdrawn_and_nobody_evicted(place: Place) -> None:
    place.deploy(make_gpu_container(limit="1"))
    first = place.pod()
    place.load(first, compute={"main": 95}, memory={"main": 30})
    place.apply_policy()
    second = place.replaced(first)
    place.run(second)
    assert place.recommendation() is not None

    place.cluster.kubectl_checked("delete", "gpureactivepolicies", "--all", "-n", place.namespace)

    place.until(lambda: place.recommendation() is None, "the recommendation to be gone")
    place.stays(second)


def test_a_policy_says_what_it_lacks_and_what_it_did(place: Place) -> None:
    place.deploy(make_gpu_container(limit="1"))
    place.load(place.pod(), compute={"main": 70}, memory={"main": 30})
    place.cluster.apply(quick_policy(place.namespace))

    def condition(kind: str) -> tuple[str, str]:
        found = place.conditions("gpureactivepolicies", "llm", place.namespace).get(kind, {})
        return found.get("status", ""), found.get("reason", "")

    missing = ("False", "StrategyNotFound")
    place.until(lambda: condition("Ready") == missing, "the missing strategy to be told")
    assert condition("AutomationStrategyResolved") == missing
    assert condition("PrometheusReachable") == ("True", "Answered")

    place.cluster.apply(quick_strategy(place.namespace))
    place.until(lambda: condition("Ready") == ("True", "Evaluated"), "the strategy to be found")

    place.configure(prometheus={"url": "http://127.0.0.1:1"})
    unreachable = ("False", "Unreachable")
    place.until(lambda: condition("PrometheusReachable") == unreachable, "Prometheus to be missed")
    place.configure()


def test_the_next_leader_goes_on_without_evicting_twice(
    place: Place, cluster: ControlPlane, tmp_path: Path
) -> None:
    place.deploy(make_gpu_container(limit="1"))
    first = place.pod()
    place.load(first, compute={"main": 95}, memory={"main": 30})
    leader = place.reconciler
    other = ReconcilerProcess(
        tmp_path, cluster.kubeconfig(RECONCILER), "--namespace", OWN_NAMESPACE
    ).start()
    try:
        assert other.ops("/readyz")[0] == 200
        assert not other.leads
        place.apply_policy()
        second = place.replaced(first)
        leader.kill()
        place.reconciler = other
        place.until(lambda: other.leads, "the other one to lead")
        place.until(lambda: other.rounds >= 1, "its first round")
        place.stays(second)
        place.nudge()
        assert place.pod()["metadata"]["uid"] == second["metadata"]["uid"]
        assert place.evictions() == 0

        place.run(second)
        place.load(second, compute={"main": 10}, memory={"main": 10})
        place.nudge()

        assert main_has(place.replaced(second), "1")
        assert place.evictions() == 1
    finally:
        leader.start()
        other.stop()


WORKLOADS = 12
# How many recommendations and pods in place of others there are when a reconciler is killed.
KILLED_AT = (1, WORKLOADS - 3, WORKLOADS + 1, WORKLOADS + 5)
# The times of the kills are the same in each run. What they hit is not.
SEED = 1


class Kubelet:
    """Says that the pods of *place* run, and keeps who was there, by Deployment."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.seen: dict[str, list[str]] = {}

    def look(self) -> list[JsonObject]:
        """The pods that are there now."""
        pods = self._place.pods()
        for pod in pods:
            uids = self.seen.setdefault(pod["metadata"]["labels"]["app"], [])
            if pod["metadata"]["uid"] not in uids:
                uids.append(pod["metadata"]["uid"])
                # The first ones run already.
                if len(uids) > 1:
                    self._place.run(pod)
        return pods

    def all_have(self, count: str) -> bool:
        pods = self.look()
        return len(pods) == WORKLOADS and all(main_has(pod, count) for pod in pods)


def test_what_a_reconciler_leaves_that_is_killed_in_its_rounds_is_whole(
    place: Place, cluster: ControlPlane
) -> None:
    """The next one goes on, and evicts no pod that was evicted already."""
    chance = random.Random(SEED)
    reconciler, container = place.reconciler, make_gpu_container(limit="1")
    names = [f"llm-{number}" for number in range(WORKLOADS)]
    place.apply_and_run(*[make_deployment(name, place.namespace, container) for name in names])
    kubelet = Kubelet(place)
    place.load(*kubelet.look(), compute={"main": 95}, memory={"main": 30})
    path = f"/apis/policy.gatewright.io/v1alpha1/namespaces/{place.namespace}/gpurecommendations"

    def recommendations() -> list[JsonObject]:
        items: list[JsonObject] = cluster.request("GET", path).json()["items"]
        return items

    def done(least: int) -> bool:
        kubelet.look()
        replaced = sum(len(uids) - 1 for uids in kubelet.seen.values())
        return len(recommendations()) + replaced >= least

    place.apply_policy()
    for least in KILLED_AT:
        wait_until(partial(done, least), KILLED_PATIENCE_S, "work", interval_s=0.01)
        time.sleep(chance.uniform(0.0, 0.05))
        reconciler.kill()
        for found in recommendations():
            # It is made without a status, which is then written as a whole.
            recommendation = read_recommendation(found)
            assert not recommendation.unread
            assert "status" not in found or recommendation.status.selected is not None, found
        # Or the next one would lead only when this one's time has run out.
        cluster.kubectl_checked("delete", "lease", "--all", "-n", OWN_NAMESPACE)
        reconciler.start()

    wait_until(lambda: kubelet.all_have("2"), KILLED_PATIENCE_S, "what is recommended")
    until = time.monotonic() + QUIET_S
    while time.monotonic() < until:
        kubelet.look()
        time.sleep(0.2)

    assert {name: len(uids) for name, uids in kubelet.seen.items()} == dict.fromkeys(names, 2)
    selected = {
        found["metadata"]["name"]: found["status"]["selected"]["amounts"]
        for found in recommendations()
    }
    assert selected == {f"deployment.{name}": {"main": "1.14"} for name in names}


# --- a kind of a user's own, which makes its pods itself ---

ACME_GROUP = "acme.example.com"
ACME_TYPE = f"AcmeJob.{ACME_GROUP}"
ACME_CRD: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    # Of a plural that nobody would guess.
    "metadata": {"name": f"acmejobberies.{ACME_GROUP}"},
    "spec": {
        "group": ACME_GROUP,
        "scope": "Namespaced",
        "names": {"kind": "AcmeJob", "plural": "acmejobberies", "singular": "acmejob"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
ACME_MAPPING: JsonObject = {
    "apiVersion": "policy.gatewright.io/v1alpha1",
    "kind": "SpecMapping",
    "metadata": {"name": "acme", "annotations": {"gatewright.io/recreates-pods": "true"}},
    "spec": {
        "workloadType": {"group": ACME_GROUP, "version": "v1", "kind": "AcmeJob"},
        "specSelectors": {
            "podSpec": {
                "description": "the pod spec",
                "query": ".spec.template.spec",
                "fieldGroups": ["podSpec"],
            }
        },
    },
}
ACME_ROLE: JsonObject = {
    "kind": "ClusterRole",
    "metadata": {"name": "acme-reader"},
    "rules": [
        {"apiGroups": [ACME_GROUP], "resources": ["acmejobberies"], "verbs": ["list", "watch"]}
    ],
}


class AcmeOperator:
    """Makes pods of one AcmeJob, as its controller would."""

    def __init__(self, place: Place) -> None:
        self.place = place
        job = {
            "apiVersion": f"{ACME_GROUP}/v1",
            "kind": "AcmeJob",
            "metadata": {"name": "train", "namespace": place.namespace},
            "spec": {},
        }
        path = f"/apis/{ACME_GROUP}/v1/namespaces/{place.namespace}/acmejobberies"
        answer = place.cluster.request("POST", path, job)
        assert answer.status == 201, answer.text
        self._uid = answer.json()["metadata"]["uid"]

    def make_pod(self, name: str) -> JsonObject:
        owner = {
            "apiVersion": f"{ACME_GROUP}/v1",
            "kind": "AcmeJob",
            "name": "train",
            "uid": self._uid,
            "controller": True,
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.place.namespace,
                "ownerReferences": [owner],
            },
            "spec": {"containers": [make_gpu_container(limit="1")]},
        }
        path = f"/api/v1/namespaces/{self.place.namespace}/pods"
        answer = self.place.cluster.request("POST", path, pod)
        assert answer.status == 201, answer.text
        made: JsonObject = answer.json()
        return made


def test_pods_that_a_mapped_kind_makes_itself_are_resized(
    place: Place, cluster: ControlPlane
) -> None:
    """The CRD, its mapping and the right to read it come when the policy is there already."""
    place.apply_policy(scope={"workloadTypes": [ACME_TYPE]})
    told = f"no mapping covers {ACME_TYPE}"

    def ready() -> str:
        found = place.conditions("gpureactivepolicies", "llm", place.namespace)
        return str(found.get("Ready", {}).get("message", ""))

    place.until(lambda: told in ready(), "the missing mapping to be told")
    cluster.apply(ACME_CRD)
    cluster.kubectl_checked(
        "wait", "--for=condition=Established", "crd", ACME_CRD["metadata"]["name"]
    )
    cluster.apply(ACME_MAPPING)
    bind(cluster, ACME_ROLE, RECONCILER)
    operator = AcmeOperator(place)
    first = operator.make_pod("train-0")
    place.run(first, age=timedelta(hours=1))
    place.load(first, compute={"main": 95}, memory={"main": 30})

    def status() -> JsonObject:
        found: JsonObject = (place.recommendation("acmejob.train") or {}).get("status") or {}
        return found

    place.nudge()
    place.until(lambda: place.pods() == [], "the eviction")
    assert status()["selected"]["amounts"] == {"main": "1.14"}
    assert status()["selected"]["baselines"] == {"main": "1"}
    recommendation = place.recommendation("acmejob.train")
    assert recommendation is not None
    assert recommendation["metadata"]["ownerReferences"][0]["kind"] == "AcmeJob"

    second = operator.make_pod("train-1")

    assert main_has(second, "2")
    assert second["metadata"]["annotations"]["gatewright.io/gpu-before"] == "main=1"
    name = f"{place.namespace}/{ACME_TYPE}/train"
    assert "recommended: 1.14" in gatewright(cluster, "gpu", "explain", name).stdout
    place.run(second)
    recorded = gatewright(cluster, "gpu", "record", name, "--duration", "2m")
    assert recorded.returncode == 0, recorded.stderr
    (scenario,) = [
        document
        for document in yaml.safe_load_all(recorded.stdout)
        if document["kind"] == "GpuScenario"
    ]
    assert [each["kind"] for each in scenario["spec"]["workloads"]] == [ACME_TYPE]

    # What is known is kept while nobody can say what an AcmeJob is.
    cluster.kubectl_checked("delete", "specmappings", "acme")
    place.until(lambda: told in ready(), "the mapping to be missed")
    assert place.recommendation("acmejob.train") is not None
    place.stays(second)
