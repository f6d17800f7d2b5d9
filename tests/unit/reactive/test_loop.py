"""Rounds against a cluster and a Prometheus in memory: faults above all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.builders import JsonObject
from tests.gpu import make_gpu_container
from tests.gpu_cluster import make_object, make_running_pod
from tests.gpu_documents import make_policy, make_settings, make_source, make_strategy
from tests.unit.reactive.fakes import NOW, FakeKube, FakePrometheus, FakeView
from webhook.errors import KubeError, PrometheusError, PrometheusFault
from webhook.reactive.rounds.loop import Reconciler
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


class Place:
    """A Deployment with one pod that has a GPU, and all that looks at it."""

    def __init__(self, *documents: JsonObject, pods: tuple[JsonObject, ...] = ()) -> None:
        self.kube = FakeKube()
        self.prometheus = FakePrometheus()
        given = documents or (quick_policy(), STRATEGY)
        self.view = FakeView(self.kube, *given, DEPLOYMENT, REPLICA_SET)
        self.pods = pods or (make_running_pod(owner=REPLICA_SET),)
        metrics = Metrics()
        self.registry = metrics.registry
        self.metrics = ReconcilerMetrics(metrics)
        self.reconciler = Reconciler(
            self.kube,
            self.view,
            self.prometheus,
            namespace="gatewright",
            metrics=self.metrics,
            clock=lambda: NOW,
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

    await place.round(compute="70")

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
    second = Place(
        pods=(
            make_running_pod(
                "llm-1", make_gpu_container(limit="2", request="2"), owner=REPLICA_SET
            ),
        )
    )
    second.kube.recommendations = first.kube.recommendations
    await second.healthy()
    second.prometheus.load("llm-1", compute="10")

    await second.round()

    baseline = second.status["policies"][0]["baseline"]["main"]
    assert (baseline["amount"], baseline["origin"]) == ("1", "pod llm-0")
    assert second.amounts == {"main": "1"}
    assert second.kube.evicted == ["llm-1"]


async def test_a_load_with_noise_moves_a_pod_once() -> None:
    """Also where the reconciler is a new one each time."""
    stored: dict[str, JsonObject] = {}
    evicted: list[str] = []
    for number in range(60):
        count = "2" if evicted else "1"
        name = f"llm-{len(evicted)}"
        pod = make_running_pod(
            name, make_gpu_container(limit=count, request=count), owner=REPLICA_SET
        )
        place = await Place(pods=(pod,)).healthy()
        place.kube.recommendations = stored
        place.prometheus.load(name, compute=["96", "88", "91.5", "84", "99"][number % 5])

        await place.round()

        stored, evicted = place.kube.recommendations, [*evicted, *place.kube.evicted]

    assert evicted == ["llm-0"]


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


# --- Prometheus ---


async def upsized() -> Place:
    """Where the pod has the two GPUs that were recommended."""
    place = await Place().healthy()
    await place.round(compute="95")
    pod = make_running_pod("llm-1", make_gpu_container(limit="2", request="2"), owner=REPLICA_SET)
    place.pods = (pod,)
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
