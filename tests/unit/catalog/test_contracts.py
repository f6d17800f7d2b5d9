"""Every built-in mapping finds what it should in a real object of its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.catalog.contract import (
    Contract,
    absences,
    contracts,
    deviations,
    locate_all,
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


@pytest.fixture(scope="session")
def worker() -> Iterator[JqWorker]:
    with JqWorker() as worker:
        yield worker


def file_names(kind: GroupVersionKind) -> set[str]:
    """What the contract of *kind* may be called."""
    name = f"{builtin().mappings[kind].plural}.{kind.group or 'core'}"
    return {name, f"{name}.{kind.version}"}


def test_the_catalogue_compiles() -> None:
    assert builtin().problems == ()


def test_every_kind_that_we_support_has_a_mapping() -> None:
    missing = [kind for kind in SUPPORTED if GroupVersionKind.parse(kind) not in builtin().mappings]

    assert missing == []


def test_every_mapping_has_one_contract_that_is_called_as_its_resource() -> None:
    files = {
        kind: {contract.file for contract in contracts() if contract.kind == kind}
        for kind in FOREIGN
    }

    assert [
        f"{kind}: {sorted(found)}, not one of {sorted(file_names(kind))}"
        for kind, found in files.items()
        if len(found) != 1 or not found <= file_names(kind)
    ] == []


@pytest.mark.slow
@each_contract
def test_each_selector_finds_exactly_these_places(contract: Contract, worker: JqWorker) -> None:
    found = locate_all(contract.mapping, contract.manifest, worker)

    assert {name: [*map(to_pointer, paths)] for name, paths in found.items()} == contract.places


@pytest.mark.slow
@each_contract
def test_an_enforcement_acts_exactly_there(contract: Contract, worker: JqWorker) -> None:
    """Each row alone: what is wrong with one is told whatever the others do."""
    assert deviations(contract, worker) == []


def test_a_row_that_does_not_hold_is_told_by_its_name(worker: JqWorker) -> None:
    """A test of many rows in one: that it sees each of them is not to be taken for granted."""
    contract = contracts()[0]
    first, *others = contract.rows
    elsewhere = ("/nowhere",)
    rows = (
        replace(first, changes=elsewhere),
        *others,
        replace(first, violations=elsewhere),
        replace(first, field="noSuchField"),
    )

    told = deviations(replace(contract, rows=rows), worker)

    assert [text.partition(": ")[0] for text in told] == [
        *[f"{contract.name} {first.name}"] * 2,
        f"{contract.name} {rows[-1].name}",
    ]


@pytest.mark.parametrize("outcome", ["changes", "violations"])
def test_each_selector_is_written_and_judged_at(outcome: str) -> None:
    """At least one row of each selector writes something, and one refuses something."""
    acted = {
        (contract.file, row.selector)
        for contract in contracts()
        for row in contract.rows
        if getattr(row, outcome)
    }
    selectors = {
        (contract.file, name) for contract in contracts() for name in contract.mapping.selectors
    }

    assert sorted(selectors - acted) == []
    assert acted <= selectors


def test_the_contracts_of_a_file_are_of_one_kind() -> None:
    kinds = {(contract.file, contract.kind) for contract in contracts()}

    assert len(kinds) == len({file for file, _ in kinds}) > 0


@pytest.mark.slow
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
