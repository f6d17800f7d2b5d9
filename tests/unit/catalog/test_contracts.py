"""Every built-in mapping finds what it should in a real object of its kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.catalog.contract import (
    DIRECTORY,
    Contract,
    Row,
    absences,
    contracts,
    locate_all,
    rule_of,
    rules_of_rows,
    rules_on_everything,
    submit,
    under,
    with_value,
)
from tests.unit.catalog.policies import builtin
from webhook.mapping.evaluator import JqWorker
from webhook.model.decision import Rule
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.pointer import to_pointer

SUPPORTED = [
    "v1/Pod",
    "apps/v1/Deployment",
    "apps/v1/StatefulSet",
    "apps/v1/ReplicaSet",
    "apps/v1/DaemonSet",
    "batch/v1/Job",
    "batch/v1/CronJob",
    "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet",
    "jobset.x-k8s.io/v1alpha2/JobSet",
    "kubeflow.org/v1/PyTorchJob",
    "kubeflow.org/v1/TFJob",
    "kubeflow.org/v1/MPIJob",
    "kubeflow.org/v2beta1/MPIJob",
    "kubeflow.org/v1/XGBoostJob",
    "kubeflow.org/v1/JAXJob",
    "kubeflow.org/v1/Notebook",
    "kubeflow.org/v1beta1/Notebook",
    "kubeflow.org/v1beta1/ScheduledWorkflow",
    "trainer.kubeflow.org/v1alpha1/TrainJob",
    "ray.io/v1/RayCluster",
    "ray.io/v1/RayJob",
    "ray.io/v1/RayService",
    "serving.knative.dev/v1/Service",
    "serving.kserve.io/v1beta1/InferenceService",
    "serving.kserve.io/v1alpha1/LLMInferenceService",
    "apps.nvidia.com/v1alpha1/NIMService",
    "apps.nvidia.com/v1alpha1/NIMPipeline",
    "nvidia.com/v1alpha1/DynamoGraphDeployment",
    "nvidia.com/v1beta1/DynamoGraphDeployment",
    "machinelearning.seldon.io/v1/SeldonDeployment",
    "workload.codeflare.dev/v1beta2/AppWrapper",
    "argoproj.io/v1alpha1/Workflow",
    "tekton.dev/v1/PipelineRun",
    "tekton.dev/v1/TaskRun",
    "sparkoperator.k8s.io/v1beta2/SparkApplication",
    "workspace.devfile.io/v1alpha2/DevWorkspace",
    "kubevirt.io/v1/VirtualMachineInstance",
    "milvus.io/v1beta1/Milvus",
    "slinky.slurm.net/v1beta1/NodeSet",
    "slinky.slurm.net/v1alpha1/NodeSet",
]
FOREIGN = [kind for kind in builtin().mappings if kind not in NATIVE_TYPE_OF]

each_contract = pytest.mark.parametrize("contract", contracts(), ids=lambda item: item.name)
each_file = pytest.mark.parametrize("file", sorted(path.stem for path in DIRECTORY.glob("*.yaml")))


@pytest.fixture(scope="session")
def worker() -> Iterator[JqWorker]:
    with JqWorker() as worker:
        yield worker


def contracts_of(file: str) -> list[Contract]:
    return [contract for contract in contracts() if contract.file == file]


def file_names(kind: GroupVersionKind) -> set[str]:
    """What the contract of *kind* may be called."""
    name = f"{builtin().mappings[kind].plural}.{kind.group or 'core'}"
    return {name, f"{name}.{kind.version}"}


def test_the_catalogue_compiles() -> None:
    assert builtin().problems == ()


@pytest.mark.parametrize("kind", SUPPORTED)
def test_every_kind_that_we_support_has_a_mapping(kind: str) -> None:
    assert GroupVersionKind.parse(kind) in builtin().mappings


@pytest.mark.parametrize("kind", FOREIGN, ids=str)
def test_every_mapping_has_a_contract_that_is_called_as_its_resource(
    kind: GroupVersionKind,
) -> None:
    files = {contract.file for contract in contracts() if contract.kind == kind}

    assert len(files) == 1
    assert files <= file_names(kind)


@each_contract
def test_each_selector_finds_exactly_these_places(contract: Contract, worker: JqWorker) -> None:
    found = locate_all(contract.mapping, contract.manifest, worker)

    assert {name: [*map(to_pointer, paths)] for name, paths in found.items()} == contract.places


@pytest.mark.parametrize(
    ("contract", "row"),
    [
        pytest.param(contract, row, id=f"{contract.name}-{row.name}")
        for contract in contracts()
        for row in contract.rows
    ],
)
def test_an_enforcement_acts_exactly_there(contract: Contract, row: Row, worker: JqWorker) -> None:
    snapshot = under(contract.kind, rule_of(row))

    reviewed = submit(snapshot, contract.manifest, worker)

    assert reviewed.changes == list(row.changes)
    assert reviewed.violations == list(row.violations)


@each_file
@pytest.mark.parametrize("outcome", ["changes", "violations"])
def test_each_selector_is_written_and_judged_at(file: str, outcome: str) -> None:
    """At least one row of each selector writes something, and one refuses something."""
    rows = [row for contract in contracts_of(file) for row in contract.rows]
    (selectors,) = {tuple(contract.mapping.selectors) for contract in contracts_of(file)}

    assert {row.selector for row in rows if getattr(row, outcome)} == set(selectors)


@each_contract
def test_each_field_has_the_type_that_the_object_has_there(
    contract: Contract, worker: JqWorker
) -> None:
    fields = [
        (name, field)
        for name, selector in contract.mapping.selectors.items()
        for field in selector.fields.values()
    ]
    snapshot = under(contract.kind, *rules_on_everything(contract, worker))

    judged = submit(snapshot, contract.manifest, worker).judged

    assert [(name, field.name) for name, field in fields if field.type is None] == []
    assert [item.field for item in judged.violations if item.rule is not Rule.BLOCKED] == []


@pytest.mark.slow
@each_contract
def test_nothing_fails_where_parts_are_null_or_empty(contract: Contract, worker: JqWorker) -> None:
    snapshot = under(contract.kind, *rules_of_rows(contract))
    failed = []
    for name, path, value in absences(contract.manifest):
        judged = submit(snapshot, with_value(contract.manifest, path, value), worker).judged
        failed += [(name, item.field) for item in judged.violations if item.rule is Rule.TYPE]

    assert failed == []
