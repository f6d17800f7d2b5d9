"""What is kept of a pod: who made it, whether it counts, and what a recommendation would change."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.builders import JsonObject
from tests.gpu import (
    CONTAINER,
    FRACTION,
    GPU,
    MEMORY,
    QUEUE,
    make_gpu_container,
    make_gpu_pod,
    make_injection,
    make_kai_injection,
)
from tests.gpu_cluster import make_object, make_running_pod, see_pod
from webhook.model.rightsizing.controls import PAUSE_UNTIL, SKIP_CONTAINERS, Controls
from webhook.model.rightsizing.injections import Injection
from webhook.policy.gpu.injection import plan_injection
from webhook.reactive.decisions.states import ObservedPod
from webhook.reactive.observation.pods import decode_pod
from webhook.store.object_metadata import OwnerRef


def test_a_pod_is_seen_with_all_that_a_decision_needs() -> None:
    replica_set = make_object("ReplicaSet", "llm-5d8")
    pod = see_pod(make_running_pod(owner=replica_set, annotations={PAUSE_UNTIL: "infinite"}))

    assert (pod.name, pod.namespace, pod.pod_name) == ("team-a/llm-0", "team-a", "llm-0")
    assert (pod.uid, pod.resource_version) == ("uid-pod-llm-0", "9")
    assert pod.owner == OwnerRef("apps/v1", "ReplicaSet", "llm-5d8", "uid-replicaset-llm-5d8")
    assert pod.ready_since == datetime(2026, 1, 1, 11, 31, tzinfo=UTC)
    assert pod.controls == Controls(pause_until="infinite")
    assert pod.observed == ObservedPod(
        "llm-0", datetime(2026, 1, 1, 11, 30, tzinfo=UTC), {"main": Decimal(1)}
    )


def test_only_a_controller_is_an_owner() -> None:
    pod = make_running_pod(owner=make_object("Deployment"))
    pod["metadata"]["ownerReferences"][0]["controller"] = False

    assert see_pod(pod).owner is None


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        pytest.param({}, True, id="running"),
        pytest.param({"phase": "Pending", "started": None}, True, id="waiting-for-a-node"),
        pytest.param({"phase": "Pending"}, True, id="waiting-for-its-image"),
        pytest.param({"conditions": []}, True, id="not-ready"),
        pytest.param({"phase": "Unknown"}, True, id="on-a-lost-node"),
        pytest.param({"deleted": True}, False, id="terminating"),
        pytest.param({"phase": "Succeeded"}, False, id="succeeded"),
        pytest.param({"phase": "Failed"}, False, id="failed"),
    ],
)
def test_a_pod_that_ends_is_no_evidence(more: dict[str, Any], counts: bool) -> None:
    assert see_pod(make_running_pod(**more)).is_evidence is counts


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param([], id="unknown"),
        pytest.param([{"type": "Ready", "status": "False"}], id="not-ready"),
        pytest.param([{"type": "PodScheduled", "status": "True"}], id="another-condition"),
    ],
)
def test_a_pod_that_is_not_ready_has_no_time_of_it(conditions: list[JsonObject]) -> None:
    assert see_pod(make_running_pod(conditions=conditions)).ready_since is None


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01T11:30:00"])
def test_a_start_that_is_no_time_is_no_start(text: str) -> None:
    assert see_pod(make_running_pod(started=text)).started is None


def test_pods_that_are_alike_share_what_they_ask_for() -> None:
    """So that ten thousand of them are not ten thousand times as large."""
    first = see_pod(make_running_pod("llm-0"))
    second = see_pod(make_running_pod("llm-1", deleted=True, phase="Pending"))
    other = see_pod(make_running_pod("llm-2", make_gpu_container(limit="2", request="2")))

    assert first.shape is second.shape
    assert first.shape is not other.shape


def test_a_shape_holds_nothing_that_is_not_about_gpus() -> None:
    """Least of all what containers are told by their environment."""
    secret = [{"name": "TOKEN", "value": "hush"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]
    pod = make_running_pod(
        "llm-0",
        make_gpu_container(limit="1", request="1", env=secret),
        annotations={"example.com/note": "x", FRACTION: "0.5"},
    )
    pod["metadata"]["labels"] = {"app": "llm", QUEUE: "team-a"}

    assert see_pod(pod).manifest == {
        "metadata": {"annotations": {FRACTION: "0.5"}, "labels": {QUEUE: "team-a"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}},
                    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}],
                }
            ]
        },
    }


PODS = [
    pytest.param(make_gpu_pod(), id="whole"),
    pytest.param(make_gpu_pod(make_gpu_container()), id="without"),
    pytest.param(make_gpu_pod(make_gpu_container(limit="2")), id="as-wanted"),
    pytest.param(
        make_gpu_pod(
            make_gpu_container(limit="1", request="1"),
            make_gpu_container("other", limit="1", request="1"),
        ),
        id="two-containers",
    ),
    pytest.param(
        make_gpu_pod(
            make_gpu_container(),
            annotations={FRACTION: "0.5", CONTAINER: "main"},
            labels={QUEUE: "gpus"},
            schedulerName="kai-scheduler",
        ),
        id="share",
    ),
    pytest.param(make_gpu_pod(make_gpu_container(), annotations={MEMORY: "100"}), id="memory"),
    pytest.param(make_gpu_pod(resourceClaims=[{"name": "gpu"}]), id="claims"),
    pytest.param(make_gpu_pod(annotations={SKIP_CONTAINERS: "main"}), id="skipped"),
    pytest.param(make_gpu_pod(annotations={PAUSE_UNTIL: "infinite"}), id="paused"),
    pytest.param(make_gpu_pod(annotations={"mps": "true"}), id="mps"),
    pytest.param(
        make_gpu_pod(
            initContainers=[
                make_gpu_container("load", limit="1", request="1"),
                make_gpu_container("proxy", restartPolicy="Always"),
            ]
        ),
        id="init-containers",
    ),
    pytest.param(
        make_gpu_pod(
            make_gpu_container(limit="1", request="1"),
            make_gpu_container("other", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
        ),
        id="devices-by-variable",
    ),
    pytest.param(
        make_gpu_pod(
            make_gpu_container(limit="1", request="1"),
            make_gpu_container(
                "other",
                env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": v} for v in ("none", "all")],
            ),
        ),
        id="devices-by-the-second-variable",
    ),
    pytest.param(
        make_gpu_pod(
            make_gpu_container(limit="1", request="1"),
            make_gpu_container(
                "other", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {}}}]
            ),
        ),
        id="devices-from-elsewhere",
    ),
]


@pytest.mark.parametrize(
    "injection",
    [
        pytest.param(make_injection(), id="two-whole"),
        pytest.param(make_kai_injection({"main": "0.5"}), id="half"),
        pytest.param(make_kai_injection({"main": "1.5"}), id="two-by-kai"),
    ],
)
@pytest.mark.parametrize("pod", PODS)
def test_what_is_kept_is_injected_like_the_pod_itself(
    pod: JsonObject, injection: Injection
) -> None:
    """It tells whether a new pod would differ, so it must tell what the webhook would do."""
    assert plan_injection(see_pod(pod).manifest, injection) == plan_injection(pod, injection)


def test_a_running_pod_is_looked_at_as_one_to_be_made() -> None:
    """Nobody gives a share to a pod on a node; its successor is not on one yet."""
    plan = plan_injection(see_pod(make_running_pod()).manifest, make_kai_injection({"main": "0.5"}))

    assert plan.obstacles == ()
    assert plan.changes


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"metadata": {"name": 1}}'])
def test_what_is_no_pod_is_an_error(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_pod(raw)
