"""Places that are not there: which are created, and which dependencies can create none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import JsonObject, make_gvk_policy, make_rule
from tests.jq import ACME, Jq, make_acme_job, make_mapping
from webhook.mapping.creating import with_objects
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits

WITHOUT_HOST = {"hostNetwork": False}


@pytest.fixture(scope="module")
def jq() -> Iterator[Jq]:
    with JqWorker(WorkerLimits(evaluate_ms=2000)) as worker:
        yield Jq(worker)


def mapping_of(pod: JsonObject, **others: JsonObject) -> JsonObject:
    """A mapping of AcmeJob with the selector `pod` and *others*."""
    mapping = make_mapping()
    given = {**others, "pod": pod}
    mapping["spec"]["specSelectors"] = {
        name: {"fieldGroups": ["podSpec"], **selector} for name, selector in given.items()
    }
    return mapping


def problems_of(jq: Jq, mapping: JsonObject) -> list[str]:
    return [f"{problem.path}: {problem.problem}" for problem in jq.build(mapping).problems]


def filled(jq: Jq, mapping: JsonObject, spec: JsonObject, **more: Any) -> JsonObject:
    """The spec of an AcmeJob with a default for hostNetwork at the selector `pod`."""
    rule = make_rule("hostNetwork", "pod", {"default": False})
    snapshot = jq.snapshot(mapping, make_gvk_policy(rule, kind=ACME))
    answer = jq.submit(snapshot, make_acme_job(**spec), **more)
    assert answer.allowed
    document: JsonObject = answer.document["spec"]
    return document


# --- when a mapping is written --------------------------------------------------------------------

TOP = {"query": ".spec", "dependency": {"path": "spec"}}
PATH = "spec.specSelectors.pod.dependency.path"


def below(path: str, parent: str = "top") -> JsonObject:
    return {"specSelector": parent, "path": path}


@pytest.mark.parametrize(
    ("query", "dependency", "others", "want"),
    [
        pytest.param(
            ".spec.pods[]?",
            below("pods"),
            {"top": TOP},
            "pods, below selector top, leads to .spec.pods, which the query never selects: it"
            " selects .spec.pods[]",
            id="list-of-places",
        ),
        pytest.param(
            ".spec.pod",
            below("pdo"),
            {"top": TOP},
            "pdo, below selector top, leads to .spec.pdo, which the query never selects: it"
            " selects .spec.pod",
            id="misspelt",
        ),
        pytest.param(
            ".spec.pod",
            {"path": "pod"},
            {},
            "pod leads to .pod, which the query never selects: it selects .spec.pod",
            id="from-the-object",
        ),
        pytest.param(
            ".spec | select(.enabled == true) | .pod",
            below("pdo"),
            {"top": TOP},
            "pdo, below selector top, leads to .spec.pdo, which the query never selects: it"
            " selects .spec.pod",
            id="jq",
        ),
        pytest.param(
            ".spec.roles[].pod",
            below("pdo"),
            {"top": {"query": ".spec.roles[] | select(.name != null)"}},
            "pdo, below selector top, leads to .spec.roles[].pdo, which the query never selects:"
            " it selects .spec.roles[].pod",
            id="below-jq",
        ),
        pytest.param(
            ".spec.roles[].pod",
            below("pdo"),
            {"top": {"query": ".spec.roles | getpath([0])"}},
            "pdo, below selector top, leads to a place that ends with .pdo, which the query never"
            " selects: it selects .spec.roles[].pod",
            id="below-unknown-places",
        ),
    ],
)
def test_a_dependency_that_leads_to_no_place_of_the_query_is_refused(
    jq: Jq, query: str, dependency: JsonObject, others: JsonObject, want: str
) -> None:
    mapping = mapping_of({"query": query, "dependency": dependency}, **others)

    assert problems_of(jq, mapping) == [f"{PATH}: {want}"]


def test_a_dependency_that_says_nothing_is_refused(jq: Jq) -> None:
    assert problems_of(jq, mapping_of({"query": ".spec.pod", "dependency": {}})) == [
        "spec.specSelectors.pod.dependency: path is needed: it leads to the place that may be"
        " created"
    ]


@pytest.mark.parametrize(
    ("query", "dependency", "others"),
    [
        pytest.param(".spec | .pod", below("pod"), {"top": TOP}, id="two-steps"),
        pytest.param(".spec[]", below("pod"), {"top": TOP}, id="any-key"),
        pytest.param(
            ".spec.roles.Worker.pod", below("pod"), {"top": {"query": ".spec.roles[]"}}, id="one-of"
        ),
        pytest.param(
            ".spec | if .a then .pod else .pods[0] end", below("pod"), {"top": TOP}, id="unknown"
        ),
        pytest.param(".spec.pod", {"specSelector": "top"}, {"top": TOP}, id="no-path"),
    ],
)
def test_a_dependency_that_may_lead_to_a_place_is_taken(
    jq: Jq, query: str, dependency: JsonObject, others: JsonObject
) -> None:
    assert problems_of(jq, mapping_of({"query": query, "dependency": dependency}, **others)) == []


# --- when an object is submitted ------------------------------------------------------------------

ENABLED = {
    "query": ".spec | select(.enabled == true) | .pod",
    "dependency": below("pod"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pod", "others", "spec", "want"),
    [
        pytest.param(
            {"query": ".spec.pod", "dependency": below("pod")},
            {"top": TOP},
            {},
            {"pod": WITHOUT_HOST},
            id="absent",
        ),
        pytest.param(ENABLED, {"top": TOP}, {}, {}, id="jq-would-not-find-it"),
        pytest.param(
            ENABLED,
            {"top": TOP},
            {"enabled": True},
            {"enabled": True, "pod": WITHOUT_HOST},
            id="jq-would-find-it",
        ),
        pytest.param(
            ENABLED,
            {"top": TOP},
            {"enabled": True, "pod": {"dnsPolicy": "Default"}},
            {"enabled": True, "pod": {"dnsPolicy": "Default", **WITHOUT_HOST}},
            id="jq-finds-it",
        ),
        pytest.param(
            {"query": ".spec | objects | .pod | select(. == null)", "dependency": below("pod")},
            {"top": TOP},
            {},
            {},
            id="found-only-as-long-as-it-is-absent",
        ),
        pytest.param(
            {"query": ".spec | .pod | objects | select(.a != 1)", "dependency": below("pod")},
            {"top": TOP},
            {"b": 1},
            {"b": 1, "pod": WITHOUT_HOST},
            id="not-found-before-it-is-there",
        ),
        pytest.param(
            {
                "query": ".spec | .pod | if . == null then . else error end",
                "dependency": below("pod"),
            },
            {"top": TOP},
            {"b": 1},
            {"b": 1},
            id="fails-once-it-is-there",
        ),
        pytest.param(
            {"query": ".spec.roles.Worker.pod", "dependency": below("pod")},
            {"top": {"query": ".spec.roles[]"}},
            {"roles": {"Master": {}, "Worker": {}}},
            {"roles": {"Master": {}, "Worker": {"pod": WITHOUT_HOST}}},
            id="of-one-role",
        ),
        pytest.param(
            {"query": ".spec.roles[] | select(.on) | .pod", "dependency": below("pod")},
            {"top": {"query": ".spec.roles[]"}},
            {"roles": [{"on": True}, {}, {"on": True}]},
            {"roles": [{"on": True, "pod": WITHOUT_HOST}, {}, {"on": True, "pod": WITHOUT_HOST}]},
            id="of-some-items",
        ),
        pytest.param(
            {"query": ".spec.roles[-1].pod", "dependency": below("pod")},
            {"top": {"query": ".spec.roles[-1]"}},
            {"roles": [{}, {}]},
            {"roles": [{}, {"pod": WITHOUT_HOST}]},
            id="of-the-last-item",
        ),
        pytest.param(
            {"query": ".spec.a | select(.b != null) | .b.pod", "dependency": below("pod", "b")},
            {
                "a": {"query": ".spec | objects | .a", "dependency": {"path": "spec.a"}},
                "b": {"query": ".spec.a | objects | .b", "dependency": below("b", "a")},
            },
            {},
            {"a": {"b": {"pod": WITHOUT_HOST}}},
            id="chain-of-jq",
        ),
        pytest.param(
            {"query": ".spec.a.pod", "dependency": below("pod", "a")},
            {
                "a": {
                    "query": ".spec | select(.enabled) | .a",
                    "dependency": {"path": "spec.a"},
                }
            },
            {"x": 1},
            {"x": 1},
            id="below-what-is-not-created",
        ),
        pytest.param(
            {"query": ".spec.Worker", "ignoreCase": ["Worker"], "dependency": below("Worker")},
            {"top": TOP},
            {"worker": {}},
            {"worker": WITHOUT_HOST},
            id="there-in-another-case",
        ),
        pytest.param(
            {"query": ".spec.Worker", "ignoreCase": ["Worker"], "dependency": below("Worker")},
            {"top": TOP},
            {},
            {"Worker": WITHOUT_HOST},
            id="there-in-no-case",
        ),
        pytest.param(
            {
                "query": ".spec.Worker.template",
                "ignoreCase": ["Worker"],
                "dependency": below("template", "roles"),
            },
            {"roles": {"query": ".spec.Worker | select(.)", "ignoreCase": ["Worker"]}},
            {"worker": {}, "Worker": {}},
            {"worker": {"template": WITHOUT_HOST}, "Worker": {"template": WITHOUT_HOST}},
            id="below-each-spelling",
        ),
    ],
)
def test_a_default_creates_what_its_selector_finds_then(
    jq: Jq, pod: JsonObject, others: JsonObject, spec: JsonObject, want: JsonObject
) -> None:
    assert filled(jq, mapping_of(pod, **others), spec) == want


def test_required_does_not_ask_for_what_the_query_would_not_find(jq: Jq) -> None:
    rule = make_rule("hostNetwork", "pod", {"required": True})
    policy = make_gvk_policy(rule, kind=ACME)
    snapshot = jq.snapshot(mapping_of(ENABLED, top=TOP), policy)

    assert jq.submit(snapshot, make_acme_job()).allowed
    assert jq.submit(snapshot, make_acme_job(enabled=True)).broken == [
        ("/spec/pod/hostNetwork", "required")
    ]


def test_an_update_below_places_of_jq_is_answered(jq: Jq) -> None:
    """What stood there before is found by its path: nobody has asked jq about the old object."""
    mapping = mapping_of(
        {"query": ".spec.roles[0].pod", "dependency": below("pod")},
        top={"query": ".spec.roles[0] | select(.on)"},
    )
    old = make_acme_job(roles=[{"on": True}], size=1)

    # It was there without a pod before the policy.
    assert filled(jq, mapping, {"roles": [{"on": True}], "size": 2}, old=old) == {
        "roles": [{"on": True}],
        "size": 2,
    }


@pytest.mark.slow
def test_a_large_object_is_asked_about_once_for_all_places(jq: Jq) -> None:
    """Each question carries the whole object."""
    mapping = mapping_of(
        {"query": ".spec.roles[] | select(.on) | .pod", "dependency": below("pod")},
        top={"query": ".spec.roles[]"},
    )
    roles = [{"on": index % 2 == 0} for index in range(900)]

    spec = filled(jq, mapping, {"roles": roles})

    assert [role.get("pod") for role in spec["roles"]] == [WITHOUT_HOST, None] * 450


# --- the object as it would be --------------------------------------------------------------------


def test_objects_are_put_into_a_copy() -> None:
    document = {"spec": {"roles": [{"a": 1}, {}], "x": None}, "metadata": {"managedFields": [1]}}

    whole = with_objects(document, [("spec", "roles", 0, "pod"), ("spec", "x", "y"), ("z",)])

    assert whole == {
        "spec": {"roles": [{"a": 1, "pod": {}}, {}], "x": {"y": {}}},
        "metadata": {},
        "z": {},
    }
    assert document == {
        "spec": {"roles": [{"a": 1}, {}], "x": None},
        "metadata": {"managedFields": [1]},
    }
