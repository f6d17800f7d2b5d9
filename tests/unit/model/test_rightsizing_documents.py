"""Documents of `rightsizing.kubex.ai/v1alpha1`: what they say, by default too, and what is wrong."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gpu_documents import (
    JsonObject,
    make_cluster_policy,
    make_cluster_strategy,
    make_policy,
    make_precedence,
    make_settings,
    make_source,
    make_strategy,
    with_value,
    without,
)
from webhook.errors import MissingReferenceError, SpecError
from webhook.model.rightsizing.documents import key_of, read_document, warnings_of
from webhook.model.rightsizing.policies import (
    DEFAULT_WORKLOAD_TYPES,
    Bounds,
    DocumentKey,
    GlobalSettings,
    Interpretation,
    LabelRequirement,
    MetricSource,
    Mode,
    ReactivePolicy,
    SafetyChecks,
    ScaleBack,
    Scheduler,
    Signal,
    SignalSettings,
    Strategy,
    Upsize,
    WebhookHealth,
    Window,
    WorkloadScope,
)

MINUTE = timedelta(minutes=1)
WINDOW = "spec.scheduling.inclusionWindows"
REQUESTS = "spec.enablement.gpu.requests"


def policy(manifest: JsonObject | None = None, **spec: Any) -> ReactivePolicy:
    read = read_document(manifest or make_policy(**spec))
    assert isinstance(read, ReactivePolicy)
    return read


def strategy(manifest: JsonObject | None = None, **spec: Any) -> Strategy:
    read = read_document(manifest or make_strategy(**spec))
    assert isinstance(read, Strategy)
    return read


def problems(manifest: JsonObject) -> list[str]:
    """What is wrong with *manifest*, each with its path."""
    with pytest.raises(ExceptionGroup) as raised:
        read_document(manifest)
    return [str(error) for error in raised.value.exceptions]


# --- policies ---


def test_a_policy_that_says_only_what_is_needed_has_the_defaults_of_the_crd() -> None:
    def signal(name: str, interpretation: Interpretation) -> SignalSettings:
        source = MetricSource(
            make_source(name)["metric"], "namespace", "pod", "container", interpretation
        )
        return SignalSettings(
            source, Upsize(120, 10 * MINUTE, 20, 200), ScaleBack(80, 10 * MINUTE, 20)
        )

    assert policy() == ReactivePolicy(
        key=DocumentKey("GpuReactivePolicy", "default", "gpu-reactive"),
        signals={
            Signal.COMPUTE: signal("compute", Interpretation.FULL_GPU),
            Signal.MEMORY: signal("memory", Interpretation.CURRENT_ALLOCATION),
        },
        strategy=DocumentKey("AutomationStrategy", "default", "gpu"),
        scope=WorkloadScope(DEFAULT_WORKLOAD_TYPES),
        min_pod_age=15 * MINUTE,
        weight=0,
    )


def test_the_interpretation_is_a_full_gpu_unless_it_is_given() -> None:
    read = policy(without(make_policy(), "spec.metrics.memory.prometheus.interpretation"))

    assert read.signals[Signal.MEMORY].source.interpretation is Interpretation.FULL_GPU


def test_what_one_direction_leaves_out_has_its_default() -> None:
    upsize = {"thresholdPercent": 125, "metricsWindow": "1h30m"}
    read = policy(with_value(make_policy(), "spec.metrics.compute.upsize", upsize))

    assert read.signals[Signal.COMPUTE].upsize == Upsize(125, 90 * MINUTE, 20, 200)


def test_kinds_beyond_the_nine_are_named_with_their_group_and_every_kind_once() -> None:
    types = ["PyTorchJob.kubeflow.org", "Deployment.apps", "Job"]
    policy = read_document(make_policy(scope={"workloadTypes": types}))

    assert isinstance(policy, ReactivePolicy)
    assert policy.scope.workload_types == ("PyTorchJob.kubeflow.org", "Deployment", "Job")


def test_a_scope_is_read_as_it_is_written() -> None:
    scope = {
        "containers": ["inference", "sidecar"],
        "workloadTypes": ["Deployment", "StrimziPodSet"],
        "labelSelector": {
            "matchLabels": {"app": "llm"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["dev", "test"]},
                {"key": "gpu", "operator": "Exists"},
            ],
        },
    }

    assert policy(scope=scope).scope == WorkloadScope(
        workload_types=("Deployment", "StrimziPodSet"),
        labels=(
            LabelRequirement("app", "In", ("llm",)),
            LabelRequirement("tier", "NotIn", ("dev", "test")),
            LabelRequirement("gpu", "Exists"),
        ),
        containers=("inference", "sidecar"),
    )


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_a_cluster_policy_selects_namespaces(operator: str) -> None:
    selector = {"operator": operator, "values": ["team-*", "prod"]}
    read = policy(make_cluster_policy(scope={"namespaceSelector": selector}))

    assert read.key == DocumentKey("ClusterGpuReactivePolicy", "", "gpu-reactive-cluster")
    assert read.strategy == DocumentKey("ClusterAutomationStrategy", "", "gpu")
    assert read.scope.namespaces == ("team-*", "prod")
    assert read.scope.namespaces_excluded is (operator == "NotIn")


def test_a_policy_of_a_namespace_selects_none() -> None:
    assert policy(scope={}).scope.namespaces is None


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        pytest.param("", Mode.ENFORCE, id="not-said"),
        pytest.param("Enforce", Mode.ENFORCE, id="enforce"),
        pytest.param("Recommend", Mode.RECOMMEND, id="recommend"),
        pytest.param("recommend", Mode.RECOMMEND, id="in-another-case"),
    ],
)
def test_an_annotation_says_whether_a_policy_acts(mode: str, want: Mode) -> None:
    assert policy(mode=mode).mode is want


@pytest.mark.parametrize(
    ("mode", "annotated", "want"),
    [
        pytest.param("Enforce", "", Mode.ENFORCE, id="enforce"),
        pytest.param("Recommend", "", Mode.RECOMMEND, id="recommend"),
        pytest.param("Enforce", "Enforce", Mode.ENFORCE, id="both"),
        pytest.param("Recommend", "Enforce", Mode.RECOMMEND, id="the-annotation-acts"),
        pytest.param("Enforce", "Recommend", Mode.RECOMMEND, id="the-annotation-does-not"),
    ],
)
@pytest.mark.parametrize("make", [make_policy, make_cluster_policy])
def test_so_does_a_field_and_who_says_no_is_heard(
    make: Any, mode: str, annotated: str, want: Mode
) -> None:
    manifest = with_value(make(), "spec.mode", mode)
    if annotated:
        manifest["metadata"]["annotations"] = {"gatewright.io/mode": annotated}

    assert policy(manifest).mode is want


def test_a_policy_whose_contract_is_none_only_recommends() -> None:
    """Nobody has acknowledged that GPU policies may change: then nothing is done by them."""
    assert policy(experimental={"gpuKaiContract": "none"}).mode is Mode.RECOMMEND


@pytest.mark.parametrize(
    ("age", "want"),
    [
        pytest.param("", timedelta(), id="empty"),
        pytest.param("0s", timedelta(), id="zero"),
        pytest.param("1m", MINUTE, id="the-least"),
        pytest.param("1.5h", 90 * MINUTE, id="fraction"),
    ],
)
def test_a_pod_counts_from_an_age_on(age: str, want: timedelta) -> None:
    assert policy(minPodMetricsAge=age).min_pod_age == want


def test_a_stored_policy_knows_its_age_and_generation() -> None:
    manifest = make_policy()
    manifest["metadata"] |= {
        "creationTimestamp": "2026-01-01T10:00:00Z",
        "generation": 7,
        "managedFields": [],
    }
    manifest["status"] = {"conditions": []}
    read = policy(manifest)

    assert read.created == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert read.generation == 7


@pytest.mark.parametrize("written", ["", None], ids=["absent", "null"])
def test_a_manifest_without_a_namespace_is_in_the_default_one(written: str | None) -> None:
    manifest = make_policy(namespace="")
    if written is None:
        manifest["metadata"]["namespace"] = None

    assert policy(manifest).key.namespace == "default"
    assert read_document(manifest, namespace="team-a") == policy(make_policy(namespace="team-a"))
    assert key_of(make_cluster_policy(), namespace="team-a").namespace == ""


def test_null_is_absent() -> None:
    """The API server prunes it, and then fills in the default."""
    manifest = make_policy(scope=None, minPodMetricsAge=None, weight=None)
    manifest["spec"]["metrics"]["compute"]["upsize"] = {"maxPercent": None}

    assert policy(manifest) == policy()


def test_reading_leaves_the_manifest_as_it_is() -> None:
    manifest = make_policy(scope=None)
    before = copy.deepcopy(manifest)
    read_document(manifest)

    assert manifest == before


# --- strategies ---


def test_a_strategy_that_says_nothing_allows_nothing_for_gpus() -> None:
    empty = {**make_strategy(), "spec": {}}

    assert strategy(empty) == Strategy(DocumentKey("AutomationStrategy", "default", "gpu"))


def test_a_cluster_strategy_is_of_no_namespace() -> None:
    key = strategy(make_cluster_strategy()).key

    assert key == DocumentKey("ClusterAutomationStrategy", "", "gpu")


def test_all_that_concerns_gpus_is_read() -> None:
    spec: dict[str, Any] = {
        "enablement": {
            "overrideScheduler": "kai",
            "gpu": {
                "requests": {
                    "upsize": True,
                    "downsize": False,
                    "setFromUnspecified": True,
                    "floor": "250m",
                    "ceiling": "4",
                    "containers": {"main": {"ceiling": "2"}, "other": {"floor": "0.5"}, "same": {}},
                }
            },
            "cpu": {"requests": {"floor": "1"}, "limits": {"upsize": False}},
            "memory": {"requests": {"floor": "128Gi"}, "limits": {"ceiling": "1Gi"}},
        },
        "kai": {
            "queue": "team",
            "setQueueWhenSpecified": True,
            "vllm": {"gpuMemoryUtilizationBufferPercent": 10},
        },
        "inPlaceResize": {"enabled": False, "containerRestart": True},
        "podEviction": {"enabled": False, "retryPodDisruptionBudget": False},
        "safetyChecks": {
            "enablePauseUntilAnnotationCheck": False,
            "enableResourceQuotaFilter": False,
            "enableHpaFilter": False,
            "enableVpaFilter": False,
            "minReadyDuration": "1m",
            "requireOwnerPodsReady": True,
            "respectWorkloadMaxUnavailable": False,
            "resizeRetryInterval": "5s",
            "retainGuaranteedQOS": True,
            "nodeMemoryHeadroom": "1Gi",
        },
    }

    assert strategy(**spec) == Strategy(
        key=DocumentKey("AutomationStrategy", "default", "gpu"),
        scheduler=Scheduler.KAI,
        upsize=True,
        downsize=False,
        set_from_unspecified=True,
        bounds=Bounds(Decimal("0.25"), Decimal(4)),
        # What a container doesn't say is that of all.
        container_bounds={
            "main": Bounds(Decimal("0.25"), Decimal(2)),
            "other": Bounds(Decimal("0.5"), Decimal(4)),
            "same": Bounds(Decimal("0.25"), Decimal(4)),
        },
        queue="team",
        set_queue_when_specified=True,
        eviction=False,
        retry_disruption_budget=False,
        safety=SafetyChecks(False, False, False, False, MINUTE, True, False, timedelta(seconds=5)),
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("0.1", "0.1", id="decimal"),
        pytest.param("333m", "0.333", id="milli"),
        pytest.param("2k", "2000", id="kilo"),
        pytest.param("10k", "10000", id="as-much-as-may-be"),
        pytest.param("0.123456789", "0.123457", id="as-it-is-stored"),
        pytest.param("0", "0", id="zero"),
    ],
)
def test_a_bound_is_a_quantity(text: str, want: str) -> None:
    floor = strategy(requests={"floor": text}).bounds.floor

    assert str(floor) == want


@pytest.mark.parametrize(
    ("window", "want"),
    [
        pytest.param({}, Window(0, 1440), id="the-whole-day"),
        pytest.param({"start": "22:00"}, Window(1320, 1440), id="to-midnight"),
        pytest.param({"end": "06:30"}, Window(0, 390), id="from-midnight"),
        pytest.param({"start": "22:00", "end": "06:00"}, Window(1320, 360), id="over-midnight"),
        pytest.param({"start": "", "end": ""}, Window(0, 1440), id="empty"),
        pytest.param({"end": "24:00"}, Window(0, 1440), id="24-is-the-end-of-the-day"),
        pytest.param(
            {"weekdays": ["Mon", "Thurs", "Sunday"], "timezone": "Europe/Amsterdam", "name": "n"},
            Window(0, 1440, "Europe/Amsterdam", frozenset({0, 3, 6}), "n"),
            id="days-in-any-spelling",
        ),
    ],
)
def test_a_window_is_read_in_minutes_of_the_day(window: JsonObject, want: Window) -> None:
    read = strategy(scheduling={"exclusionWindows": [window]})

    assert read.exclusion_windows == (want,)
    assert read.inclusion_windows == ()


# --- settings and precedence ---


def test_settings_that_say_nothing_are_the_defaults() -> None:
    assert read_document(make_settings()) == GlobalSettings()


def test_settings_are_read() -> None:
    manifest = make_settings(
        automationEnabled=False,
        multiPolicyContainerRightsizingEnabled=True,
        gpuReactiveCheckInterval="2m30s",
        prometheus={"url": "https://prometheus.example:9090", "requestTimeout": "5s"},
        kai={"schedulerName": "kai"},
        protectedNamespacePatterns=["infra-*"],
        webhookHealth={"failureThreshold": 1},
        webhookProbe={"image": "probe:1", "securityContext": {"runAsUser": 1}},
        kubexAPIRequestTimeout="10s",
        proposalSyncEnabled=True,
    )

    assert read_document(manifest) == GlobalSettings(
        automation_enabled=False,
        multi_policy=True,
        check_interval=timedelta(seconds=150),
        prometheus_url="https://prometheus.example:9090",
        request_timeout=timedelta(seconds=5),
        scheduler_name="kai",
        protected_namespaces=("infra-*",),
        webhook_health=WebhookHealth(failures=1),
    )


def test_pods_of_jobs_are_evicted_where_the_strategy_is_annotated_so() -> None:
    annotations = {"gatewright.io/evict-jobs": "true"}

    assert read_document(
        with_value(make_strategy(), "metadata.annotations", annotations)
    ) == replace(read_strategy(), evicts_jobs=True)
    assert not read_strategy().evicts_jobs


def read_strategy() -> Strategy:
    strategy = read_document(make_strategy())
    assert isinstance(strategy, Strategy)
    return strategy


def test_another_text_there_is_an_error() -> None:
    annotations = {"gatewright.io/evict-jobs": "yes"}

    with pytest.raises(ExceptionGroup) as caught:
        read_document(with_value(make_strategy(), "metadata.annotations", annotations))

    (problem,) = caught.value.exceptions
    assert str(problem) == (
        'metadata.annotations["gatewright.io/evict-jobs"]: must be "true" or "false"'
    )


def test_a_kind_that_is_not_named_keeps_its_priority() -> None:
    given = make_precedence(
        {"type": "GpuReactivePolicy", "priority": 5}, {"type": "X", "priority": 0}
    )

    assert read_document(given) == {
        "GpuReactivePolicy": 5,
        "ClusterGpuReactivePolicy": 110,
        "X": 0,
    }


# --- what is wrong ---


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        pytest.param("minPodMetricsAge", "59s", "must be empty, 0s, or at least 1m, not 59s", id="age"),
        pytest.param("minPodMetricsAge", "-2m", "must be empty, 0s, or at least", id="negative-age"),
        pytest.param("minPodMetricsAge", "1d", "'1d' is no duration", id="no-days"),
        pytest.param("weight", -1, "must be at least 0, not -1", id="weight"),
        pytest.param("weight", 2**31, "must be at most 2147483647", id="weight-of-32-bits"),
        pytest.param("weight", "1", "must be a whole number, got text", id="weight-as-text"),
        pytest.param("weight", True, "must be a whole number, got boolean", id="weight-as-boolean"),
        pytest.param("weight", 1.5, "must be a whole number, got number", id="half-a-weight"),
        pytest.param(
            "metrics.compute.upsize.thresholdPercent", 0, "must be at least 1, not 0", id="threshold"
        ),
        pytest.param("metrics.compute.upsize.maxPercent", 0, "must be at least 1", id="most"),
        pytest.param("metrics.memory.scaleBack.headroomPercent", -5, "must be at least 0", id="headroom"),
        pytest.param("metrics.memory.scaleBack.metricsWindow", "30s", "must be at least 1m", id="window"),
        pytest.param("metrics.memory.upsize.metricsWindow", 10, "must be text, got number", id="no-unit"),
        pytest.param("metrics.compute.prometheus.metric", "a-b", "'a-b' is no metric name", id="metric"),
        pytest.param("metrics.compute.prometheus.metric", "", "'' is no metric name", id="no-metric"),
        pytest.param("metrics.compute.prometheus.podLabel", "a:b", "is no label name", id="label"),
        pytest.param("metrics.compute.prometheus.podLabel", "pod\n", "is no label name", id="line-end"),
        pytest.param(
            "metrics.compute.prometheus.interpretation", "fullGpu", "must be fullGPU or", id="meaning"
        ),
        pytest.param("experimental.gpuKaiContract", "v1alpha1-2026-04", "must be v1alpha1-2026-07", id="old"),
        pytest.param("experimental.gpuKaiContract", "", "is needed: v1alpha1-2026-07", id="empty-contract"),
        pytest.param("automationStrategyRef.name", "", "must not be empty", id="strategy"),
        pytest.param("scope.workloadTypes", ["Pod"], "must be one of Deployment, ", id="workload-type"),
        pytest.param("scope.containers", ["a", "b", "a"], "named more than once: a", id="twice"),
        pytest.param("scope.containers", ["*"], '"*" is no container', id="star"),
        pytest.param("scope.containers", ["Main"], "'Main' is no name of a container", id="capital"),
        pytest.param("scope.containers", ["a" * 64], "is no name of a container", id="long"),
        pytest.param("scope.containers", [1], "must be text, got number", id="number"),
        pytest.param(
            "scope.labelSelector.matchLabels", {"a b": "c"}, "'a b' is no key of a label", id="key"
        ),
        pytest.param(
            "scope.labelSelector.matchLabels", {"a": "b c"}, "'b c' is no value of a label", id="value"
        ),
        pytest.param(
            "scope.labelSelector.matchExpressions", [{"key": "a", "operator": "In"}],
            "In needs values", id="in-what",
        ),
        pytest.param(
            "scope.labelSelector.matchExpressions",
            [{"key": "a", "operator": "Exists", "values": ["x"]}],
            "Exists takes no values", id="exists-what",
        ),
        pytest.param(
            "scope.labelSelector.matchExpressions", [{"key": "a", "operator": "Is"}],
            "must be In, NotIn, Exists or DoesNotExist, got Is", id="operator",
        ),
        pytest.param("scope.namespaceSelector", {}, "unknown field", id="namespaces-of-a-namespace"),
        pytest.param("metrics.compute.upsize.treshold", 1, "unknown field", id="misspelt"),
    ],
)  # fmt: skip
def test_a_policy_that_is_wrong_is_refused(path: str, value: Any, problem: str) -> None:
    (found,) = problems(with_value(make_policy(), f"spec.{path}", value))

    assert found.startswith(f"spec.{path}")
    assert problem in found


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        pytest.param("scope", {}, "scope.namespaceSelector: is needed", id="no-namespaces"),
        pytest.param("scope.namespaceSelector.values", [], "values: must not be empty", id="empty"),
        pytest.param(
            "scope.namespaceSelector.operator", "Exists", "must be In or NotIn", id="operator"
        ),
        pytest.param(
            "scope.namespaceSelector.values", ["a" * 300], "longer than 256", id="long-pattern"
        ),
    ],
)
def test_a_cluster_policy_that_is_wrong_is_refused(path: str, value: Any, problem: str) -> None:
    (found,) = problems(with_value(make_cluster_policy(), f"spec.{path}", value))

    assert problem in found


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        pytest.param(REQUESTS, {"floor": "2", "ceiling": "1"}, "floor 2 is above the ceiling 1", id="crossed"),
        pytest.param(
            REQUESTS, {"ceiling": "1", "containers": {"a": {"floor": "1500m"}}},
            "container a: the floor 1.5 is above the ceiling 1", id="inherited-ceiling",
        ),
        pytest.param(
            REQUESTS, {"floor": "1", "containers": {"a": {"ceiling": "0.5"}}},
            "container a: the floor 1 is above the ceiling 0.5", id="inherited-floor",
        ),
        pytest.param(
            REQUESTS, {"containers": {"a": {"floor": "2", "ceiling": "1"}}},
            "container a: the floor 2 is above the ceiling 1", id="its-own",
        ),
        pytest.param(
            REQUESTS, {"floor": "10001"}, "the floor 10001 is above 10000 GPUs, more than any node has",
            id="more-than-any-node-has",
        ),
        pytest.param(
            REQUESTS, {"containers": {"a": {"floor": "10P"}}},
            "container a: the floor 10000000000000000 is above 10000 GPUs", id="unit-too-much",
        ),
        pytest.param(REQUESTS, {"floor": "1e45"}, "is above 10000 GPUs", id="beyond-all-numbers"),
        pytest.param(f"{REQUESTS}.floor", "one", "is not a Kubernetes quantity", id="no-quantity"),
        pytest.param(f"{REQUESTS}.floor", 1, "must be text, got number", id="number"),
        pytest.param(f"{REQUESTS}.floor", "-1", "must not be negative", id="negative"),
        pytest.param(f"{REQUESTS}.limits", {}, "unknown field", id="gpu-has-no-limits"),
        pytest.param("spec.enablement.overrideScheduler", "volcano", "must be none or kai", id="scheduler"),
        pytest.param("spec.experimental", {"gpuKaiContract": "x"}, "must be v1alpha1-2026-07", id="contract"),
        pytest.param("spec.safetyChecks.minReadyDuration", "ten", "is no duration", id="ready"),
        pytest.param("spec.safetyChecks.minReadyDuration", "-1s", "must be at least 0s", id="negative-wait"),
        pytest.param("spec.safetyChecks.resizeRetryInterval", "0s", "must be more than 0s", id="retry"),
        pytest.param(WINDOW, [{"start": "08:00", "end": "08:00"}], "start and end are the same", id="equal"),
        pytest.param(WINDOW, [{"end": "00:00"}], "start and end are the same", id="equal-by-default"),
        pytest.param(WINDOW, [{"start": "24:00"}], "is no time of the day", id="start-at-24"),
        pytest.param(WINDOW, [{"start": "8:00"}], "is no time of the day", id="one-digit"),
        pytest.param(WINDOW, [{"timezone": "Mars/Olympus"}], "is no time zone", id="timezone"),
        pytest.param(WINDOW, [{"timezone": "../UTC"}], "is no time zone", id="timezone-as-a-path"),
        pytest.param(WINDOW, [{"timezone": "Europe"}], "is no time zone", id="timezone-as-a-directory"),
        pytest.param(WINDOW, [{"weekdays": ["Mondy"]}], "must be one of Monday", id="weekday"),
        pytest.param(WINDOW, [{"weekdays": ["Mon", "Mon"]}], "named more than once: Mon", id="day-twice"),
        pytest.param(WINDOW, [{}] * 33, "at most 32", id="too-many"),
    ],
)  # fmt: skip
def test_a_strategy_that_is_wrong_is_refused(path: str, value: Any, problem: str) -> None:
    (found,) = problems(with_value(make_strategy(), path, value))

    assert found.startswith(path)
    assert problem in found


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        pytest.param("gpuReactiveCheckInterval", "30s", "must be at least 1m, not 30s", id="interval"),
        pytest.param("prometheus.requestTimeout", "0s", "must be more than 0s", id="timeout"),
        pytest.param("prometheus.token", "x", "unknown field", id="credentials"),
        pytest.param("protectedNamespacePatterns", [""], "must not be empty", id="pattern"),
        pytest.param("webhookHealth.failureThreshold", 0, "must be at least 1", id="failures"),
        pytest.param("webhookHealth.transitionCheckInterval", "1ms", "must be at least 1s", id="probes"),
        pytest.param("rescanInterval", "1s", "must be at least 1m", id="of-others-too"),
        pytest.param("gpuRebalancingCheckInterval", "1m", "unknown field", id="old-name"),
    ],
)  # fmt: skip
def test_settings_that_are_wrong_are_refused(path: str, value: Any, problem: str) -> None:
    (found,) = problems(with_value(make_settings(), f"spec.{path}", value))

    assert problem in found


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        pytest.param(
            make_settings("second"),
            "metadata.name: there is one GlobalConfiguration, named global-config, not second",
            id="second-settings",
        ),
        pytest.param(
            make_precedence(name="mine"),
            "metadata.name: there is one PolicyEvaluation, named policy-evaluation, not mine",
            id="second-precedence",
        ),
        pytest.param(
            make_precedence({"type": "", "priority": 1}),
            "spec.precedence[0].type: must not be empty",
            id="no-type",
        ),
        pytest.param(
            make_precedence({"type": "X", "priority": -1}),
            "spec.precedence[0].priority: must be at least 0, not -1",
            id="negative-priority",
        ),
        pytest.param(
            make_precedence({"type": "X"}), "spec.precedence[0].priority: is needed", id="no-priority"
        ),
        pytest.param(without(make_policy(), "spec"), "spec: is needed", id="no-spec"),
        pytest.param({**make_policy(), "spec": []}, "spec: must be an object", id="spec-of-a-list"),
        pytest.param(without(make_policy(), "metadata"), "metadata.name: a name is needed", id="no-name"),
        pytest.param(
            {**make_policy(), "apiVersion": "rightsizing.kubex.ai/v1"},
            "apiVersion: must be rightsizing.kubex.ai/v1alpha1",
            id="version",
        ),
        pytest.param({**make_policy(), "sepc": {}}, 'sepc: unknown field; did you mean "spec"?', id="field"),
        pytest.param(
            {**make_policy(), "kind": "GpuRebalancingPolicy"},
            "kind: 'GpuRebalancingPolicy' is no kind of rightsizing.kubex.ai that is read here;"
            ' did you mean "GpuReactivePolicy"?',
            id="old-kind",
        ),
        pytest.param(
            make_policy(mode="Audit"),
            'metadata.annotations["gatewright.io/mode"]: must be Enforce or Recommend',
            id="mode",
        ),
        pytest.param(
            with_value(make_policy(), "spec.mode", "Audit"),
            "spec.mode: must be Enforce or Recommend, got Audit",
            id="mode-of-the-spec",
        ),
        pytest.param(
            with_value(make_policy(), "metadata.creationTimestamp", "yesterday"),
            "metadata.creationTimestamp: must be a time such as 2026-01-01T00:00:00Z, got"
            " 'yesterday'",
            id="age",
        ),
    ],
)  # fmt: skip
def test_what_is_around_a_spec_is_judged_too(manifest: JsonObject, problem: str) -> None:
    assert problems(manifest) == [problem]


def test_a_misspelt_field_is_told_the_nearest_name() -> None:
    manifest = with_value(make_policy(), "spec.metrics.compute.upsize.thresholdPrecent", 125)

    assert problems(manifest) == [
        'spec.metrics.compute.upsize.thresholdPrecent: unknown field; did you mean "thresholdPercent"?'
    ]


@pytest.mark.parametrize("missing", ["experimental", "metrics", "automationStrategyRef"])
def test_what_is_needed_is_asked_for(missing: str) -> None:
    assert problems(without(make_policy(), f"spec.{missing}")) == [f"spec.{missing}: is needed"]


@pytest.mark.parametrize("signal", ["compute", "memory"])
def test_both_signals_are_needed(signal: str) -> None:
    manifest = without(make_policy(), f"spec.metrics.{signal}")

    assert problems(manifest) == [f"spec.metrics.{signal}: is needed"]


def test_all_problems_are_told_at_once() -> None:
    manifest = with_value(make_policy(weight=-1), "spec.metrics.compute.upsize.metricsWindow", "1s")
    manifest = with_value(manifest, "spec.scope.containers", ["a", "A"])

    assert [text.partition(":")[0] for text in problems(manifest)] == [
        "spec.scope.containers[1]",
        "spec.metrics.compute.upsize.metricsWindow",
        "spec.weight",
    ]


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param({}, id="empty"),
        pytest.param({"kind": []}, id="kind-of-a-list"),
        pytest.param({"kind": "GpuReactivePolicy", "metadata": [], "spec": 1}, id="other-types"),
        pytest.param(with_value(make_policy(), "spec.metrics", "x"), id="metrics-as-text"),
        pytest.param(with_value(make_policy(), "spec.scope", [1]), id="scope-as-a-list"),
        pytest.param(with_value(make_policy(), "metadata.annotations", {"gatewright.io/mode": 1}), id="mode"),
        pytest.param(with_value(make_strategy(), REQUESTS, {"containers": {"a": "1"}}), id="bounds-as-text"),
        pytest.param(with_value(make_strategy(), f"{REQUESTS}.floor", "1e999999999"), id="huge-amount"),
        pytest.param(with_value(make_policy(), "spec.weight", 10**400), id="huge-number"),
        pytest.param(with_value(make_policy(), "spec.weight", float("inf")), id="infinity"),
    ],
)  # fmt: skip
def test_what_has_another_shape_is_refused_by_a_promised_error(manifest: JsonObject) -> None:
    assert problems(manifest)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
WHOLE = (
    make_cluster_policy(scope={
        "namespaceSelector": {"operator": "In", "values": ["*"]},
        "containers": ["a"],
        "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]},
    }),
    make_strategy(
        scheduling={"inclusionWindows": [{"start": "08:00", "weekdays": ["Mon"], "timezone": "UTC"}]},
        requests={"upsize": True, "floor": "1", "containers": {"a": {"ceiling": "2"}}},
    ),
    make_settings(webhookHealth={"failureThreshold": 1}, protectedNamespacePatterns=["a"]),
    make_precedence({"type": "A", "priority": 1}),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


PLACES = [(manifest, path) for manifest in WHOLE for path in places(manifest)]


@pytest.mark.slow
@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_at_one_place_it_is_read_or_refused(
    at: tuple[JsonObject, tuple[Any, ...]], value: Any
) -> None:
    """Nothing else comes of it: no crash, and no conversion that nobody asked for."""
    manifest, path = copy.deepcopy(at[0]), at[1]
    node = manifest
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value

    try:
        told = warnings_of(manifest, strategies={})
    except ExceptionGroup as group:
        told = tuple(group.exceptions)  # type: ignore[arg-type]  # Seen by the next line.
    assert {type(error) for error in told} <= {SpecError, MissingReferenceError}
