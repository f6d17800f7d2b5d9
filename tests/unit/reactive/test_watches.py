"""What the reconciler follows: no more than policies need, and nothing that keeps the rest waiting."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from fractions import Fraction

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.builders import JsonObject
from tests.gpu import GPU
from tests.gpu_cluster import NAMESPACE, make_object, make_running_pod
from tests.gpu_documents import (
    make_policy,
    make_precedence,
    make_settings,
    make_strategy,
    with_value,
)
from tests.unit.clients.apiserver import FAST, event
from webhook.clients.informer import Resource
from webhook.clients.kube import METADATA_LIST, KubeClient
from webhook.clients.kubeconfig import KubeAccess
from webhook.errors import NotReadyError
from webhook.model.rightsizing.controls import PAUSE_UNTIL, Controls
from webhook.model.rightsizing.policies import DocumentKey
from webhook.model.rightsizing.recommendations import (
    GpuRecommendation,
    WorkloadRef,
    write_recommendation,
)
from webhook.reactive.observation.cluster import Cluster
from webhook.reactive.observation.documents import document_resource
from webhook.reactive.observation.kinds import WORKLOAD_KINDS
from webhook.reactive.observation.mapped import MAPPINGS
from webhook.reactive.observation.pods import PODS
from webhook.reactive.observation.resizers import HORIZONTAL, VERTICAL
from webhook.reactive.observation.watches import NAMESPACES, Watches
from webhook.store.gpu_objects import LIMIT_RANGES, QUOTAS, RECOMMENDATIONS, REPLICA_SETS
from webhook.telemetry.metrics import Metrics

POLICIES = document_resource("GpuReactivePolicy").path
DEPLOYMENTS, STATEFUL_SETS, JOBS, CRON_JOBS, MODELS = [
    WORKLOAD_KINDS[kind].resources[0].path
    for kind in ("Deployment", "StatefulSet", "Job", "CronJob", "Model")
]


def stored(document: JsonObject, *, version: str = "1", generation: int = 1) -> JsonObject:
    """*document* as an API server has it."""
    kind, metadata = document["kind"], document["metadata"]
    given = {
        "uid": f"uid-{kind}-{metadata['name']}",
        "resourceVersion": version,
        "generation": generation,
    }
    return {**document, "metadata": {**metadata, **given}}


POLICY = stored(make_policy(namespace=NAMESPACE, scope={"workloadTypes": ["Deployment"]}))


class FakeCluster:
    """Objects by the path of their resource. Paths that hold nothing may answer with an error."""

    def __init__(self) -> None:
        self.objects: dict[str, list[JsonObject]] = defaultdict(list)
        self.errors: dict[str, int] = {}
        self.refused: Counter[str] = Counter()
        # What a group version serves, by its path.
        self.resources: dict[str, list[JsonObject]] = {}
        # The Accept header of each list, by path.
        self.listed: dict[str, str] = {}
        self._watchers: dict[str, asyncio.Queue[str]] = defaultdict(asyncio.Queue)

    def hold(self, path: str, *objects: JsonObject) -> None:
        """What is there before anybody asks."""
        self.objects[path] += objects

    def tell(self, path: str, kind: str, thing: JsonObject) -> None:
        """An event to those who watch."""
        self._watchers[path].put_nowait(event(kind, thing))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in self.errors:
            self.refused[path] += 1
            status = {"kind": "Status", "code": self.errors[path], "reason": "Because"}
            return web.Response(status=self.errors[path], text=json.dumps(status))
        if path in self.resources:
            return web.Response(text=json.dumps({"resources": self.resources[path]}))
        if "watch" not in request.query:
            self.listed[path] = request.headers["Accept"]
            answer = {"metadata": {"resourceVersion": "10"}, "items": self.objects[path]}
            return web.Response(text=json.dumps(answer))
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write((await self._watchers[path].get()).encode() + b"\n")


class Seeing:
    """Watches at work on a cluster."""

    def __init__(self, cluster: FakeCluster, watches: Watches) -> None:
        self.cluster = cluster
        self.watches = watches

    async def until(self, condition: Callable[[Cluster], bool]) -> Cluster:
        """The first view of the cluster that meets *condition*."""
        async with asyncio.timeout(5):
            while True:
                if not self.watches.obstacle:
                    cluster = self.watches.take()
                    if condition(cluster):
                        return cluster
                await asyncio.sleep(0.01)


@asynccontextmanager
async def seeing(cluster: FakeCluster) -> AsyncIterator[Seeing]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.handle)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0.1)
    client = KubeClient(KubeAccess(str(server.make_url("")).rstrip("/"), token="secret"))
    watches = Watches(client, metrics=Metrics(), timing=FAST, look_period_s=0.05)
    task = asyncio.create_task(watches.run())
    try:
        yield Seeing(cluster, watches)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()
        await server.close()


async def settle(watches: Watches) -> Cluster:
    async with asyncio.timeout(5):
        await watches.settled(patience_s=0.5)
    return watches.take()


async def test_without_a_policy_only_documents_and_recommendations_are_followed() -> None:
    """A cluster that has nothing to do with GPUs pays nothing."""
    cluster = FakeCluster()
    async with seeing(cluster) as seen:
        await settle(seen.watches)

        assert len(cluster.listed) == 7
        assert all("rightsizing" in path or "gpurec" in path for path in cluster.listed)


async def test_with_a_policy_what_it_names_is_followed_and_no_more() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    async with seeing(cluster) as seen:
        await settle(seen.watches)

        around = (PODS, NAMESPACES, REPLICA_SETS, QUOTAS, LIMIT_RANGES, HORIZONTAL, VERTICAL)
        followed = {path for path in cluster.listed if "gpurec" not in path}
        followed -= {path for path in followed if "rightsizing" in path}
        assert followed == {resource.path for resource in around} | {DEPLOYMENTS}


async def test_a_policy_that_comes_later_brings_what_it_names() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    cluster.hold(STATEFUL_SETS, make_object("StatefulSet", "db"))
    async with seeing(cluster) as seen:
        await settle(seen.watches)
        wider = with_value(POLICY, "spec.scope.workloadTypes", ["Deployment", "StatefulSet"])
        cluster.tell(POLICIES, "MODIFIED", stored(wider, version="2", generation=2))

        found = await seen.until(lambda now: bool(now.workloads.get("StatefulSet")))

    assert found.workload("StatefulSet", NAMESPACE, "db") is not None


async def test_jobs_are_not_looked_at_without_those_who_make_them() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.scope.workloadTypes", ["Job"]))
    async with seeing(cluster) as seen:
        await settle(seen.watches)

    assert {JOBS, CRON_JOBS} <= cluster.listed.keys()


async def test_what_is_known_by_its_metadata_is_asked_for_by_it() -> None:
    """A cluster's ReplicaSets are many, and their pod templates long."""
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.scope.workloadTypes", ["Job", "Deployment"]))
    async with seeing(cluster) as seen:
        await settle(seen.watches)

    accepted = {path for path, accept in cluster.listed.items() if accept == METADATA_LIST}
    assert {REPLICA_SETS.path, NAMESPACES.path, CRON_JOBS} <= accepted
    # Of a Job it matters how many of its pods may fail.
    assert JOBS not in accepted
    assert not accepted & {PODS.path, DEPLOYMENTS, POLICIES, RECOMMENDATIONS.path}


@pytest.mark.slow
async def test_a_kind_that_may_not_be_read_keeps_the_others_from_nothing() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.scope.workloadTypes", ["Deployment", "Model"]))
    cluster.hold(DEPLOYMENTS, make_object("Deployment"))
    cluster.errors[MODELS] = 403
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert found.workload("Deployment", NAMESPACE, "llm") is not None
    assert list(found.unknown_kinds) == ["Model"]
    assert "models.kubeai.org" in found.unknown_kinds["Model"]
    assert "Model" not in found.workloads


async def test_a_kind_that_is_not_installed_has_no_objects() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.scope.workloadTypes", ["Model"]))
    cluster.errors[MODELS] = 404
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert found.unknown_kinds == {}
    assert found.workloads == {"Model": {}}


async def test_objects_that_are_served_in_two_versions_are_seen_once() -> None:
    kind = WORKLOAD_KINDS["StrimziPodSet"]
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.scope.workloadTypes", [kind.kind]))
    for resource in kind.resources:
        cluster.hold(resource.path, make_object(kind.kind, "kafka"))
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert list(found.workloads[kind.kind]) == ["team-a/kafka"]


# --- kinds beyond the nine ---

ACME_TYPE = "AcmeJob.acme.example.com"
ACME_JOBS = "/apis/acme.example.com/v1/acmejobs"
ACME = make_object("AcmeJob", "train", api_version="acme.example.com/v1")


def make_mapping(**spec: str) -> JsonObject:
    kind = {"group": "acme.example.com", "version": "v1", "kind": "AcmeJob"}
    return {
        "metadata": {"name": "acme", "uid": "uid-acme", "resourceVersion": "3"},
        "spec": {"workloadType": kind, **spec},
    }


async def test_a_kind_with_a_built_in_mapping_is_followed_by_its_metadata() -> None:
    type_, path = "PyTorchJob.kubeflow.org", "/apis/kubeflow.org/v1/pytorchjobs"
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.scope.workloadTypes", [type_]))
    cluster.hold(path, make_object("PyTorchJob", "train", api_version="kubeflow.org/v1"))
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert found.workload(type_, NAMESPACE, "train") is not None
    assert cluster.listed[path] == METADATA_LIST
    assert found.makers[type_].reason


@pytest.mark.slow
async def test_a_mapped_kind_that_may_not_be_read_is_named() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.scope.workloadTypes", [ACME_TYPE]))
    cluster.hold(MAPPINGS.path, make_mapping(resource="acmejobs"))
    cluster.errors[ACME_JOBS] = 403
    async with seeing(cluster) as seen:
        await settle(seen.watches)
        found = await seen.until(lambda now: "acmejobs" in now.unknown_kinds.get(ACME_TYPE, ""))

    assert ACME_TYPE not in found.workloads


async def test_a_kind_is_looked_at_once_a_mapping_covers_it_and_no_more_when_it_goes() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.scope.workloadTypes", [ACME_TYPE]))
    cluster.hold(ACME_JOBS, ACME)
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)
        assert found.unknown_kinds == {ACME_TYPE: f"no mapping covers {ACME_TYPE}"}

        seen.watches.policies_changed.clear()
        cluster.tell(MAPPINGS.path, "ADDED", make_mapping(resource="acmejobs"))
        found = await seen.until(lambda now: bool(now.workloads.get(ACME_TYPE)))
        assert found.workload(ACME_TYPE, NAMESPACE, "train") is not None
        assert seen.watches.policies_changed.is_set()

        cluster.tell(MAPPINGS.path, "DELETED", make_mapping(resource="acmejobs"))
        found = await seen.until(lambda now: ACME_TYPE in now.unknown_kinds)
        assert ACME_TYPE not in found.workloads


async def test_a_plural_that_the_mapping_does_not_give_is_asked_for_until_it_is_served() -> None:
    """The CRD may come after its mapping."""
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.scope.workloadTypes", [ACME_TYPE]))
    cluster.hold(MAPPINGS.path, make_mapping())
    cluster.hold(ACME_JOBS, ACME)
    cluster.errors["/apis/acme.example.com/v1"] = 404
    async with seeing(cluster) as seen:
        found = await seen.until(lambda now: ACME_TYPE in now.unknown_kinds)
        found = await seen.until(lambda now: "serve" in now.unknown_kinds.get(ACME_TYPE, ""))
        assert found.unknown_kinds[ACME_TYPE] == f"the API server does not serve {ACME_TYPE}"

        del cluster.errors["/apis/acme.example.com/v1"]
        cluster.resources["/apis/acme.example.com/v1"] = [
            {"name": "acmejobs", "kind": "AcmeJob", "namespaced": True},
            {"name": "acmejobs/status", "kind": "AcmeJob", "namespaced": True},
        ]
        found = await seen.until(lambda now: bool(now.workloads.get(ACME_TYPE)))

    assert found.workload(ACME_TYPE, NAMESPACE, "train") is not None


async def test_mappings_are_not_followed_while_the_nine_are_enough() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    async with seeing(cluster) as seen:
        await settle(seen.watches)

    assert MAPPINGS.path not in cluster.listed


@pytest.mark.slow
@pytest.mark.parametrize("missing", [PODS, NAMESPACES, REPLICA_SETS], ids=lambda each: each.name)
async def test_nothing_is_judged_without_what_all_is_judged_by(missing: Resource) -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    cluster.errors[missing.path] = 403
    async with seeing(cluster) as seen:
        # The others are listed meanwhile. No event tells.
        async with asyncio.timeout(5):
            while f"cluster: {missing.name}" not in seen.watches.obstacle:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(seen.watches.settled(patience_s=0), 0.3)
        with pytest.raises(NotReadyError, match=f"waiting for the cluster: {missing.name}"):
            seen.watches.take()


async def test_documents_are_taken_as_they_are() -> None:
    cluster = FakeCluster()
    for document in (
        POLICY,
        stored(make_strategy(namespace=NAMESPACE)),
        stored(make_settings(gpuReactiveCheckInterval="2m")),
        stored(make_precedence({"type": "GpuReactivePolicy", "priority": 7})),
    ):
        cluster.hold(document_resource(document["kind"]).path, document)
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert [policy.key.name for policy in found.policies] == ["gpu-reactive"]
    assert list(found.strategies) == [DocumentKey("AutomationStrategy", NAMESPACE, "gpu")]
    assert found.settings.check_interval.total_seconds() == 120
    assert found.precedence["GpuReactivePolicy"] == 7
    assert found.unreadable == frozenset()


async def test_a_version_that_can_not_be_read_leaves_the_last_one_in_force() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    async with seeing(cluster) as seen:
        before = await settle(seen.watches)
        broken = with_value(POLICY, "spec.minPodMetricsAge", "soon")
        cluster.tell(POLICIES, "MODIFIED", stored(broken, version="2", generation=2))

        (key,) = before.documents
        after = await seen.until(lambda now: bool(now.documents[key].problem))

    assert after.policies == before.policies
    assert after.documents[key].generation == 2
    assert "minPodMetricsAge" in after.documents[key].problem
    assert after.unreadable == frozenset()


async def test_a_document_that_could_never_be_read_is_known_to_be_there() -> None:
    """So that nobody takes its recommendations for those of a policy that is gone."""
    cluster = FakeCluster()
    cluster.hold(POLICIES, with_value(POLICY, "spec.minPodMetricsAge", "soon"))
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert found.policies == ()
    assert found.unreadable == {DocumentKey("GpuReactivePolicy", NAMESPACE, "gpu-reactive")}


@pytest.mark.parametrize("path", [POLICIES, RECOMMENDATIONS.path])
async def test_what_is_not_served_for_a_moment_is_not_gone(path: str) -> None:
    """As after a restart of the API server. Baselines would be lost by it."""
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    cluster.hold(RECOMMENDATIONS.path, {"metadata": {"name": "x", "namespace": NAMESPACE}})
    async with seeing(cluster) as seen:
        await settle(seen.watches)
        cluster.errors[path] = 404
        cluster.tell(path, "ERROR", {"code": 410, "reason": "Expired", "message": "too old"})
        async with asyncio.timeout(5):
            while cluster.refused[path] < 3:  # noqa: ASYNC110  # What is waited for sets no event.
                await asyncio.sleep(0.01)
        found = seen.watches.take()

    assert len(found.policies) == len(found.recommendations) == 1


async def test_news_of_policies_are_told_but_not_their_statuses() -> None:
    """We write the statuses ourselves, and would go round for ever."""
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    async with seeing(cluster) as seen:
        (key,) = (await settle(seen.watches)).documents
        changed = seen.watches.policies_changed
        changed.clear()
        condition = {"type": "Ready", "status": "True", "reason": "Evaluated"}
        told = {**stored(POLICY, version="2"), "status": {"conditions": [condition]}}
        cluster.tell(POLICIES, "MODIFIED", told)
        found = await seen.until(lambda now: bool(now.documents[key].conditions))
        assert not changed.is_set()

        heavier = with_value(POLICY, "spec.weight", 3)
        cluster.tell(POLICIES, "MODIFIED", stored(heavier, version="3", generation=2))
        async with asyncio.timeout(5):
            await changed.wait()

    assert found.documents[key].conditions == (condition,)


async def test_a_view_does_not_change_any_more() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    async with seeing(cluster) as seen:
        before = await settle(seen.watches)
        cluster.tell(PODS.path, "ADDED", make_running_pod())
        await seen.until(lambda now: bool(now.pods))

    assert before.pods == {}


async def test_what_is_around_a_workload_is_known() -> None:
    deployment = make_object("Deployment")
    namespace = {"metadata": {"name": NAMESPACE, "annotations": {PAUSE_UNTIL: "infinite"}}}
    quota = {
        "metadata": {"name": "gpus", "namespace": NAMESPACE},
        "status": {"hard": {f"requests.{GPU}": "8"}, "used": {f"requests.{GPU}": "6"}},
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm"}
    recommendation = write_recommendation(
        GpuRecommendation(NAMESPACE, WorkloadRef("apps/v1", "Deployment", "llm", "uid"))
    )
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    cluster.hold(DEPLOYMENTS, deployment)
    cluster.hold(NAMESPACES.path, namespace, {"metadata": {"name": "team-b"}})
    cluster.hold(QUOTAS.path, quota)
    cluster.hold(RECOMMENDATIONS.path, recommendation)
    cluster.hold(
        HORIZONTAL.path,
        {
            "metadata": {"name": "by-gpu", "namespace": NAMESPACE},
            "spec": {
                "scaleTargetRef": target,
                "metrics": [{"type": "Resource", "resource": {"name": GPU}}],
            },
        },
    )
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert found.controls_of(NAMESPACE) == Controls(pause_until="infinite")
    assert found.controls_of("team-b") == Controls()
    room = found.room_of(NAMESPACE)
    assert room is not None
    assert room.free == Fraction(2)
    workload = found.workload("Deployment", NAMESPACE, "llm")
    assert workload is not None
    assert found.resizer_of(workload) == "HorizontalPodAutoscaler by-gpu"
    known = found.recommendations["team-a/deployment.llm"].recommendation
    assert known is not None
    assert known.workload == WorkloadRef("apps/v1", "Deployment", "llm", "uid")


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        pytest.param(
            HORIZONTAL.path,
            {"metrics": [{"type": "Resource", "resource": {"name": "cpu"}}]},
            id="by-cpu",
        ),
        pytest.param(HORIZONTAL.path, {"metrics": [{"type": "Pods"}]}, id="by-something-else"),
        pytest.param(
            VERTICAL.path,
            {"resourcePolicy": {"containerPolicies": [{"controlledResources": ["memory"]}]}},
            id="of-memory",
        ),
        pytest.param(VERTICAL.path, {}, id="of-the-usual"),
    ],
)
async def test_autoscalers_of_other_resources_have_no_part_in_it(
    path: str, spec: JsonObject
) -> None:
    target = {"kind": "Deployment", "name": "llm"}
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    cluster.hold(
        path,
        {
            "metadata": {"name": "other", "namespace": NAMESPACE},
            "spec": {**spec, "scaleTargetRef": target, "targetRef": target},
        },
    )
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert found.resizers == {}


async def test_a_vertical_autoscaler_that_names_gpus_is_known() -> None:
    spec = {
        "targetRef": {"kind": "Deployment", "name": "llm"},
        "resourcePolicy": {"containerPolicies": [{"controlledResources": [GPU]}]},
    }
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    cluster.hold(VERTICAL.path, {"metadata": {"name": "v", "namespace": NAMESPACE}, "spec": spec})
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert found.resizers == {(NAMESPACE, "Deployment", "llm"): "VerticalPodAutoscaler v"}


@pytest.mark.slow
async def test_room_is_not_guessed_while_quotas_are_not_known() -> None:
    cluster = FakeCluster()
    cluster.hold(POLICIES, POLICY)
    cluster.errors[QUOTAS.path] = 403
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    assert found.room_of(NAMESPACE) is None


async def test_a_recommendation_that_can_not_be_read_is_known_to_be_there() -> None:
    cluster = FakeCluster()
    broken = {"metadata": {"name": "x", "namespace": NAMESPACE, "uid": "u"}, "spec": {}}
    cluster.hold(RECOMMENDATIONS.path, broken)
    async with seeing(cluster) as seen:
        found = await settle(seen.watches)

    known = found.recommendations["team-a/x"]
    assert (known.recommendation, known.uid) == (None, "u")
    assert known.problem
