"""Rounds against a cluster and a Prometheus in memory: faults above all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import selectors
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.builders import JsonObject, make_container
from tests.gpu import DEVICES, FRACTION, make_gpu_container
from tests.gpu_cluster import make_object, make_running_pod
from tests.gpu_documents import make_policy, make_settings, make_source, make_strategy
from tests.unit.reactive.fakes import NOW, FakeKube, FakePrometheus, FakeView
from webhook.catalog.pod_makers import PodMaker
from webhook.errors import KubeError, PrometheusError, PrometheusFault
from webhook.model.rightsizing.policies import GlobalSettings, ReactivePolicy
from webhook.model.rightsizing.samples import Sample
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.sampling import NamespaceSamples, Sampler
from webhook.reactive.rounds.evictions import Recreator
from webhook.reactive.rounds.loop import Reconciler
from webhook.reactive.rounds.round import do_each
from webhook.telemetry.metrics import Metrics, ReconcilerMetrics

KEY = "team-a/deployment.llm"
DEPLOYMENT = make_object("Deployment", spec={"replicas": 1})
REPLICA_SET = make_object("ReplicaSet", "llm-5d8", owner=DEPLOYMENT)
AWAY = PrometheusError(PrometheusFault.UNREACHABLE, "connection refused")
BUDGET = KubeError(429, "TooManyRequests", "a disruption budget")


def quick_policy(name: str = "llm", **more: Any) -> JsonObject:
    """Thresholds of 80 and 50 %; both signals are in whole GPUs."""
    metrics = {
        signal: {
            "prometheus": make_source(signal, interpretation="fullGPU"),
            "upsize": {"thresholdPercent": 80},
            "scaleBack": {"thresholdPercent": 50},
        }
        for signal in ("compute", "memory")
    }
    given = {"metrics": metrics, "minPodMetricsAge": "0s", **more}
    return make_policy(name, namespace="team-a", **given)


STRATEGY = make_strategy(namespace="team-a")
ROUNDS = "gatewright_reconcile_rounds_total"


def make_upsized(name: str = "llm-1", before: str = "1", **more: Any) -> JsonObject:
    """A pod into which two GPUs were written, in the place of what its template says."""
    two = make_gpu_container(limit="2", request="2")
    note = {"annotations": {GPU_BEFORE: f"main={before}"}}
    return make_running_pod(name, two, owner=REPLICA_SET, **(note | more))


class Place:
    """A Deployment with one pod that has a GPU, and all that looks at it."""

    def __init__(
        self,
        *documents: JsonObject,
        pods: tuple[JsonObject, ...] = (),
        prometheus: FakePrometheus | None = None,
    ) -> None:
        self.kube = FakeKube()
        self.prometheus = prometheus or FakePrometheus()
        given = documents or (quick_policy(), STRATEGY)
        self.view = FakeView(self.kube, *given, DEPLOYMENT, REPLICA_SET)
        self.pods = pods or (make_running_pod(owner=REPLICA_SET),)
        self.now = NOW
        metrics = Metrics()
        self.registry = metrics.registry
        self.metrics = ReconcilerMetrics(metrics)
        self.watch(self.view)

    def watch(self, view: FakeView) -> None:
        """Begin anew with what *view* shows."""
        self.view = view
        self.reconciler = Reconciler(
            self.kube,
            view,
            self.prometheus,
            namespace="gatewright",
            metrics=self.metrics,
            clock=lambda: self.now,
            settle_s=0.0,
        )

    async def healthy(self) -> Place:
        """With a webhook that was seen to mutate often enough."""
        for _ in range(3):
            await self.reconciler.probe.check()
        return self

    async def round(self, **load: Any) -> None:
        """One round; *load* is what the first pod uses from now on."""
        if load:
            self.prometheus.load("llm-0", **load)
        objects = self.view.objects
        self.view.objects = [*objects, *self.pods]
        try:
            await self.reconciler.round()
        finally:
            self.view.objects = objects

    def documents(self, *documents: JsonObject) -> None:
        self.view.objects = [*documents, DEPLOYMENT, REPLICA_SET]

    @property
    def status(self) -> JsonObject:
        status: JsonObject = self.kube.recommendations[KEY]["status"]
        return status

    @property
    def amounts(self) -> JsonObject:
        amounts: JsonObject = self.status.get("selected", {}).get("amounts", {})
        return amounts

    def state(self, policy: str) -> JsonObject:
        """What is stored of the policy of that name."""
        (found,) = [s for s in self.status["policies"] if s["policy"]["name"] == policy]
        state: JsonObject = found
        return state

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


# --- the way it should go ---


async def test_a_pod_that_lacks_gpu_is_evicted_once_the_amount_is_stored() -> None:
    place = await Place().healthy()

    await place.round(compute="95")

    assert place.amounts == {"main": "1.14"}
    assert place.kube.evicted == ["llm-0"]
    assert place.status["eviction"]["uid"] == "uid-pod-llm-0"
    writes = [call for call in place.kube.calls if "gpurecommendations" in call[1]]
    eviction = place.kube.calls.index(("POST", "/api/v1/namespaces/team-a/pods/llm-0/eviction"))
    # Made, filled, and noted before the eviction.
    assert [method for method, _ in writes] == ["POST", "PUT", "PUT"]
    assert place.kube.calls.index(writes[-1]) < eviction


async def test_the_recommendation_belongs_to_its_workload() -> None:
    place = Place()

    await place.round(compute="95")

    stored = place.kube.recommendations[KEY]
    assert stored["metadata"]["ownerReferences"][0]["uid"] == "uid-deployment-llm"
    assert stored["spec"]["workloadRef"]["name"] == "llm"


async def test_a_workload_that_uses_what_it_has_is_left_alone() -> None:
    place = await Place().healthy()

    await place.round(compute="70", memory="70")

    assert place.amounts == {}
    assert place.kube.evicted == []


async def test_an_idle_workload_that_was_never_raised_is_recommended_what_it_has_and_nothing_is_written() -> (
    None
):
    """Written into its pods, that would stand against the next amount of its owner."""
    place = await Place().healthy()

    await place.round(compute="10", memory="10")

    (state,) = place.status["policies"]
    assert (state["recommendation"], state["change"]) == ({"main": "1"}, "scaleBack")
    assert place.amounts == {}
    assert place.kube.evicted == []


async def test_the_next_round_waits_for_the_pod_that_was_evicted() -> None:
    place = await Place().healthy()
    await place.round(compute="95")
    place.pods = (make_running_pod(owner=REPLICA_SET, deleted=True),)

    await place.round()

    assert place.kube.evicted == ["llm-0"]
    assert place.amounts == {"main": "1.14"}


async def test_a_new_reconciler_goes_on_where_the_last_one_stopped() -> None:
    """Nothing but the cluster is remembered."""
    first = await Place().healthy()
    await first.round(compute="95")
    second = Place(pods=(make_upsized(),))
    second.kube.recommendations = first.kube.recommendations
    await second.healthy()
    second.prometheus.load("llm-1", compute="10")

    await second.round()

    baseline = second.status["policies"][0]["baseline"]["main"]
    assert (baseline["amount"], baseline["origin"]) == ("1", "pod llm-0")
    assert second.amounts == {"main": "1"}
    assert second.kube.evicted == ["llm-1"]


def make_pair(name: str, main: str, draft: str, **more: Any) -> JsonObject:
    """A pod with two containers that have so many GPUs."""
    containers = [
        make_gpu_container(each, limit=count, request=count)
        for each, count in (("main", main), ("draft", draft))
    ]
    return make_running_pod(name, *containers, owner=REPLICA_SET, **more)


async def test_two_containers_return_to_what_each_had() -> None:
    """Whole GPUs were written: in proportion to three and two, draft would keep two for ever."""
    pod = make_pair
    place = await Place(pods=(pod("llm-0", "2", "1"),)).healthy()
    compute, memory = place.prometheus.percents["compute"], place.prometheus.percents["memory"]
    compute["llm-0"], memory["llm-0"] = {"main": "190", "draft": "80"}, {"main": "9", "draft": "9"}
    await place.round()
    assert place.amounts == {"main": "2.16", "draft": "1.08"}
    note = {GPU_BEFORE: "draft=1,main=2"}
    place.pods = (pod("llm-1", "3", "2", annotations=note),)
    compute["llm-1"] = memory["llm-1"] = {"main": "9", "draft": "9"}

    await place.round()

    assert place.amounts == {"main": "2", "draft": "1"}
    assert place.kube.evicted == ["llm-0", "llm-1"]


async def test_a_container_that_joins_the_scope_keeps_what_it_has_and_the_other_returns() -> None:
    narrow, wide = quick_policy(scope={"containers": ["main"]}), quick_policy()
    place = await Place(narrow, STRATEGY, pods=(make_pair("llm-0", "2", "2"),)).healthy()
    compute, memory = place.prometheus.percents["compute"], place.prometheus.percents["memory"]
    compute["llm-0"], memory["llm-0"] = {"main": "330", "draft": "10"}, {"main": "9", "draft": "9"}
    await place.round()
    assert place.amounts == {"main": "3.96"}
    place.documents(wide, STRATEGY)
    place.pods = (make_pair("llm-1", "4", "2", annotations={GPU_BEFORE: "main=2"}),)
    compute["llm-1"] = memory["llm-1"] = {"main": "9", "draft": "9"}

    await place.round()

    state = place.state("llm")
    assert state["recommendation"] == {"main": "2", "draft": "2"}
    assert place.amounts == {"main": "2"}
    assert {name: base["amount"] for name, base in state["baseline"].items()} == {
        "main": "2",
        "draft": "2",
    }
    assert place.kube.evicted == ["llm-0", "llm-1"]
    place.pods = (make_pair("llm-2", "2", "2"),)
    compute["llm-2"] = memory["llm-2"] = {"main": "9", "draft": "9"}

    await place.round()

    assert place.state("llm")["recommendation"] == {"main": "2", "draft": "2"}
    assert place.kube.evicted == ["llm-0", "llm-1"]


async def test_what_was_recommended_to_an_idle_workload_is_in_nobodys_way() -> None:
    """Its owner gives less from then on, and more is needed than that."""
    four = make_gpu_container(limit="4", request="4")
    place = await Place(pods=(make_running_pod("llm-0", four, owner=REPLICA_SET),)).healthy()
    await place.round(compute="10")
    assert place.state("llm")["recommendation"] == {"main": "4"}
    place.pods = (make_running_pod("llm-1", owner=REPLICA_SET),)
    place.prometheus.load("llm-1", compute="65", memory="95")

    await place.round()

    state = place.state("llm")
    assert (state["baseline"]["main"]["amount"], place.amounts) == ("1", {"main": "1.14"})
    assert place.kube.evicted == ["llm-1"]


async def test_an_idle_workload_that_works_again_is_recommended_nothing() -> None:
    place = await Place().healthy()
    await place.round(compute="10", memory="10")

    await place.round(compute="70", memory="70")

    state = place.state("llm")
    assert (state["recommendation"], state["change"]) == ({}, "none")
    assert (place.amounts, place.kube.evicted) == ({}, [])


@pytest.mark.slow
async def test_a_load_with_noise_moves_a_pod_once() -> None:
    """Also where the reconciler is a new one each time."""
    stored: dict[str, JsonObject] = {}
    evicted: list[str] = []
    for number in range(60):
        name = f"llm-{len(evicted)}"
        pod = make_upsized(name) if evicted else make_running_pod(name, owner=REPLICA_SET)
        place = await Place(pods=(pod,)).healthy()
        place.kube.recommendations = stored
        place.prometheus.load(name, compute=["96", "88", "91.5", "84", "99"][number % 5])

        await place.round()

        stored, evicted = place.kube.recommendations, [*evicted, *place.kube.evicted]

    assert evicted == ["llm-0"]


def writes_of(place: Place) -> list[str]:
    return [method for method, path in place.kube.calls if "gpurecommendations" in path]


async def test_amounts_that_are_stored_are_written_once_more_with_the_note_alone() -> None:
    place = Place()
    await place.round(compute="95")
    await place.healthy()
    place.kube.calls.clear()

    await place.round(compute="95")

    assert place.kube.evicted == ["llm-0"]
    assert writes_of(place) == ["PUT"]
    assert place.status["eviction"]["pod"] == "llm-0"


async def test_where_nobody_is_evicted_after_all_the_rest_is_stored_all_the_same() -> None:
    place = Place()
    await place.round(compute="95")
    await place.healthy()
    place.kube.mutates = False
    place.kube.calls.clear()

    await place.round(compute="95", memory="20")

    assert place.kube.evicted == []
    assert writes_of(place) == ["PUT"]
    memory = place.status["policies"][0]["signals"]["memory"]
    assert (
        next(iter(memory[way] for way in ("upsize", "scaleBack") if way in memory))["usage"]
        == "0.2"
    )


async def test_evictions_of_a_round_are_bounded_and_everybody_has_a_turn() -> None:
    place = await Place().healthy()
    names = ("a", "b", "c", "d", "e")
    workloads = [make_object("Deployment", name, spec={"replicas": 1}) for name in names]
    place.view.objects = [
        quick_policy(),
        STRATEGY,
        *workloads,
        *[
            make_object("ReplicaSet", f"{each['metadata']['name']}-5d8", owner=each)
            for each in workloads
        ],
    ]
    place.pods = tuple(
        [
            make_running_pod(f"{name}-0", owner=make_object("ReplicaSet", f"{name}-5d8"))
            for name in names
        ]
    )
    for name in names:
        place.prometheus.load(f"{name}-0", compute="95")
    writer = place.reconciler._writer
    place.reconciler._recreator = Recreator(place.kube, writer, place.metrics, most=2)
    # Each stays due.
    place.kube.faults["POST", "/eviction"] = BUDGET
    asked: list[list[str]] = []
    for _ in range(4):
        place.kube.calls.clear()
        place.now += timedelta(minutes=1)
        await place.round()
        paths = [path.split("/")[-2] for _, path in place.kube.calls if path.endswith("/eviction")]
        asked.append(sorted(paths))

    assert asked == [["a-0", "b-0"], ["c-0", "d-0"], ["a-0", "e-0"], ["b-0", "c-0"]]


# --- nobody is evicted ---


async def test_a_webhook_that_does_not_mutate_holds_evictions_but_not_recommendations() -> None:
    place = Place()
    place.kube.mutates = False

    await place.round(compute="95")

    assert place.kube.evicted == []
    assert place.amounts == {"main": "1.14"}
    assert place.status["reasons"] == ["the webhook was not tried yet"]


async def test_a_webhook_that_went_away_a_moment_ago_is_noticed() -> None:
    place = await Place().healthy()
    place.kube.mutates = False

    await place.round(compute="95")

    assert place.kube.evicted == []


async def test_a_leader_with_an_old_view_evicts_nobody() -> None:
    """Its note is refused, as somebody else has written meanwhile."""
    place = await Place().healthy()
    await place.round(compute="95")
    place.kube.evicted.clear()
    place.view.behind = place.kube.seen
    place.kube.put(KEY, place.kube.recommendations[KEY])
    place.pods = (make_running_pod("llm-1", owner=REPLICA_SET),)
    place.prometheus.load("llm-1", compute="95")

    await place.round()

    assert place.kube.evicted == []


async def test_two_leaders_note_one_eviction_between_them() -> None:
    first = await Place().healthy()
    second = Place()
    second.kube = first.kube
    second.view.kube = first.kube
    second.reconciler = Reconciler(
        first.kube,
        second.view,
        second.prometheus,
        namespace="gatewright",
        metrics=second.metrics,
        clock=lambda: NOW,
        settle_s=0.0,
    )
    await second.healthy()
    for place in (first, second):
        place.prometheus.load("llm-0", compute="95")

    await asyncio.gather(first.round(), second.round())

    assert first.kube.evicted == ["llm-0"]


async def test_what_can_not_be_stored_is_not_acted_on() -> None:
    place = await Place().healthy()
    place.kube.faults["PUT", "/status"] = KubeError(0, "Unreachable", "away")

    await place.round(compute="95")

    assert place.kube.evicted == []
    assert place.count("gatewright_recommendation_writes_total", outcome="failed") == 1


async def test_a_budget_is_told_and_tried_again() -> None:
    place = await Place().healthy()
    place.kube.faults["POST", "/eviction"] = BUDGET
    await place.round(compute="95")

    assert place.status["reasons"][0] == "pod llm-0 was not evicted: a disruption budget"
    assert place.status["eviction"]["count"] == 0
    del place.kube.faults["POST", "/eviction"]
    await place.round()
    assert place.kube.evicted == []
    again = "it is tried again after 2026-01-01T12:00:30Z"
    assert place.status["reasons"] == [f"pod llm-0 was not evicted: a disruption budget; {again}"]

    place.now += timedelta(seconds=30)
    await place.round()

    assert place.kube.evicted == ["llm-0"]
    assert place.status["eviction"]["problem"] == ""
    assert place.count("gatewright_evictions_total", outcome="budget") == 1


async def test_a_budget_is_not_asked_again_where_the_strategy_says_so() -> None:
    strategy = make_strategy(namespace="team-a", podEviction={"retryPodDisruptionBudget": False})
    place = await Place(quick_policy(), strategy).healthy()
    place.kube.faults["POST", "/eviction"] = BUDGET
    await place.round(compute="95")
    del place.kube.faults["POST", "/eviction"]

    await place.round()

    assert place.kube.evicted == []
    assert "does not let it be tried again" in place.status["reasons"][0]


async def test_settings_that_can_not_be_read_hold_everything() -> None:
    """By the defaults something would be done that they may forbid."""
    broken = make_settings(gpuReactiveCheckInterval="soon")
    place = await Place(quick_policy(), STRATEGY, broken).healthy()

    await place.round(compute="95")

    assert place.kube.evicted == []
    assert place.status["selected"]["automationEnabled"] is False


async def test_a_policy_without_its_strategy_only_recommends() -> None:
    place = await Place(quick_policy()).healthy()

    await place.round(compute="95")

    assert place.amounts == {"main": "1.14"}
    assert place.status["selected"]["mode"] == "Recommend"
    assert place.kube.evicted == []
    assert any("AutomationStrategy team-a/gpu is not there" in r for r in place.status["reasons"])


class Settling(FakeView):
    """Where *changed* is there by the time that evictions begin."""

    changed: tuple[JsonObject, ...] | None = None
    _taken = 0

    def take(self) -> Cluster:
        self._taken += 1
        if self.changed is not None and self._taken > 1:
            kept = [each for each in self.objects if each["kind"] != "AutomationStrategy"]
            self.objects = [*kept, *self.changed]
        return super().take()


@pytest.mark.parametrize(
    ("changed", "evicted"),
    [
        pytest.param((STRATEGY,), ["llm-0"], id="the-same"),
        pytest.param((), [], id="gone"),
        pytest.param(
            (make_strategy(namespace="team-a", podEviction={"enabled": False}),),
            [],
            id="no-eviction",
        ),
        pytest.param(
            (make_strategy(namespace="team-a", requests={"downsize": True}),), [], id="no-upsize"
        ),
    ],
)
async def test_a_strategy_that_changes_before_the_eviction_holds_it(
    changed: tuple[JsonObject, ...], evicted: list[str]
) -> None:
    place = Place()
    view = Settling(place.kube, *place.view.objects)
    view.changed = changed
    place.watch(view)
    await place.healthy()

    await place.round(compute="95")

    assert place.kube.evicted == evicted
    assert place.amounts == {"main": "1.14"}


@pytest.mark.slow
@pytest.mark.parametrize("loads", [("95",), ("95", "95.1")], ids=["constant", "wobbling"])
@pytest.mark.parametrize("age", ["0s", "15m"])
async def test_pods_that_come_without_their_amount_are_evicted_ever_more_seldom(
    loads: tuple[str, ...], age: str
) -> None:
    """Also while they are too young to count, and nothing is recommended for a while."""
    evicted_at: list[int] = []
    place = await Place(quick_policy(minPodMetricsAge=age), STRATEGY).healthy()
    made = NOW - timedelta(hours=2)
    for minute in range(200):
        place.now = NOW + timedelta(minutes=minute)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": made.isoformat()}
        pod = make_running_pod(owner=REPLICA_SET, started=made.isoformat(), conditions=[ready])
        pod["metadata"]["uid"] = f"uid-{len(evicted_at)}"
        place.pods = (pod,)
        await place.round(compute=loads[minute % len(loads)])
        if len(place.kube.evicted) > len(evicted_at):
            evicted_at.append(minute)
            made = place.now + timedelta(seconds=5)

    waits = [later - sooner for sooner, later in pairwise(evicted_at)]
    assert waits == [10, 20, 40, 80]


# --- Prometheus ---


async def upsized() -> Place:
    """Where the pod has the two GPUs that were recommended."""
    place = await Place().healthy()
    await place.round(compute="95")
    place.pods = (make_upsized(),)
    place.kube.evicted.clear()
    place.prometheus.percents = {"compute": {}, "memory": {}}
    return place


@pytest.mark.parametrize(
    "error",
    [
        AWAY,
        PrometheusError(PrometheusFault.REFUSED, "HTTP 400", status=400),
        PrometheusError(PrometheusFault.FAILED, "HTTP 503", status=503),
        PrometheusError(PrometheusFault.TIMEOUT, "no whole answer"),
        PrometheusError(PrometheusFault.BAD_ANSWER, "the answer is no JSON"),
    ],
)
async def test_without_an_answer_everything_stays(error: PrometheusError) -> None:
    place = await upsized()
    before = place.status
    place.prometheus.error = error

    await place.round()

    assert place.amounts == {"main": "1.14"}
    assert place.kube.evicted == []
    (old,), (new,) = before["policies"], place.status["policies"]
    for kept in ("baseline", "recommendation", "driver", "signals", "evaluatedAt"):
        assert new[kept] == old[kept]
    conditions = {each["type"]: each for each in place.status["conditions"]}
    assert conditions["PrometheusReachable"]["reason"] == error.fault
    assert conditions["Ready"]["status"] == "False"
    assert place.count("gatewright_gpu_evaluations_total", outcome="not_evaluated") == 1


@pytest.mark.parametrize("value", [None, "no-samples"])
async def test_bad_samples_scale_nothing_back(value: str | None) -> None:
    """NaN and infinities are no samples, and neither is nothing."""
    place = await upsized()
    if value is None:
        place.prometheus.load("llm-1", compute=None, memory=None)

    await place.round()

    assert place.amounts == {"main": "1.14"}
    assert place.kube.evicted == []
    assert any("no samples" in reason for reason in place.status["policies"][0]["reasons"])


async def test_a_workload_whose_pods_are_between_two_lives_keeps_what_it_has() -> None:
    place = await upsized()
    place.view.objects = [*place.view.objects]
    place.pods = ()
    queries = place.prometheus.queries

    await place.round()

    assert place.amounts == {"main": "1.14"}
    assert place.prometheus.queries == queries


@pytest.mark.parametrize("started", ["2026-01-01T13:00:00Z", None])
async def test_a_pod_of_the_future_or_of_no_time_is_not_measured(started: str | None) -> None:
    pod = make_running_pod(owner=REPLICA_SET, started=started)
    place = await Place(pods=(pod,)).healthy()

    await place.round(compute="500")

    assert place.amounts == {}


# --- policies come, change and go ---


async def test_what_no_policy_concerns_any_more_is_taken_away_and_nobody_evicted() -> None:
    place = await upsized()
    place.documents(STRATEGY)

    await place.round()

    assert place.kube.recommendations == {}
    assert place.kube.evicted == []


async def test_but_not_while_it_is_not_known_what_the_policy_says() -> None:
    place = await upsized()
    place.documents({**quick_policy(), "spec": {"weight": "much"}}, STRATEGY)

    await place.round()

    assert place.amounts == {"main": "1.14"}


async def test_nor_while_its_kind_is_not_known() -> None:
    place = await upsized()
    place.documents(STRATEGY)
    place.view.more["unknown_kinds"] = {"Deployment": "may not list"}

    await place.round()

    assert KEY in place.kube.recommendations


async def test_a_container_that_leaves_the_scope_is_forgotten() -> None:
    place = await upsized()
    place.documents(quick_policy(scope={"containers": ["other"]}), STRATEGY)

    await place.round()

    (state,) = place.status["policies"]
    assert (state["baseline"], state["recommendation"]) == ({}, {})
    assert place.amounts == {}


async def test_a_policy_that_takes_over_goes_on_with_the_baseline() -> None:
    """Else what the other one had raised would be the least from then on."""
    place = await upsized()
    place.documents(quick_policy("next"), STRATEGY)
    place.prometheus.load("llm-1", compute="190")

    await place.round()

    (state,) = place.status["policies"]
    assert state["policy"]["name"] == "next"
    assert state["baseline"]["main"]["amount"] == "1"
    # Twice the baseline at most.
    assert place.amounts == {"main": "2"}


async def test_of_two_policies_of_a_kind_one_counts_and_the_other_says_so() -> None:
    place = Place(quick_policy("a"), quick_policy("b", weight=5), STRATEGY)

    await place.round(compute="95")

    first, second = place.status["policies"]
    assert (first["policy"]["name"], first["recommendation"]) == ("b", {"main": "1.14"})
    assert second["reasons"] == ["not evaluated: another policy comes first for this workload"]
    assert place.status["selected"]["policy"]["name"] == "b"


async def test_a_strategy_bounds_what_is_selected_and_not_what_is_recommended() -> None:
    requests = {"upsize": True, "downsize": True, "ceiling": "1.1"}
    place = Place(quick_policy(), make_strategy(namespace="team-a", requests=requests))

    await place.round(compute="95")

    assert place.amounts == {"main": "1.1"}
    assert place.status["policies"][0]["recommendation"] == {"main": "1.14"}
    assert any("to the ceiling of" in reason for reason in place.status["reasons"])


async def test_a_policy_that_is_passed_over_forgets_containers_that_leave_its_scope() -> None:
    place = await upsized()
    other = quick_policy("first", weight=5)
    place.documents(quick_policy(), other, STRATEGY)
    await place.round()
    assert place.state("llm")["baseline"]["main"]["amount"] == "1"
    place.documents(quick_policy(scope={"containers": ["other"]}), other, STRATEGY)

    await place.round()

    assert place.state("llm")["baseline"] == {}
    assert place.state("first")["baseline"]["main"]["amount"] == "1"


# --- kinds beyond the nine ---


@pytest.mark.parametrize("recreates", [False, True])
async def test_a_workload_of_a_mapped_kind_is_recommended_to_and_evicted_if_it_makes_pods_again(
    recreates: bool,
) -> None:
    acme = make_object("AcmeJob", "train", api_version="acme.example.com/v1")
    type_ = "AcmeJob.acme.example.com"
    place = Place(quick_policy(scope={"workloadTypes": [type_]}), STRATEGY)
    place.view.objects.append(acme)
    place.view.more["makers"] = {type_: PodMaker(recreates=recreates)}
    place.pods = (make_running_pod("train-0", owner=acme),)
    place.prometheus.load("train-0", compute="95")
    await place.healthy()

    await place.round()

    stored = place.kube.recommendations["team-a/acmejob.train"]
    (owner,) = stored["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == ("acme.example.com/v1", "AcmeJob")
    assert stored["status"]["selected"]["amounts"] == {"main": "1.14"}
    assert place.kube.evicted == (["train-0"] if recreates else [])
    held = [text for text in stored["status"]["reasons"] if text.startswith("nothing is evicted")]
    assert bool(held) is not recreates


async def test_what_is_known_of_a_kind_is_kept_while_its_mapping_is_away() -> None:
    acme = make_object("AcmeJob", "train", api_version="acme.example.com/v1")
    type_ = "AcmeJob.acme.example.com"
    policy = quick_policy(scope={"workloadTypes": [type_]})
    place = Place(policy, STRATEGY)
    place.view.objects.append(acme)
    place.pods = (make_running_pod("train-0", owner=acme),)
    place.prometheus.load("train-0", compute="95")
    await place.round()

    place.view.objects.remove(acme)
    place.view.more["unknown_kinds"] = {type_: f"no mapping covers {type_}"}
    await place.round()
    assert list(place.kube.recommendations) == ["team-a/acmejob.train"]

    place.view.more["unknown_kinds"] = {}
    place.documents(quick_policy(), STRATEGY)
    await place.round()
    assert place.kube.recommendations == {}


# --- what is held up ---


def test_a_refused_eviction_is_tried_again_between_two_rounds() -> None:
    """After the interval of the strategy, and without a question to Prometheus."""

    async def rounds() -> None:
        place = Place()
        place.kube.faults["POST", "/eviction"] = BUDGET
        place.prometheus.load("llm-0", compute="95")
        place.view.objects += place.pods
        clock = asyncio.get_running_loop().time
        began = clock()
        place.reconciler._clock = lambda: NOW + timedelta(seconds=clock() - began)
        await place.healthy()
        async with running(place):
            await asyncio.sleep(20)
            assert place.kube.evicted == []
            assert place.count("gatewright_evictions_total", outcome="budget") == 1
            done, asked = place.count(ROUNDS, outcome="done"), place.prometheus.queries
            del place.kube.faults["POST", "/eviction"]
            await asyncio.sleep(25)

            assert place.kube.evicted == ["llm-0"]
            assert place.count(ROUNDS, outcome="done") == done
            assert place.prometheus.queries == asked

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        runner.run(rounds())


# --- the owner of a workload ---


@pytest.mark.parametrize("before", ["3", "0.5"])
async def test_the_owners_new_amount_is_the_baseline_from_then_on(before: str) -> None:
    """He has changed the template, and the old recommendation was written over that."""
    place = await upsized()
    place.pods = (make_upsized("llm-2", before),)
    place.prometheus.load("llm-2", compute="10")

    await place.round()

    (state,) = place.status["policies"]
    assert state["baseline"]["main"]["amount"] == before
    assert state["baseline"]["main"]["origin"] == "Deployment, as its pods are written now"
    assert place.amounts == {"main": before}


async def test_a_baseline_that_was_raised_is_the_least_that_an_upsize_gives() -> None:
    """The pod has the old amount still, and what it uses of that is less than its owner wants."""
    place = await upsized()
    place.pods = (make_upsized("llm-2", "3"),)
    # Memory is between its thresholds, and asks for nothing.
    place.prometheus.load("llm-2", compute="190", memory="120")

    await place.round()

    (state,) = place.status["policies"]
    assert (state["change"], state["recommendation"]) == ("upsize", {"main": "2.28"})
    assert place.amounts == {"main": "3"}
    told = "container main: 2.28 GPUs would be less than the baseline of 3 GPUs"
    assert [text for text in place.status["reasons"] if text.startswith(told)] != []


async def test_what_we_wrote_raises_no_baseline_where_the_note_on_it_is_gone() -> None:
    """Or each upsize would move the cap on, and the next one would go further."""
    place = await upsized()
    two = make_gpu_container(limit="2", request="2")
    place.pods = (make_running_pod("llm-2", two, owner=REPLICA_SET),)
    for _ in range(3):
        place.now += timedelta(minutes=1)
        place.prometheus.load("llm-2", compute="199")
        await place.round()

    (state,) = place.status["policies"]
    assert state["baseline"]["main"]["amount"] == "1"
    assert place.amounts == {"main": "2"}

    place.now += timedelta(minutes=1)
    place.prometheus.load("llm-2", compute="10")
    await place.round()

    assert place.amounts == {"main": "1"}
    assert place.kube.evicted[-1] == "llm-2"


async def test_a_pod_that_its_owner_made_with_another_amount_is_not_evicted() -> None:
    """As in a roll-out: the others still show the old one."""
    place = await upsized()
    five = make_gpu_container(limit="5", request="5")
    place.pods = (make_upsized(), make_running_pod("llm-2", five, owner=REPLICA_SET))
    for pod in ("llm-1", "llm-2"):
        place.prometheus.load(pod, compute="150")

    await place.round()

    assert "llm-2" not in place.kube.evicted
    assert any("its owner gives main 5 GPUs" in text for text in place.status["reasons"])


async def test_an_amount_that_comes_without_us_is_the_owners() -> None:
    place = await upsized()
    five = make_gpu_container(limit="5", request="5")
    place.pods = (make_running_pod("llm-2", five, owner=REPLICA_SET),)
    place.prometheus.load("llm-2", compute="10")

    await place.round()

    state = place.state("llm")
    assert state["baseline"]["main"]["amount"] == "5"
    assert state["recommendation"] == {"main": "5"}
    assert place.amounts == {}
    assert place.kube.evicted == []


async def test_the_owners_new_amount_is_not_hidden_while_prometheus_is_away() -> None:
    place = await upsized()
    place.pods = (make_upsized("llm-2", "3"),)
    place.prometheus.error = AWAY

    await place.round()

    assert place.status["policies"][0]["baseline"]["main"]["amount"] == "3"
    assert place.amounts == {}
    assert place.kube.evicted == []


async def test_who_takes_the_gpu_out_of_a_template_is_given_none() -> None:
    place = await upsized()
    place.pods = (make_upsized("llm-2", "0"),)
    place.prometheus.load("llm-2", compute="190")

    await place.round()

    assert place.status["policies"][0]["baseline"] == {}
    assert place.amounts == {}
    assert place.kube.evicted == []


async def test_while_pods_do_not_agree_the_baseline_stays() -> None:
    """As in a roll-out that stops half-way: else each eviction would be followed by another."""
    place = await upsized()
    place.pods = (make_upsized(), make_upsized("llm-2", "3"))
    for pod in ("llm-1", "llm-2"):
        place.prometheus.load(pod, compute="150", memory="150")

    await place.round()

    assert place.status["policies"][0]["baseline"]["main"]["amount"] == "1"
    assert place.amounts == {"main": "1.14"}


async def test_what_was_upsized_for_a_policy_that_is_gone_is_no_baseline() -> None:
    place = await upsized()
    place.kube.recommendations.clear()
    place.prometheus.load("llm-1", compute="190")

    await place.round()

    assert place.status["policies"][0]["baseline"]["main"]["amount"] == "1"
    assert place.amounts == {"main": "2"}


# --- what stands under its name ---


async def test_what_belongs_to_another_group_is_not_written_over() -> None:
    place = Place()
    theirs = {
        "metadata": {"name": "deployment.llm", "namespace": "team-a", "uid": "u"},
        "spec": {
            "workloadRef": {"apiVersion": "example.com/v1", "kind": "Deployment", "name": "llm"}
        },
    }
    stored = place.kube.put(KEY, theirs)

    await place.round(compute="95")

    assert place.kube.recommendations == {KEY: stored}


async def test_what_is_of_an_earlier_workload_of_that_name_makes_room() -> None:
    place = await upsized()
    reference = place.kube.recommendations[KEY]["spec"]["workloadRef"]
    place.kube.recommendations[KEY]["spec"]["workloadRef"] = {**reference, "uid": "earlier"}
    place.pods = (make_running_pod(owner=REPLICA_SET),)

    await place.round()
    assert place.kube.recommendations == {}

    await place.round()
    assert place.status["policies"][0]["baseline"] == {}


# --- when ---


async def test_a_round_that_can_not_begin_does_nothing() -> None:
    place = Place()
    place.view.obstacle = "waiting for pods"
    place.view.policies_changed.set()

    assert not await place.reconciler._try_round()

    assert place.kube.calls == []


async def become(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(place: Place) -> AsyncIterator[None]:
    task = asyncio.create_task(place.reconciler.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class SkippingLoop(asyncio.SelectorEventLoop):
    """Where nothing is to be done until a time, it is that time."""

    def __init__(self) -> None:
        self._idle = _IdleSelector()
        super().__init__(self._idle)

    def time(self) -> float:
        return super().time() + self._idle.skipped_s


class _IdleSelector(selectors.SelectSelector):
    skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout:
            self.skipped_s += timeout
        return ready


@pytest.mark.parametrize(
    ("settings", "interval_s"),
    [((), 60), ((make_settings(gpuReactiveCheckInterval="5m"),), 300)],
)
def test_rounds_come_at_the_interval_of_the_settings(
    settings: tuple[JsonObject, ...], interval_s: float
) -> None:
    async def rounds() -> float:
        place = Place(quick_policy(), STRATEGY, *settings)
        # That it comes would be a reason for another round.
        place.kube.mutates = False
        async with running(place):
            await asyncio.sleep(3.5 * interval_s)
            return place.count(ROUNDS, outcome="done")

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        # At once, and three times since then, each time up to a twentieth later.
        assert runner.run(rounds()) == 4


@pytest.mark.slow
async def test_a_change_of_a_document_is_looked_at_at_once() -> None:
    """The period is a minute."""
    place = Place()
    place.view.objects += place.pods
    place.prometheus.load("llm-0", compute="70")
    async with running(place):
        await become(lambda: place.prometheus.queries > 0)
        before = place.prometheus.queries
        place.view.policies_changed.set()
        await become(lambda: place.prometheus.queries > before)


# --- what fails is contained ---


class Spoilt(FakePrometheus):
    """What it says about pods that are called llm fails when it is looked at."""

    def sampler(self, settings: GlobalSettings) -> Sampler:
        return SpoiltSampler(self)


class SpoiltSampler(Sampler):
    async def sample(self, *args: Any, **more: Any) -> AsyncGenerator[NamespaceSamples, None]:
        async for samples in super().sample(*args, **more):
            yield SpoiltSamples(
                samples.namespace,
                samples._queries,
                samples.findings,
                samples._readings,
                samples._unaskable,
            )


class SpoiltSamples(NamespaceSamples):
    def reasons(self, policy: ReactivePolicy, pods: Iterable[str]) -> tuple[str, ...]:
        if any(pod.startswith("llm") for pod in pods):
            raise LookupError("spoilt")
        return super().reasons(policy, pods)


OTHER = make_object("Deployment", "other", spec={"replicas": 1})
OTHER_SET = make_object("ReplicaSet", "other-5d8", owner=OTHER)
POLICY_STATUS = (
    "/apis/rightsizing.kubex.ai/v1alpha1/namespaces/team-a/gpureactivepolicies/llm/status"
)


def ready(place: Place, type_: str = "Ready") -> tuple[str, str, str]:
    """Status, reason and message of the policy's condition."""
    (found,) = [
        each for each in place.kube.statuses[POLICY_STATUS]["conditions"] if each["type"] == type_
    ]
    return found["status"], found["reason"], found["message"]


async def test_a_workload_that_fails_keeps_no_other_from_its_turn_and_is_named() -> None:
    place = await Place(prometheus=Spoilt()).healthy()
    place.view.objects += [OTHER, OTHER_SET]
    place.pods = (*place.pods, make_running_pod("other-0", owner=OTHER_SET))
    place.prometheus.load("other-0", compute="95")

    await place.round(compute="95")

    assert place.kube.evicted == ["other-0"]
    assert list(place.kube.recommendations) == ["team-a/deployment.other"]
    assert ready(place) == (
        "True",
        "WorkloadsFailed",
        "workloads with GPUs: 2; with a recommendation: 1; failed (see the log of the reconciler):"
        " Deployment team-a/llm (LookupError)",
    )
    assert place.count("gatewright_gpu_evaluations_total", outcome="failed") == 1


async def test_a_policy_whose_only_workload_fails_is_not_ready() -> None:
    place = await Place(prometheus=Spoilt()).healthy()

    await place.round(compute="95")

    assert ready(place)[:2] == ("False", "WorkloadsFailed")
    assert ready(place, "PrometheusReachable") == (
        "Unknown",
        "NotAsked",
        "nothing came of its workloads: see Ready",
    )


async def test_a_workload_that_fails_is_a_failed_evaluation_of_each_of_its_policies() -> None:
    place = Place(quick_policy(), quick_policy("second"), STRATEGY, prometheus=Spoilt())

    await place.round(compute="95")

    assert place.count("gatewright_gpu_evaluations_total", outcome="failed") == 2


async def test_what_can_not_be_stored_was_evaluated_all_the_same() -> None:
    place = Place()
    # What no client should raise.
    place.kube.faults["POST", "/gpurecommendations"] = LookupError("spoilt")

    await place.round(compute="95")

    assert ready(place)[1] == "WorkloadsFailed"
    assert place.count("gatewright_gpu_evaluations_total", outcome="failed") == 0
    assert place.count("gatewright_gpu_evaluations_total", outcome="upsize") == 1


class Unaskable(FakePrometheus):
    """Every question fails, as no client should let it."""

    def __init__(self) -> None:
        super().__init__()
        self.unforeseen = UnicodeError("label empty or too long")


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param((quick_policy(mode="Recommend"), STRATEGY), id="mode"),
        pytest.param(
            (quick_policy(), STRATEGY, make_settings(automationEnabled=False)), id="automation"
        ),
    ],
)
@pytest.mark.parametrize(
    ("prometheus", "reason"),
    [
        pytest.param(Spoilt, "WorkloadsFailed", id="workload"),
        pytest.param(Unaskable, "Unreachable", id="question"),
    ],
)
async def test_what_is_switched_off_is_off_whatever_fails(
    documents: tuple[JsonObject, ...], prometheus: type[FakePrometheus], reason: str
) -> None:
    place = await Place().healthy()
    await place.round(compute="95")
    assert place.status["selected"].get("mode", "Enforce") == "Enforce"
    place.prometheus = prometheus()
    place.watch(place.view)
    place.documents(*documents)

    await place.round()

    assert ready(place)[:2] == ("False", reason)
    selected = place.status["selected"]
    assert (selected["mode"], selected["automationEnabled"]) in [
        ("Recommend", True),
        ("Enforce", False),
    ]
    assert selected["amounts"] == {"main": "1.14"}


async def test_a_fault_that_nobody_has_foreseen_is_a_prometheus_that_is_away() -> None:
    place = await upsized()
    place.prometheus.unforeseen = UnicodeError("label empty or too long")

    await place.round()

    assert place.amounts == {"main": "1.14"}
    assert place.kube.evicted == []
    assert ready(place)[:2] == ("False", "Unreachable")


async def test_where_evictions_fail_what_was_recommended_is_stored() -> None:
    """What is known of the namespace's quotas is nothing that can be looked at."""
    place = Place()
    place.watch(FakeView(place.kube, *place.view.objects, rooms={"team-a": "spoilt"}))
    await place.healthy()

    await place.round(compute="95")

    assert place.amounts == {"main": "1.14"}
    assert place.kube.evicted == []
    assert place.status["reasons"][0] == (
        "nothing is evicted, as that failed: AttributeError (see the log of the reconciler)"
    )
    assert ready(place)[:2] == ("False", "WorkloadsFailed")
    assert ready(place, "PrometheusReachable")[:2] == ("True", "Answered")
    assert place.count("gatewright_gpu_evaluations_total", outcome="upsize") == 1
    assert place.count("gatewright_gpu_evaluations_total", outcome="failed") == 0


class NoSampler(FakePrometheus):
    def sampler(self, settings: GlobalSettings) -> Sampler:
        raise LookupError("spoilt")


async def test_a_round_that_comes_to_no_end_is_said_by_its_policies() -> None:
    place = await Place(prometheus=NoSampler()).healthy()

    with pytest.raises(LookupError):
        await place.round(compute="95")

    text = "the round failed: LookupError (see the log of the reconciler)"
    assert ready(place) == ("False", "RoundFailed", text)
    assert ready(place, "PrometheusReachable") == ("Unknown", "NotAsked", text)


class Watched(FakePrometheus):
    """Tells whether what asks it was closed."""

    closed = False

    def sampler(self, settings: GlobalSettings) -> Sampler:
        return WatchedSampler(self)


class WatchedSampler(Sampler):
    async def sample(self, *args: Any, **more: Any) -> AsyncGenerator[NamespaceSamples, None]:
        assert isinstance(self._prometheus, Watched)
        try:
            async for samples in super().sample(*args, **more):
                yield samples
        finally:
            self._prometheus.closed = True


async def test_a_round_that_is_given_up_while_it_writes_asks_nothing_any_more() -> None:
    prometheus = Watched()
    place = Place(prometheus=prometheus)
    place.kube.hanging = "/gpurecommendations"
    begun = asyncio.create_task(place.round(compute="95"))
    await become(lambda: writes_of(place) == ["POST"])
    assert not prometheus.closed

    begun.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begun

    assert prometheus.closed


@pytest.mark.parametrize("devices", ["two", "2.5", "", "9" * 5000])
async def test_a_pod_with_a_strange_number_of_devices_keeps_no_workload_from_its_turn(
    devices: str,
) -> None:
    annotations = {FRACTION: "0.5", DEVICES: devices}
    strange = make_running_pod(
        "llm-1", make_container("main"), owner=REPLICA_SET, annotations=annotations
    )
    place = await Place(pods=(make_running_pod(owner=REPLICA_SET), strange)).healthy()

    await place.round(compute="95")

    assert place.amounts == {"main": "1.14"}
    assert ready(place)[:2] == ("True", "Evaluated")


# --- what is stored, and read back ---


class ThreeDevices(FakePrometheus):
    """Each percentage is the first device's; those of the other two are twice as much."""

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]:
        first = await super().query(promql, at=at, within_s=within_s)
        others = [
            Sample(
                {**sample.labels, "gpu_uuid": device},
                None if sample.value is None else sample.value * 2,
            )
            for sample in first
            for device in ("1", "2")
        ]
        return (*first, *others)


@pytest.mark.parametrize(
    ("gpus", "compute", "memory"),
    [
        pytest.param("3", "30", "10", id="a-mean-that-has-no-end"),
        pytest.param("1", "30", "1e300", id="a-sample-beyond-sense"),
        pytest.param("1", "1e-300", "1e-300", id="a-sample-of-almost-nothing"),
        pytest.param("10P", "30", "10", id="a-pod-that-no-node-takes"),
    ],
)
async def test_what_is_stored_can_be_read_whatever_was_measured(
    gpus: str, compute: str, memory: str
) -> None:
    policy = quick_policy()
    for signal in ("compute", "memory"):
        source = policy["spec"]["metrics"][signal]["prometheus"]
        source["interpretation"] = "currentAllocation"
    container = make_gpu_container(limit=gpus, request=gpus)
    pod = make_running_pod("llm-0", container, owner=REPLICA_SET)
    place = await Place(policy, STRATEGY, pods=(pod,), prometheus=ThreeDevices()).healthy()

    for _ in range(2):
        await place.round(compute=compute, memory=memory)
        assert place.kube.seen[KEY].problem == ""
    before = place.amounts
    await place.round(compute="70", memory="10")

    assert place.kube.seen[KEY].problem == ""
    assert place.amounts != before
    assert place.state("llm")["change"] == "upsize"


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param({"evaluatedAt": "0001-01-01T00:00:00+14:00"}, id="time-beyond-the-calendar"),
        pytest.param({"policies": "none"}, id="no-policies"),
        pytest.param({"selected": {"amounts": {"main": "1e3"}}}, id="half-of-what-is-selected"),
        pytest.param({"eviction": {"at": "9999-12-31T23:59:59-14:00"}}, id="half-of-an-eviction"),
        pytest.param({"conditions": [None, 1], "reasons": {}}, id="no-conditions"),
    ],
)
async def test_a_spoilt_status_is_written_over_and_holds_nothing(spoilt: JsonObject) -> None:
    place = await Place().healthy()
    await place.round(compute="60")
    known = place.kube.recommendations[KEY]
    place.kube.put(KEY, {**known, "status": {**known["status"], **spoilt}})
    assert place.kube.seen[KEY].problem

    await place.round(compute="60")
    assert place.kube.seen[KEY].problem == ""
    await place.round(compute="95")

    assert place.amounts == {"main": "1.14"}
    assert place.kube.evicted == ["llm-0"]


async def test_of_many_pods_without_samples_the_first_are_stored_and_how_many_there_are() -> None:
    pods = tuple([make_running_pod(f"llm-{i:03}", owner=REPLICA_SET) for i in range(200)])
    place = Place(pods=pods)

    await place.round()

    missing = [
        evaluation
        for signal in place.state("llm")["signals"].values()
        for evaluation in (signal.get("upsize"), signal.get("scaleBack"))
        if evaluation is not None
    ]
    assert [each["missingCount"] for each in missing] == [200, 200]
    assert [each["missing"] for each in missing] == [[f"llm-{i:03}" for i in range(10)]] * 2
    few = len(json.dumps(place.status))
    assert few < 6_000


# --- what others wrote under our kind ---


def stranger(name: str, kind: str, workload: str) -> JsonObject:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": workload, "uid": "uid-x"}
    return {
        "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-{name}"},
        "spec": {"workloadRef": reference},
    }


async def test_what_is_of_another_workload_stops_this_one_and_its_policy_says_so() -> None:
    place = await Place().healthy()
    place.kube.put(KEY, stranger("deployment.llm", "Deployment", "other"))

    await place.round(compute="95")

    assert place.kube.evicted == []
    (conditions,) = [status["conditions"] for status in place.kube.statuses.values()]
    ready = next(each for each in conditions if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "RecommendationForeign")
    assert ready["message"] == (
        "workloads with GPUs: 1; with a recommendation: 0; left alone: Deployment team-a/llm"
        " (GpuRecommendation deployment.llm: it is of apps/v1 Deployment/other)"
    )


@pytest.mark.parametrize(
    ("name", "kind", "workload"),
    [
        pytest.param("x", "Deployment", "llm", id="another-name"),
        pytest.param("y", "Foo", "/../../../api/v1/namespaces/kube-system/pods/etcd", id="a-path"),
    ],
)
async def test_one_whose_name_is_not_that_of_its_workload_is_taken_away_by_its_own(
    name: str, kind: str, workload: str
) -> None:
    place = await Place().healthy()
    place.kube.put(f"team-a/{name}", stranger(name, kind, workload))

    await place.round(compute="95")

    assert list(place.kube.recommendations) == [KEY]
    path = f"/apis/policy.gatewright.io/v1alpha1/namespaces/team-a/gpurecommendations/{name}"
    assert ("DELETE", path) in place.kube.calls


# --- several policies ---


def with_window(name: str, window: str, **more: Any) -> JsonObject:
    """A policy that asks other questions than the rest."""
    policy = quick_policy(name, **more)
    for metric in policy["spec"]["metrics"].values():
        metric["upsize"]["metricsWindow"] = metric["scaleBack"]["metricsWindow"] = window
    return policy


class Overtaxed(FakePrometheus):
    """Windows of a year are too much for it."""

    def __init__(self, fault: PrometheusError) -> None:
        super().__init__()
        self.fault = fault

    async def query(
        self, promql: str, *, at: datetime, within_s: float | None = None
    ) -> tuple[Sample, ...]:
        if "[876" in promql:
            self.queries += 1
            raise self.fault
        return await super().query(promql, at=at, within_s=within_s)


@pytest.mark.parametrize("mode", ["", "Recommend"])
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(PrometheusError(PrometheusFault.TIMEOUT, "30 s"), id="timeout"),
        pytest.param(PrometheusError(PrometheusFault.REFUSED, "no", status=422), id="refused"),
    ],
)
async def test_policies_that_do_not_count_stop_nobody(mode: str, fault: PrometheusError) -> None:
    losing = [
        with_window(name, window, mode=mode)
        for name, window in (("aaa", "8760h"), ("aab", "8761h"))
    ]
    winner = quick_policy("zzz", weight=100)
    place = await Place(*losing, winner, STRATEGY, prometheus=Overtaxed(fault)).healthy()

    await place.round(compute="95")

    assert place.amounts == {"main": "1.14"}
    assert place.kube.evicted == ["llm-0"]
    conditions = {each["type"]: each["status"] for each in place.status["conditions"]}
    assert conditions == {"Ready": "True", "PrometheusReachable": "True"}


async def test_of_many_policies_one_is_asked_for() -> None:
    policies = [with_window(f"llm-{number}", f"{10 + number}m") for number in range(40)]
    place = await Place(*policies, STRATEGY).healthy()

    await place.round(compute="95")

    assert place.prometheus.queries == 4
    assert place.amounts == {"main": "1.14"}
    (reasons,) = {tuple(state["reasons"]) for state in place.status["policies"][1:]}
    assert reasons == ("not evaluated: another policy comes first for this workload",)


@pytest.mark.parametrize("multi", [False, True])
async def test_a_policy_that_only_recommends_is_shown_beside_the_one_that_acts(multi: bool) -> None:
    """It takes no place, not even for a container that nobody else has in scope."""
    trial = quick_policy("trial", mode="Recommend", weight=100)
    acting = quick_policy("acting", scope={"containers": ["main"]})
    settings = make_settings(multiPolicyContainerRightsizingEnabled=multi)
    pods = (make_pair("llm-0", "1", "1"),)
    place = await Place(trial, acting, STRATEGY, settings, pods=pods).healthy()
    compute, memory = place.prometheus.percents["compute"], place.prometheus.percents["memory"]
    compute["llm-0"], memory["llm-0"] = {"main": "95", "draft": "95"}, {"main": "9", "draft": "9"}

    await place.round()

    assert place.amounts == {"main": "1.14"}
    assert place.status["selected"]["mode"] == "Enforce"
    shown = place.state("trial")
    assert shown["recommendation"] == {"main": "1.14", "draft": "1.14"}
    assert shown["reasons"][0].startswith("it is tried: it only recommends")


async def test_more_that_only_recommend_than_are_tried_are_told() -> None:
    trials = [quick_policy(f"trial-{number}", mode="Recommend") for number in range(3)]
    place = await Place(*trials, quick_policy("acting"), STRATEGY).healthy()

    await place.round(compute="95")

    assert [bool(state.get("recommendation")) for state in place.status["policies"]] == [
        True,
        True,
        True,
        False,
    ]
    assert place.state("trial-2")["reasons"] == [
        "not evaluated: another policy comes first for this workload, and no more than 2 that only"
        " recommend are tried beside it"
    ]


async def test_parts_of_a_round_are_done_a_few_at_a_time_and_fail_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    under_way: set[int] = set()
    most = 0
    done = []

    async def act(part: int) -> None:
        nonlocal most
        under_way.add(part)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        under_way.remove(part)
        if part % 7 == 3:
            raise ValueError("this part can't be done")
        done.append(part)

    await do_each(act, range(20), calls=4)

    assert (most, sorted(done)) == (4, [part for part in range(20) if part % 7 != 3])
    assert caplog.messages == ["a part of the round failed"] * 3
