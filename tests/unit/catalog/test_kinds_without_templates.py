"""Kinds that have the fields of a pod among their own: one policy means the same in each."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.builders import (
    JsonObject,
    make_request,
    make_rule,
    make_snapshot,
    make_workload_policy,
)
from tests.unit.catalog.contract import contracts, submit
from tests.unit.catalog.contract import under as flat
from webhook.admission.review import review
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.locate import answer_by_jq
from webhook.model.kinds import GroupVersionKind
from webhook.model.pointer import to_pointer
from webhook.model.request import Phase
from webhook.model.settings import EngineSettings
from webhook.store.snapshot import Snapshot

MILVUS = "milvus.io/v1beta1/Milvus"
NIM_PIPELINE = "apps.nvidia.com/v1alpha1/NIMPipeline"
NIM_SERVICE = "apps.nvidia.com/v1alpha1/NIMService"
PIPELINE_RUN = "tekton.dev/v1/PipelineRun"
SPARK_APPLICATION = "sparkoperator.k8s.io/v1beta2/SparkApplication"
TASK_RUN = "tekton.dev/v1/TaskRun"
TRAIN_JOB = "trainer.kubeflow.org/v1alpha1/TrainJob"
VIRTUAL_MACHINE = "kubevirt.io/v1/VirtualMachineInstance"
WORKFLOW = "argoproj.io/v1alpha1/Workflow"
APP_WRAPPER = "workload.codeflare.dev/v1beta2/AppWrapper"

GPUS = "resources/limits/nvidia.com~1gpu"
TOLERATION = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def worker() -> Iterator[JqWorker]:
    with JqWorker() as worker:
        yield worker


def target(kind: str) -> JsonObject:
    gvk = GroupVersionKind.parse(kind)
    return {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}


def under(*kinds: str, **policy: Any) -> Snapshot:
    """What holds where one hierarchical policy is for *kinds*."""
    snapshot = make_snapshot(
        make_workload_policy(workload_type=[target(kind) for kind in kinds], **policy)
    )
    assert [problem for problem in snapshot.problems if not problem.warning] == []
    # What is refused at the first door is not changed there.
    return replace(snapshot, settings=EngineSettings(refuse_early=False))


def manifest(kind: str, index: int = 0, **changed: Any) -> JsonObject:
    """An object of *kind* among the contracts, with parts of its spec *changed*."""
    gvk = GroupVersionKind.parse(kind)
    found = [contract.manifest for contract in contracts() if contract.kind == gvk][index]
    document = copy.deepcopy(found)
    document["spec"].update(changed)
    return document


# --- GPUs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "document", "places"),
    [
        (
            TRAIN_JOB,
            {"trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 16}}}},
            ["/spec/trainer/resourcesPerNode/limits/nvidia.com~1gpu"],
        ),
        (
            TASK_RUN,
            {
                "computeResources": {"limits": {"nvidia.com/gpu": "9"}},
                "taskSpec": {
                    "steps": [{"name": "a", "computeResources": {"limits": {"nvidia.com/gpu": 9}}}]
                },
                "stepSpecs": [
                    {"name": "a", "computeResources": {"limits": {"nvidia.com/gpu": "10"}}}
                ],
                "sidecarSpecs": [],
            },
            [
                "/spec/computeResources/limits/nvidia.com~1gpu",
                "/spec/stepSpecs/0/computeResources/limits/nvidia.com~1gpu",
                "/spec/taskSpec/steps/0/computeResources/limits/nvidia.com~1gpu",
            ],
        ),
        (
            VIRTUAL_MACHINE,
            {
                "domain": {
                    "devices": {
                        "gpus": [{"name": f"gpu{n}", "deviceName": "x.com/y"} for n in range(8)],
                        "hostDevices": [
                            {"name": "one", "deviceName": "nvidia.com/GH100"},
                            {"name": "two", "deviceName": "intel.com/qat"},
                        ],
                    }
                }
            },
            ["/spec/domain"],
        ),
        (
            SPARK_APPLICATION,
            {
                "sparkConf": {"spark.executor.resource.gpu.amount": "12"},
                "driver": {"gpu": {"name": "nvidia.com/gpu", "quantity": 9}},
                "executor": {
                    "sidecars": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "9"}}}]
                },
            },
            ["/spec", "/spec/driver", f"/spec/executor/sidecars/0/{GPUS}"],
        ),
        (
            MILVUS,
            {
                "components": {},
                "dependencies": {
                    "etcd": {
                        "inCluster": {
                            "values": {"a": {"resources": {"limits": {"nvidia.com/gpu": 9}}}}
                        }
                    }
                },
            },
            [f"/spec/dependencies/etcd/inCluster/values/a/{GPUS}"],
        ),
    ],
)
def test_one_limit_of_gpus_holds_wherever_a_kind_asks_for_them(
    kind: str, document: JsonObject, places: list[str], worker: JqWorker
) -> None:
    snapshot = under(kind, rules={"compute": {"gpuDevicesRequest": {"max": 8}}})

    assert submit(snapshot, manifest(kind, **document), worker).violations == places


def test_wrapped_objects_keep_the_limit_too(worker: JqWorker) -> None:
    snapshot = under(APP_WRAPPER, rules={"compute": {"gpuDevicesRequest": {"max": 2}}})

    assert submit(snapshot, manifest(APP_WRAPPER, -1), worker).violations == [
        "/spec/components/2/template/spec/trainer/resourcesPerNode/limits/nvidia.com~1gpu",
        "/spec/components/3/template/spec/executor",
    ]


@pytest.mark.parametrize(
    ("kind", "document", "written"),
    [
        (TRAIN_JOB, {"trainer": {}}, {"trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": "1"}}}}),
        (
            SPARK_APPLICATION,
            {"driver": {}, "executor": {"gpu": {"name": "amd.com/gpu", "quantity": 2}}},
            {
                "driver": {"gpu": {"name": "nvidia.com/gpu", "quantity": 1}},
                "executor": {"gpu": {"name": "amd.com/gpu", "quantity": 2}},
            },
        ),
        (
            TASK_RUN,
            {"taskSpec": {"steps": [{"name": "a"}, {"name": "b"}]}, "stepSpecs": [], "sidecarSpecs": []},
            {
                "taskSpec": {
                    "steps": [
                        {"name": "a", "computeResources": {"limits": {"nvidia.com/gpu": "1"}}},
                        {"name": "b"},
                    ]
                }
            },
        ),
    ],
)  # fmt: skip
def test_a_default_of_gpus_is_written_as_the_kind_has_it(
    kind: str, document: JsonObject, written: JsonObject, worker: JqWorker
) -> None:
    snapshot = under(kind, defaults={"compute": {"gpuDevicesRequest": 1}})
    submitted = manifest(kind, **document)

    reviewed = submit(snapshot, submitted, worker)

    assert reviewed.violations == []
    assert {name: reviewed.document["spec"][name] for name in written} == written


def test_a_default_that_a_kind_only_judges_is_told_when_it_is_written() -> None:
    snapshot = under(VIRTUAL_MACHINE, defaults={"compute": {"gpuDevicesRequest": 1}})

    assert [problem.problem for problem in snapshot.problems] == [
        "default never acts on compute.gpuDevicesRequest of a VirtualMachineInstance, which is only"
        " judged there"
    ]


# --- memory and cores ---------------------------------------------------------------------------


def test_cores_and_memory_of_spark_are_those_of_the_policy(worker: JqWorker) -> None:
    snapshot = under(
        SPARK_APPLICATION,
        defaults={"compute": {"cpuMemoryLimit": "2Gi", "cpuCoreLimit": 2}},
        rules={"compute": {"cpuMemoryRequest": {"max": "1Gi"}, "cpuCoreRequest": {"max": 4}}},
    )
    submitted = manifest(
        SPARK_APPLICATION,
        driver={"cores": 16, "memory": "1g", "coreLimit": "500m"},
        executor={"coreRequest": "8", "memory": "1025m"},
    )

    reviewed = submit(snapshot, submitted, worker)

    assert reviewed.violations == [
        "/spec/driver/cores",
        "/spec/executor/coreRequest",
        "/spec/executor/memory",
    ]


# --- images -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "rules", "is_allowed"),
    [
        ({"repository": "nvcr.io/a", "tag": "1"}, {"options": ["nvcr.io/a:1"]}, True),
        ({"repository": "nvcr.io/a", "tag": "2"}, {"options": ["nvcr.io/a:1"]}, False),
        ({"repository": "nvcr.io/a", "tag": "latest"}, {"pattern": ["nvcr.io/*:1*"]}, False),
        ({"repository": "nvcr.io/a", "tag": "1.2"}, {"pattern": ["nvcr.io/*:1*"]}, True),
        ({"repository": "nvcr.io/a@sha256", "tag": "0f"}, {"options": ["nvcr.io/a@sha256:0f"]}, True),
        ({"pullPolicy": "Always"}, {"required": True}, False),
        ({"repository": "nvcr.io/a", "tag": "1"}, {"required": True}, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [NIM_SERVICE, NIM_PIPELINE])
def test_an_image_in_two_parts_is_judged_as_one(
    kind: str, image: JsonObject, rules: JsonObject, *, is_allowed: bool, worker: JqWorker
) -> None:
    spec: JsonObject = {"image": image}
    place = "/spec"
    if kind == NIM_PIPELINE:
        spec, place = {"services": [{"name": "a", "spec": spec}]}, "/spec/services/0/spec"
    document = {**manifest(kind), "spec": spec}

    reviewed = submit(under(kind, rules={"image": rules}), document, worker)

    assert reviewed.violations == ([] if is_allowed else [place])


@pytest.mark.parametrize(
    ("submitted", "image", "written"),
    [
        ({}, "nvcr.io/nim/llama:1.2", {"repository": "nvcr.io/nim/llama", "tag": "1.2"}),
        (
            {"pullPolicy": "Always"},
            "localhost:5000/llama:1.2",
            {"pullPolicy": "Always", "repository": "localhost:5000/llama", "tag": "1.2"},
        ),
        ({}, "a/b@sha256:0f", {"repository": "a/b@sha256", "tag": "0f"}),
        (
            {"repository": "a/b", "tag": "3"},
            "nvcr.io/nim/llama:1.2",
            {"repository": "a/b", "tag": "3"},
        ),
    ],
)
def test_a_default_image_is_written_in_two_parts(
    submitted: JsonObject, image: str, written: JsonObject, worker: JqWorker
) -> None:
    """And never over one that is there; the sidecars get none."""
    document = manifest(NIM_SERVICE, image=submitted)

    reviewed = submit(under(NIM_SERVICE, defaults={"image": image}), document, worker)

    assert reviewed.document["spec"]["image"] == written
    assert all(path.startswith("/spec/image/") for path in reviewed.changes)


@pytest.mark.parametrize(
    ("tag", "places"), [("1.3.3", []), ("1.3.4", ["/spec"])], ids=["the-default", "another"]
)
def test_an_image_in_two_parts_can_be_held_to_the_default(
    tag: str, places: list[str], worker: JqWorker
) -> None:
    image = "nvcr.io/nim/example/llama:1.3.3"
    snapshot = under(NIM_SERVICE, defaults={"image": image}, rules={"image": {"canEdit": False}})
    repository = image.partition(":")[0]
    document = manifest(NIM_SERVICE, image={"repository": repository, "tag": tag})

    assert submit(snapshot, document, worker).violations == places


@pytest.mark.parametrize(
    ("spec", "places"),
    [
        ({"image": "docker.io/x"}, ["/spec/image"]),
        ({"image": "nvcr.io/x"}, []),
        ({"driver": {"image": "docker.io/x"}}, ["/spec/driver/image"]),
    ],
)
def test_the_image_of_driver_and_executors_may_stand_in_the_spec(
    spec: JsonObject, places: list[str], worker: JqWorker
) -> None:
    """For both kinds of policy, and no default is written beside it."""
    document = {**manifest(SPARK_APPLICATION), "spec": {"driver": {}, "executor": {}, **spec}}
    rules = {"image": {"pattern": ["nvcr.io/*"], "required": True}}
    snapshot = under(SPARK_APPLICATION, defaults={"image": "nvcr.io/default"}, rules=rules)

    reviewed = submit(snapshot, document, worker)

    assert reviewed.violations == places
    if "image" in spec:
        assert reviewed.changes == []


@pytest.mark.parametrize("image", ["nvcr.io/x", "docker.io/x"])
def test_the_image_of_the_application_is_judged_by_what_a_flat_policy_sets(
    image: str, worker: JqWorker
) -> None:
    """At the second door alone, where nothing has been written."""
    rule = make_rule("image", "mainContainer", {"set": "nvcr.io/x"})
    snapshot = flat(GroupVersionKind.parse(SPARK_APPLICATION), rule)
    document = {**manifest(SPARK_APPLICATION), "spec": {"driver": {}, "image": image}}
    request = make_request(document)

    judged = answer_by_jq(
        worker, document, lambda answers: review(request, Phase.VALIDATE, snapshot, answers)
    )

    paths = [to_pointer(item.path) for item in judged.violations]
    assert paths == ([] if image == "nvcr.io/x" else ["/spec/image"])


# --- what else the kinds have -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        (NIM_SERVICE, ["/spec/tolerations/1"]),
        (TRAIN_JOB, []),
        (TASK_RUN, ["/spec/podTemplate/tolerations/0"]),
        (VIRTUAL_MACHINE, ["/spec/tolerations/0"]),
        (SPARK_APPLICATION, ["/spec/driver/tolerations/0", "/spec/executor/tolerations/0"]),
        (WORKFLOW, ["/spec/tolerations/0"]),
        (
            MILVUS,
            [
                "/spec/components/tolerations/0",
                "/spec/components/proxy/tolerations/0",
                "/spec/components/dataNode/tolerations/0",
                "/spec/components/queryNode/tolerations/0",
            ],
        ),
    ],
)
def test_a_toleration_is_given_to_the_pods_of_the_kind(
    kind: str, places: list[str], worker: JqWorker
) -> None:
    item = {"name": "gpu", **TOLERATION}
    snapshot = under(kind, defaults={"tolerations": {"instances": [item]}})

    changes = submit(snapshot, manifest(kind), worker).changes

    assert [place for place in changes if place in places] == places


@pytest.mark.parametrize(
    ("kind", "spec", "place"),
    [
        (PIPELINE_RUN, {"taskRunSpecs": [{"podTemplate": {"tolerations": [TOLERATION]}}]}, "/spec/taskRunSpecs/0/podTemplate/tolerations/0"),
        (WORKFLOW, {"templates": [{"name": "a", "tolerations": [TOLERATION]}]}, "/spec/templates/0/tolerations/0"),
        (MILVUS, {"components": {"proxy": {"tolerations": [TOLERATION]}}}, "/spec/components/proxy/tolerations/0"),
        (TRAIN_JOB, {"podTemplateOverrides": [{"spec": {"tolerations": [TOLERATION]}}]}, "/spec/podTemplateOverrides/0/spec/tolerations/0"),
    ],
)  # fmt: skip
def test_a_part_of_a_workload_may_not_tolerate_more_than_the_whole(
    kind: str, spec: JsonObject, place: str, worker: JqWorker
) -> None:
    snapshot = under(kind, rules={"tolerations": {"instances": {"canAdd": False}}})
    document = {**manifest(kind), "spec": spec}

    assert submit(snapshot, document, worker).violations == [place]


@pytest.mark.parametrize(
    ("kind", "spec", "places"),
    [
        (
            TASK_RUN,
            {
                "podTemplate": {"securityContext": {"runAsUser": 0}},
                "taskSpec": {
                    "steps": [{"name": "a", "securityContext": {"runAsUser": 1}}],
                    "sidecars": [{"name": "b", "securityContext": {"privileged": True}}],
                },
            },
            [
                "/spec/taskSpec/sidecars/0/securityContext/privileged",
                "/spec/podTemplate/securityContext/runAsUser",
                "/spec/taskSpec/steps/0/securityContext/runAsUser",
            ],
        ),
        (
            SPARK_APPLICATION,
            {
                "driver": {"podSecurityContext": {"runAsUser": 0}},
                "executor": {"securityContext": {"privileged": True, "runAsUser": 1}},
            },
            [
                "/spec/executor/securityContext/privileged",
                "/spec/driver/podSecurityContext/runAsUser",
                "/spec/executor/securityContext/runAsUser",
            ],
        ),
        (
            MILVUS,
            {"components": {"proxy": {"securityContext": {"privileged": True, "runAsUser": 0}}}},
            [
                "/spec/components/proxy/securityContext/privileged",
                "/spec/components/proxy/securityContext/runAsUser",
            ],
        ),
        (
            TRAIN_JOB,
            {
                "podTemplateOverrides": [
                    {"spec": {"containers": [{"name": "node", "securityContext": {"privileged": True}}]}}
                ]
            },
            ["/spec/podTemplateOverrides/0/spec/containers/0/securityContext/privileged"],
        ),
        (NIM_SERVICE, {"userID": 0}, ["/spec/userID"]),
    ],
)  # fmt: skip
def test_the_security_of_containers_is_judged_where_the_kind_says_it(
    kind: str, spec: JsonObject, places: list[str], worker: JqWorker
) -> None:
    rules: JsonObject = {"runAsUid": {"min": 1000}}
    if kind != NIM_SERVICE:
        rules["privileged"] = {"blocked": True}
    document = {**manifest(kind), "spec": spec}

    assert submit(under(kind, rules={"security": rules}), document, worker).violations == places


def test_a_user_that_the_pod_has_is_not_written_over_in_its_containers(worker: JqWorker) -> None:
    snapshot = under(TASK_RUN, defaults={"security": {"runAsUid": 1000}})
    steps = [{"name": "a"}]
    spec = {"podTemplate": {"securityContext": {"runAsUser": 2000}}, "taskSpec": {"steps": steps}}

    assert submit(snapshot, {**manifest(TASK_RUN), "spec": spec}, worker).changes == []
    spec = {"taskSpec": {"steps": steps}}
    assert submit(snapshot, {**manifest(TASK_RUN), "spec": spec}, worker).changes == [
        "/spec/podTemplate/securityContext/runAsUser"
    ]


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (NIM_SERVICE, "/spec/env/1"),
        (TRAIN_JOB, "/spec/trainer/env/1"),
        (TASK_RUN, "/spec/taskSpec/steps/0/env/0"),
        (SPARK_APPLICATION, "/spec/driver/env/0"),
        (MILVUS, "/spec/components/env/0"),
    ],
)
def test_a_variable_is_given_to_what_stands_for_the_main_container(
    kind: str, place: str, worker: JqWorker
) -> None:
    variable = {"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}
    snapshot = under(kind, defaults={"environmentVariables": {"instances": [variable]}})

    assert place in submit(snapshot, manifest(kind), worker).changes


# --- a list of types ----------------------------------------------------------------------------


def test_one_policy_is_in_force_for_every_kind_that_runs_containers() -> None:
    kinds = sorted({str(contract.kind) for contract in contracts()})

    snapshot = make_snapshot(
        make_workload_policy(
            workload_type=["training", *[target(kind) for kind in kinds]],
            rules={
                "image": {"pattern": ["nvcr.io/*"]},
                "compute": {"gpuDevicesRequest": {"max": 8}, "cpuMemoryLimit": {"max": "64Gi"}},
            },
        )
    )

    assert snapshot.problems == ()


def test_a_list_of_types_is_refused_with_each_type_and_what_it_has_not() -> None:
    snapshot = make_snapshot(
        make_workload_policy(
            workload_type=["training", *map(target, (NIM_SERVICE, VIRTUAL_MACHINE))],
            rules={"tty": {"canEdit": False}, "workingDir": {"canEdit": False}},
            defaults={"stdin": True},
        )
    )

    assert {(item.path, item.problem.partition(";")[0]) for item in snapshot.problems} == {
        (path, f"has no home in a {kind.rpartition('/')[2]} (for {kind})")
        for kind in (NIM_SERVICE, VIRTUAL_MACHINE)
        for path in ("spec.defaults.stdin", "spec.rules.tty", "spec.rules.workingDir")
    }
