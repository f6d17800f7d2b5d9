"""Reports of what runs: written where something is open and changed, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
    make_snapshot,
)
from tests.jq import ACME, make_acme_job, make_group, make_mapping
from tests.unit.reports.cluster import OPENREPORTS, WGPOLICY, FakeCluster
from webhook.cli.auditing import build_reports_keeper
from webhook.errors import EvaluationError, KubeError
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits
from webhook.reports.keeper import ReportsKeeper, ScanTiming
from webhook.settings import load_settings
from webhook.store.snapshot import Current
from webhook.telemetry.metrics import Metrics

FAST = ScanTiming(period=60.0, settle=0.02, check=0.01, retry=0.05, jq_waits=(0.0,))
OFTEN = dataclasses.replace(FAST, period=0.05)
GHCR = make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]})
POLICY = make_gvk_policy(GHCR)
PODS = "/api/v1/pods"


@pytest.fixture(scope="module")
def worker() -> Iterator[JqWorker]:
    worker = JqWorker()
    yield worker
    worker.close()


def pod(name: str, namespace: str = "team-a", image: str = "docker.io/busybox") -> dict[str, Any]:
    document = make_pod(containers=[make_container(image=image)])
    document["metadata"] = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
    return document


class Kept:
    """A keeper at work, with what it works on."""

    def __init__(self, cluster: FakeCluster, worker: JqWorker, **more: Any) -> None:
        self.cluster = cluster
        self.current = Current()
        self.metrics = Metrics()
        self.keeper = ReportsKeeper(
            cluster, self.current, worker, self.metrics, **{"timing": FAST, **more}
        )

    def scans(self, outcome: str = "done") -> float:
        return sum(
            sample.value
            for family in self.metrics.scans.collect()
            for sample in family.samples
            if sample.labels["outcome"] == outcome
        )

    async def next_scan(self) -> None:
        before = self.scans()
        await become(lambda: self.scans() > before)

    def open(self, result: str) -> float:
        return float(self.metrics.open_violations.labels(result)._value.get())


async def become(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while True:
            if condition():
                return
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def keeping(
    cluster: FakeCluster, worker: JqWorker, *documents: Any, **more: Any
) -> AsyncIterator[Kept]:
    kept = Kept(cluster, worker, **more)
    kept.current.replace(make_snapshot(*(documents or (POLICY,))))
    task = asyncio.create_task(kept.keeper.run())
    try:
        yield kept
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        kept.keeper.close()


async def test_each_namespace_gets_one_report_of_what_is_wrong_in_it(worker: JqWorker) -> None:
    cluster = FakeCluster(
        pod("one"), pod("two"), pod("fine", image="ghcr.io/a"), pod("three", "team-b")
    )

    async with keeping(cluster, worker) as kept:
        await kept.next_scan()

        assert kept.open("fail") == 3
        assert kept.metrics.scan_objects._value.get() == 4
    names = {
        namespace: [result["resources"][0]["name"] for result in report["results"]]
        for (_, namespace), report in cluster.reports.items()
    }
    assert names == {"team-a": ["one", "two"], "team-b": ["three"]}


async def test_nothing_is_written_while_nothing_changes(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one"))

    async with keeping(cluster, worker, timing=ScanTiming(period=0.02, check=0.01)) as kept:
        await become(lambda: kept.scans() >= 4)

    assert cluster.writes == ["POST team-a"]


async def test_a_new_leader_does_not_write_what_is_there(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one"))

    for _ in range(2):
        async with keeping(cluster, worker) as kept:
            await kept.next_scan()

    assert cluster.writes == ["POST team-a"]


async def test_a_report_goes_with_the_last_violation(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one"), pod("two", "team-b"))

    async with keeping(cluster, worker, timing=ScanTiming(period=0.02, check=0.01)) as kept:
        await kept.next_scan()
        cluster.objects.pop(0)
        await become(lambda: "DELETE team-a" in cluster.writes)

    assert list(cluster.reports) == [(WGPOLICY, "team-b")]


async def test_what_somebody_edited_is_written_again(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one"))

    async with keeping(cluster, worker, timing=ScanTiming(period=0.02, check=0.01)) as kept:
        await kept.next_scan()
        cluster.edit("team-a", results=[])
        await become(lambda: "PUT team-a" in cluster.writes)

    assert len(cluster.results("team-a")) == 1


@pytest.mark.slow
async def test_another_policy_is_judged_by_soon_and_another_namespace_is_not(
    worker: JqWorker,
) -> None:
    cluster = FakeCluster(pod("one"))

    async with keeping(cluster, worker) as kept:
        await kept.next_scan()
        kept.current.replace(make_snapshot(POLICY))
        await asyncio.sleep(0.1)
        assert kept.scans() == 1
        audited = make_gvk_policy(GHCR, name="tried")
        audited["spec"]["mode"] = "Audit"
        kept.current.replace(make_snapshot(audited))
        await kept.next_scan()

    [result] = cluster.results("team-a")
    assert (result["policy"], result["result"]) == ("tried", "warn")


async def test_without_a_report_crd_nothing_is_listed_until_there_is_one(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one"), apis=())

    async with keeping(cluster, worker) as kept:
        await asyncio.sleep(0.1)
        assert (cluster.lists, kept.scans(), kept.scans("failed")) == (0, 0, 0)
        cluster.apis.add(WGPOLICY)
        await kept.next_scan()

    assert cluster.writes == ["POST team-a"]


async def test_where_both_apis_are_served_only_the_newer_one_is_written(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one"))

    async with keeping(cluster, worker) as kept:
        await kept.next_scan()
        cluster.apis.add(OPENREPORTS)
        await kept.next_scan()

    assert list(cluster.reports) == [(OPENREPORTS, "team-a")]


async def test_namespaces_that_nobody_judges_are_left_out(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one", "kube-system"), pod("two", "gatewright"), pod("three"))

    async with keeping(cluster, worker, excluded=("kube-system", "gatewright")) as kept:
        await kept.next_scan()

    assert list(cluster.reports) == [(WGPOLICY, "team-a")]


async def test_reports_belong_to_the_registration_that_is_there(worker: JqWorker) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/gatewright-a"
    cluster = FakeCluster(pod("one"))
    cluster.others[path] = {"metadata": {"uid": "uid-7"}}

    async with keeping(cluster, worker, owner="gatewright-a") as kept:
        await kept.next_scan()

    [owner] = cluster.reports[WGPOLICY, "team-a"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == (
        "ValidatingWebhookConfiguration",
        "gatewright-a",
        "uid-7",
    )


async def test_pods_of_a_judged_deployment_are_not_told_as_well(worker: JqWorker) -> None:
    owned = pod("web-1")
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    ]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team-a", "uid": "web"},
        "spec": {"template": {"spec": owned["spec"]}},
    }
    cluster = FakeCluster(owned, deployment)

    async with keeping(
        cluster, worker, POLICY, make_gvk_policy(GHCR, kind=DEPLOYMENT, name="deployments")
    ) as kept:
        await kept.next_scan()

    assert [result["policy"] for result in cluster.results("team-a")] == ["deployments"]


# --- faults ---


async def test_a_kind_that_may_not_be_listed_is_left_out_and_said_once(
    worker: JqWorker, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster(pod("one"))
    cluster.faults["GET", "/apis/apps/v1/deployments"] = KubeError(403, "Forbidden", "not you")
    policies = POLICY, make_gvk_policy(GHCR, kind=DEPLOYMENT, name="deployments")

    async with keeping(
        cluster, worker, *policies, timing=ScanTiming(period=0.02, check=0.01)
    ) as kept:
        await become(lambda: kept.scans() >= 3)
        assert kept.metrics.scan_unlisted_kinds._value.get() == 1

    assert cluster.writes == ["POST team-a"]
    assert [r.message for r in caplog.records].count("what runs can't be judged") == 1


async def test_where_reports_are_out_of_reach_nothing_is_listed(
    worker: JqWorker, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster(pod("one"))
    cluster.faults["GET", "/apis/wgpolicyk8s.io/v1alpha2/policyreports"] = KubeError(
        403, "Forbidden", "not you"
    )

    async with keeping(cluster, worker, timing=ScanTiming(0.5, check=0.01, retry=0.01)) as kept:
        await become(lambda: kept.scans("failed") >= 3)

    assert cluster.lists == 0
    assert [record.message for record in caplog.records] == ["what runs can't be looked at"]


async def test_half_a_look_removes_nothing(worker: JqWorker) -> None:
    """What could not be read may still be wrong."""
    cluster = FakeCluster(pod("one"))

    async with keeping(cluster, worker, timing=ScanTiming(0.02, check=0.01, retry=0.01)) as kept:
        await kept.next_scan()
        cluster.faults["GET", PODS] = KubeError(0, "Unreachable", "nobody there")
        await become(lambda: kept.scans("failed") >= 2)
        assert list(cluster.reports) == [(WGPOLICY, "team-a")]
        del cluster.faults["GET", PODS]
        await kept.next_scan()

    assert cluster.writes == ["POST team-a"]


async def test_a_report_of_somebody_else_under_our_name_is_not_touched(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one"), pod("two", "team-b"))
    cluster.faults["POST", "/apis/wgpolicyk8s.io/v1alpha2/namespaces/team-a/"] = KubeError(
        409, "AlreadyExists", "there is one"
    )

    async with keeping(cluster, worker) as kept:
        await kept.next_scan()

        conflicts = kept.metrics.report_writes.labels("conflict")._value.get()
    assert conflicts == 1
    assert cluster.writes == ["POST team-b"]


async def test_a_namespace_that_goes_meanwhile_is_no_fault(
    worker: JqWorker, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster(pod("one"))
    cluster.faults["POST", "/apis/wgpolicyk8s.io/"] = KubeError(
        403, "Forbidden", "no", {"causes": [{"reason": "NamespaceTerminating"}]}
    )

    async with keeping(cluster, worker) as kept:
        await kept.next_scan()

    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


@pytest.mark.slow
async def test_an_object_that_a_mapping_fails_on_is_an_error_and_not_quoted(
    worker: JqWorker,
) -> None:
    """And a query that needs jq is answered by it."""
    cluster = FakeCluster(
        {**make_acme_job(parts="hunter2-canary"), "kind": "AcmeJob"},
    )
    mapping = make_mapping('.spec.parts[] | select(.role == "main")', "own")
    group = make_group({"size": {"type": "integer", "specRef": "size"}})
    policy = make_gvk_policy(make_rule("size", "s", {"max": 3}), kind=ACME)

    snapshot = make_snapshot(group, mapping, policy)
    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []
    async with keeping(cluster, worker, group, mapping, policy) as kept:
        await kept.next_scan()

    [result] = cluster.results("team-a")
    assert (result["result"], result["scored"]) == ("error", False)
    assert "canary" not in str(result)


def own_mapping() -> list[dict[str, Any]]:
    """A kind whose objects jq is asked about, and a policy for it."""
    return [
        make_group({"size": {"type": "integer", "specRef": "size"}}),
        make_mapping(".spec | select(.size > 0)", "own"),
        make_gvk_policy(make_rule("size", "s", {"max": 3}), kind=ACME, name="sizes"),
    ]


def subjects(cluster: FakeCluster) -> list[str]:
    """The objects that the report of team-a is about."""
    return [result["resources"][0]["name"] for result in cluster.results("team-a")]


def acme_job(size: int = 4) -> dict[str, Any]:
    return {**make_acme_job(size=size), "kind": "AcmeJob"}


@pytest.mark.slow
async def test_an_object_that_jq_has_no_time_for_says_nothing_about_its_mapping(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster(acme_job())

    with JqWorker() as worker:
        async with keeping(cluster, worker, *own_mapping(), timing=OFTEN) as kept:
            await kept.next_scan()
            before = cluster.results("team-a")
            worker.close()
            for _ in range(2):
                await kept.next_scan()

    assert [result["result"] for result in before] == ["fail"]
    assert cluster.results("team-a") == before
    assert "the jq worker is closed" in caplog.records[-1].kinds["AcmeJob.acme.io"]  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_jq_is_asked_again_about_an_object() -> None:
    cluster = FakeCluster(acme_job())
    limits = WorkerLimits(wait_ms=300, evaluate_ms=1500)
    patient = dataclasses.replace(OFTEN, jq_waits=(0.3,) * 20)
    endless = "last(range(1e12))"

    with JqWorker(limits) as worker, ThreadPoolExecutor(1) as others:
        worker.check(".a", path="")
        worker.evaluate_paths((".a",), b"{}")
        busy = others.submit(worker.evaluate_paths, (endless,), b"{}")
        async with keeping(cluster, worker, *own_mapping(), timing=patient) as kept:
            await become(lambda: kept.scans() > 0, within_s=20.0)

    assert isinstance(busy.exception(), EvaluationError)
    assert [result["result"] for result in cluster.results("team-a")] == ["fail"]


@pytest.mark.slow
@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("path", ["/apis/acme.io", "/apis/acme.io/v1", "/apis/acme.io/v1/acmejobs"])
async def test_of_a_kind_that_can_not_be_had_stays_what_was_found(
    worker: JqWorker, path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster(acme_job(), pod("one"))

    async with keeping(cluster, worker, *own_mapping(), POLICY, timing=OFTEN) as kept:
        await kept.next_scan()
        assert subjects(cluster) == ["one", "train"]
        cluster.faults["GET", path] = KubeError(status, "Down", "an aggregated server is away")
        cluster.objects += [pod("two"), acme_job(5)]
        for _ in range(3):
            await kept.next_scan()
        during = subjects(cluster)
        del cluster.faults["GET", path]
        await become(lambda: len(cluster.results("team-a")) == 4)

    assert during == ["one", "two", "train"]
    assert caplog.text.count("what runs can't be judged") == 1


@pytest.mark.slow
async def test_a_kind_of_which_nothing_is_known_holds_up_the_others_for_some_looks_only(
    worker: JqWorker,
) -> None:
    cluster = FakeCluster(acme_job(), pod("one"))
    cluster.faults["GET", "/apis/acme.io"] = KubeError(503, "Down", "never up")

    async with keeping(cluster, worker, *own_mapping(), POLICY) as kept:
        await kept.next_scan()
        assert kept.scans("failed") == 3

    assert subjects(cluster) == ["one"]


async def test_one_of_the_two_report_crds_is_enough(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one"))
    cluster.faults["GET", "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports"] = KubeError(
        404, "NotFound", "no such kind"
    )

    async with keeping(cluster, worker) as kept:
        await kept.next_scan()

    assert list(cluster.reports) == [(WGPOLICY, "team-a")]


async def test_what_lies_in_no_namespace_is_told_where_ours_is_not_known() -> None:
    settings = load_settings(
        {"kubernetes": "true", "policy_reports": "true"}, {"HOME": "/home/ada"}
    )
    cluster = FakeCluster(pod("none", ""), pod("system", "kube-system"))
    current = Current()
    current.replace(make_snapshot(POLICY))

    with JqWorker() as worker:
        keeper = build_reports_keeper(settings, cluster, current, worker, Metrics())
        assert keeper is not None
        task = asyncio.create_task(keeper.run())
        await become(lambda: bool(cluster.reports))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        keeper.close()

    assert list(cluster.reports) == [(WGPOLICY, "")]


async def test_who_leads_no_more_shows_no_violations(worker: JqWorker) -> None:
    cluster = FakeCluster(pod("one"))

    async with keeping(cluster, worker) as kept:
        await kept.next_scan()
        assert kept.open("fail") == 1

    text, _ = kept.metrics.render()
    assert b"gatewright_open_violations{" not in text
    assert b"gatewright_scan_timestamp_seconds 0.0" in text
