"""An amount that we wrote is never taken for its owner's, whatever became of the note on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import JsonObject, make_container
from tests.gpu import DEVICES, FRACTION, POLICY, make_gpu_container
from tests.gpu_cluster import make_cluster, make_object, make_running_pod
from tests.gpu_documents import make_policy
from webhook.model.rightsizing.policies import DocumentKey, Mode, Scheduler
from webhook.model.rightsizing.recommendations import (
    BaselineAmount,
    PolicyState,
    RecommendationStatus,
    Selected,
)
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.reactive.observation.workloads import ObservedWorkload, observe
from webhook.reactive.rounds.ownership import follow_owner
from webhook.reactive.rounds.written import recognise, remember_written

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = DocumentKey("AutomationStrategy", "team-a", "gpu")
ONE, TWO, THREE = Decimal(1), Decimal(2), Decimal(3)


def asking(count: str, name: str = "llm-0", **more: Any) -> JsonObject:
    return make_running_pod(name, make_gpu_container(limit=count, request=count), **more)


def sharing(portion: str, devices: str = "1") -> JsonObject:
    annotations = {FRACTION: portion, DEVICES: devices}
    return make_running_pod("llm-0", make_container("main"), annotations=annotations)


def make_workload(*pods: JsonObject, kind: str = "StatefulSet", **spec: Any) -> ObservedWorkload:
    """Whose pods are its own."""
    workload = make_object(kind, spec={"replicas": len(pods), **spec})
    references = make_running_pod(owner=workload)["metadata"]["ownerReferences"]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = references
    policy = make_policy(namespace="team-a", scope={"workloadTypes": [kind]})
    (observed,) = observe(make_cluster(policy, workload, *pods))
    return observed


def know(*written: Decimal, baseline: Decimal = ONE) -> RecommendationStatus:
    state = PolicyState(POLICY, baseline={"main": BaselineAmount(baseline, NOW, "pod llm-0")})
    return RecommendationStatus(policies=(state,), written={"main": written})


def select(amount: str, **more: Any) -> Selected:
    return Selected(POLICY, KEY, {"main": Decimal(amount)}, baselines={"main": ONE}, **more)


# --- recognised ---


@pytest.mark.parametrize("asked", ["2", "3"])
def test_an_amount_that_pods_were_given_is_ours_without_its_note(asked: str) -> None:
    """That in force, or one of before."""
    observed = recognise(make_workload(asking(asked)), know(TWO, THREE))

    assert observed.own == {"main": ONE}
    assert observed.evidence[0].allocations == {"main": Decimal(asked)}
    assert follow_owner(know(TWO, THREE), observed, NOW).policies == know().policies


@pytest.mark.parametrize(
    ("asked", "baseline"),
    [
        pytest.param("4", ONE, id="never-written"),
        pytest.param("2", TWO, id="the-baseline-itself"),
    ],
)
def test_any_other_amount_is_the_owners(asked: str, baseline: Decimal) -> None:
    observed = make_workload(asking(asked))

    assert recognise(observed, know(TWO, THREE, baseline=baseline)) is observed


def test_a_note_that_is_there_says_more() -> None:
    observed = make_workload(asking("2", annotations={GPU_BEFORE: "main=3"}))

    assert recognise(observed, know(TWO)).own == {"main": THREE}


FORGOTTEN = RecommendationStatus(policies=(PolicyState(POLICY),), written={"main": (TWO,)})


def test_without_a_baseline_the_template_tells_what_was_there_before() -> None:
    """It was forgotten when the container left the scope for a while."""
    template = {"spec": {"containers": [make_gpu_container(limit="1")]}}

    observed = recognise(make_workload(asking("2"), template=template), FORGOTTEN)

    assert observed.own == {"main": ONE}
    followed = follow_owner(FORGOTTEN, observed, NOW)
    assert followed.policies[0].baseline["main"].amount == ONE


@pytest.mark.parametrize(
    "template",
    [
        pytest.param({}, id="template-without"),
        pytest.param({"spec": {"containers": [make_gpu_container(limit="1")]}}, id="with-one"),
    ],
)
def test_a_baseline_of_nothing_is_one(template: JsonObject) -> None:
    """As where the note says so: its owner gave the pod no GPU."""
    known = know(TWO, baseline=Decimal(0))

    observed = recognise(make_workload(asking("2"), template=template), known)

    noted = make_workload(asking("2", annotations={GPU_BEFORE: "main=0"}), template=template)
    assert observed.own == noted.own == {"main": None}
    assert observed.reasons == ()


def test_where_nothing_tells_what_was_there_before_our_amount_is_nobodys() -> None:
    observed = recognise(make_workload(asking("2"), kind="Model"), FORGOTTEN)

    assert observed.evidence[0].allocations == {"main": None}
    assert observed.reasons == (
        "left out, as its GPUs can't be told (what main has was written into it, and nothing tells"
        " over what): pod llm-0",
    )


def test_what_the_template_asks_for_is_the_owners() -> None:
    """He has taken over what was recommended to him."""
    template = {"spec": {"containers": [make_gpu_container(limit="2")]}}
    observed = make_workload(asking("2"), template=template)

    assert recognise(observed, know(TWO)).own == {"main": TWO}


def templated(count: str, note: str) -> JsonObject:
    """A template that was copied from a pod which ran."""
    container = make_gpu_container(limit=count, request=count)
    annotations = {GPU_BEFORE: note}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}


@pytest.mark.parametrize("known", [RecommendationStatus(), know(TWO)])
@pytest.mark.parametrize(
    ("template", "own"),
    [
        pytest.param(templated("4", "main=1"), "4", id="as-the-pod"),
        pytest.param(templated("4", "main=2"), "1", id="another-note"),
        pytest.param(templated("2", "main=1"), "1", id="another-amount"),
        pytest.param(templated("4", "other=1"), "1", id="of-another-container"),
    ],
)
def test_a_note_that_the_template_has_as_well_says_nothing(
    known: RecommendationStatus, template: JsonObject, own: str
) -> None:
    pod = asking("4", annotations={GPU_BEFORE: "main=1"})

    observed = recognise(make_workload(pod, template=template), known)

    assert observed.own == {"main": Decimal(own)}


def test_a_share_of_several_devices_is_known_by_its_note() -> None:
    """The pod has whole GPUs now; the next one is given so much of each device."""
    pod = asking("3", annotations={GPU_BEFORE: "main=0.9*2"})
    selected = replace(select("1.85"), scheduler=Scheduler.KAI)

    found = remember_written({}, selected, make_workload(pod).pods)

    assert Decimal("1.86") in found["main"]


def test_a_workload_of_which_nothing_was_written_is_as_it_is() -> None:
    observed = make_workload(asking("2"))

    assert recognise(observed, RecommendationStatus()) is observed


def test_pods_that_are_alike_stay_so() -> None:
    observed = recognise(make_workload(asking("2"), asking("2", "llm-1")), know(TWO))

    assert observed.pods[0].shape is observed.pods[1].shape


def test_a_share_of_several_devices_is_recognised_as_well() -> None:
    observed = make_workload(sharing("0.34", devices="3"))
    written = remember_written({}, select("1.01", scheduler=Scheduler.KAI), observed.pods)
    known = replace(know(), written=written)

    assert recognise(observed, known).own == {"main": ONE}


# --- remembered ---


@pytest.mark.parametrize(
    ("selected", "want"),
    [
        pytest.param(select("1.14"), ("2",), id="whole"),
        pytest.param(select("0.588", scheduler=Scheduler.KAI), ("0.59",), id="a-share"),
        pytest.param(select("2.2", ceilings={"main": TWO}), ("2",), id="at-the-ceiling"),
        pytest.param(select("1"), (), id="the-baseline"),
        pytest.param(select("2", mode=Mode.RECOMMEND), (), id="only-recommended"),
        pytest.param(None, (), id="nothing"),
    ],
)
def test_what_pods_are_given_is_remembered(
    selected: Selected | None, want: tuple[str, ...]
) -> None:
    found = remember_written({}, selected, ())

    assert found.get("main", ()) == tuple(map(Decimal, want))


def test_so_is_what_a_pod_was_given_before() -> None:
    observed = make_workload(asking("2", annotations={GPU_BEFORE: "main=1"}))

    assert remember_written({}, select("2.5"), observed.pods) == {"main": (TWO, THREE)}


def test_the_same_again_changes_nothing() -> None:
    observed = make_workload(asking("2", annotations={GPU_BEFORE: "main=1"}))
    once = remember_written({}, select("2.5"), observed.pods)

    assert remember_written(once, select("2.5"), observed.pods) == once


def test_the_oldest_amounts_are_forgotten() -> None:
    known: Any = {}
    for amount in range(2, 40):
        known = remember_written(known, select(str(amount)), ())

    assert known["main"] == tuple([Decimal(amount) for amount in range(24, 40)])


def test_another_baseline_begins_anew() -> None:
    """What was written on top of the old one may be what the owner wants now."""
    five = make_workload(asking("5"))

    status = follow_owner(know(TWO), five, NOW)

    assert status.policies[0].baseline["main"].amount == Decimal(5)
    assert status.written == {}
