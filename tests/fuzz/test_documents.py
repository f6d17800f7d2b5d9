"""Policies, mappings and what stands beside them: read and compiled, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.builders import (
    DEPLOYMENT,
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    submit,
)
from tests.e2e.gate import EXAMPLES
from tests.fuzz.budget import budget
from tests.fuzz.mutations import damaged, mutated
from tests.fuzz.test_reviews import workloads
from tests.gpu_documents import (
    make_cluster_policy,
    make_cluster_strategy,
    make_policy,
    make_precedence,
    make_settings,
    make_strategy,
)
from webhook.errors import EvaluationError, ManifestError, SpecError
from webhook.mapping.answers import UnansweredError
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import load_documents, load_file
from webhook.model.rightsizing.documents import read_document, warnings_of
from webhook.store.snapshot import Snapshot

pytestmark = pytest.mark.slow

# What a fault of ours would be told as.
OUR_FAULT = "can't be compiled"

FILES = [
    *sorted((EXAMPLES / "policies").glob("*.yaml")),
    *sorted((EXAMPLES / "mappings").rglob("*.yaml")),
    EXAMPLES / "one-policy" / "policy.yaml",
]
# A small text is damaged where it matters more often.
TEXTS = sorted([file.read_bytes() for file in FILES], key=len)
POLICIES = [
    manifest.value
    for file in FILES
    for manifest in load_file(file)
    if manifest.value["apiVersion"].startswith("policy.gatewright.io/")
]
MAPPINGS = [each for each in POLICIES if not each["kind"].endswith("Policy")]
RIGHTSIZING = [
    make_policy(),
    make_cluster_policy(),
    make_strategy(),
    make_cluster_strategy(),
    make_settings(),
    make_precedence({"type": "GpuReactivePolicy", "priority": 5}),
]
# About a kind that none of the others is about.
SOUND = make_gvk_policy(
    make_rule("hostPID", "podSpec", {"blocked": True}), kind=DEPLOYMENT, name="sound"
)
WORKLOADS = [each for each in workloads() if each["kind"] != "ConfigMap"]


def judge_all(snapshot: Snapshot) -> None:
    """Submit a workload of each kind concerned; `submit` looks at patch and second pass."""
    concerned = set(snapshot.concerned_kinds)
    for workload in [each for each in WORKLOADS if GroupVersionKind.of(each) in concerned]:
        # A mapping may fail on an object, or need jq; nothing else may happen.
        try:
            submit(snapshot, workload)
        except (EvaluationError, UnansweredError):
            continue


def faults(snapshot: Snapshot) -> list[str]:
    return [str(each) for each in snapshot.problems if OUR_FAULT in each.problem]


@budget(200)
@given(damaged(TEXTS))
def test_a_damaged_file_is_read_or_refused_with_its_line(text: bytes) -> None:
    try:
        manifests = load_documents(text, "policies.yaml")
    except ManifestError as error:
        text_shown = str(error)
        assert text_shown.startswith("policies.yaml")
        assert "\n" not in text_shown
        return

    assert faults(make_snapshot(*[each.value for each in manifests])) == []


@budget(40)
@given(mutated([each for each in POLICIES if each not in MAPPINGS], below=("spec",)))
def test_a_policy_of_any_shape_is_refused_by_name_or_can_be_enforced(policy: JsonObject) -> None:
    snapshot = make_snapshot(policy, *MAPPINGS)

    assert faults(snapshot) == []
    judge_all(snapshot)


@budget(30)
@given(mutated(MAPPINGS, below=("spec",)))
def test_a_mapping_of_any_shape_is_refused_by_name_or_can_be_used(mapping: JsonObject) -> None:
    others = [each for each in POLICIES if each["metadata"]["name"] != mapping["metadata"]["name"]]
    snapshot = make_snapshot(mapping, *others)

    assert faults(snapshot) == []
    judge_all(snapshot)


@budget(60)
@given(mutated(POLICIES))
def test_a_document_of_any_shape_keeps_no_other_from_taking_effect(document: Any) -> None:
    snapshot = make_snapshot(document, SOUND)

    assert faults(snapshot) == []
    assert "sound" in {each.name for each in snapshot.documents}


@budget(200)
@given(mutated(RIGHTSIZING, below=("spec",)))
def test_a_document_about_gpus_of_any_shape_is_read_or_refused_with_paths(
    document: JsonObject,
) -> None:
    try:
        read_document(document)
    except ExceptionGroup as refused:
        leaves = refused.exceptions
        assert all(isinstance(leaf, SpecError) and leaf.path for leaf in leaves), leaves
    else:
        assert all(str(doubt) for doubt in warnings_of(document))
