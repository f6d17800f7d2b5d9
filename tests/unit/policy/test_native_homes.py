"""Hierarchical policies for kinds with a pod template: every native path at its home there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    JOB,
    POD,
    PYTORCH_JOB,
    make_container,
    make_pod,
    make_pytorch_job,
    make_request,
    make_snapshot,
    make_workload_policy,
    submit,
)
from webhook.admission.review import review
from webhook.model.pointer import lookup, to_pointer
from webhook.model.request import Phase
from webhook.policy.items.enforcing import EXCLUDED
from webhook.store.snapshot import Snapshot

JsonObject = dict[str, Any]

SPEC = "/spec/template/spec"
MAIN = f"{SPEC}/containers/0"
META = "/spec/template/metadata"


def compile_ok(*documents: Any) -> Snapshot:
    snapshot = make_snapshot(*documents)
    assert [str(problem) for problem in snapshot.problems if not problem.warning] == []
    return snapshot


def make_deployment(
    *containers: JsonObject, metadata: JsonObject | None = None, **pod: Any
) -> JsonObject:
    template: JsonObject = {"spec": {"containers": list(containers) or [make_container()], **pod}}
    if metadata is not None:
        template["metadata"] = metadata
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm", "namespace": "team-a"},
        "spec": {"template": template},
    }


def nested(path: str, value: Any) -> JsonObject:
    """`{"a": {"b": value}}` for `a.b`."""
    for name in reversed(path.split(".")):
        value = {name: value}
    tree: JsonObject = value
    return tree


def at(document: JsonObject, pointer: str) -> Any:
    tokens: list[str | int] = []
    for token in pointer.split("/")[1:]:
        plain = token.replace("~1", "/")
        tokens.append(int(plain) if plain.isdecimal() else plain)
    return lookup(document, tuple(tokens))


def items(*instances: JsonObject) -> JsonObject:
    return {"instances": list(instances)}


ENV: list[JsonObject] = [
    {"name": "A", "value": "1"},
    {"name": "S", "secret": {"name": "s", "key": "k"}},
    {"name": "C", "configMap": {"name": "c", "key": "k"}},
    {"name": "P", "podFieldRef": {"path": "metadata.name"}},
]

ENV_HOME = [
    {"name": "A", "value": "1"},
    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
    {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
]

# A path, the default that a policy gives, where it is written, and as what.
HOMES = [
    ("image", "nvcr.io/a:1", f"{MAIN}/image", "nvcr.io/a:1"),
    ("workingDir", "/work", f"{MAIN}/workingDir", "/work"),
    ("compute.cpuCoreRequest", 0.5, f"{MAIN}/resources/requests/cpu", "500m"),
    ("compute.cpuCoreLimit", "2", f"{MAIN}/resources/limits/cpu", "2"),
    ("compute.cpuMemoryRequest", "1024Mi", f"{MAIN}/resources/requests/memory", "1Gi"),
    ("compute.cpuMemoryLimit", "2G", f"{MAIN}/resources/limits/memory", "2G"),
    ("compute.gpuDevicesRequest", 2, f"{MAIN}/resources/limits/nvidia.com~1gpu", "2"),
    ("compute.gpuPortionRequest", 0.5, f"{META}/annotations/gpu-fraction", "0.5"),
    ("compute.gpuPortionRequest", 0.333, f"{META}/annotations/gpu-fraction", "0.34"),
    ("compute.gpuMemoryRequest", "1G", f"{META}/annotations/gpu-memory", "954"),
    ("compute.gpuMemoryRequest", "2000Mi", f"{META}/annotations/gpu-memory", "2000"),
    (
        "compute.extendedResources",
        items({"resource": "rdma/ib", "quantity": 1}),
        f"{MAIN}/resources/limits/rdma~1ib",
        "1",
    ),
    ("environmentVariables", items(*ENV), f"{MAIN}/env", ENV_HOME),
    ("security.runAsUid", 1000, f"{MAIN}/securityContext/runAsUser", 1000),
    ("security.runAsGid", 1000, f"{MAIN}/securityContext/runAsGroup", 1000),
    ("security.runAsNonRoot", True, f"{MAIN}/securityContext/runAsNonRoot", True),
    (
        "security.readOnlyRootFilesystem",
        True,
        f"{MAIN}/securityContext/readOnlyRootFilesystem",
        True,
    ),
    (
        "security.allowPrivilegeEscalation",
        False,
        f"{MAIN}/securityContext/allowPrivilegeEscalation",
        False,
    ),
    ("security.privileged", False, f"{MAIN}/securityContext/privileged", False),
    (
        "security.capabilities",
        ["NET_ADMIN"],
        f"{MAIN}/securityContext/capabilities/add",
        ["NET_ADMIN"],
    ),
    (
        "security.seccompProfileType",
        "RuntimeDefault",
        f"{MAIN}/securityContext/seccompProfile/type",
        "RuntimeDefault",
    ),
    ("security.supplementalGroups", "5,6", f"{SPEC}/securityContext/supplementalGroups", [5, 6]),
    ("labels", items({"name": "a/b", "value": "x"}), f"{META}/labels", {"a/b": "x"}),
    ("annotations", items({"name": "a", "value": "x y"}), f"{META}/annotations", {"a": "x y"}),
    (
        "tolerations",
        items({"name": "t", "key": "gpu", "operator": "Exists", "seconds": 60}),
        f"{SPEC}/tolerations",
        [{"operator": "Exists", "key": "gpu", "tolerationSeconds": 60}],
    ),
    ("imagePullSecrets", items({"name": "reg"}), f"{SPEC}/imagePullSecrets", [{"name": "reg"}]),
    (
        "nodeAffinityRequired",
        {"nodeSelectorTerms": [{"matchExpressions": []}]},
        f"{SPEC}/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        {"nodeSelectorTerms": [{"matchExpressions": []}]},
    ),
    ("priorityClass", "high", f"{SPEC}/priorityClassName", "high"),
    (
        "probes.readiness.periodSeconds",
        5,
        f"{MAIN}/readinessProbe/periodSeconds",
        5,
    ),
    (
        "probes.readiness.handler.httpGet.port",
        8080,
        f"{MAIN}/readinessProbe/httpGet/port",
        8080,
    ),
    (
        "storage.hostPath",
        items({"name": "d", "path": "/d", "mountPath": "/d", "readOnly": True}),
        f"{SPEC}/volumes",
        [{"name": "d", "hostPath": {"path": "/d"}}],
    ),
    (
        "storage.nfs",
        items({"name": "d", "path": "/d", "server": "s"}),
        f"{SPEC}/volumes",
        [{"name": "d", "nfs": {"server": "s", "path": "/d"}}],
    ),
    (
        "storage.pvc",
        items({"claimName": "c", "path": "/c", "existingPvc": True}),
        f"{SPEC}/volumes",
        [{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}],
    ),
    (
        "storage.configMapVolume",
        items({"name": "d", "configMap": "c", "mountPath": "/c", "defaultMode": "0644"}),
        f"{SPEC}/volumes",
        [{"name": "d", "configMap": {"name": "c", "defaultMode": 0o644}}],
    ),
    (
        "storage.secretVolume",
        items({"name": "d", "secret": "s", "mountPath": "/s"}),
        f"{SPEC}/volumes",
        [{"name": "d", "secret": {"secretName": "s"}}],
    ),
    (
        "storage.emptyDirVolume",
        items({"name": "d", "path": "/s", "sizeLimit": "1Gi"}),
        f"{SPEC}/volumes",
        [{"name": "d", "emptyDir": {"sizeLimit": "1Gi"}}],
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "default", "home", "written"),
    HOMES,
    ids=[f"{i}-{row[0]}" for i, row in enumerate(HOMES)],
)
def test_a_default_is_written_at_its_home(path: str, default: Any, home: str, written: Any) -> None:
    container = {"name": "main"}
    snapshot = compile_ok(
        make_workload_policy(workload_type=[DEPLOYMENT], defaults=nested(path, default))
    )

    answer = submit(snapshot, make_deployment(container))

    assert answer.broken == []
    assert at(answer.document, home) == written
    # A second pass changes nothing, nor does it complain.
    again = submit(snapshot, answer.document)
    assert (again.decision.patch, again.broken) == ([], [])


RULES = [
    ("image", {"pattern": ["nvcr.io/*"]}, {"image": "x"}, {}, f"{MAIN}/image"),
    (
        "imagePullPolicy",
        {"options": ["Always"]},
        {"imagePullPolicy": "Never"},
        {},
        f"{MAIN}/imagePullPolicy",
    ),
    (
        "compute.cpuCoreLimit",
        {"max": 0.5},
        {"resources": {"limits": {"cpu": "501m"}}},
        {},
        f"{MAIN}/resources/limits/cpu",
    ),
    (
        "compute.cpuCoreLimit",
        {"step": 0.5},
        {"resources": {"limits": {"cpu": "700m"}}},
        {},
        f"{MAIN}/resources/limits/cpu",
    ),
    (
        "compute.gpuDevicesRequest",
        {"max": 1},
        {"resources": {"limits": {"nvidia.com/gpu": "2"}}},
        {},
        f"{MAIN}/resources/limits/nvidia.com~1gpu",
    ),
    (
        "compute.gpuPortionRequest",
        {"max": 0.5},
        {},
        {"metadata": {"annotations": {"gpu-fraction": "0.6"}}},
        f"{META}/annotations/gpu-fraction",
    ),
    (
        "compute.gpuMemoryRequest",
        {"max": "1G"},
        {},
        {"metadata": {"annotations": {"gpu-memory": "955"}}},
        f"{META}/annotations/gpu-memory",
    ),
    (
        "compute.gpuRequestType",
        {"options": ["memory"]},
        {},
        {"metadata": {"annotations": {"gpu-fraction": "0.6"}}},
        f"{META}/annotations",
    ),
    (
        "compute.extendedResources",
        {"attributes": {"quantity": {"max": 1}}},
        {"resources": {"limits": {"rdma/ib": "2"}}},
        {},
        f"{MAIN}/resources/limits/rdma~1ib",
    ),
    (
        "environmentVariables",
        {"instances": {"canAdd": False}},
        {"env": [{"name": "X", "value": "1"}]},
        {},
        f"{MAIN}/env/0",
    ),
    (
        "security.runAsUid",
        {"min": 1},
        {"securityContext": {"runAsUser": 0}},
        {},
        f"{MAIN}/securityContext/runAsUser",
    ),
    (
        "security.runAsUid",
        {"min": 1},
        {},
        {"securityContext": {"runAsUser": 0}},
        f"{SPEC}/securityContext/runAsUser",
    ),
    (
        "security.capabilities",
        {"options": ["CHOWN"]},
        {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
        {},
        f"{MAIN}/securityContext/capabilities/add",
    ),
    ("security.hostIpc", {"canEdit": False}, {}, {"hostIPC": True}, f"{SPEC}/hostIPC"),
    ("security.hostNetwork", {"blocked": True}, {}, {"hostNetwork": True}, f"{SPEC}/hostNetwork"),
    (
        "labels",
        {"instances": {"canAdd": False}},
        {},
        {"metadata": {"labels": {"a": "b"}}},
        f"{META}/labels/a",
    ),
    (
        "tolerations",
        {"attributes": {"key": {"options": ["gpu"]}}},
        {},
        {"tolerations": [{"key": "other", "operator": "Exists"}]},
        f"{SPEC}/tolerations/0/key",
    ),
    (
        "storage.hostPath",
        {"instances": {"canAdd": False}},
        {},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        f"{SPEC}/volumes/0",
    ),
    (
        "storage.hostPath",
        {"attributes": {"mountPath": {"options": ["/data"]}}},
        {"volumeMounts": [{"name": "v", "mountPath": "/other"}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        f"{MAIN}/volumeMounts/0/mountPath",
    ),
    (
        "terminationGracePeriodSeconds",
        {"max": 60},
        {},
        {"terminationGracePeriodSeconds": 61},
        f"{SPEC}/terminationGracePeriodSeconds",
    ),
]


@pytest.mark.parametrize(
    ("path", "rule", "container", "pod", "broken"),
    RULES,
    ids=[f"{i}-{row[0]}" for i, row in enumerate(RULES)],
)
def test_a_rule_judges_what_stands_at_its_home(
    path: str, rule: JsonObject, container: JsonObject, pod: JsonObject, broken: str
) -> None:
    snapshot = compile_ok(
        make_workload_policy(workload_type=[DEPLOYMENT], rules=nested(path, rule))
    )

    answer = submit(snapshot, make_deployment({**make_container(), **container}, **pod))

    assert [where for where, _ in answer.broken] == [broken]
    assert answer.violation.field.startswith(path)


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        pytest.param({"gpu-fraction": "half"}, "compute.gpuPortionRequest", id="fraction"),
        pytest.param({"gpu-memory": "2Gi"}, "compute.gpuMemoryRequest", id="memory-with-a-unit"),
        pytest.param({"gpu-memory": "1.5"}, "compute.gpuMemoryRequest", id="memory-with-a-part"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_of_the_wrong_type(
    annotations: JsonObject, field: str
) -> None:
    snapshot = compile_ok(
        make_workload_policy(workload_type=[DEPLOYMENT], rules=nested(field, {"max": 100}))
    )

    answer = submit(snapshot, make_deployment(metadata={"annotations": annotations}))

    assert [rule for _, rule in answer.broken] == ["type"]


def test_defaults_of_the_main_container_leave_the_others_alone() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT],
            defaults={"compute": {"cpuCoreLimit": 1}, "security": {"runAsNonRoot": True}},
            rules={"compute": {"cpuCoreLimit": {"required": True, "max": 2}}},
        )
    )

    def with_init(cpu: str) -> JsonObject:
        init = make_container("init", resources={"limits": {"cpu": cpu}})
        return make_deployment(make_container(), make_container("side"), initContainers=[init])

    answer = submit(snapshot, with_init("2"))

    assert sorted(str(change["path"]) for change in answer.decision.patch) == [
        f"{SPEC}/containers/0/resources",
        f"{SPEC}/containers/0/securityContext",
        f"{SPEC}/containers/1/securityContext",
        f"{SPEC}/initContainers/0/securityContext",
    ]
    # Rules that bound what is there cover every container; `required` means the main one.
    broken = submit(snapshot, with_init("3")).broken
    assert broken == [(f"{SPEC}/initContainers/0/resources/limits/cpu", "max")]


def test_the_pods_own_value_counts_where_a_container_has_none() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT],
            defaults={"security": {"runAsUid": 1000}},
            rules={"security": {"runAsUid": {"required": True, "min": 1}}},
        )
    )

    answer = submit(snapshot, make_deployment(securityContext={"runAsUser": 7}))

    assert (answer.decision.patch, answer.broken) == ([], [])


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({}, {"gpu-fraction": "0.5"}, id="nothing"),
        pytest.param({"gpu-memory": "10"}, {"gpu-memory": "10"}, id="memory"),
        pytest.param({"gpu-fraction": "0.25"}, {"gpu-fraction": "0.25"}, id="another-portion"),
    ],
)
def test_a_share_of_a_gpu_is_given_where_there_is_none(given: JsonObject, want: JsonObject) -> None:
    """One device is what a share is of, so the default of one device writes nothing."""
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT],
            defaults={
                "compute": {
                    "gpuRequestType": "portion",
                    "gpuPortionRequest": 0.5,
                    "gpuDevicesRequest": 1,
                }
            },
        )
    )

    answer = submit(snapshot, make_deployment(metadata={"annotations": given}))

    assert at(answer.document, f"{META}/annotations") == want
    assert at(answer.document, f"{MAIN}/resources") is None


def test_a_share_is_not_given_to_a_pod_with_whole_gpus() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT], defaults={"compute": {"gpuPortionRequest": 0.5}}
        )
    )
    document = make_deployment(make_container(resources={"limits": {"nvidia.com/gpu": "1"}}))

    answer = submit(snapshot, document)

    assert answer.decision.patch == []
    assert [item.reason for item in answer.decision.not_applied] == [
        "a container asks for whole GPUs"
    ]


def test_more_devices_of_a_share_stand_in_an_annotation() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT],
            defaults={"compute": {"gpuPortionRequest": 0.5, "gpuDevicesRequest": 2}},
            rules={"compute": {"gpuDevicesRequest": {"max": 3}}},
        )
    )

    answer = submit(snapshot, make_deployment())

    assert at(answer.document, f"{META}/annotations") == {
        "gpu-fraction": "0.5",
        "gpu-fraction-num-devices": "2",
    }
    many = make_deployment(
        metadata={"annotations": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "4"}}
    )
    assert submit(snapshot, many).broken == [
        (f"{META}/annotations/gpu-fraction-num-devices", "max")
    ]


def test_a_request_beside_the_limit_of_gpus_is_kept_equal() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT], defaults={"compute": {"gpuDevicesRequest": 2}}
        )
    )
    document = make_deployment(make_container(resources={"requests": {"nvidia.com/gpu": "1"}}))

    answer = submit(snapshot, document)

    assert at(answer.document, f"{MAIN}/resources") == {
        "requests": {"nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }


def test_a_default_volume_is_mounted_in_every_container() -> None:
    """A sidecar that comes later gets its mount in a second pass, and nothing else changes."""
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[POD],
            defaults={
                "storage": {"pvc": items({"name": "data", "claimName": "c", "path": "/data"})}
            },
        )
    )

    first = submit(snapshot, make_pod(initContainers=[make_container("init")]))

    mount = {"name": "data", "mountPath": "/data"}
    pod = first.document["spec"]
    assert [c["volumeMounts"] for c in (*pod["containers"], *pod["initContainers"])] == [
        [mount],
        [mount],
    ]
    with_sidecar = copy.deepcopy(first.document)
    with_sidecar["spec"]["containers"].insert(0, make_container("sidecar"))
    second = submit(snapshot, with_sidecar)
    assert [operation["path"] for operation in second.decision.patch] == [
        "/spec/containers/0/volumeMounts"
    ]
    assert submit(snapshot, second.document).decision.patch == []


PVC = items({"name": "data", "claimName": "c", "path": "/data"})


def with_volume(volume: JsonObject, *mounts: JsonObject) -> JsonObject:
    return make_pod(containers=[make_container(volumeMounts=list(mounts))], volumes=[volume])


@pytest.mark.parametrize("path", ["/data", "/data/"])
def test_a_mount_path_that_is_taken_is_not_taken_twice(path: str) -> None:
    snapshot = compile_ok(
        make_workload_policy(workload_type=[POD], defaults={"storage": {"pvc": PVC}})
    )
    mount = {"name": "mine", "mountPath": path}

    answer = submit(snapshot, with_volume({"name": "mine", "emptyDir": {}}, mount))

    assert answer.document["spec"]["containers"][0]["volumeMounts"] == [mount]
    (left_out,) = answer.decision.not_applied
    assert left_out.reason == "something else is where data has to be"


def test_a_locked_volume_cannot_be_hidden_behind_another() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[POD],
            defaults={"storage": {"pvc": PVC}},
            rules={"storage": {"pvc": {"instances": {"locked": ["data"]}}}},
        )
    )
    mount = {"name": "mine", "mountPath": "/data"}

    answer = submit(snapshot, with_volume({"name": "mine", "emptyDir": {}}, mount))

    assert answer.broken == [("/spec/containers/0/volumeMounts/0/mountPath", "locked")]


def test_a_volume_of_another_type_keeps_its_name() -> None:
    """A pod has one volume of a name; Kubernetes would refuse two."""
    defaults = {"storage": {"pvc": PVC}}
    snapshot = compile_ok(make_workload_policy(workload_type=[POD], defaults=defaults))
    theirs = {"name": "data", "emptyDir": {}}

    answer = submit(snapshot, with_volume(theirs))

    assert answer.document["spec"]["volumes"] == [theirs]
    assert [item.reason for item in answer.decision.not_applied] == [
        "another volume is called data"
    ]
    locking = compile_ok(
        make_workload_policy(
            workload_type=[POD],
            defaults=defaults,
            rules={"storage": {"pvc": {"instances": {"locked": ["data"]}}}},
        )
    )
    assert [rule for _, rule in submit(locking, with_volume(theirs)).broken] == ["locked"]


def test_a_volume_that_no_default_gives_cannot_be_moved_where_none_may_be_added() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT],
            rules={"storage": {"hostPath": {"instances": {"canAdd": False}}}},
        )
    )

    def with_path(path: str) -> JsonObject:
        return make_deployment(volumes=[{"name": "h", "hostPath": {"path": path}}])

    assert submit(snapshot, with_path("/var/log"), old=with_path("/var/log")).broken == []
    moved = submit(snapshot, with_path("/"), old=with_path("/var/log"))
    assert [rule for _, rule in moved.broken] == ["canAdd"]


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"gpu-fraction": "0.01"}, id="a-share-beside-whole-gpus"),
        pytest.param({"gpu-memory": "1"}, id="memory-beside-whole-gpus"),
        pytest.param({"gpu-fraction": "no"}, id="a-share-that-says-nothing"),
    ],
)
def test_an_annotation_does_not_hide_whole_gpus(annotations: JsonObject) -> None:
    """Schedulers other than KAI don't read it, and hand out what the limit says."""
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT], rules={"compute": {"gpuDevicesRequest": {"max": 1}}}
        )
    )
    greedy = make_container(resources={"limits": {"nvidia.com/gpu": "8"}})

    answer = submit(snapshot, make_deployment(greedy, metadata={"annotations": annotations}))

    assert answer.broken == [(f"{MAIN}/resources/limits/nvidia.com~1gpu", "max")]


def test_devices_of_a_container_that_is_not_there_are_the_first_ones() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT], rules={"compute": {"gpuDevicesRequest": {"max": 1}}}
        )
    )
    annotations = {
        "gpu-fraction": "0.9",
        "gpu-fraction-num-devices": "8",
        "gpu-fraction-container-name": "nope",
    }

    answer = submit(snapshot, make_deployment(metadata={"annotations": annotations}))

    assert [rule for _, rule in answer.broken] == ["max"]


@pytest.mark.parametrize("text", [" 0.9", "9e-1", "+0.9", ""])
def test_what_cannot_be_read_is_shown_as_it_stands(text: str) -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT], rules={"compute": {"gpuPortionRequest": {"max": 1}}}
        )
    )

    answer = submit(snapshot, make_deployment(metadata={"annotations": {"gpu-fraction": text}}))

    assert (answer.violation.rule, answer.violation.value) == ("type", text)


def test_leaders_without_a_template_are_made_of_the_workers() -> None:
    kind = {"group": "leaderworkerset.x-k8s.io", "version": "v1", "kind": "LeaderWorkerSet"}
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[kind], rules={"leader": {"image": {"pattern": ["nvcr.io/*"]}}}
        )
    )
    document = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "l", "namespace": "team-a"},
        "spec": {
            "leaderWorkerTemplate": {
                "workerTemplate": {"spec": {"containers": [make_container(image="bad")]}}
            }
        },
    }

    worker = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image"
    assert submit(snapshot, document).broken == [(worker, "pattern")]


def test_what_the_submitter_excludes_in_the_annotation_is_left_out() -> None:
    """Foreign kinds have no `exclude`; the annotation is written by hand."""
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT],
            defaults={"labels": items({"name": "a", "value": "1"}, {"name": "b", "value": "1"})},
            rules={"labels": {"instances": {"locked": ["b"]}}},
        )
    )
    document = make_deployment()
    document["metadata"]["annotations"] = {EXCLUDED: '{"labels": ["a"]}'}

    assert at(submit(snapshot, document).document, f"{META}/labels") == {"b": "1"}

    document["metadata"]["annotations"] = {EXCLUDED: '{"labels": ["b"]}'}
    assert [rule for _, rule in submit(snapshot, document).broken] == ["locked"]


def test_a_toleration_that_is_as_the_policy_gives_it_is_that_one() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT],
            defaults={"tolerations": items({"name": "t", "key": "gpu", "operator": "Exists"})},
            rules={"tolerations": {"instances": {"canAdd": False, "locked": ["t"]}}},
        )
    )
    theirs = {"key": "other", "operator": "Exists"}

    given = submit(snapshot, make_deployment(tolerations=[{"operator": "Exists", "key": "gpu"}]))
    assert (given.decision.patch, given.broken) == ([], [])

    added = submit(snapshot, make_deployment(tolerations=[theirs]))
    assert added.broken == [(f"{SPEC}/tolerations/0", "canAdd")]


def test_what_kubernetes_adds_to_a_pod_is_no_addition() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[POD], rules={"tolerations": {"instances": {"canAdd": False}}}
        )
    )
    own = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }

    assert submit(snapshot, make_pod(tolerations=[own])).broken == []


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        pytest.param(
            {"autoscaling": {"minReplicas": {"min": 1}}},
            "autoscaling: has no home in a Job",
            id="section",
        ),
        pytest.param(
            {"exposedUrls": None, "category": {"required": True}},
            "category: has no home in a Job",
            id="field",
        ),
        pytest.param(
            {"master": {"image": {"required": True}}}, "Job has no role master", id="role"
        ),
        pytest.param({"imgae": {"required": True}}, 'did you mean "image"', id="unknown"),
        pytest.param(
            {"compute": {"largeShmRequest": {"required": True}}},
            "largeShmRequest: has no home in a Job",
            id="field-in-a-section",
        ),
    ],
)
def test_what_has_no_home_in_a_kind_is_said_of_that_kind(rules: JsonObject, problem: str) -> None:
    snapshot = make_snapshot(make_workload_policy(workload_type=["training", JOB], rules=rules))

    assert any(problem in str(found) for found in snapshot.problems), snapshot.problems


def test_an_attribute_without_a_home_is_refused_by_name() -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            workload_type=[JOB],
            defaults={"storage": {"pvc": items({"name": "n", "claimInfo": {"size": "1Gi"}})}},
        )
    )

    assert "claimInfo.size: has no home in a pod template" in str(snapshot.problems[0])


def test_a_role_addresses_its_own_selectors() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[PYTORCH_JOB],
            rules={
                "worker": {"image": {"pattern": ["nvcr.io/*"]}, "numWorkers": {"max": 4}},
                "master": {"compute": {"cpuCoreLimit": {"max": 1}}},
            },
        )
    )
    job = make_pytorch_job(
        workers=5, container=make_container("pytorch", resources={"limits": {"cpu": "2"}})
    )
    roles = "/spec/pytorchReplicaSpecs"

    answer = submit(snapshot, job)

    assert sorted(answer.broken) == [
        (f"{roles}/Master/template/spec/containers/0/resources/limits/cpu", "max"),
        (f"{roles}/Worker/replicas", "max"),
        (f"{roles}/Worker/template/spec/containers/0/image", "pattern"),
    ]


def test_fields_of_the_whole_workload_are_bound_where_the_kind_has_them() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=["training", JOB],
            rules={"backoffLimit": {"max": 3}, "parallelism": {"max": 2}},
        )
    )
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "team-a"},
        "spec": {
            "backoffLimit": 4,
            "parallelism": 3,
            "template": {"spec": {"containers": [make_container()]}},
        },
    }

    assert submit(snapshot, job).broken == [
        ("/spec/backoffLimit", "max"),
        ("/spec/parallelism", "max"),
    ]


def test_an_imposed_asset_becomes_a_volume_with_mounts_and_is_locked() -> None:
    snapshot = compile_ok(
        {
            "apiVersion": "policy.gatewright.io/v1alpha1",
            "kind": "DataSource",
            "metadata": {"name": "datasets"},
            "spec": {"nfs": {"server": "nas", "path": "/sets", "mountPath": "/sets"}},
        },
        make_workload_policy(workload_type=["training", DEPLOYMENT], imposedAssets=["datasets"]),
    )

    answer = submit(snapshot, make_deployment())

    assert at(answer.document, f"{SPEC}/volumes") == [
        {"name": "datasets", "nfs": {"server": "nas", "path": "/sets"}}
    ]
    assert at(answer.document, f"{MAIN}/volumeMounts") == [
        {"name": "datasets", "mountPath": "/sets"}
    ]
    other = make_deployment(volumes=[{"name": "datasets", "nfs": {"server": "x", "path": "/"}}])
    assert ("/spec/template/spec/volumes/0/nfs/server", "locked") in submit(snapshot, other).broken


def test_both_kinds_of_policy_hold_at_one_place() -> None:
    """Of two defaults the GVKPolicy's counts; all rules hold."""
    snapshot = make_snapshot(
        make_workload_policy(
            workload_type=[DEPLOYMENT],
            defaults={"compute": {"cpuCoreLimit": 1}},
            rules={"compute": {"cpuCoreLimit": {"max": 4}}},
        ),
        {
            "apiVersion": "policy.gatewright.io/v1alpha1",
            "kind": "GVKPolicy",
            "metadata": {"name": "flat"},
            "spec": {
                "workloadType": DEPLOYMENT,
                "scope": "tenant",
                "rules": [
                    {
                        "field": "resourceLimits",
                        "specSelector": "allContainers",
                        "enforcements": [{"default": {"key": "cpu", "value": "2"}}],
                    }
                ],
            },
        },
    )

    answer = submit(snapshot, make_deployment())

    assert at(answer.document, f"{MAIN}/resources/limits/cpu") == "2"
    big = make_deployment(make_container(resources={"limits": {"cpu": "5"}}))
    assert submit(snapshot, big).broken == [(f"{MAIN}/resources/limits/cpu", "max")]


def test_an_update_that_touches_nothing_of_it_is_not_judged() -> None:
    snapshot = compile_ok(
        make_workload_policy(
            workload_type=[DEPLOYMENT],
            defaults={"labels": items({"name": "a", "value": "1"})},
            rules={"security": {"runAsUid": {"min": 1}}},
        )
    )
    old = make_deployment(securityContext={"runAsUser": 0})
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {"note": "x"}
    request = make_request(new, old=old)

    decision = review(request, Phase.REVIEW, snapshot)

    assert (decision.allowed, decision.patch) == (True, [])
    worse = copy.deepcopy(old)
    worse["spec"]["template"]["spec"]["containers"].append(make_container("side"))
    decision = review(make_request(worse, old=old), Phase.VALIDATE, snapshot)
    assert [to_pointer(item.path) for item in decision.violations] == [
        f"{SPEC}/securityContext/runAsUser"
    ]
