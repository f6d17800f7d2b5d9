"""One hierarchical policy reaches kinds that have no pod template, wherever they have the field."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import JsonObject, make_snapshot, make_workload_policy
from tests.unit.catalog.contract import contracts, submit
from webhook.mapping.evaluator import JqWorker
from webhook.model.kinds import GroupVersionKind
from webhook.store.snapshot import Snapshot

INFERENCE_SERVICE = "serving.kserve.io/v1beta1/InferenceService"
LLM_INFERENCE_SERVICE = "serving.kserve.io/v1alpha1/LLMInferenceService"
NIM_SERVICE = "apps.nvidia.com/v1alpha1/NIMService"
NIM_PIPELINE = "apps.nvidia.com/v1alpha1/NIMPipeline"
DYNAMO_GRAPH = "nvidia.com/v1alpha1/DynamoGraphDeployment"
SPARK_APPLICATION = "sparkoperator.k8s.io/v1beta2/SparkApplication"
APP_WRAPPER = "workload.codeflare.dev/v1beta2/AppWrapper"
DEV_WORKSPACE = "workspace.devfile.io/v1alpha2/DevWorkspace"
MILVUS = "milvus.io/v1beta1/Milvus"
PIPELINE_RUN = "tekton.dev/v1/PipelineRun"
VIRTUAL_MACHINE = "kubevirt.io/v1/VirtualMachineInstance"
WORKFLOW = "argoproj.io/v1alpha1/Workflow"


@pytest.fixture(scope="module")
def worker() -> Iterator[JqWorker]:
    with JqWorker() as worker:
        yield worker


def under(kind: str, **policy: Any) -> Snapshot:
    """What holds where one hierarchical policy is for *kind*."""
    gvk = GroupVersionKind.parse(kind)
    target = {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
    return make_snapshot(make_workload_policy(workload_type=target, **policy))


def manifest(kind: str) -> JsonObject:
    """The first object of *kind* among the contracts."""
    gvk = GroupVersionKind.parse(kind)
    return next(contract.manifest for contract in contracts() if contract.kind == gvk)


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        (
            INFERENCE_SERVICE,
            ["/spec/predictor", "/spec/canary/0/predictor", "/spec/transformer", "/spec/explainer"],
        ),
        (LLM_INFERENCE_SERVICE, ["/spec", "/spec/prefill", "/spec/router/scheduler"]),
        (NIM_SERVICE, ["/spec"]),
        (NIM_PIPELINE, ["/spec/services/0/spec", "/spec/services/1/spec"]),
        (SPARK_APPLICATION, ["/spec/driver", "/spec/executor"]),
        (VIRTUAL_MACHINE, ["/metadata"]),
        (WORKFLOW, ["/spec/podMetadata", "/spec/templates/3/metadata"]),
        (
            PIPELINE_RUN,
            [
                "/metadata",
                "/spec/pipelineSpec/tasks/1/taskSpec/metadata",
                "/spec/taskRunSpecs/0/metadata",
            ],
        ),
        (
            APP_WRAPPER,
            [
                "/spec/components/1/template/metadata",
                "/spec/components/2/template/spec/template/metadata",
                "/spec/components/3/template/spec/pytorchReplicaSpecs/Master/template/metadata",
                "/spec/components/3/template/spec/pytorchReplicaSpecs/Worker/template/metadata",
            ],
        ),
    ],
)
def test_labels_are_written_where_the_kind_has_those_of_its_pods(
    kind: str, places: list[str], worker: JqWorker
) -> None:
    snapshot = under(kind, defaults={"labels": {"instances": [{"name": "team", "value": "a"}]}})

    reviewed = submit(snapshot, manifest(kind), worker)

    assert reviewed.changes == [f"{place}/labels/team" for place in places]


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        (
            INFERENCE_SERVICE,
            [
                "/spec/canary/0/predictor/model/resources/limits/nvidia.com~1gpu",
                "/spec/predictor/model/resources/limits/nvidia.com~1gpu",
                "/spec/predictor/workerSpec/containers/0/resources/limits/nvidia.com~1gpu",
            ],
        ),
        (NIM_SERVICE, ["/spec/resources/limits/nvidia.com~1gpu"]),
        (NIM_PIPELINE, ["/spec/services/0/spec/resources/limits/nvidia.com~1gpu"]),
        (DYNAMO_GRAPH, ["/spec/services/Decode/resources/limits/gpu"]),
        (MILVUS, ["/spec/components/queryNode/resources/limits/nvidia.com~1gpu"]),
        (WORKFLOW, ["/spec/templates/3/container/resources/limits/nvidia.com~1gpu"]),
        (
            DEV_WORKSPACE,
            [
                "/spec/template/components/1/attributes/container-overrides/resources/limits"
                "/nvidia.com~1gpu"
            ],
        ),
    ],
)
def test_gpus_are_counted_wherever_the_kind_asks_for_them(
    kind: str, places: list[str], worker: JqWorker
) -> None:
    snapshot = under(kind, rules={"compute": {"gpuDevicesRequest": {"max": 1}}})

    assert submit(snapshot, manifest(kind), worker).violations == places


@pytest.mark.parametrize(
    ("policy", "places"),
    [
        pytest.param(
            {"defaults": {"compute": {"gpuPortionRequest": 0.5}}},
            ["gpu-fraction"],
            id="portion",
        ),
        pytest.param(
            {"defaults": {"compute": {"gpuMemoryRequest": "4Gi", "gpuDevicesRequest": 1}}},
            ["gpu-memory"],
            id="memory-and-no-whole-gpu",
        ),
        pytest.param(
            {"defaults": {"compute": {"gpuPortionRequest": 0.5, "gpuDevicesRequest": 2}}},
            ["gpu-fraction", "gpu-fraction-num-devices"],
            id="of-several-devices",
        ),
    ],
)
def test_each_wrapped_pod_gets_a_share_of_a_gpu_but_one_that_asks_for_whole_ones(
    policy: JsonObject, places: list[str], worker: JqWorker
) -> None:
    """That one is the Job, the component in the middle."""
    sharing = [
        "/spec/components/1/template",
        "/spec/components/3/template/spec/pytorchReplicaSpecs/Master/template",
        "/spec/components/3/template/spec/pytorchReplicaSpecs/Worker/template",
    ]

    reviewed = submit(under(APP_WRAPPER, **policy), manifest(APP_WRAPPER), worker)

    assert sorted(reviewed.changes) == sorted(
        [f"{template}/metadata/annotations/{place}" for template in sharing for place in places]
    )


@pytest.mark.parametrize(
    ("rules", "broken"),
    [
        pytest.param({"gpuPortionRequest": {"max": 0.5}}, ["/gpu-fraction"], id="portion"),
        pytest.param({"gpuRequestType": {"options": ["memory"]}}, [""], id="type"),
        pytest.param({"gpuMemoryRequest": {"min": "1Gi"}}, [], id="a-share-of-another-type"),
        pytest.param({"gpuDevicesRequest": {"min": 1}}, [], id="it-is-one-of-one-device"),
    ],
)
def test_the_share_of_a_wrapped_pod_is_judged(
    rules: JsonObject, broken: list[str], worker: JqWorker
) -> None:
    document = copy.deepcopy(manifest(APP_WRAPPER))
    metadata = document["spec"]["components"][1]["template"]["metadata"]
    metadata["annotations"] = {"gpu-fraction": "0.8"}

    reviewed = submit(under(APP_WRAPPER, rules={"compute": rules}), document, worker)

    annotations = "/spec/components/1/template/metadata/annotations"
    assert reviewed.violations == [f"{annotations}{name}" for name in broken]


def test_a_default_goes_to_what_stands_for_the_main_container(worker: JqWorker) -> None:
    """Not to the sidecars, which have no resources of their own."""
    snapshot = under(NIM_SERVICE, defaults={"compute": {"cpuCoreLimit": 8}})

    changes = submit(snapshot, manifest(NIM_SERVICE), worker).changes

    assert changes == ["/spec/resources/limits/cpu"]
