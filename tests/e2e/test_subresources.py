"""Subresources through a real API server: scale, debug and resize."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    PYTORCH_JOB,
    JsonObject,
    make_container,
    make_gvk_policy,
    make_pod,
    make_pytorch_job,
    make_rule,
)
from tests.controlplane.run import ControlPlane
from tests.e2e.gate import Gate

NAMESPACE = "team-a"
NAME = "subresources"
GHCR = "ghcr.io/example/train:1"

Put = Callable[..., None]


@pytest.fixture
def policies(gate: Gate) -> Iterator[Put]:
    """
    Puts policies in force for one test, in place of those that it put before.

    They hold before those of the examples, which are the tenant's and may not be replaced by
    narrower ones.
    """
    name = "subresources.yaml"

    def put(**rules: tuple[JsonObject, JsonObject]) -> None:
        documents = [
            make_gvk_policy(rule, kind=kind, name=key, scope="system")
            for key, (kind, rule) in rules.items()
        ]
        gate.write_policies(name, *documents)

    yield put
    if (gate.policies / name).exists():
        gate.remove_policies(name)


def create(plane: ControlPlane, document: JsonObject) -> JsonObject:
    document["metadata"] |= {"name": NAME, "namespace": NAMESPACE}
    out = plane.kubectl_checked(
        "create", "-o", "json", "-f", "-", stdin=json.dumps(document), user="alice"
    )
    stored: JsonObject = json.loads(out)
    return stored


def get(plane: ControlPlane, kind: str) -> JsonObject:
    out = plane.kubectl_checked("get", kind, NAME, "-n", NAMESPACE, "-o", "json")
    stored: JsonObject = json.loads(out)
    return stored


@pytest.fixture
def clean(plane: ControlPlane) -> Iterator[None]:
    """The objects of one test are deleted after it."""
    yield
    for kind in ("deployment", "pytorchjob", "pod"):
        plane.kubectl(
            *("delete", kind, NAME, "-n", NAMESPACE, "--ignore-not-found"),
            *("--wait=true", "--force", "--grace-period=0"),
        )


def refused(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode != 0, result.stdout
    return result.stderr


def passed(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stderr


# -- scale ---------------------------------------------------------------------------------------


def make_deployment(replicas: int) -> JsonObject:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "default",
                    "containers": [make_container(image=GHCR)],
                },
            },
        },
    }


def scale(plane: ControlPlane, kind: str, replicas: int) -> subprocess.CompletedProcess[str]:
    return plane.kubectl(
        "scale", kind, NAME, "-n", NAMESPACE, f"--replicas={replicas}", user="alice"
    )


@pytest.mark.usefixtures("clean")
def test_kubectl_scale_meets_the_rules_of_the_deployment(
    plane: ControlPlane, gate: Gate, policies: Put
) -> None:
    create(plane, make_deployment(6))
    policies(few=(DEPLOYMENT, make_rule("replicas", "workload", {"max": 3}, {"min": 1})))

    message = refused(scale(plane, "deployment", 7))
    assert "admission webhook" in message
    assert "replicas [workload]: above the maximum, got 7; ≤ 3 (policy few, system)" in message
    assert get(plane, "deployment")["spec"]["replicas"] == 6

    # What is above the maximum may come down, and need not come down all the way.
    passed(scale(plane, "deployment", 5))
    passed(scale(plane, "deployment", 2))
    assert "replicas [workload]: below the minimum, got 0; ≥ 1" in refused(
        scale(plane, "deployment", 0)
    )
    assert get(plane, "deployment")["spec"]["replicas"] == 2

    records = [entry for entry in gate.decisions() if entry.get("subResource") == "scale"]
    assert {entry["outcome"] for entry in records} == {"allowed", "denied"}


@pytest.mark.usefixtures("clean")
def test_without_a_rule_on_replicas_everything_may_be_scaled(
    plane: ControlPlane, policies: Put
) -> None:
    policies(image=(DEPLOYMENT, make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]})))
    create(plane, make_deployment(1))

    passed(scale(plane, "deployment", 2))


@pytest.fixture
def scalable_jobs(plane: ControlPlane) -> Iterator[None]:
    """PyTorchJobs with the scale subresource that their operator's CRD has."""
    crd, path = "pytorchjobs.kubeflow.org", "/spec/versions/0/subresources/scale"
    value = {
        "specReplicasPath": ".spec.pytorchReplicaSpecs.Worker.replicas",
        "statusReplicasPath": ".status.replicaStatuses.Worker.active",
    }

    def patch(**operation: Any) -> None:
        patches = json.dumps([{"path": path, **operation}])
        plane.kubectl_checked("patch", "crd", crd, "--type=json", "-p", patches)

    patch(op="add", value=value)
    yield
    patch(op="remove")


@pytest.mark.usefixtures("clean", "scalable_jobs")
def test_the_scale_of_a_custom_kind_is_that_of_its_workers(
    plane: ControlPlane, policies: Put
) -> None:
    job = make_pytorch_job(workers=1, container=make_container("pytorch", image=GHCR))
    job["metadata"]["labels"] = {"example.com/owner": "ada"}
    create(plane, job)
    policies(few=(PYTORCH_JOB, make_rule("replicas", "replicaSpecs", {"max": 3})))

    message = refused(scale(plane, "pytorchjob", 4))
    assert "replicas [replicaSpecs]: above the maximum, got 4; ≤ 3 (policy few," in message
    passed(scale(plane, "pytorchjob", 3))
    roles = get(plane, "pytorchjob")["spec"]["pytorchReplicaSpecs"]
    assert (roles["Master"]["replicas"], roles["Worker"]["replicas"]) == (1, 3)


# -- ephemeral containers ------------------------------------------------------------------------

POD = {"version": "v1", "kind": "Pod"}
SECURITY = {
    "image": (POD, make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]})),
    "privileged": (POD, make_rule("privileged", "allContainers", {"options": [False]})),
    "limits": (
        POD,
        make_rule("resourceLimits", "allContainers", {"default": {"key": "cpu", "value": 1}}),
    ),
    "escalation": (POD, make_rule("allowPrivilegeEscalation", "allContainers", {"set": False})),
}


def debug(plane: ControlPlane, *flags: str) -> subprocess.CompletedProcess[str]:
    return plane.kubectl("debug", NAME, "-n", NAMESPACE, "-c", "debugger", *flags)


@pytest.mark.usefixtures("clean")
def test_kubectl_debug_meets_the_rules_on_image_and_security(
    plane: ControlPlane, policies: Put
) -> None:
    policies(**SECURITY)
    create(plane, make_pod(containers=[make_container(image=GHCR)]))

    message = refused(debug(plane, "--image=docker.io/library/busybox:1", "--profile=general"))
    assert (
        "image [allContainers debugger]: matches no allowed pattern, got"
        " docker.io/library/busybox:1; like ghcr.io/* (policy image, system)" in message
    )
    message = refused(debug(plane, f"--image={GHCR}", "--profile=sysadmin"))
    assert "privileged [allContainers debugger]: not an allowed value, got true" in message
    assert "ephemeralContainers" not in get(plane, "pod")["spec"]

    passed(debug(plane, f"--image={GHCR}", "--profile=general"))
    (container,) = get(plane, "pod")["spec"]["ephemeralContainers"]
    assert (container["name"], container["image"]) == ("debugger", GHCR)
    # What is set on other containers is not set here, and resources can't be.
    assert container.get("resources", {}) == {}
    assert "allowPrivilegeEscalation" not in container.get("securityContext", {})


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        pytest.param({}, "", id="good"),
        pytest.param({"image": "docker.io/x"}, "image [allContainers probe]", id="image"),
        pytest.param(
            {"securityContext": {"privileged": True}},
            "privileged [allContainers probe]",
            id="privileged",
        ),
        pytest.param(
            {"securityContext": {"allowPrivilegeEscalation": True}},
            "allowPrivilegeEscalation [allContainers probe]: the policy sets this value, got true;"
            " exactly false",
            id="other-than-what-is-set",
        ),
    ],
)
def test_a_put_of_ephemeral_containers_is_judged_and_not_changed(
    plane: ControlPlane, policies: Put, more: JsonObject, reason: str
) -> None:
    policies(**SECURITY)
    create(plane, make_pod(containers=[make_container(image=GHCR)]))
    pod = get(plane, "pod")
    container = make_container("probe", **{"image": GHCR, **more})
    pod["spec"]["ephemeralContainers"] = [container]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{NAME}/ephemeralcontainers"

    answer = plane.request("PUT", path, pod)

    assert answer.status == (403 if reason else 200), answer.text
    status: Any = answer.json()
    if reason:
        assert reason in status["message"]
        assert status["details"]["causes"][0]["field"].startswith("spec.ephemeralContainers[0].")
    else:
        (stored,) = get(plane, "pod")["spec"]["ephemeralContainers"]
        assert stored.get("resources", {}) == {}
        assert stored.get("securityContext", {}) == {}


# -- resize --------------------------------------------------------------------------------------


def resize(plane: ControlPlane, cpu: str) -> subprocess.CompletedProcess[str]:
    resources = {"limits": {"cpu": cpu}, "requests": {"cpu": cpu}}
    patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    return plane.kubectl(
        *("patch", "pod", NAME, "-n", NAMESPACE, "--subresource=resize"),
        *("-p", json.dumps(patch)),
    )


@pytest.mark.usefixtures("clean")
def test_a_resize_meets_the_rules_on_resources_and_is_not_completed(
    plane: ControlPlane, policies: Put
) -> None:
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    create(plane, make_pod(containers=[make_container(image=GHCR, resources=resources)]))
    policies(
        limits=(
            POD,
            make_rule(
                "resourceLimits",
                "allContainers",
                {"max": {"key": "cpu", "value": 2}},
                {"default": {"key": "memory", "value": "1Gi"}},
            ),
        )
    )

    message = refused(resize(plane, "3"))
    assert "resourceLimits[cpu] [allContainers main]: above the maximum, got 3; ≤ 2" in message
    passed(resize(plane, "2"))
    limits = get(plane, "pod")["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "2"}


# -- everything else -----------------------------------------------------------------------------


@pytest.mark.usefixtures("clean")
def test_status_is_nobodys_business(plane: ControlPlane, policies: Put) -> None:
    create(plane, make_deployment(6))
    policies(few=(DEPLOYMENT, make_rule("replicas", "workload", {"max": 3})))
    condition = {"type": "Available", "status": "True", "reason": "x", "message": "x"}
    patch = {"status": {"conditions": [condition]}}

    passed(
        plane.kubectl(
            *("patch", "deployment", NAME, "-n", NAMESPACE, "--subresource=status"),
            *("--type=merge", "-p", json.dumps(patch)),
        )
    )
