"""
Kubeflow's operators take the name of a role in any case, so that every selector must find it.

They compare by Unicode's simple folding: a Kelvin sign is a k as well.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.builders import (
    PYTORCH_JOB,
    JsonObject,
    make_gvk_policy,
    make_pytorch_job,
    make_rule,
    make_snapshot,
    make_workload_policy,
    submit,
)
from tests.unit.catalog.contract import Contract, contracts
from webhook.errors import SpecError
from webhook.mapping.locate import Locator
from webhook.mapping.programs import compile_selector
from webhook.model.pointer import to_pointer

KINDS = ("PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "MPIJob")
ROLES = ("Master", "Worker", "Chief", "PS", "Evaluator", "Launcher")

CONTRACTS = [
    pytest.param(contract, id=contract.name)
    for contract in contracts()
    if contract.kind.kind in KINDS
]
SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "mixed": str.swapcase,
    "kelvin-sign": lambda role: role.replace("k", "\u212a"),
    "long-s": lambda role: role.replace("s", "\u017f"),
}


def respelt(manifest: JsonObject, spell: Callable[[str], str]) -> JsonObject:
    spec = {
        key: {spell(role): part for role, part in value.items()}
        if key.endswith("ReplicaSpecs")
        else value
        for key, value in manifest["spec"].items()
    }
    return {**copy.deepcopy(manifest), "spec": spec}


def respelt_pointer(pointer: str, spell: Callable[[str], str]) -> str:
    return "/".join(spell(token) if token in ROLES else token for token in pointer.split("/"))


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_role_is_found_in_any_case(contract: Contract, spelling: str) -> None:
    spell = SPELLINGS[spelling]
    locator = Locator(contract.mapping, respelt(contract.manifest, spell), {})

    found = {
        name: [to_pointer(path) for path in locator.places(selector).paths]
        for name, selector in contract.mapping.selectors.items()
    }

    assert found == {
        name: [respelt_pointer(pointer, spell) for pointer in pointers]
        for name, pointers in contract.places.items()
    }


def test_every_spelling_of_a_role_that_is_there_is_judged() -> None:
    """The operator keeps one of them, and which one is not for us to guess."""
    policy = make_workload_policy(
        workload_type=dict(PYTORCH_JOB),
        rules={"worker": {"image": {"pattern": ["ghcr.io/*"]}}},
    )
    job = make_pytorch_job()
    specs = job["spec"]["pytorchReplicaSpecs"]
    specs["worker"] = copy.deepcopy(specs["Worker"])
    specs["worker"]["template"]["spec"]["containers"][0]["image"] = "docker.io/x"

    answer = submit(make_snapshot(policy), job)

    image = "/spec/pytorchReplicaSpecs/worker/template/spec/containers/0/image"
    assert answer.broken == [(image, "pattern")]


def test_a_default_is_written_where_the_role_stands() -> None:
    policy = make_gvk_policy(
        make_rule("labels", "workerPodMetadata", {"default": {"key": "team", "value": "a"}}),
        kind=PYTORCH_JOB,
    )
    job = make_pytorch_job()
    specs = job["spec"]["pytorchReplicaSpecs"]
    specs["WORKER"] = specs.pop("Worker")

    answer = submit(make_snapshot(policy), job)

    assert answer.at("/spec/pytorchReplicaSpecs/WORKER/template/metadata/labels/team") == "a"
    assert sorted(answer.document["spec"]["pytorchReplicaSpecs"]) == ["Master", "WORKER"]


@pytest.mark.parametrize(
    ("query", "names", "problem"),
    [
        pytest.param(".spec.a", ["b"], "has no name 'b'", id="no-such-name"),
        pytest.param(".spec | first(.a)", ["a"], "takes jq", id="jq"),
    ],
)
def test_a_name_in_any_case_must_be_one_of_a_plain_path(
    query: str, names: list[str], problem: str
) -> None:
    with pytest.raises(SpecError, match=problem):
        compile_selector(query, path="query", any_case=names)


@pytest.mark.parametrize(
    ("query", "document", "found"),
    [
        pytest.param(".a.B.c", {"a": {"b": {"c": 1}}}, ["/a/b/c"], id="below"),
        pytest.param(".a.B", {"a": {}}, ["/a/B"], id="absent"),
        pytest.param(".a.B", {"a": None}, ["/a/B"], id="null"),
        pytest.param("(.a.B, .c.B)[]?", {"c": {"b": [1]}}, ["/c/b/0"], id="alternatives"),
        pytest.param(".a.B?", {"a": {"b": 1}}, ["/a/b"], id="optional"),
        pytest.param(".B.B", {"b": {"B": 1, "b": 2}}, ["/b/B", "/b/b"], id="each-of-them"),
    ],
)
def test_a_name_in_any_case_is_the_key_that_is_there(
    query: str, document: Any, found: list[str]
) -> None:
    plain = compile_selector(query, path="query", any_case=["B"]).plain
    assert plain is not None

    located = plain.locate(document)

    assert [to_pointer(path) for path in located.paths] == found
    assert located.mismatches == ()


def test_what_is_no_object_is_told() -> None:
    plain = compile_selector(".a.B", path="query", any_case=["B"]).plain
    assert plain is not None

    (mismatch,) = plain.locate({"a": [1]}).mismatches

    assert (mismatch.path, mismatch.expected, mismatch.got) == (("a",), "object", "list")
