"""Kinds of workloads beyond the nine: which there are, where, and what becomes of their pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from webhook.catalog import builtin_documents
from webhook.catalog.pod_makers import PodMaker, pod_makers
from webhook.clients.discovery import ServedResource
from webhook.model.kinds import GroupVersionKind
from webhook.model.rightsizing.workload_types import is_short, read_type, type_of
from webhook.reactive.observation.mapped import (
    RECREATES_PODS,
    SeenMapping,
    decode_mapping,
    mapped_kinds,
)

ACME = {"group": "acme.example.com", "version": "v1", "kind": "AcmeJob"}
ACME_TYPE = "AcmeJob.acme.example.com"


def seen(
    kind: Any = ACME, *, annotations: dict[str, str] | None = None, **spec: Any
) -> SeenMapping:
    metadata = {"name": "acme", "resourceVersion": "7", "annotations": annotations}
    mapping = {"metadata": metadata, "spec": {"workloadType": kind, **spec}}
    return decode_mapping(json.dumps(mapping).encode())


BUILTIN = {
    type_of(kind.group, kind.kind)
    for document in builtin_documents()
    if document.kind == "SpecMapping"
    for kind in [document.spec.workload_type]
    if kind.group
}


def test_every_kind_of_the_table_has_a_mapping_and_one_name() -> None:
    assert set(pod_makers()) <= BUILTIN
    assert [name for name in pod_makers() if read_type(name) != name or is_short(name)] == []


def test_the_table_says_of_each_kind_why_its_pods_are_not_evicted_or_that_they_are() -> None:
    silent = [
        name
        for name, maker in pod_makers().items()
        if not (maker.makes or maker.reason or (maker.recreates and not maker.labels))
    ]
    assert silent == []
    makes = {maker.makes for maker in pod_makers().values() if maker.makes}
    assert [name for name in makes if not is_short(name) and name not in pod_makers()] == []


def test_kinds_with_built_in_mappings_are_known_without_a_cluster() -> None:
    kinds = mapped_kinds([])

    assert set(kinds) == {name for name in BUILTIN if not is_short(name)}
    job = kinds["PyTorchJob.kubeflow.org"].served({})
    assert job is not None
    assert [resource.path for resource in job.resources] == ["/apis/kubeflow.org/v1/pytorchjobs"]
    assert {(each.optional, each.metadata_only) for each in job.resources} == {(True, True)}


def test_a_kind_is_looked_for_in_all_versions_that_are_mapped() -> None:
    kind = mapped_kinds([])["MPIJob.kubeflow.org"].served({})

    assert kind is not None
    assert kind.versions == ("v1", "v2beta1")


def test_a_users_mapping_adds_its_kind_by_the_plural_that_it_gives() -> None:
    kind = mapped_kinds([seen(resource="acmejobs")])[ACME_TYPE]

    assert kind.unlooked() == []
    found = kind.served({})
    assert found is not None
    assert [each.path for each in found.resources] == ["/apis/acme.example.com/v1/acmejobs"]
    assert kind.maker == PodMaker()


def test_a_plural_that_no_mapping_gives_is_that_which_is_served() -> None:
    kind = mapped_kinds([seen()])[ACME_TYPE]

    assert kind.unlooked() == ["acme.example.com/v1"]
    assert kind.served({}) is None
    known = {"acme.example.com/v1": {"AcmeJob": ServedResource("acmejobberies", True)}}
    found = kind.served(known)
    assert found is not None
    assert found.plural == "acmejobberies"


def test_whoever_registers_a_kind_can_say_that_its_pods_are_made_again() -> None:
    kinds = mapped_kinds([seen(annotations={RECREATES_PODS: "true"})])

    assert kinds[ACME_TYPE].maker == PodMaker(recreates=True)


def test_but_not_of_a_kind_that_is_known_better() -> None:
    told = {"group": "kubeflow.org", "version": "v2", "kind": "PyTorchJob"}
    kinds = mapped_kinds([seen(told, annotations={RECREATES_PODS: "true"})])

    assert not kinds["PyTorchJob.kubeflow.org"].maker.recreates
    assert set(kinds["PyTorchJob.kubeflow.org"].versions) == {"v1", "v2"}


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "training",
        {},
        {**ACME, "group": ""},
        {**ACME, "group": "../../api/v1/secrets#.x"},
        {**ACME, "version": "v1/namespaces"},
        {**ACME, "version": 1},
        {**ACME, "kind": "Acme/Job"},
        {"group": "apps", "version": "v1", "kind": "Deployment"},
    ],
)
def test_what_is_no_kind_of_its_own_adds_nothing(kind: Any) -> None:
    """What a mapping says becomes a path of the API server."""
    assert mapped_kinds([seen(kind)]) == mapped_kinds([])


@pytest.mark.parametrize("plural", ["../pods", "acme/jobs", "", 7, "a" * 64])
def test_what_can_be_no_plural_is_none(plural: Any) -> None:
    assert seen(resource=plural).plural == ""


def test_of_a_mapping_nothing_else_counts_as_a_change() -> None:
    before, after = seen(specSelectors={"a": {}}), seen(specSelectors={"b": {}})

    assert before.change_key == after.change_key
    assert before.kind == GroupVersionKind("acme.example.com", "v1", "AcmeJob")
