"""A build works out again only what depends on what has changed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.builders import (
    DEPLOYMENT,
    POLICY_API,
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_workload_policy,
)
from webhook.model.settings import EngineSettings
from webhook.policy.rules.enforcement import CompiledPolicy
from webhook.store.changes import Titled
from webhook.store.compile.inputs import SourceFile, Surroundings
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.memo import Memo
from webhook.store.snapshot import Snapshot

SETTINGS = EngineSettings()
ACME = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}
NAMESPACES = {"team-a": {"runai/queue": "red", SETTINGS.department_label: "research"}}


def make_documents() -> dict[str, JsonObject]:
    """One of each kind that others depend on, and policies that do or don't."""
    return {
        "group": {
            "apiVersion": POLICY_API,
            "kind": "FieldGroup",
            "metadata": {"name": "acme-pod"},
            "spec": {"name": "acmePod", "fields": {"size": {"type": "integer"}}},
        },
        "mapping": {
            "apiVersion": POLICY_API,
            "kind": "SpecMapping",
            "metadata": {"name": "acme"},
            "spec": {
                "workloadType": ACME,
                "specSelectors": {"pods": {"query": ".spec.pod", "fieldGroups": ["acmePod"]}},
            },
        },
        "asset": {
            "apiVersion": POLICY_API,
            "kind": "DataSource",
            "metadata": {"name": "datasets"},
            "spec": {"nfs": {"server": "s", "path": "/p", "mountPath": "/m"}},
        },
        "acme": make_gvk_policy(make_rule("size", "pods", {"max": 3}), kind=ACME, name="acme"),
        "imposing": make_workload_policy(name="imposing", imposedAssets=["datasets"]),
        "deployment": make_gvk_policy(
            make_rule("hostPID", "podSpec", {"blocked": True}),
            kind=DEPLOYMENT,
            name="deployment",
            scope="project",
            unit="red",
        ),
    }


def build(
    documents: dict[str, JsonObject],
    previous: Snapshot | None = None,
    namespaces: dict[str, dict[str, str]] | None = None,
) -> Snapshot:
    around = Surroundings(NAMESPACES if namespaces is None else namespaces, {})
    files = [
        SourceFile(name, (Titled(name, 0, 1, document),)) for name, document in documents.items()
    ]
    snapshot = build_snapshot(
        [SourceFile("around", surroundings=around), *files], SETTINGS, previous=previous
    )
    assert not snapshot.problems
    return snapshot


def policies_of(snapshot: Snapshot) -> dict[str, CompiledPolicy]:
    """The compiled policies of each name (of its first kind)."""
    return {
        policy.document.name: policy
        for kind in snapshot.mappings
        for policy in snapshot.policies.policies_of(kind)
    }


@pytest.mark.parametrize(
    ("changed", "anew"),
    [
        pytest.param(None, set(), id="nothing"),
        pytest.param("acme", {"acme"}, id="policy"),
        pytest.param("asset", {"imposing"}, id="data-source"),
        pytest.param("mapping", {"acme"}, id="mapping"),
        pytest.param("group", {"acme"}, id="field-group"),
    ],
)
def test_what_depends_on_a_changed_document_is_compiled_anew_and_nothing_else(
    changed: str | None, anew: set[str]
) -> None:
    documents = make_documents()
    before = build(documents)
    if changed is not None:
        documents = {**documents, changed: copy.deepcopy(documents[changed])}
        documents[changed]["spec"]["description"] = "new"
        if changed == "asset":
            del documents[changed]["spec"]["description"]
            documents[changed]["spec"]["nfs"]["path"] = "/q"
        if changed == "group":
            documents[changed]["spec"]["fields"]["more"] = {"type": "string"}

    after = build(documents, before)

    old, new = policies_of(before), policies_of(after)
    assert {name for name in new if new[name] is not old[name]} == anew
    assert (after.policies is before.policies) == (not anew)
    assert (after.revision == before.revision) == (changed is None)


def test_a_namespace_s_labels_compile_nothing() -> None:
    before = build(make_documents())
    moved = {"team-a": {"runai/queue": "blue"}, "team-b": {}}

    after = build(make_documents(), before, moved)

    assert after.branch("team-a").project == "blue"
    assert before.branch("team-a").project == "red"
    assert after.policies is before.policies
    assert after.territory.departments_of("red") == frozenset({""})


def test_policies_that_come_to_meet_are_checked_again() -> None:
    """A project moves into a department whose policy has the same field: the later one yields."""
    rules = {"image": {"required": True}}
    documents: dict[str, Any] = {
        "a": make_workload_policy(name="a", scope="department", unit="sales", rules=rules),
        "b": make_workload_policy(name="b", scope="project", unit="red", rules=rules),
    }
    before = build(documents)
    moved = {"team-a": {"runai/queue": "red", SETTINGS.department_label: "sales"}}
    files = [SourceFile(name, (Titled(name, 0, 1, text),)) for name, text in documents.items()]
    around = SourceFile("around", surroundings=Surroundings(moved, {}))

    after = build_snapshot([around, *files], SETTINGS, previous=before)

    assert [problem.document for problem in after.problems] == ["b"]
    assert "already has rules in policy a" in after.problems[0].problem
    # And apart again.
    again = build_snapshot(
        [SourceFile("around", surroundings=Surroundings(NAMESPACES, {})), *files],
        SETTINGS,
        previous=after,
    )
    assert again.problems == ()


def test_a_fresh_build_and_one_from_memory_are_equal() -> None:
    documents = make_documents()
    remembered = build(documents, build({**documents, "acme": make_workload_policy(name="x")}))
    fresh = build(documents)

    assert remembered.revision == fresh.revision
    assert policies_of(remembered) == policies_of(fresh)
    assert remembered.problems == fresh.problems


def test_a_result_is_recalled_by_key_and_by_the_very_inputs() -> None:
    one, other = [1], [1]
    first = Memo()
    made = first.recall("key", (one,), object)

    second = Memo(first.seal())
    assert second.recall("key", (one,), object) is made
    assert second.recall("key", (other,), object) is not made
    assert second.recall("other key", (one,), object) is not made


def test_what_was_not_asked_for_is_forgotten() -> None:
    first = Memo()
    made = first.recall("key", (), object)
    second = Memo(first.seal()).seal()

    assert Memo(second).recall("key", (), object) is not made


def test_equal_values_are_one_object() -> None:
    first = Memo()
    value = first.recall_equal("key", frozenset({"a"}))
    second = Memo(first.seal())

    assert second.recall_equal("key", frozenset({"a"})) is value
    assert second.recall_equal("key", frozenset({"b"})) == frozenset({"b"})
