"""One hierarchical policy reaches kinds that have no pod template, wherever they have the field."""

from __future__ import annotations

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
        (INFERENCE_SERVICE, ["/spec/predictor", "/spec/transformer", "/spec/explainer"]),
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


def test_a_default_goes_to_what_stands_for_the_main_container(worker: JqWorker) -> None:
    """Not to the sidecars, which have no resources of their own."""
    snapshot = under(NIM_SERVICE, defaults={"compute": {"cpuCoreLimit": 8}})

    changes = submit(snapshot, manifest(NIM_SERVICE), worker).changes

    assert changes == ["/spec/resources/limits/cpu"]


@pytest.mark.parametrize("kind", [SPARK_APPLICATION, PIPELINE_RUN, VIRTUAL_MACHINE])
def test_a_policy_about_resources_is_refused_where_the_kind_has_others(kind: str) -> None:
    snapshot = under(kind, rules={"compute": {"gpuDevicesRequest": {"max": 1}}})

    (problem,) = snapshot.problems
    assert problem.problem.startswith("has no home in a")
