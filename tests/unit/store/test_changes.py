"""What is said about a change before it is made."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.builders import (
    POLICY_API,
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_snapshot,
    make_workload_policy,
)
from webhook.model.manifests import Manifest
from webhook.model.settings import EngineSettings
from webhook.store.changes import ChangeCheck, Titled, check_change
from webhook.store.compile.inputs import SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.snapshot import DocumentProblem

ACME = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}


def dated(document: JsonObject, day: int) -> JsonObject:
    """*document* as a cluster has it, made on that day."""
    made = copy.deepcopy(document)
    made["metadata"]["creationTimestamp"] = f"2026-01-{day:02d}T00:00:00Z"
    return made


def files_of(*documents: JsonObject) -> list[SourceFile]:
    """As the cluster's store gives them."""
    titles = [f"{document['kind']} {document['metadata']['name']}" for document in documents]
    return [
        SourceFile(title, (Titled(title, 0, 1, document),))
        for title, document in zip(titles, documents, strict=True)
    ]


def check(*documents: JsonObject, **change: Any) -> ChangeCheck:
    files = files_of(*documents)
    return check_change(files, build_snapshot(files, EngineSettings()), **change)


def lines(problems: tuple[DocumentProblem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


def make_mapping(*, selector: str = "pods", group: str = "acmePod") -> JsonObject:
    return {
        "apiVersion": POLICY_API,
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": {
            "workloadType": ACME,
            "specSelectors": {selector: {"query": ".spec.pod", "fieldGroups": [group]}},
        },
    }


def make_group(**fields: Any) -> JsonObject:
    fields = fields or {"size": {"type": "integer"}}
    return {
        "apiVersion": POLICY_API,
        "kind": "FieldGroup",
        "metadata": {"name": "acme-pod"},
        "spec": {"name": "acmePod", "fields": fields},
    }


def make_policy(name: str = "acme-baseline", field: str = "size", **more: Any) -> JsonObject:
    return make_gvk_policy(make_rule(field, "pods", {"max": 3}), kind=ACME, name=name, **more)


def make_asset(name: str = "datasets") -> JsonObject:
    return {
        "apiVersion": POLICY_API,
        "kind": "DataSource",
        "metadata": {"name": name},
        "spec": {"nfs": {"server": "s", "path": "/p", "mountPath": "/m"}},
    }


def test_a_good_document_is_allowed() -> None:
    got = check(make_group(), make_mapping(), put=make_policy())

    assert got == ChangeCheck()
    assert got.allowed


def test_what_is_wrong_is_what_lint_says() -> None:
    bad = make_policy(field="sice")
    got = check(make_group(), make_mapping(), put=bad)

    said = make_snapshot(make_group(), make_mapping(), bad).problems
    assert [(p.path, p.problem) for p in got.problems] == [(p.path, p.problem) for p in said]
    assert lines(got.problems) == [
        "GVKPolicy acme-baseline: spec.rules[0].field: no field 'sice' at selector pods;"
        ' did you mean "size"?'
    ]
    assert not got.allowed


@pytest.mark.parametrize(
    ("put", "wanted"),
    [
        pytest.param(make_policy(), "no mapping for acme.io/v1/AcmeJob", id="mapping"),
        pytest.param(make_mapping(), "no field group 'acmePod'", id="field-group"),
        pytest.param(
            make_workload_policy(imposedAssets=["datasets"]), "no DataSource 'datasets'", id="asset"
        ),
        pytest.param(
            make_workload_policy(
                workload_type=["training", ACME], rules={"image": {"required": True}}
            ),
            "no mapping for acme.io/v1/AcmeJob",
            id="one-of-two-kinds",
        ),
    ],
)
def test_a_reference_that_may_come_is_missing_and_no_problem(put: JsonObject, wanted: str) -> None:
    got = check(put=put)

    assert got.problems == ()
    assert got.allowed
    (missing,) = got.missing
    assert wanted in missing.problem
    assert got.warnings == ()


def test_advice_is_a_warning() -> None:
    never = make_gvk_policy(make_rule("imagePullPolicy", "allContainers", {"default": "Always"}))
    got = check(put=never)

    assert got.allowed
    assert "never acts" in got.warnings[0].problem


@pytest.mark.parametrize(
    ("there", "put"),
    [
        pytest.param(1, 2, id="against-an-older-one"),
        pytest.param(2, 1, id="against-a-younger-one"),
        pytest.param(1, None, id="without-a-date"),
    ],
)
def test_who_comes_second_is_refused_and_told_who_holds_the_field(
    there: int, put: int | None
) -> None:
    """Also with a policy that is older than the holder: it held the field no longer, or never."""
    rules = {"image": {"required": True}}
    holder = dated(make_workload_policy(rules=rules, name="holder"), there)
    late = make_workload_policy(rules=rules, name="late")
    late = dated(late, put) if put is not None else late

    got = check(holder, put=late)

    (problem,) = lines(got.problems)
    assert problem.startswith(
        "WorkloadPolicy late: spec.rules.image.required: field image already has rules in"
        " policy holder, tenant; policy late, tenant can't have any too"
    )


def test_in_a_directory_the_name_does_not_decide_who_is_refused() -> None:
    rules = {"image": {"required": True}}
    there = make_workload_policy(rules=rules, name="b")
    files = [SourceFile("b.yaml", (Manifest("b.yaml", 0, 1, there),))]
    put = make_workload_policy(rules=rules, name="a")

    got = check_change(files, build_snapshot(files, EngineSettings()), put=put)

    assert [problem.document for problem in got.problems] == ["WorkloadPolicy a"]
    assert "already has rules in policy b" in got.problems[0].problem


def test_a_holder_stays_free_to_change_while_another_one_waits_for_its_field() -> None:
    """The younger one came in while nobody judged; it never was in force."""
    rules = {"image": {"required": True}}
    holder = dated(make_workload_policy(rules=rules, name="holder"), 1)
    waiting = dated(make_workload_policy(rules=rules, name="waiting"), 2)
    changed = copy.deepcopy(holder)
    changed["spec"]["rules"]["image"] = {"required": False}

    assert check(holder, waiting, put=changed).allowed


def test_problems_that_were_there_before_are_nobodys_fault() -> None:
    broken = make_policy(name="broken", field="nonsense")

    assert check(make_group(), make_mapping(), broken, put=make_policy()).allowed


def test_a_change_that_breaks_another_document_names_it() -> None:
    documents = (make_group(), make_mapping(), make_policy())

    got = check(*documents, put=make_mapping(selector="workers"))

    assert lines(got.problems) == [
        "GVKPolicy acme-baseline: spec.rules[0].specSelector: AcmeJob has no selector 'pods'; "
        "known: workers"
    ]


def test_a_new_name_that_leaves_users_behind_is_refused() -> None:
    renamed = make_group()
    renamed["spec"]["name"] = "acmeContainer"

    got = check(make_group(), make_mapping(), put=renamed)

    assert [problem.document for problem in got.problems] == ["SpecMapping acme"]
    assert "no field group 'acmePod'" in got.problems[0].problem


@pytest.mark.parametrize(
    ("delete", "users"),
    [
        pytest.param(("SpecMapping", "acme"), ("GVKPolicy acme-baseline",), id="mapping"),
        pytest.param(("SpecMapping", "ACME"), ("GVKPolicy acme-baseline",), id="in-another-case"),
        pytest.param(
            ("FieldGroup", "acme-pod"),
            ("GVKPolicy acme-baseline", "SpecMapping acme"),
            id="field-group",
        ),
        pytest.param(("DataSource", "datasets"), ("WorkloadPolicy guardrails",), id="data-source"),
        pytest.param(("DataSource", "unused"), (), id="unused"),
        pytest.param(("DataSource", "never-was"), (), id="not-there"),
        pytest.param(("GVKPolicy", "acme-baseline"), (), id="policies-are-used-by-nobody"),
    ],
)
def test_what_is_in_use_names_its_users(delete: tuple[str, str], users: tuple[str, ...]) -> None:
    documents = (
        make_group(),
        make_mapping(),
        make_policy(),
        make_asset(),
        make_asset("unused"),
        make_workload_policy(imposedAssets=["datasets"]),
    )

    got = check(*documents, delete=delete)

    assert got.users == users
    assert got.allowed == (not users)


def test_fields_that_a_document_adds_to_a_system_group_are_in_use_too() -> None:
    added = {
        "apiVersion": POLICY_API,
        "kind": "FieldGroup",
        "metadata": {"name": "more"},
        "spec": {"name": "podSpec", "fields": {"hostAliases": {"specRef": "hostAliases"}}},
    }
    user = make_gvk_policy(make_rule("hostAliases", "podSpec", {"blocked": True}))

    got = check(added, user, delete=("FieldGroup", "more"))

    assert got.users == ("GVKPolicy baseline",)


def test_a_document_of_no_known_shape_is_a_problem_and_no_fault() -> None:
    got = check(put={"apiVersion": POLICY_API, "kind": "GVKPolcy", "metadata": {"name": "x"}})

    assert 'did you mean "GVKPolicy"' in got.problems[0].problem
