"""The policy language on native kinds, through a real API server."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import make_training, make_workload_policy
from tests.controlplane.run import ControlPlane
from tests.e2e.gate import Gate

JsonObject = dict[str, Any]

EXAMPLE = make_workload_policy(
    name="itemized",
    scope="project",
    unit="team-a",
    workload_type=["training", "distributed"],
    defaults={
        "compute": {
            "extendedResources": {
                "instances": [
                    {"resource": "default/cpu", "quantity": 5},
                    {"resource": "default/memory", "quantity": "4M"},
                ],
                "attributes": {"quantity": 3},
            }
        }
    },
    rules={
        "compute": {
            "extendedResources": {
                "instances": {"locked": ["default/cpu"]},
                "attributes": {"quantity": {"required": True}},
            }
        }
    },
)


@pytest.fixture(scope="module", autouse=True)
def policies(gate: Gate, plane: ControlPlane) -> Iterator[None]:
    gate.write_policies("language.yaml", EXAMPLE)
    yield
    gate.remove_policies("language.yaml")
    for kind in ("training", "distributedtraining"):
        plane.kubectl("delete", kind, "--all", "-n", "team-a", "--wait=false")


def create(plane: ControlPlane, document: JsonObject) -> JsonObject:
    out = plane.kubectl_checked(
        "create", "-o", "json", "-f", "-", stdin=json.dumps(document), user="alice"
    )
    stored: JsonObject = json.loads(out)
    return stored


def training(name: str, *items: JsonObject) -> JsonObject:
    document = make_training(image="nvcr.io/x", compute={"extendedResources": list(items)})
    document["metadata"] |= {"name": name}
    return document


def test_items_are_merged_excluded_and_remembered(plane: ControlPlane) -> None:
    stored = create(
        plane,
        training(
            "merged",
            {"resource": "default/memory", "exclude": True},
            {"resource": "added/cpu"},
            {"resource": "added/memory", "quantity": "5M"},
        ),
    )

    assert stored["spec"]["compute"]["extendedResources"] == [
        {"resource": "added/cpu", "quantity": "3"},
        {"resource": "added/memory", "quantity": "5M"},
        {"resource": "default/cpu", "quantity": "5"},
    ]
    annotation = stored["metadata"]["annotations"]["policy.gatewright.io/excluded"]
    assert json.loads(annotation) == {"compute.extendedResources": ["default/memory"]}


def test_a_label_on_such_an_object_adds_nothing_again(plane: ControlPlane) -> None:
    create(plane, training("stays", {"resource": "default/memory", "exclude": True}))

    plane.kubectl_checked("label", "training", "stays", "-n", "team-a", "a=b", user="alice")

    out = plane.kubectl_checked("get", "training", "stays", "-n", "team-a", "-o", "json")
    items = json.loads(out)["spec"]["compute"]["extendedResources"]
    assert [item["resource"] for item in items] == ["default/cpu"]


@pytest.mark.parametrize(
    "item",
    [{"resource": "default/cpu", "exclude": True}, {"resource": "default/cpu", "quantity": 6}],
    ids=["excluded", "changed"],
)
def test_a_locked_item_is_guarded(plane: ControlPlane, item: JsonObject) -> None:
    document = training("locked", item)

    result = plane.kubectl("create", "-f", "-", stdin=json.dumps(document), user="alice")

    assert result.returncode != 0
    assert "the policy locks this item" in result.stderr
    assert "policy itemized, project team-a" in result.stderr


def test_a_misspelt_field_of_a_native_kind_is_answered(plane: ControlPlane) -> None:
    document = make_training(image="nvcr.io/x", imagePulPolicy="Always")
    document["metadata"] |= {"name": "misspelt"}

    result = plane.kubectl("create", "-f", "-", stdin=json.dumps(document), user="alice")

    assert result.returncode != 0
    assert "imagePulPolicy" in result.stderr
    assert "imagePullPolicy" in result.stderr


def test_both_halves_of_a_distributed_training_are_completed(plane: ControlPlane) -> None:
    spec = {"image": "nvcr.io/x", "numWorkers": 2, "distributedFramework": "PyTorch"}
    document = {
        "apiVersion": "workload.gatewright.io/v1alpha1",
        "kind": "DistributedTraining",
        "metadata": {"name": "halves", "namespace": "team-a"},
        "spec": spec,
        "masterSpec": {"image": "nvcr.io/x"},
    }

    stored = create(plane, copy.deepcopy(document))

    for half in ("spec", "masterSpec"):
        items = stored[half]["compute"]["extendedResources"]
        assert [item["resource"] for item in items] == ["default/cpu", "default/memory"]
