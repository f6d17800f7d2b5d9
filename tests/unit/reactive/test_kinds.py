"""What is kept of a workload, and how many of its pods may be away."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import JsonObject
from tests.gpu_cluster import make_object, see_workload
from webhook.model.rightsizing.controls import PAUSE_UNTIL, SKIP_CONTAINERS, Controls
from webhook.model.rightsizing.recommendations import WorkloadRef
from webhook.model.rightsizing.workload_types import GROUP_OF_SHORT, SHORT_TYPES
from webhook.reactive.decisions.scopes import ScopedWorkload
from webhook.reactive.observation.kinds import WORKLOAD_KINDS, Rollout


def test_every_type_that_a_policy_can_name_is_a_kind_that_is_looked_for() -> None:
    assert set(WORKLOAD_KINDS) == set(SHORT_TYPES)
    assert {kind: each.group for kind, each in WORKLOAD_KINDS.items()} == GROUP_OF_SHORT


def test_only_what_no_cluster_may_lack_is_not_optional() -> None:
    needed = {
        kind.kind
        for kind in WORKLOAD_KINDS.values()
        for resource in kind.resources
        if not resource.optional
    }

    assert needed == {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}


def test_no_two_resources_have_one_name() -> None:
    """Metrics tell them apart by it."""
    names = [each.name for kind in WORKLOAD_KINDS.values() for each in kind.resources]

    assert len(names) == len(set(names)) == 10


def test_a_workload_is_seen_with_its_labels_and_controls() -> None:
    template = {"metadata": {"annotations": {PAUSE_UNTIL: "infinite", "other": "x"}}}
    workload = see_workload(
        make_object(
            "Deployment",
            labels={"app": "llm"},
            annotations={SKIP_CONTAINERS: "proxy"},
            spec={"template": template},
        )
    )

    assert workload.ref == WorkloadRef("apps/v1", "Deployment", "llm", "uid-deployment-llm")
    assert workload.scoped == ScopedWorkload("team-a", "Deployment", "llm", {"app": "llm"})
    assert workload.controls == Controls(skip_containers="proxy")
    assert workload.template_controls == Controls(pause_until="infinite")


OTHERS = [kind for kind, each in WORKLOAD_KINDS.items() if not each.rolls and not each.retries]


@pytest.mark.parametrize("kind", OTHERS)
def test_of_most_kinds_the_metadata_is_enough(kind: str) -> None:
    workload = see_workload(make_object(kind))

    assert (workload.kind, workload.rollout) == (kind, None)
    assert {each.metadata_only for each in WORKLOAD_KINDS[kind].resources} == {True}


@pytest.mark.parametrize("kind", WORKLOAD_KINDS)
def test_one_that_is_being_deleted_is_seen_as_such(kind: str) -> None:
    there = make_object(kind)
    gone = {**there["metadata"], "deletionTimestamp": "2026-01-01T12:00:00Z"}

    assert not see_workload(there).is_ending
    assert see_workload({**there, "metadata": gone}).is_ending


def rolling(given: Any, replicas: int, **more: Any) -> JsonObject:
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": given}}
    return {"spec": {"replicas": replicas, "strategy": update, **more}}


def argo(strategy: str, **more: Any) -> JsonObject:
    """Of a Rollout with eight replicas."""
    return {"spec": {"replicas": 8, "strategy": {strategy: more}}}


@pytest.mark.parametrize(
    ("kind", "more", "want"),
    [
        pytest.param("Deployment", rolling(2, 10), 2, id="number"),
        pytest.param("Deployment", rolling("25%", 10), 2, id="part-rounded-down"),
        pytest.param("Deployment", rolling("100%", 10), 10, id="all"),
        pytest.param("Deployment", rolling("25%", 3), 1, id="at-least-one"),
        pytest.param("Deployment", rolling(0, 3), 1, id="at-least-one-of-zero"),
        pytest.param("Deployment", rolling(None, 8), 2, id="default"),
        pytest.param("Deployment", rolling("many", 8), 1, id="no-amount"),
        pytest.param("Deployment", rolling("-25%", 8), 1, id="less-than-nothing"),
        pytest.param("Deployment", rolling("9" * 5000 + "%", 8), 1, id="digits-without-end"),
        pytest.param("Deployment", {"spec": {"strategy": {"type": "Recreate"}}}, None, id="other"),
        pytest.param(
            "StatefulSet",
            {"spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate"}}},
            1,
            id="stateful-set",
        ),
        pytest.param(
            "StatefulSet", {"spec": {"updateStrategy": {"type": "OnDelete"}}}, None, id="on-delete"
        ),
        pytest.param(
            "DaemonSet",
            {
                "spec": {
                    "updateStrategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": "25%"},
                    }
                },
                "status": {"desiredNumberScheduled": 9},
            },
            3,
            id="daemon-set-rounded-up",
        ),
        pytest.param("Rollout", argo("canary", maxUnavailable=3), 3, id="argo-canary"),
        pytest.param("Rollout", argo("canary", maxUnavailable="50%"), 4, id="argo-part"),
        pytest.param("Rollout", argo("canary", steps=[]), 2, id="argo-default"),
        pytest.param("Rollout", argo("blueGreen", maxUnavailable=4), 4, id="argo-blue-green"),
        pytest.param("Rollout", {"spec": {"replicas": 8}}, 2, id="argo-without-strategy"),
    ],
)
def test_so_many_pods_may_be_away_as_in_a_rolling_update(
    kind: str, more: JsonObject, want: int | None
) -> None:
    rollout = see_workload(make_object(kind, **more)).rollout

    assert rollout is not None
    assert rollout.unavailable_allowed == want


@pytest.mark.parametrize(
    ("kind", "more", "want"),
    [
        pytest.param("Deployment", {"spec": {}}, 1, id="default"),
        pytest.param("Deployment", {"spec": {"replicas": 0}}, 0, id="none"),
        pytest.param("DaemonSet", {"spec": {}}, 0, id="daemon-set-not-seen-by-its-controller"),
    ],
)
def test_replicas_are_those_wanted(kind: str, more: JsonObject, want: int) -> None:
    rollout = see_workload(make_object(kind, **more)).rollout

    assert isinstance(rollout, Rollout)
    assert rollout.replicas == want
