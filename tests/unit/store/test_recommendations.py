"""Which recommendation a pod gets, as the API server's watches tell."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.builders import JsonObject
from tests.unit.clients.apiserver import FAST, event
from webhook.clients.kube import METADATA, METADATA_LIST, KubeClient
from webhook.clients.kubeconfig import KubeAccess
from webhook.model.rightsizing.controls import (
    NO_CONTROLS,
    PAUSE_UNTIL,
    SKIP_CONTAINERS,
    Controls,
)
from webhook.model.rightsizing.injections import GpuLimit, GpuRoom, Injection
from webhook.model.rightsizing.policies import DocumentKey, Mode, Scheduler
from webhook.model.rightsizing.recommendations import (
    GpuRecommendation,
    RecommendationStatus,
    Selected,
    WorkloadRef,
    write_recommendation,
)
from webhook.store.gpu_objects import (
    JOBS,
    LIMIT_RANGES,
    QUOTAS,
    RECOMMENDATIONS,
    REPLICA_SETS,
    decode_owner,
)
from webhook.store.recommendations import RecommendationStore
from webhook.telemetry.metrics import Metrics

NAMESPACE = "team-a"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
PAUSED = Controls(pause_until="infinite")
OTHERS = (REPLICA_SETS, JOBS, QUOTAS, LIMIT_RANGES)


class FakeCluster:
    """Objects by the path of their resource. A path may also answer with an error."""

    def __init__(self) -> None:
        self.objects: dict[str, list[JsonObject]] = {}
        self.errors: dict[str, int] = {RECOMMENDATIONS.path: 404}
        self.accepted: dict[str, set[str]] = {}
        self._watchers: dict[str, asyncio.Queue[str]] = {}

    def hold(self, path: str, *objects: JsonObject) -> None:
        """What is there before anybody asks."""
        self.errors.pop(path, None)
        self.objects.setdefault(path, []).extend(objects)

    def tell(self, path: str, kind: str, thing: JsonObject) -> None:
        """An event to those who watch."""
        self._queue(path).put_nowait(event(kind, thing))

    def _queue(self, path: str) -> asyncio.Queue[str]:
        return self._watchers.setdefault(path, asyncio.Queue())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.accepted.setdefault(path, set()).add(request.headers["Accept"])
        if path in self.errors:
            status = {"kind": "Status", "code": self.errors[path], "reason": "Because"}
            return web.Response(status=self.errors[path], text=json.dumps(status))
        if "watch" not in request.query:
            items = self.objects.get(path, [])
            answer = {"metadata": {"resourceVersion": "10"}, "items": items}
            return web.Response(text=json.dumps(answer))
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write((await self._queue(path).get()).encode() + b"\n")


class Lookup:
    """A store at work on a cluster."""

    def __init__(self, cluster: FakeCluster, store: RecommendationStore) -> None:
        self.cluster = cluster
        self.store = store

    def find(self, metadata: JsonObject, namespace: str = NAMESPACE) -> Injection | None:
        return self.store.find(namespace, metadata, NOW)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110  # What is waited for sets no event.
                await asyncio.sleep(0.01)


@asynccontextmanager
async def looking(
    cluster: FakeCluster, *, paused_namespace: str = "", settles: bool = True
) -> AsyncIterator[Lookup]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.handle)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0.1)
    client = KubeClient(KubeAccess(str(server.make_url("")).rstrip("/"), token="secret"))
    store = RecommendationStore(
        client,
        metrics=Metrics(),
        controls_of=lambda name: PAUSED if name == paused_namespace else NO_CONTROLS,
        timing=FAST,
    )
    task = asyncio.create_task(store.run())
    try:
        if settles:
            async with asyncio.timeout(5):
                await store.settled()
        yield Lookup(cluster, store)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()
        await server.close()


def make_recommendation(
    kind: str = "Deployment",
    name: str = "llm",
    *,
    uid: str = "",
    api_version: str = "apps/v1",
    **selected: Any,
) -> JsonObject:
    given: dict[str, Any] = {
        "policy": DocumentKey("GpuReactivePolicy", NAMESPACE, "llm"),
        "strategy": DocumentKey("AutomationStrategy", NAMESPACE, "gpu"),
        "amounts": {"main": Decimal("1.5")},
        "baselines": {"main": Decimal(1)},
        **selected,
    }
    recommendation = GpuRecommendation(
        NAMESPACE,
        WorkloadRef(api_version, kind, name, uid),
        RecommendationStatus(selected=Selected(**given)),
        resource_version="5",
    )
    return write_recommendation(recommendation)


def owner(kind: str, name: str, uid: str = "", api_version: str = "") -> JsonObject:
    known = {"Job": "batch/v1", "CronJob": "batch/v1", "PyTorchJob": "kubeflow.org/v1"}
    version = api_version or known.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def made(name: str, uid: str, of: JsonObject | None = None, **annotations: str) -> JsonObject:
    """A ReplicaSet or Job, as metadata alone."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": uid, "resourceVersion": "7"}
    owners = [] if of is None else [of]
    return {"metadata": {**metadata, "ownerReferences": owners, "annotations": annotations}}


def of_pod(*owners: JsonObject, **labels: str) -> JsonObject:
    """The metadata of a pod that has no name yet."""
    keys = {key.replace("_", "-"): text for key, text in labels.items()}
    return {"generateName": "llm-6f9-", "labels": keys, "ownerReferences": list(owners)}


# -- whose a pod is --------------------------------------------------------------------------------

DEPLOYMENT = owner("Deployment", "llm", "d-1")
FOUND = [
    pytest.param(
        make_recommendation(uid="d-1"),
        [made("llm-6f9", "r-1", DEPLOYMENT)],
        of_pod(owner("ReplicaSet", "llm-6f9", "r-1")),
        True,
        id="deployment-by-its-replica-set",
    ),
    pytest.param(
        make_recommendation(name="other", uid="d-1"),
        [made("odd-name", "r-1", owner("Deployment", "other", "d-1"))],
        of_pod(owner("ReplicaSet", "odd-name", "r-1")),
        True,
        id="replica-set-that-was-taken-over",
    ),
    pytest.param(
        make_recommendation(uid="d-1"),
        [],
        of_pod(owner("ReplicaSet", "llm-6f9", "r-1"), pod_template_hash="6f9"),
        True,
        id="replica-set-not-there-yet",
    ),
    pytest.param(
        make_recommendation(uid="d-1"),
        [made("llm-6f9", "r-0", owner("Deployment", "old", "d-0"))],
        of_pod(owner("ReplicaSet", "llm-6f9", "r-1"), pod_template_hash="6f9"),
        True,
        id="replica-set-made-anew",
    ),
    pytest.param(
        make_recommendation(uid="d-1"),
        [],
        of_pod(owner("ReplicaSet", "llm-6f9", "r-1"), pod_template_hash="other"),
        False,
        id="hash-of-another",
    ),
    pytest.param(
        make_recommendation(uid="d-1"),
        [],
        of_pod(owner("ReplicaSet", "llm-6f9", "r-1")),
        False,
        id="no-hash",
    ),
    pytest.param(
        make_recommendation(uid="d-1"),
        [made("llm-6f9", "r-1", owner("Deployment", "llm", "d-2"))],
        of_pod(owner("ReplicaSet", "llm-6f9", "r-1")),
        False,
        id="deployment-made-anew",
    ),
    pytest.param(
        make_recommendation("ReplicaSet", "alone", uid="r-1"),
        [made("alone", "r-1")],
        of_pod(owner("ReplicaSet", "alone", "r-1")),
        True,
        id="replica-set-of-its-own",
    ),
    pytest.param(
        make_recommendation("Rollout", api_version="argoproj.io/v1alpha1"),
        [],
        {
            "labels": {"rollouts-pod-template-hash": "6f9"},
            "ownerReferences": [owner("ReplicaSet", "llm-6f9", "r-1")],
        },
        True,
        id="rollout",
    ),
    pytest.param(
        make_recommendation("StatefulSet", uid="s-1"),
        [],
        of_pod(owner("StatefulSet", "llm", "s-1")),
        True,
        id="stateful-set-directly",
    ),
    pytest.param(
        make_recommendation("StatefulSet", uid="s-1"),
        [],
        of_pod(owner("StatefulSet", "llm", "s-2")),
        False,
        id="stateful-set-made-anew",
    ),
    pytest.param(
        make_recommendation("StatefulSet", uid=""),
        [],
        of_pod(owner("StatefulSet", "llm", "s-2")),
        True,
        id="uid-not-known",
    ),
    pytest.param(
        make_recommendation("PyTorchJob", uid="p-1", api_version="kubeflow.org/v2"),
        [],
        of_pod(owner("PyTorchJob", "llm", "p-1")),
        True,
        id="any-kind-in-any-version",
    ),
    pytest.param(
        make_recommendation("PyTorchJob", api_version="example.com/v1"),
        [],
        of_pod(owner("PyTorchJob", "llm")),
        False,
        id="the-same-kind-of-another-group",
    ),
    pytest.param(
        make_recommendation("StatefulSet"),
        [],
        of_pod(owner("StatefulSet", "other")),
        False,
        id="another-name",
    ),
    pytest.param(make_recommendation("StatefulSet"), [], of_pod(), False, id="nobody-controls-it"),
    pytest.param(
        make_recommendation("StatefulSet"),
        [],
        of_pod({**owner("StatefulSet", "llm"), "controller": False}),
        False,
        id="an-owner-that-is-no-controller",
    ),
    pytest.param(
        make_recommendation("StatefulSet"),
        [],
        {"ownerReferences": {"kind": "StatefulSet"}, "labels": []},
        False,
        id="owners-of-another-type",
    ),
    pytest.param(
        make_recommendation("StatefulSet"),
        [],
        of_pod({**owner("StatefulSet", "llm"), "name": 1}),
        False,
        id="owner-without-a-name",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("recommendation", "replica_sets", "metadata", "is_found"), FOUND)
async def test_a_pod_gets_what_its_workload_is_recommended(
    recommendation: JsonObject,
    replica_sets: list[JsonObject],
    metadata: JsonObject,
    is_found: bool,
) -> None:
    cluster = FakeCluster()
    cluster.hold(RECOMMENDATIONS.path, recommendation)
    cluster.hold(REPLICA_SETS.path, *replica_sets)
    async with looking(cluster) as lookup:
        assert (lookup.find(metadata) is not None) is is_found
        assert lookup.find(metadata, "team-b") is None


@pytest.mark.parametrize(
    ("recommendation", "jobs", "job", "is_found"),
    [
        pytest.param(
            make_recommendation("CronJob", "nightly", uid="c-1", api_version="batch/v1"),
            [made("nightly-29", "j-1", owner("CronJob", "nightly", "c-1"))],
            owner("Job", "nightly-29", "j-1"),
            True,
            id="cron-job-by-its-job",
        ),
        pytest.param(
            make_recommendation("CronJob", "nightly", uid="c-1", api_version="batch/v1"),
            [],
            owner("Job", "nightly-29123456", "j-1"),
            True,
            id="job-not-there-yet",
        ),
        pytest.param(
            make_recommendation("CronJob", "nightly", uid="c-1", api_version="batch/v1"),
            [],
            owner("Job", "nightly-manual", "j-1"),
            False,
            id="job-by-hand",
        ),
        pytest.param(
            make_recommendation("Job", "nightly-1", uid="j-1", api_version="batch/v1"),
            [],
            owner("Job", "nightly-1", "j-1"),
            True,
            id="job-of-its-own-not-there-yet",
        ),
        pytest.param(
            make_recommendation("Job", "train", uid="j-1", api_version="batch/v1"),
            [made("train", "j-1")],
            owner("Job", "train", "j-1"),
            True,
            id="job-of-its-own",
        ),
    ],
)
async def test_a_pod_of_a_job_gets_what_its_cron_job_is_recommended(
    recommendation: JsonObject, jobs: list[JsonObject], job: JsonObject, is_found: bool
) -> None:
    cluster = FakeCluster()
    cluster.hold(RECOMMENDATIONS.path, recommendation)
    cluster.hold(JOBS.path, *jobs)
    async with looking(cluster) as lookup:
        assert (lookup.find(of_pod(job)) is not None) is is_found


# -- what is found ---------------------------------------------------------------------------------


async def test_all_that_was_selected_is_found_with_room_and_time() -> None:
    cluster = FakeCluster()
    cluster.hold(
        RECOMMENDATIONS.path,
        make_recommendation(
            "StatefulSet",
            scheduler=Scheduler.KAI,
            upsize=True,
            queue="gpus",
            set_queue_when_specified=True,
            scheduler_name="kai-two",
            respects_quota=False,
            pause_until="2026-07-01T00:00:00Z",
        ),
    )
    async with looking(cluster, paused_namespace=NAMESPACE) as lookup:
        found = lookup.find(of_pod(owner("StatefulSet", "llm")))

    assert found == Injection(
        workload=WorkloadRef("apps/v1", "StatefulSet", "llm"),
        policy=DocumentKey("GpuReactivePolicy", NAMESPACE, "llm"),
        amounts={"main": Decimal("1.5")},
        baselines={"main": Decimal(1)},
        scheduler=Scheduler.KAI,
        upsize=True,
        queue="gpus",
        set_queue_when_specified=True,
        scheduler_name="kai-two",
        respects_quota=False,
        controls=(Controls("2026-07-01T00:00:00Z"), PAUSED),
        room=GpuRoom(),
        now=NOW,
    )


async def test_controls_come_nearest_first() -> None:
    cluster = FakeCluster()
    cluster.hold(RECOMMENDATIONS.path, make_recommendation(skip_containers="draft"))
    notes = {PAUSE_UNTIL: "infinite", SKIP_CONTAINERS: "main", "other": "x"}
    cluster.hold(REPLICA_SETS.path, made("llm-6f9", "r-1", owner("Deployment", "llm"), **notes))
    async with looking(cluster) as lookup:
        found = lookup.find(of_pod(owner("ReplicaSet", "llm-6f9", "r-1")))

    assert found is not None
    assert found.controls == (
        Controls("infinite", "main"),
        Controls(skip_containers="draft"),
        NO_CONTROLS,
    )


@pytest.mark.parametrize(
    "selected",
    [
        pytest.param({"mode": Mode.RECOMMEND}, id="only-recommended"),
        pytest.param({"automation_enabled": False}, id="switched-off"),
        pytest.param({"amounts": {}}, id="no-amounts"),
    ],
)
async def test_what_is_not_to_be_written_is_not_found(selected: dict[str, Any]) -> None:
    cluster = FakeCluster()
    cluster.hold(RECOMMENDATIONS.path, make_recommendation("StatefulSet", **selected))
    async with looking(cluster) as lookup:
        assert lookup.find(of_pod(owner("StatefulSet", "llm"))) is None


async def test_what_comes_and_goes_is_followed() -> None:
    cluster = FakeCluster()
    cluster.hold(RECOMMENDATIONS.path)
    pod = of_pod(owner("StatefulSet", "llm"))
    async with looking(cluster) as lookup:
        assert lookup.find(pod) is None
        # Nobody is asked about ReplicaSets where nothing is recommended.
        assert set(cluster.accepted) == {RECOMMENDATIONS.path}

        cluster.tell(RECOMMENDATIONS.path, "ADDED", make_recommendation("StatefulSet"))
        await lookup.until(lambda: lookup.find(pod) is not None)

        more = make_recommendation("StatefulSet", amounts={"main": Decimal(3)})
        cluster.tell(RECOMMENDATIONS.path, "MODIFIED", more)
        await lookup.until(lambda: found_amount(lookup, pod) == 3)

        cluster.tell(RECOMMENDATIONS.path, "DELETED", more)
        await lookup.until(lambda: lookup.find(pod) is None)


def found_amount(lookup: Lookup, pod: JsonObject) -> Decimal | None:
    found = lookup.find(pod)
    return None if found is None else found.amounts["main"]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"spec": None}, id="no-workload"),
        pytest.param({"spec": {"workloadRef": {"kind": 1}}}, id="workload-of-another-type"),
        pytest.param({"status": {"selected": "main"}}, id="selected-a-text"),
        pytest.param({"status": {"selected": {"amounts": {"main": "lots"}}}}, id="no-amount"),
        pytest.param({"status": {}}, id="nothing-selected"),
        pytest.param({"status": None}, id="no-status"),
    ],
)
async def test_one_that_can_not_be_read_is_nobodys_and_holds_up_no_other(
    broken: JsonObject,
) -> None:
    cluster = FakeCluster()
    wrong = {**make_recommendation("StatefulSet", "broken"), **broken}
    cluster.hold(RECOMMENDATIONS.path, wrong, make_recommendation("StatefulSet"))
    async with looking(cluster) as lookup:
        assert lookup.find(of_pod(owner("StatefulSet", "broken"))) is None
        assert lookup.find(of_pod(owner("StatefulSet", "llm"))) is not None


async def test_one_that_can_not_be_read_is_told() -> None:
    cluster = FakeCluster()
    wrong = make_recommendation("StatefulSet")
    wrong["status"]["selected"]["amounts"] = {"main": "lots"}
    cluster.hold(RECOMMENDATIONS.path, wrong)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("gatewright.recommendations")
    logger.addHandler(handler)
    try:
        async with looking(cluster):
            pass
    finally:
        logger.removeHandler(handler)

    assert "a recommendation can't be read" in stream.getvalue()


# -- what is not known -----------------------------------------------------------------------------


async def test_without_the_definition_nothing_is_found_and_nothing_waits() -> None:
    async with looking(FakeCluster()) as lookup:
        assert lookup.find(of_pod(owner("StatefulSet", "llm"))) is None


async def test_without_the_right_nothing_is_found() -> None:
    cluster = FakeCluster()
    cluster.errors[RECOMMENDATIONS.path] = 403
    async with looking(cluster, settles=False) as lookup:
        await lookup.until(lambda: RECOMMENDATIONS.path in cluster.accepted)

        assert lookup.find(of_pod(owner("StatefulSet", "llm"))) is None


@pytest.mark.parametrize("missing", OTHERS, ids=lambda resource: resource.name)
async def test_while_something_is_not_known_nothing_is_found(missing: Any) -> None:
    cluster = FakeCluster()
    cluster.hold(RECOMMENDATIONS.path, make_recommendation("StatefulSet"))
    cluster.errors[missing.path] = 403
    pod = of_pod(owner("StatefulSet", "llm"))
    async with looking(cluster, settles=False) as lookup:
        await lookup.until(lambda: all(other.path in cluster.accepted for other in OTHERS))
        assert lookup.find(pod) is None

        cluster.errors.clear()
        await lookup.until(lambda: lookup.find(pod) is not None)


async def test_only_metadata_of_replica_sets_and_jobs_is_sent() -> None:
    cluster = FakeCluster()
    cluster.hold(RECOMMENDATIONS.path, make_recommendation())
    async with looking(cluster) as lookup:
        await lookup.until(
            lambda: all(METADATA in cluster.accepted[one.path] for one in (REPLICA_SETS, JOBS))
        )

    for resource in (REPLICA_SETS, JOBS):
        assert cluster.accepted[resource.path] == {METADATA, METADATA_LIST}
    assert cluster.accepted[QUOTAS.path] == {"application/json"}


def test_of_an_owner_only_what_is_needed_is_kept() -> None:
    """There may be a hundred thousand of them."""
    replica_set = made("llm-6f9", "r-1", owner("Deployment", "llm", "d-1"), last_applied="x" * 999)

    one, other = [decode_owner(json.dumps(replica_set).encode()) for _ in range(2)]

    assert "xxx" not in repr(one)
    assert one.controls is other.controls
    assert one.owner is not None
    assert other.owner is not None
    assert one.owner.uid is other.owner.uid


# -- what a namespace leaves -----------------------------------------------------------------------


def quota(name: str, hard: Any, used: Any, namespace: str = NAMESPACE) -> JsonObject:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": "7"}
    key = "requests.nvidia.com/gpu"
    status = {} if used is None else {"hard": {key: hard}, "used": {key: used, "pods": "3"}}
    return {"metadata": metadata, "spec": {"hard": {key: hard, "pods": "9"}}, "status": status}


def limit_range(name: str, *items: JsonObject) -> JsonObject:
    metadata = {"name": name, "namespace": NAMESPACE, "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"limits": list(items)}}


GPU_KEY = "nvidia.com/gpu"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quotas", "limits", "room"),
    [
        pytest.param([], [], GpuRoom(), id="nothing"),
        pytest.param([quota("a", "8", "3")], [], GpuRoom(Fraction(5)), id="one"),
        pytest.param([quota("a", "8", None)], [], GpuRoom(Fraction(8)), id="not-counted-yet"),
        pytest.param([quota("a", "2", "3")], [], GpuRoom(Fraction(-1)), id="overdrawn"),
        pytest.param(
            [quota("a", "8", "3"), quota("b", "4", "3")],
            [],
            GpuRoom(Fraction(1)),
            id="least-counts",
        ),
        pytest.param([quota("a", "lots", "3")], [], GpuRoom(), id="no-number"),
        pytest.param([quota("a", "8", "3", "team-b")], [], GpuRoom(), id="of-another-namespace"),
        pytest.param(
            [],
            [
                limit_range("a", {"type": "Container", "max": {GPU_KEY: "4", "cpu": "2"}}),
                limit_range(
                    "b",
                    {"type": "Pod", "min": {GPU_KEY: "1"}},
                    {"type": "Pod", "max": {"cpu": "1"}},
                ),
                limit_range("c", {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}),
                limit_range("d", {"type": "Container", "default": {GPU_KEY: "1"}}),
            ],
            GpuRoom(
                limits=(
                    GpuLimit("Container", most=Fraction(4)),
                    GpuLimit("Pod", least=Fraction(1)),
                    GpuLimit("Container"),
                )
            ),
            id="limit-ranges",
        ),
    ],
)
async def test_quotas_and_limit_ranges_say_what_a_namespace_leaves(
    quotas: list[JsonObject], limits: list[JsonObject], room: GpuRoom
) -> None:
    cluster = FakeCluster()
    cluster.hold(RECOMMENDATIONS.path, make_recommendation("StatefulSet"))
    cluster.hold(QUOTAS.path, *quotas)
    cluster.hold(LIMIT_RANGES.path, *limits)
    async with looking(cluster) as lookup:
        found = lookup.find(of_pod(owner("StatefulSet", "llm")))

    assert found is not None
    assert found.room == room


async def test_a_quota_that_fills_up_is_followed() -> None:
    cluster = FakeCluster()
    cluster.hold(RECOMMENDATIONS.path, make_recommendation("StatefulSet"))
    cluster.hold(QUOTAS.path, quota("a", "8", "3"))
    pod = of_pod(owner("StatefulSet", "llm"))

    def free(lookup: Lookup) -> Fraction | None:
        found = lookup.find(pod)
        return None if found is None else found.room.free

    async with looking(cluster) as lookup:
        assert free(lookup) == 5
        cluster.tell(QUOTAS.path, "MODIFIED", quota("a", "8", "7"))
        await lookup.until(lambda: free(lookup) == 1)
