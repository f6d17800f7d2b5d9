"""Through a real API server: what it stored, and what the user read."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    JOB,
    PYTORCH_JOB,
    make_container,
    make_gvk_policy,
    make_pod,
    make_pytorch_job,
    make_rule,
    make_training,
)
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.gate import EXAMPLES, Gate
from webhook.mapping.fields import read_ref
from webhook.mapping.locate import Locator
from webhook.model.kinds import GroupVersionKind
from webhook.model.pointer import lookup
from webhook.model.settings import EngineSettings
from webhook.model.values import FieldType
from webhook.patch import Editor
from webhook.policy.plans import is_own_item
from webhook.store.compile.snapshots import build_snapshot

JsonObject = dict[str, Any]

GHCR = "ghcr.io/example/train:1"


def apply(
    plane: ControlPlane, document: JsonObject, *flags: str, user: str = "alice"
) -> subprocess.CompletedProcess[str]:
    return plane.kubectl("apply", *flags, "-f", "-", stdin=json.dumps(document), user=user)


def create(plane: ControlPlane, document: JsonObject, *flags: str) -> JsonObject:
    """Create *document* as a plain user and return what was stored."""
    out = plane.kubectl_checked(
        "create", "-o", "json", *flags, "-f", "-", stdin=json.dumps(document), user="alice"
    )
    stored: JsonObject = json.loads(out)
    return stored


def refused(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode != 0, result.stdout
    return result.stderr


@pytest.fixture
def policies(gate: Gate) -> Iterator[Any]:
    """Puts more policies in force for one test."""

    def put(*documents: JsonObject) -> None:
        gate.write_policies("of-a-test.yaml", *documents)

    yield put
    if (gate.policies / "of-a-test.yaml").exists():
        gate.remove_policies("of-a-test.yaml")


@pytest.fixture
def names(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[str]:
    """A name for the objects of one test; they are deleted after it."""
    name = f"t-{abs(hash(request.node.name)) % 10**8}"
    yield name
    for kind in ("deployment", "pytorchjob", "training", "job", "pod"):
        plane.kubectl(
            "delete", kind, name, "-n", "team-a", "--ignore-not-found", "--wait=false", "--force"
        )


def named(document: JsonObject, name: str, namespace: str = "team-a") -> JsonObject:
    document = copy.deepcopy(document)
    document["metadata"] |= {"name": name, "namespace": namespace}
    return document


def make_deployment(image: str = GHCR, **spec: Any) -> JsonObject:
    labels = {"app": "web"}
    pod_spec = {"serviceAccountName": "default", "containers": [make_container(image=image)]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec},
            **spec,
        },
    }


def test_the_forgetful_example_is_stored_complete(plane: ControlPlane) -> None:
    plane.kubectl_checked(
        "apply", "-f", str(EXAMPLES / "workloads" / "pytorchjob-forgetful.yaml"), user="alice"
    )

    out = plane.kubectl_checked("get", "pytorchjob", "resnet", "-n", "team-vision", "-o", "json")
    job = json.loads(out)
    plane.kubectl_checked("delete", "pytorchjob", "resnet", "-n", "team-vision")

    assert job["metadata"]["labels"]["example.com/cost-centre"] == "research"
    worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert worker["resources"]["limits"] == {"cpu": "24", "nvidia.com/gpu": 1, "memory": "4Gi"}
    assert worker["imagePullPolicy"] == "IfNotPresent"
    assert worker["securityContext"] == {"allowPrivilegeEscalation": False}


def test_the_greedy_example_is_refused_with_every_reason(plane: ControlPlane) -> None:
    result = plane.kubectl(
        "apply", "-f", str(EXAMPLES / "workloads" / "pytorchjob-greedy.yaml"), user="alice"
    )

    message = refused(result)
    assert "admission webhook" in message
    assert "replicas [worker]: above the maximum, got 64; ≤ 8" in message
    assert "resourceLimits[cpu] [allContainers Worker/pytorch]" in message
    assert "labels[example.com/owner] [metadata]: a value is required" in message
    assert "policy pytorch-baseline, tenant" in message
    assert "this-is-never-printed" not in message


@pytest.mark.parametrize(
    ("example", "reasons"),
    [
        ("pod-hostpath.yaml", ["hostPathVolumes", "image [allContainers shell]"]),
        ("training-native.yaml", ["compute.gpuDevicesRequest", "imagePullPolicy", "priorityClass"]),
    ],
)
def test_the_other_refused_examples_say_why(
    plane: ControlPlane, example: str, reasons: list[str]
) -> None:
    result = plane.kubectl("create", "-f", str(EXAMPLES / "workloads" / example), user="alice")

    message = refused(result)
    plane.kubectl("delete", "training", "bert", "-n", "team-vision", "--ignore-not-found")
    for reason in reasons:
        assert reason in message


def test_a_native_training_gets_the_defaults_of_its_branch(plane: ControlPlane, names: str) -> None:
    training = make_training(image="nvcr.io/x", compute={"cpuCoreRequest": "0.5"})

    stored = create(plane, named(training, names))

    assert stored["spec"]["compute"] == {
        "cpuCoreRequest": "0.5",
        "cpuMemoryRequest": "2Gi",
        "gpuDevicesRequest": 1,
    }
    assert stored["spec"]["security"] == {"privileged": False, "runAsNonRoot": True}
    assert stored["spec"]["terminationGracePeriodSeconds"] == 30


def test_what_is_only_missing_is_refused_by_the_second_door(plane: ControlPlane) -> None:
    job = named(make_pytorch_job(), "unowned")

    message = refused(apply(plane, job))

    assert "labels[example.com/owner]" in message
    assert "validate" in message or "required" in message


def test_a_deployment_that_was_judged_gets_its_pods(
    plane: ControlPlane, gate: Gate, names: str
) -> None:
    """They are made by the controllers of kube-system, and carry an image that Pods may not."""
    create(plane, named(make_deployment(image="docker.io/library/nginx:1"), names))

    def pods() -> list[JsonObject]:
        out = plane.kubectl_checked("get", "pods", "-n", "team-a", "-o", "json")
        return [
            pod for pod in json.loads(out)["items"] if pod["metadata"]["name"].startswith(names)
        ]

    assert wait_until(pods, 30, "the Deployment's pod")
    assert not any(
        record["outcome"] == "denied" and record["name"].startswith(f"{names}-")
        for record in gate.decisions()
    )


def test_a_users_own_reference_to_an_owner_gains_nothing(plane: ControlPlane, names: str) -> None:
    pod = named(make_pod(containers=[make_container(image="docker.io/x")]), names)
    pod["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "x",
            "uid": "f6b3a7a4-9d5c-4f7b-9a0e-3a3f3f8f6a11",
            "controller": True,
        }
    ]

    assert "image [allContainers main]" in refused(apply(plane, pod))


def test_a_pod_of_a_job_is_judged_where_no_policy_concerns_jobs_owner(
    plane: ControlPlane, policies: Any, gate: Gate, names: str
) -> None:
    """Jobs are concerned by the examples, so their Pods pass; the record says for whom."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {},
        "spec": {
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [make_container(image="busy")]}
            }
        },
    }
    create(plane, named(job, names))

    def record() -> JsonObject | None:
        for entry in gate.decisions():
            if entry["kind"]["kind"] == "Pod" and entry["name"].startswith(f"{names}-"):
                return entry
        return None

    entry = wait_until(record, 30, "the Job's pod")
    assert entry is not None
    assert entry["outcome"] == "allowed"
    assert "for a Job" in entry["reason"]


@pytest.mark.parametrize("flags", [(), ("--dry-run=server",)], ids=["wet", "dry"])
def test_dry_run_gets_the_same_answer(
    plane: ControlPlane, gate: Gate, names: str, flags: tuple[str, ...]
) -> None:
    good = create(plane, named(make_training(image="nvcr.io/x"), names), *flags)
    message = refused(apply(plane, named(make_training(image="docker.io/x"), names), *flags))

    assert good["spec"]["imagePullPolicy"] == "Always"
    assert "image [spec]: matches no allowed pattern, got docker.io/x" in message
    assert gate.decisions()[-1]["dryRun"] is bool(flags)


class TestObjectsFromBeforeAPolicy:
    """Ratcheting: what makes nothing worse passes."""

    @pytest.fixture
    def deployment(self, plane: ControlPlane, names: str, policies: Any) -> str:
        document = make_deployment(replicas=6)
        document["metadata"]["finalizers"] = ["example.com/hold"]
        create(plane, named(document, names))
        policies(
            make_gvk_policy(
                make_rule("minReadySeconds", "workload", {"set": 5}),
                make_rule("image", "allContainers", {"pattern": ["nvcr.io/*"]}),
                kind=DEPLOYMENT,
                name="stricter",
                scope="project",
                unit="team-a",
            )
        )
        return names

    def patch(self, plane: ControlPlane, name: str, patch: JsonObject) -> Any:
        return plane.kubectl(
            *("patch", "deployment", name, "-n", "team-a", "--type=merge", "-p", json.dumps(patch)),
            user="alice",
        )

    def test_they_stay_editable(self, plane: ControlPlane, deployment: str) -> None:
        changes: list[JsonObject] = [
            {"metadata": {"finalizers": []}},
            {"metadata": {"labels": {"x": "y"}}},
            {"spec": {"replicas": 3}},
        ]
        for change in changes:
            result = self.patch(plane, deployment, change)
            assert result.returncode == 0, result.stderr

        out = plane.kubectl_checked(
            "get", "deployment", deployment, "-n", "team-a", "-o", "jsonpath={.spec}"
        )
        assert "minReadySeconds" not in out

    def test_a_new_violation_is_refused(self, plane: ControlPlane, deployment: str) -> None:
        change = {
            "spec": {
                "template": {"spec": {"containers": [{"name": "main", "image": "docker.io/other"}]}}
            }
        }

        message = refused(self.patch(plane, deployment, change))

        assert "image [allContainers main]" in message
        assert "policy stricter, project team-a" in message


@pytest.mark.parametrize("resources", [None, {}, {"limits": {"cpu": "1"}}], ids=str)
def test_resource_names_with_slashes_arrive_whole(
    plane: ControlPlane, policies: Any, names: str, resources: JsonObject | None
) -> None:
    policies(
        make_gvk_policy(
            make_rule(
                "resourceLimits",
                "mainContainer",
                {"default": {"key": "nvidia.com/gpu", "value": 1}},
            ),
            make_rule(
                "labels",
                "metadata",
                {"default": {"key": "team.example.com/cost-centre", "value": "12-30"}},
            ),
            name="gpus",
            scope="project",
            unit="team-a",
        )
    )
    container = make_container(image=GHCR) | ({"resources": resources} if resources else {})

    stored = create(plane, named(make_pod(containers=[container]), names))

    limits = {"nvidia.com/gpu": "1"} | ((resources or {}).get("limits") or {})
    assert stored["spec"]["containers"][0]["resources"]["limits"] == limits
    assert stored["metadata"]["labels"] == {"team.example.com/cost-centre": "12-30"}


@pytest.mark.parametrize(
    "document", [{}, {"spec": {}}, {"spec": {"pytorchReplicaSpecs": {"Worker": {}}}}], ids=str
)
def test_missing_parents_are_accepted_by_the_api_server(
    plane: ControlPlane, policies: Any, names: str, document: JsonObject
) -> None:
    policies(
        make_gvk_policy(
            make_rule("backoffLimit", "workload", {"default": 3}),
            make_rule("cleanPodPolicy", "workload", {"default": "Running"}),
            make_rule("labels", "podMetadata", {"default": {"key": "a.b/c", "value": "d"}}),
            kind=PYTORCH_JOB,
            name="parents",
            scope="project",
            unit="team-a",
        )
    )
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {}, **document}
    job = named(job, names)
    job["metadata"]["labels"] = {"example.com/owner": "ada"}

    stored = create(plane, job)

    assert stored["spec"]["runPolicy"] == {"backoffLimit": 3, "cleanPodPolicy": "Running"}
    if document.get("spec"):
        worker = stored["spec"]["pytorchReplicaSpecs"]["Worker"]
        assert worker["template"]["metadata"]["labels"] == {"a.b/c": "d"}


def test_a_priority_class_can_be_set_on_a_pod(
    plane: ControlPlane, policies: Any, names: str
) -> None:
    """The API server has computed spec.priority from the old class before it asks us."""
    for name, value in (("gw-low", 10), ("gw-high", 1000)):
        plane.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    policies(
        make_gvk_policy(
            make_rule("priorityClassName", "podSpec", {"set": "gw-low"}),
            name="priority",
            scope="project",
            unit="team-a",
        )
    )
    pod = make_pod(containers=[make_container(image=GHCR)], priorityClassName="gw-high")

    stored = create(plane, named(pod, names))

    assert stored["spec"]["priorityClassName"] == "gw-low"
    assert stored["spec"]["priority"] == 10


def replicated(kind: str, **spec: Any) -> JsonObject:
    """A minimal object of one of the kinds of apps/v1, which select their pods by a label."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "main", "image": "x:1"}]},
            },
            **spec,
        },
    }


# Fields of the built-in kinds that the API server fills, with minimal objects that leave them out.
MINIMAL: list[tuple[JsonObject, JsonObject]] = [
    ({"version": "v1", "kind": "Pod"}, make_pod(containers=[{"name": "main", "image": "x"}])),
    (DEPLOYMENT, replicated("Deployment")),
    (
        {"group": "apps", "version": "v1", "kind": "StatefulSet"},
        replicated("StatefulSet", serviceName="main"),
    ),
    ({"group": "apps", "version": "v1", "kind": "ReplicaSet"}, replicated("ReplicaSet")),
    ({"group": "apps", "version": "v1", "kind": "DaemonSet"}, replicated("DaemonSet")),
    (
        JOB,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {},
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "x:1"}],
                    }
                }
            },
        },
    ),
    (
        {"group": "batch", "version": "v1", "kind": "CronJob"},
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {},
            "spec": {
                "schedule": "0 4 * * *",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [{"name": "main", "image": "x:1"}],
                            }
                        }
                    }
                },
            },
        },
    ),
]


@pytest.mark.parametrize(("kind", "document"), MINIMAL, ids=lambda value: value.get("kind"))
def test_the_catalogue_lists_what_the_api_server_fills_in(
    plane: ControlPlane, kind: JsonObject, document: JsonObject
) -> None:
    """A minimal object in kube-system, where we are not asked: what it has more is theirs."""
    typed = named(document, "minimal", "kube-system")
    out = plane.kubectl_checked(
        "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(typed)
    )
    stored = json.loads(out)
    mapping = build_snapshot([], EngineSettings()).mappings[
        GroupVersionKind(kind.get("group", ""), kind["version"], kind["kind"])
    ]
    unlisted, wrong = [], []
    for selector in mapping.selectors.values():
        for path in Locator(mapping, stored, {}).places(selector).paths:
            node, before = lookup(stored, path), lookup(typed, path)
            for field in selector.fields.values():
                # Maps have no value of their own, and a filtered list is listed as the whole.
                if field.is_map or field.having is not None:
                    continue
                value = read_ref(node, field.ref)
                if value in (None, {}) or read_ref(before, field.ref) is not None:
                    continue
                if not selector.is_filled(field.name):
                    unlisted.append((selector.name, field.name, value))
                listed = selector.server_defaults.get(field.name)
                if listed is not None and value not in listed:
                    wrong.append((selector.name, field.name, value))
                patterns = selector.server_items.get(field.name)
                if patterns is not None:
                    wrong += [
                        (selector.name, field.name, item)
                        for item in value
                        if not is_own_item(item, patterns)
                    ]

    assert unlisted == []
    assert wrong == []


# Zero is no valid value of these (of the last two, where a Job's completions have no index); they
# are pointers, which keep what was written.
NEVER_ZERO = frozenset(
    {
        "activeDeadlineSeconds",
        "progressDeadlineSeconds",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    }
)


@pytest.mark.parametrize(("kind", "document"), MINIMAL, ids=lambda value: value.get("kind"))
def test_the_catalogue_lists_where_the_api_server_drops_zeros(
    plane: ControlPlane, kind: JsonObject, document: JsonObject
) -> None:
    """Some fields lose a false or 0 on the way, so that absent has to count as it."""
    typed = named(document, "zeros", "kube-system")
    mapping = build_snapshot([], EngineSettings()).mappings[
        GroupVersionKind(kind.get("group", ""), kind["version"], kind["kind"])
    ]
    editor = Editor(typed)
    written = {}
    for selector in mapping.selectors.values():
        for path in Locator(mapping, typed, {}).places(selector).paths:
            for field in selector.fields.values():
                if field.type not in (FieldType.BOOLEAN, FieldType.INTEGER):
                    continue
                zero = False if field.type is FieldType.BOOLEAN else 0
                if field.name not in NEVER_ZERO:
                    written[path + field.ref] = (selector, field.name, zero)
                    editor.write(path + field.ref, zero)
    out = plane.kubectl_checked(
        "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(typed)
    )
    stored = json.loads(out)
    unlisted = [
        (selector.name, name)
        for path, (selector, name, zero) in written.items()
        if lookup(stored, path) is None and selector.server_defaults.get(name) != (zero,)
    ]

    assert len(written) > 5
    assert unlisted == []
