"""The kinds that say how GPU allocations follow usage, in a real API server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import yaml

from tests.controlplane.documents import Rule
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.gpu_documents import (
    JsonObject,
    make_cluster_policy,
    make_cluster_strategy,
    make_policy,
    make_precedence,
    make_settings,
    make_strategy,
    with_value,
    without,
)
from webhook.model.manifests import dump_yaml
from webhook.model.rightsizing.documents import KINDS, read_document
from webhook.model.rightsizing.policies import Direction, DocumentKey, Signal
from webhook.model.rightsizing.recommendations import (
    BaselineAmount,
    Change,
    GpuRecommendation,
    PolicyState,
    RecommendationStatus,
    Selected,
    SignalEvaluation,
    SignalState,
    StatusCondition,
    WorkloadRef,
    read_recommendation,
    write_recommendation,
)

CHANGED = ("CREATE", "UPDATE", "DELETE")
RULES = (
    Rule("rightsizing.kubex.ai", ("v1alpha1",), ("*",), CHANGED),
    Rule("policy.gatewright.io", ("v1alpha1",), ("*",), CHANGED),
)
PATIENCE_S = 30.0

# As the documentation of these kinds prints them, in our own words: one of each kind.
PRINTED = """
apiVersion: rightsizing.kubex.ai/v1alpha1
kind: GpuReactivePolicy
metadata: {name: gpu-reactive, namespace: default}
spec:
  experimental: {gpuKaiContract: v1alpha1-2026-07}
  scope:
    containers: [inference]
    labelSelector: {matchLabels: {app: my-gpu-app}}
  minPodMetricsAge: 15m
  metrics: &metrics
    compute:
      upsize: &upsize {thresholdPercent: 125, metricsWindow: 10m, headroomPercent: 20, maxPercent: 200}
      scaleBack: &scaleBack {thresholdPercent: 60, metricsWindow: 10m, headroomPercent: 20}
      prometheus:
        metric: kubex_gpu_container_sm_utilization_percent
        interpretation: fullGPU
        namespaceLabel: namespace
        podLabel: pod
        containerLabel: container
    memory:
      upsize: *upsize
      scaleBack: *scaleBack
      prometheus:
        metric: kubex_gpu_container_memory_footprint_percent
        interpretation: currentAllocation
        namespaceLabel: namespace
        podLabel: pod
        containerLabel: container
  automationStrategyRef: {name: sample-automation-strategy}
---
apiVersion: rightsizing.kubex.ai/v1alpha1
kind: ClusterGpuReactivePolicy
metadata: {name: gpu-reactive-cluster}
spec:
  experimental: {gpuKaiContract: v1alpha1-2026-07}
  scope:
    containers: [inference]
    namespaceSelector: {operator: In, values: ["*"]}
    labelSelector: {matchLabels: {app: my-gpu-app}}
  minPodMetricsAge: 15m
  metrics:
    compute:
      upsize: {thresholdPercent: 125, metricsWindow: 10m, headroomPercent: 20, maxPercent: 200}
      scaleBack: {thresholdPercent: 60, metricsWindow: 10m, headroomPercent: 20}
      prometheus:
        metric: kubex_gpu_container_sm_utilization_percent
        interpretation: fullGPU
        namespaceLabel: namespace
        podLabel: pod
        containerLabel: container
    memory:
      upsize: {thresholdPercent: 125, metricsWindow: 10m, headroomPercent: 20, maxPercent: 200}
      scaleBack: {thresholdPercent: 60, metricsWindow: 10m, headroomPercent: 20}
      prometheus:
        metric: kubex_gpu_container_memory_footprint_percent
        interpretation: currentAllocation
        namespaceLabel: namespace
        podLabel: pod
        containerLabel: container
  automationStrategyRef: {name: sample-cluster-automation-strategy}
---
apiVersion: rightsizing.kubex.ai/v1alpha1
kind: GlobalConfiguration
metadata: {name: global-config}
spec:
  prometheus: {url: "http://prometheus.monitoring.svc:9090", requestTimeout: 30s}
---
apiVersion: rightsizing.kubex.ai/v1alpha1
kind: AutomationStrategy
metadata: {name: sample-automation-strategy, namespace: default}
spec:
  experimental: {gpuKaiContract: v1alpha1-2026-07}
  enablement:
    gpu: {requests: {upsize: true, downsize: true, setFromUnspecified: true}}
---
apiVersion: rightsizing.kubex.ai/v1alpha1
kind: ClusterAutomationStrategy
metadata: {name: sample-cluster-automation-strategy}
spec:
  experimental: {gpuKaiContract: v1alpha1-2026-07}
  enablement:
    overrideScheduler: kai
    gpu: {requests: {upsize: true, downsize: true}}
  inPlaceResize: {enabled: false}
  kai: {queue: gpus}
---
apiVersion: rightsizing.kubex.ai/v1alpha1
kind: PolicyEvaluation
metadata: {name: policy-evaluation}
spec:
  precedence:
    - {type: Rollback, priority: 130}
    - {type: GpuReactivePolicy, priority: 120}
    - {type: ClusterGpuReactivePolicy, priority: 110}
"""

USAGE = {
    "upsize": True,
    "downsize": False,
    "setFromUnspecified": False,
    "floor": "1",
    "ceiling": "4",
    "containers": {"main": {"floor": "2", "ceiling": "3"}},
}
WINDOW = {
    "name": "nights",
    "timezone": "Europe/Amsterdam",
    "weekdays": ["Mon", "Tuesday"],
    "start": "22:00",
    "end": "06:00",
}
# Every field that there is, each with another value than its default.
WHOLE = (
    make_cluster_policy(
        "whole",
        weight=3,
        minPodMetricsAge="2m",
        scope={
            "workloadTypes": ["Deployment", "StrimziPodSet", "PyTorchJob.kubeflow.org"],
            "containers": ["a", "b"],
            "namespaceSelector": {"operator": "NotIn", "values": ["team-*"]},
            "labelSelector": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}],
            },
        },
        metrics={
            signal: {
                "prometheus": {
                    "metric": "a:b",
                    "interpretation": "currentAllocation",
                    "namespaceLabel": "n",
                    "podLabel": "p",
                    "containerLabel": "c",
                },
                "upsize": {
                    "thresholdPercent": 1,
                    "metricsWindow": "1m",
                    "headroomPercent": 0,
                    "maxPercent": 150,
                },
                "scaleBack": {
                    "thresholdPercent": 1,
                    "metricsWindow": "1h30m",
                    "headroomPercent": 0,
                },
            }
            for signal in ("compute", "memory")
        },
    ),
    make_cluster_strategy(
        "whole",
        enablement={
            "overrideScheduler": "kai",
            "gpu": {"requests": USAGE},
            "cpu": {"requests": USAGE, "limits": USAGE},
            "memory": {"requests": USAGE, "limits": USAGE},
        },
        kai={
            "queue": "gpus",
            "setQueueWhenSpecified": True,
            "vllm": {"gpuMemoryUtilizationBufferPercent": 5},
        },
        inPlaceResize={"enabled": False, "containerRestart": True},
        podEviction={"enabled": False, "retryPodDisruptionBudget": False},
        scheduling={"inclusionWindows": [WINDOW], "exclusionWindows": [WINDOW]},
        safetyChecks={
            "enablePauseUntilAnnotationCheck": False,
            "enableResourceQuotaFilter": False,
            "enableHpaFilter": False,
            "enableVpaFilter": False,
            "blockResizeOnVpaControlledResources": True,
            "enableLimitRangeFilter": False,
            "enablePodLimitRangeFilter": False,
            "retainGuaranteedQOS": True,
            "minCpuChangePercent": 1,
            "minMemoryChangePercent": 0,
            "minReadyDuration": "1s",
            "requireOwnerPodsReady": True,
            "respectWorkloadMaxUnavailable": False,
            "resizeRetryInterval": "1s",
            "requireNodeAllocatable": False,
            "nodeCpuHeadroom": "500m",
            "nodeMemoryHeadroom": "5%",
        },
    ),
    make_settings(
        automationEnabled=False,
        multiPolicyContainerRightsizingEnabled=True,
        gpuReactiveCheckInterval="2m",
        prometheus={"url": "https://prometheus:9090", "requestTimeout": "1s"},
        kai={"schedulerName": "kai"},
        protectedNamespacePatterns=["infra"],
        webhookHealth={
            "failureThreshold": 1,
            "successThreshold": 1,
            "transitionCheckInterval": "1s",
        },
        webhookProbe={
            "image": "probe:1",
            "labels": {"a": "b"},
            "annotations": {"a": "b"},
            "resources": {"limits": {"cpu": "1"}},
            "podSecurityContext": {"runAsNonRoot": True},
            "securityContext": {"capabilities": {"drop": ["ALL"]}},
        },
        webhookOwnerResolutionRetryTimeout="2s",
        rescanInterval="1h",
        recommendationReloadInterval="2h",
        mutationLogInterval="1m",
        snapshotInterval="1m",
        heartbeatInterval="1m",
        proposalSyncInterval="1m",
        proposalSyncEnabled=True,
        kubexAPIRequestTimeout="1s",
        suppressFetchRecommendations=True,
        respectKubexAutomation=False,
    ),
    make_precedence({"type": "GpuReactivePolicy", "priority": 1}),
)

UPSIZE = {
    "thresholdPercent": 120,
    "metricsWindow": "10m",
    "headroomPercent": 20,
    "maxPercent": 200,
}
SCALE_BACK = {"thresholdPercent": 80, "metricsWindow": "10m", "headroomPercent": 20}
WORKLOAD_TYPES = [
    *("Deployment", "StatefulSet", "CronJob", "Rollout", "Job", "AnalysisRun", "DaemonSet"),
    "Model",
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane().start(tmp_path_factory.mktemp("cluster")) as cluster:
        crds = subprocess.run(
            [sys.executable, "-m", "webhook", "crds"], check=True, capture_output=True, text=True
        ).stdout
        cluster.kubectl_checked("apply", "--server-side", "-f", "-", stdin=crds)
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def gate(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterGate]:
    gate = ClusterGate(tmp_path_factory.mktemp("gate"), cluster.kubeconfig())
    try:
        gate.start()
        cluster.register_webhooks(
            f"{gate.url}/mutate", f"{gate.url}/validate", gate.ca_pem, rules=RULES
        )
        yield gate
    finally:
        gate.stop()


@pytest.fixture(autouse=True)
def clean(cluster: ControlPlane) -> Iterator[None]:
    """Each test begins without documents."""
    yield
    kinds = ",".join([*KINDS, "GpuRecommendation"])
    cluster.kubectl_checked("delete", kinds, "--all", "--all-namespaces", timeout_s=60)


def apply(cluster: ControlPlane, *documents: JsonObject) -> subprocess.CompletedProcess[str]:
    return cluster.kubectl("apply", "-f", "-", stdin=dump_yaml(documents))


def applied(cluster: ControlPlane, document: JsonObject) -> JsonObject:
    """*document* as the API server has it."""
    done = apply(cluster, document)
    assert done.returncode == 0, done.stderr
    return stored(cluster, document)


def stored(cluster: ControlPlane, document: JsonObject) -> JsonObject:
    metadata = document["metadata"]
    namespace = ["--namespace", metadata["namespace"]] if "namespace" in metadata else []
    told = cluster.kubectl_checked(
        "get", document["kind"], metadata["name"], *namespace, "--output", "yaml"
    )
    found: JsonObject = yaml.safe_load(told)
    return found


# --- what applies ---


def test_the_printed_manifests_apply_unchanged(cluster: ControlPlane) -> None:
    done = cluster.kubectl("apply", "--filename", "-", stdin=PRINTED)

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6
    for document in yaml.safe_load_all(PRINTED):
        kept = stored(cluster, document)
        assert holds(kept["spec"], document["spec"]), kept["spec"]
        assert said(kept) == said(document)


@pytest.mark.parametrize("document", WHOLE, ids=lambda document: document["kind"])
def test_no_field_is_pruned(cluster: ControlPlane, document: JsonObject) -> None:
    assert applied(cluster, document)["spec"] == document["spec"]


def holds(whole: Any, part: Any) -> bool:
    """Whether all of *part* stands in *whole*."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and holds(whole[key], value) for key, value in part.items()
        )
    return bool(whole == part)


def said(document: JsonObject) -> Any:
    """What the program reads, but for what the API server alone knows."""
    kept = {key: document["metadata"].get(key) for key in ("name", "namespace")}
    return read_document({**document, "metadata": kept})


@pytest.mark.parametrize(
    "document",
    [
        make_policy(),
        make_cluster_policy(),
        {**make_strategy(), "spec": {}},
        {**make_cluster_strategy(), "spec": {"enablement": {"gpu": {}}}},
        make_settings(),
        make_settings(prometheus={}, kai={}, webhookHealth={}),
        {**make_precedence(), "spec": {}},
    ],
    ids=lambda document: document["kind"],
)
def test_a_file_has_the_defaults_that_the_api_server_fills_in(
    cluster: ControlPlane, document: JsonObject
) -> None:
    """Where nothing is filled in by anybody else, the program reads the same."""
    assert said(applied(cluster, document)) == said(document)


@pytest.mark.parametrize(
    ("document", "path", "want"),
    [
        pytest.param(make_policy(), "minPodMetricsAge", "15m", id="age"),
        pytest.param(make_policy(), "weight", 0, id="weight"),
        pytest.param(make_policy(scope={}), "scope.workloadTypes", WORKLOAD_TYPES, id="types"),
        pytest.param(make_policy(), "metrics.compute.upsize", UPSIZE, id="upsize"),
        pytest.param(make_policy(), "metrics.memory.scaleBack", SCALE_BACK, id="scale-back"),
        pytest.param(
            with_value(make_policy(), "spec.metrics.memory.upsize", {"maxPercent": 300}),
            "metrics.memory.upsize",
            {**UPSIZE, "maxPercent": 300},
            id="the-rest-of-a-direction",
        ),
        pytest.param(
            without(make_policy(), "spec.metrics.memory.prometheus.interpretation"),
            "metrics.memory.prometheus.interpretation",
            "fullGPU",
            id="interpretation",
        ),
        pytest.param(
            {**make_strategy(), "spec": {}},
            "enablement",
            {
                "overrideScheduler": "none",
                "gpu": {
                    "requests": {"upsize": False, "downsize": False, "setFromUnspecified": False}
                },
                "cpu": {
                    "requests": {"upsize": True, "downsize": True, "setFromUnspecified": True},
                    "limits": {"upsize": True, "downsize": True, "setFromUnspecified": False},
                },
                "memory": {
                    "requests": {"upsize": True, "downsize": True, "setFromUnspecified": True},
                    "limits": {"upsize": True, "downsize": True, "setFromUnspecified": True},
                },
            },
            id="enablement",
        ),
        pytest.param(
            make_strategy(),
            "kai",
            {"queue": "kubex-unlimited-gpu-queue", "setQueueWhenSpecified": False},
            id="kai",
        ),
        pytest.param(
            make_strategy(),
            "podEviction",
            {"enabled": True, "retryPodDisruptionBudget": True},
            id="eviction",
        ),
        pytest.param(
            make_strategy(),
            "safetyChecks",
            {
                "enablePauseUntilAnnotationCheck": True,
                "enableResourceQuotaFilter": True,
                "enableHpaFilter": True,
                "enableVpaFilter": True,
                "blockResizeOnVpaControlledResources": False,
                "enableLimitRangeFilter": True,
                "enablePodLimitRangeFilter": True,
                "retainGuaranteedQOS": False,
                "minCpuChangePercent": 5,
                "minMemoryChangePercent": 5,
                "minReadyDuration": "10s",
                "requireOwnerPodsReady": False,
                "respectWorkloadMaxUnavailable": True,
                "resizeRetryInterval": "30s",
                "requireNodeAllocatable": True,
                "nodeCpuHeadroom": "10%",
                "nodeMemoryHeadroom": "200Mi",
            },
            id="safety-checks",
        ),
        pytest.param(
            make_strategy(scheduling={"inclusionWindows": [{"start": "08:00"}]}),
            "scheduling",
            {"inclusionWindows": [{"start": "08:00", "timezone": "UTC"}]},
            id="windows",
        ),
        pytest.param(
            make_settings(webhookHealth={}),
            "",
            {
                "automationEnabled": True,
                "multiPolicyContainerRightsizingEnabled": False,
                "gpuReactiveCheckInterval": "1m",
                "prometheus": {
                    "url": "http://prometheus.monitoring.svc:9090",
                    "requestTimeout": "30s",
                },
                "kai": {"schedulerName": "kai-scheduler"},
                "protectedNamespacePatterns": ["kube-*", "openshift-*", "gmp-*"],
                "webhookHealth": {
                    "failureThreshold": 2,
                    "successThreshold": 3,
                    "transitionCheckInterval": "10s",
                },
                "webhookOwnerResolutionRetryTimeout": "1s",
                "rescanInterval": "6h",
                "recommendationReloadInterval": "1h",
                "mutationLogInterval": "5m",
                "snapshotInterval": "30m",
                "heartbeatInterval": "5m",
                "proposalSyncInterval": "5m",
                "proposalSyncEnabled": False,
                "kubexAPIRequestTimeout": "60s",
                "suppressFetchRecommendations": False,
                "respectKubexAutomation": True,
            },
            id="settings",
        ),
    ],
)
def test_defaults_are_filled_in(
    cluster: ControlPlane, document: JsonObject, path: str, want: Any
) -> None:
    value = applied(cluster, document)["spec"]
    for part in filter(None, path.split(".")):
        value = value[part]

    assert value == want


# --- what is refused ---

REQUESTS = "spec.enablement.gpu.requests"
COMPUTE = "spec.metrics.compute"
POLICY, STRATEGY, SETTINGS = make_policy(), make_strategy(), make_settings()

BY_THE_SCHEMA = [
    pytest.param(without(POLICY, "spec"), "Required value", id="no-spec"),
    pytest.param(without(POLICY, "spec.experimental"), "Required value", id="no-contract"),
    pytest.param(without(POLICY, "spec.metrics.memory"), "Required value", id="no-memory"),
    pytest.param(without(POLICY, f"{COMPUTE}.prometheus.podLabel"), "Required value", id="no-label"),
    pytest.param(without(make_cluster_policy(), "spec.scope"), "Required value", id="no-scope"),
    pytest.param(make_cluster_policy(scope={}), "Required value", id="no-namespaces"),
    pytest.param(
        make_cluster_policy(scope={"namespaceSelector": {"operator": "In", "values": []}}),
        "should have at least 1 items", id="empty-namespaces",
    ),
    pytest.param(
        with_value(POLICY, "spec.experimental.gpuKaiContract", "v1alpha1-2026-04"),
        "Unsupported value", id="old-contract",
    ),
    pytest.param(
        with_value(POLICY, "spec.automationStrategyRef.name", ""), "at least 1 chars long", id="no-name"
    ),
    pytest.param(
        with_value(POLICY, f"{COMPUTE}.upsize.thresholdPercent", 0), "greater than or equal to 1", id="threshold"
    ),
    pytest.param(
        with_value(POLICY, f"{COMPUTE}.scaleBack.headroomPercent", -1),
        "greater than or equal to 0", id="headroom",
    ),
    pytest.param(
        with_value(POLICY, f"{COMPUTE}.upsize.metricsWindow", "59s"), "must be at least 1 minute", id="window"
    ),
    pytest.param(
        with_value(POLICY, f"{COMPUTE}.upsize.metricsWindow", "1d"), "must be at least 1 minute", id="days"
    ),
    pytest.param(make_policy(minPodMetricsAge="59s"), "must be zero or at least 1 minute", id="age"),
    pytest.param(make_policy(weight=-1), "greater than or equal to 0", id="weight"),
    pytest.param(make_policy(weight="1"), "must be of type integer", id="weight-as-text"),
    pytest.param(
        with_value(POLICY, f"{COMPUTE}.prometheus.metric", "a-b"), "should match", id="metric"
    ),
    pytest.param(
        with_value(POLICY, f"{COMPUTE}.prometheus.podLabel", "a:b"), "should match", id="label"
    ),
    pytest.param(
        with_value(POLICY, f"{COMPUTE}.prometheus.interpretation", "half"), "Unsupported value", id="meaning"
    ),
    pytest.param(make_policy(scope={"workloadTypes": ["Pod"]}), "should match", id="type"),
    pytest.param(make_policy(scope={"workloadTypes": ["Job.Batch"]}), "should match", id="group"),
    pytest.param(make_policy(scope={"containers": ["*"]}), "should match", id="star"),
    pytest.param(make_policy(scope={"containers": ["a", "a"]}), "Duplicate value", id="twice"),
    pytest.param(with_value(STRATEGY, REQUESTS, {"floor": "2", "ceiling": "1500m"}),
        "floor must be less than or equal to ceiling", id="crossed",
    ),
    pytest.param(
        with_value(STRATEGY, "spec.enablement.overrideScheduler", "volcano"), "Unsupported value", id="scheduler"
    ),
    pytest.param(
        with_value(STRATEGY, "spec.kai", {"vllm": {"gpuMemoryUtilizationBufferPercent": 101}}),
        "less than or equal to 100", id="buffer",
    ),
    pytest.param(
        make_strategy(scheduling={"inclusionWindows": [{"start": "08:00", "end": "08:00"}]}),
        "start and end must not be the same", id="equal-borders",
    ),
    pytest.param(
        make_strategy(scheduling={"inclusionWindows": [{"start": "24:00"}]}), "should match", id="start"
    ),
    pytest.param(
        make_strategy(scheduling={"exclusionWindows": [{"weekdays": ["Mondy"]}]}),
        "Unsupported value", id="weekday",
    ),
    pytest.param(
        make_strategy(scheduling={"exclusionWindows": [{}] * 33}), "at most 32 items", id="windows"
    ),
    pytest.param(make_settings("second"), "its name is global-config", id="second-settings"),
    pytest.param(make_precedence(name="second"), "its name is policy-evaluation", id="second-precedence"),
    pytest.param(
        make_settings(gpuReactiveCheckInterval="30s"), "must be at least 1 minute", id="interval"
    ),
    pytest.param(make_settings(rescanInterval="30s"), "must be at least 1 minute", id="rescan"),
    pytest.param(
        make_settings(kubexAPIRequestTimeout="0s"), "must be greater than 0 seconds", id="timeout"
    ),
    pytest.param(
        make_settings(webhookHealth={"transitionCheckInterval": "1ms"}),
        "must be at least 1 second", id="probes",
    ),
    pytest.param(
        make_settings(protectedNamespacePatterns=[""]), "at least 1 chars long", id="pattern"
    ),
    pytest.param(make_precedence({"type": "A"}), "Required value", id="no-priority"),
    pytest.param(
        make_precedence({"type": "A", "priority": -1}), "greater than or equal to 0", id="priority"
    ),
]  # fmt: skip

BY_THE_WEBHOOK = [
    pytest.param(
        with_value(STRATEGY, REQUESTS, {"ceiling": "1", "containers": {"a": {"floor": "2"}}}),
        f"{REQUESTS}: container a: the floor 2 is above the ceiling 1", id="inherited-bound",
    ),
    pytest.param(
        make_strategy(scheduling={"inclusionWindows": [{"timezone": "Mars/Olympus"}]}),
        "spec.scheduling.inclusionWindows[0].timezone: 'Mars/Olympus' is no time zone", id="timezone",
    ),
    pytest.param(
        make_strategy(scheduling={"inclusionWindows": [{"end": "00:00"}]}),
        "spec.scheduling.inclusionWindows[0]: start and end are the same", id="borders-by-default",
    ),
    pytest.param(
        make_strategy(safetyChecks={"minReadyDuration": "ten"}),
        "spec.safetyChecks.minReadyDuration: 'ten' is no duration", id="duration",
    ),
    pytest.param(
        with_value(STRATEGY, f"{REQUESTS}.floor", "-1"), f"{REQUESTS}.floor: must not be negative", id="negative"
    ),
    pytest.param(
        make_settings(prometheus={"requestTimeout": "0s"}),
        "spec.prometheus.requestTimeout: must be more than 0s", id="timeout",
    ),
    pytest.param(
        make_policy(scope={"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
        "spec.scope.labelSelector.matchExpressions[0].operator: must be In, NotIn", id="operator",
    ),
    pytest.param(
        make_policy(mode="Audit"),
        'metadata.annotations["gatewright.io/mode"]: must be Enforce or Recommend', id="mode",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "problem"), BY_THE_SCHEMA)
def test_what_a_schema_can_say_is_refused_by_it(
    cluster: ControlPlane, document: JsonObject, problem: str
) -> None:
    done = apply(cluster, document)

    assert done.returncode != 0
    assert problem in done.stderr
    # A file has no API server to say so.
    with pytest.raises(ExceptionGroup):
        read_document(document)


@pytest.mark.parametrize(("document", "problem"), BY_THE_WEBHOOK)
def test_what_a_schema_cant_say_is_refused_by_our_webhook(
    cluster: ControlPlane, document: JsonObject, problem: str
) -> None:
    done = apply(cluster, document)

    assert done.returncode != 0
    assert "workloads.gatewright.io" in done.stderr
    assert problem in done.stderr


# --- warnings ---


def test_a_strategy_is_missed_until_it_is_there(cluster: ControlPlane) -> None:
    missing = "there is no AutomationStrategy default/late; until it is there, nothing is resized"
    policy = make_policy(automationStrategyRef={"name": "late"})
    told = apply(cluster, policy).stderr
    assert missing in told

    applied(cluster, make_strategy("late"))

    def is_known() -> bool:
        changed = make_policy("another", automationStrategyRef={"name": "late"})
        done = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=dump_yaml([changed]))
        assert done.returncode == 0
        return missing not in done.stderr

    wait_until(is_known, PATIENCE_S, "the strategy to be seen")


def test_a_threshold_that_can_never_fire_is_a_warning(cluster: ControlPlane) -> None:
    done = apply(cluster, make_policy())

    assert done.returncode == 0
    assert "Warning: spec.metrics.compute.upsize.thresholdPercent: 120 %" in done.stderr


# --- what the reconciler keeps ---


def test_a_recommendation_is_kept_and_answers_what_and_why(cluster: ControlPlane) -> None:
    now = datetime(2026, 1, 1, 10, tzinfo=UTC)
    policy = DocumentKey("GpuReactivePolicy", "default", "gpu-reactive")
    evaluation = SignalEvaluation(
        125, timedelta(minutes=10), Decimal("0.8"), Decimal("0.5"), "llm-0", Decimal("0.96"), ("x",)
    )
    state = PolicyState(
        policy,
        generation=2,
        baseline={"inference": BaselineAmount(Decimal("0.5"), now, "pod llm-0")},
        current={"inference": Decimal("0.5")},
        recommendation={"inference": Decimal("0.96")},
        total=Decimal("0.96"),
        driver=Signal.COMPUTE,
        change=Change.UPSIZE,
        signals={
            signal: SignalState(Direction.UPSIZE, evaluation, evaluation) for signal in Signal
        },
        reasons=("capped",),
        evaluated_at=now,
    )
    status = RecommendationStatus(
        evaluated_at=now,
        policies=(state,),
        selected=Selected(
            policy,
            DocumentKey("AutomationStrategy", "default", "gpu"),
            amounts={"inference": Decimal("0.96")},
            policies={"inference": policy},
            queue="gpus",
        ),
        reasons=("no eviction: a PodDisruptionBudget forbids it",),
        conditions=(StatusCondition("Ready", "True", "Evaluated", "", 2, now),),
    )
    made = GpuRecommendation("default", WorkloadRef("apps/v1", "Deployment", "llm"), status)
    manifest = write_recommendation(made)
    path = "/apis/policy.gatewright.io/v1alpha1/namespaces/default/gpurecommendations"
    created = cluster.request("POST", path, manifest)
    assert created.status == 201, created.text
    assert "status" not in created.json()

    manifest["metadata"] = created.json()["metadata"]
    written = cluster.request("PUT", f"{path}/deployment.llm/status", manifest)
    assert written.status == 200, written.text

    kept = read_recommendation(cluster.request("GET", f"{path}/deployment.llm").json())
    assert kept.workload == made.workload
    assert kept.status == made.status
    header, row = cluster.kubectl_checked("get", "gpurec").splitlines()
    assert header.split() == [
        *("NAME", "WORKLOAD", "GPUS", "RECOMMENDED", "DRIVER", "CHANGE", "WHY", "AGE")
    ]
    assert row.split()[:6] == [
        *("deployment.llm", "Deployment/llm", "0.5", "0.96", "compute", "upsize")
    ]
    assert "no eviction: a PodDisruptionBudget forbids it" in row
