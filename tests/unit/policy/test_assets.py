"""DataSource documents: what is wrong with one is said of itself, not of the policy that imposes it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    POLICY_API,
    JsonObject,
    make_snapshot,
    make_training,
    make_workload_policy,
    submit,
)


def data_source(name: str = "home", **spec: Any) -> JsonObject:
    return {
        "apiVersion": POLICY_API,
        "kind": "DataSource",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param(
            {"hostPath": {"path": "/a", "montPath": "/b"}},
            'spec.hostPath.montPath: unknown attribute; did you mean "mountPath"?',
            id="unknown-attribute",
        ),
        pytest.param(
            {"nfs": {"server": "nas", "path": "/x", "readOnly": "yes"}},
            "spec.nfs.readOnly: must be true or false, got text",
            id="wrong-type",
        ),
        pytest.param(
            {"hostPath": {"path": "/a", "mountPropagation": "Both"}},
            "spec.hostPath.mountPropagation: not an allowed value; one of None, HostToContainer",
            id="outside-an-enum",
        ),
        pytest.param(
            {"hostPath": {}}, "spec.hostPath: is empty: it says of no storage", id="empty"
        ),
        pytest.param(
            {"pvc": {"claimInfo": "10Gi", "claimName": "c"}},
            "spec.pvc.claimInfo: must be an object, got text",
            id="text-for-a-section",
        ),
    ],
)
@pytest.mark.parametrize("imposed", [True, False], ids=["imposed", "not-imposed"])
def test_a_wrong_data_source_is_an_error_of_its_own(
    spec: JsonObject, wanted: str, imposed: bool
) -> None:
    policies = [make_workload_policy(imposedAssets=["home"])] * imposed

    problems = make_snapshot(data_source(**spec), *policies).problems

    (error,) = [str(item) for item in problems if not item.warning]
    assert error.startswith(f"test.yaml#0: {wanted}")


def test_an_empty_directory_needs_nothing_but_a_place() -> None:
    assert make_snapshot(data_source(emptyDirVolume={"path": "/tmp"})).problems == ()


@pytest.mark.parametrize(
    ("spec", "attribute"),
    [
        ({"git": {"repository": "r", "path": "/p", "secretName": "s"}}, "passwordSecret"),
        ({"git": {"repository": "r", "path": "/p", "UserName": "s"}}, "secretKeyOfUser"),
        ({"git": {"repository": "r", "path": "/p", "secretRef": {"name": "s"}}}, "secretRef.name"),
        ({"git": {"repository": "https://u:t@example.com/r", "path": "/p"}}, "repository"),
        ({"s3": {"bucket": "b", "path": "/p", "ACCESSKEYSECRET": "s"}}, "accessKeySecret"),
    ],
)
def test_a_credential_in_any_spelling_is_not_imposed(spec: JsonObject, attribute: str) -> None:
    policy = make_workload_policy(imposedAssets=["home"])

    (problem,) = make_snapshot(data_source(**spec), policy).problems

    assert str(problem).startswith("test.yaml#1: spec.imposedAssets[0]: ")
    assert f"home references a credential ({attribute}), so it can't be imposed" in problem.problem


def test_an_asset_is_imposed_under_canonical_names() -> None:
    source = data_source(pvc={"ClaimName": "c", "path": "/home", "size": "10Gi"})
    snapshot = make_snapshot(source, make_workload_policy(imposedAssets=["home"]))

    (item,) = submit(snapshot, make_training()).at("/spec/storage/pvc")

    assert item == {
        "name": "home",
        "claimName": "c",
        "path": "/home",
        "claimInfo": {"size": "10Gi"},
    }


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"server": "nas", "path": "/e", "mountPath": "/m"}, id="without-a-name"),
        pytest.param(
            {"name": "home", "server": "nas", "path": "/e", "mountPath": "/m"}, id="by-its-name"
        ),
    ],
)
def test_an_asset_that_the_submitter_gave_himself_is_not_there_twice(own: JsonObject) -> None:
    asset = {"server": "nas", "path": "/e", "mountPath": "/m"}
    snapshot = make_snapshot(data_source(nfs=asset), make_workload_policy(imposedAssets=["home"]))

    answer = submit(snapshot, make_training(storage={"nfs": [own]}))

    assert answer.broken == []
    assert answer.at("/spec/storage/nfs") == [{**asset, "name": "home"}]


def test_another_item_beside_an_asset_stays_another() -> None:
    asset = {"server": "nas", "path": "/e", "mountPath": "/m"}
    snapshot = make_snapshot(data_source(nfs=asset), make_workload_policy(imposedAssets=["home"]))

    answer = submit(snapshot, make_training(storage={"nfs": [{**asset, "path": "/f"}]}))

    assert len(answer.at("/spec/storage/nfs")) == 2
