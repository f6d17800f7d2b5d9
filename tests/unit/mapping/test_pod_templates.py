"""Which selectors find the `spec` of pod templates, beside which the pods' metadata stands."""

from __future__ import annotations

import pytest

from tests.builders import JsonObject, make_snapshot, make_workload_policy, submit
from tests.jq import ACME, make_acme_job, make_mapping

LABELS = make_workload_policy(
    workload_type=ACME, defaults={"labels": {"instances": [{"name": "team", "value": "ml"}]}}
)
GROUPS = ("podSpec", "nativePod")


def problems_of(mapping: JsonObject) -> list[str]:
    return [
        f"{problem.path}: {problem.problem}" for problem in make_snapshot(mapping, LABELS).problems
    ]


@pytest.mark.parametrize(
    "query",
    [
        ".spec.template.spec",
        ".spec.template | .spec",
        ".spec | .template | .spec",
        '.["spec"].template."spec"',
        "(.spec.template.spec, .spec.head.spec) | select(.)",
        ".spec.template?.spec",
        '.spec.template | select(.kind == "Pod") | .spec',
        ".spec.template | objects | .spec",
    ],
)
def test_a_place_that_is_called_spec_is_a_pod_templates(query: str) -> None:
    assert problems_of(make_mapping(query, *GROUPS)) == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        pytest.param(".spec.template.spec", {"podTemplate": False}, id="said-otherwise"),
        pytest.param(".spec.template | .spec", {"podTemplate": False}, id="in-two-steps"),
        pytest.param(".spec.template", {}, id="another-name"),
        pytest.param(".spec.template.spec, .spec.extra", {}, id="one-of-two"),
        pytest.param(".spec | if .a then .a.spec else .b.spec end", {}, id="not-told"),
    ],
)
def test_labels_have_no_home_where_there_is_no_metadata_beside(
    query: str, said: JsonObject
) -> None:
    assert problems_of(make_mapping(query, *GROUPS, **said)) == [
        "spec.defaults.labels: has no home in a AcmeJob"
    ]


def test_what_a_query_does_not_tell_its_author_may_say() -> None:
    query = ".spec | if .a then .a.spec else .b.spec end"

    assert problems_of(make_mapping(query, *GROUPS, podTemplate=True)) == []


def test_what_a_query_denies_its_author_may_not_say() -> None:
    mapping = make_mapping(".spec.template.pod", *GROUPS, podTemplate=True)

    assert [problem for problem in problems_of(mapping) if "podTemplate" in problem] == [
        "spec.specSelectors.s.podTemplate: is for the spec of a pod template, and the query selects"
        " .spec.template.pod"
    ]


@pytest.mark.parametrize("query", [".spec.template.spec", ".spec.template | .spec"])
def test_labels_are_written_beside_the_pod_spec(query: str) -> None:
    snapshot = make_snapshot(make_mapping(query, *GROUPS), LABELS)

    answer = submit(snapshot, make_acme_job(template={"spec": {"containers": []}}))

    assert answer.at("/spec/template/metadata") == {"labels": {"team": "ml"}}
