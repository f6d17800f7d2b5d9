"""How much one document may hold, so that whoever writes the next one need not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import JsonObject, make_gvk_policy, make_rule, make_snapshot
from tests.jq import ACME, make_formatter, make_group
from webhook.catalog.crds import build_crds
from webhook.mapping.compiled import MAX_EXPOSED_FIELDS
from webhook.model.documents import (
    MAX_ARGUMENTS,
    MAX_FIELD_GROUPS,
    MAX_FORMATTER_FIELDS,
    MAX_GROUP_FIELDS,
    MAX_ITEM_SELECTORS,
    MAX_SPEC_SELECTORS,
)
from webhook.store.compile.trying import MAX_TRIALS
from webhook.store.snapshot import DocumentProblem


def many(count: int, part: Any) -> dict[str, Any]:
    return {f"n{number}": part for number in range(count)}


def formatter(fields: int = 1, args: int = 1, enums: int = 0) -> JsonObject:
    field = {
        "getExpr": ".a",
        "argsInfo": many(args, "string"),
        "argsEnum": many(enums, ["x"]),
    }
    return make_formatter(many(fields, field))


def group(fields: int = 1, selectors: int = 0, args: int = 0) -> JsonObject:
    selector = {"query": ".a", "argsInfo": many(args, "string")}
    return make_group(many(fields, {}), itemSelectors=many(selectors, selector))


def mapping(selectors: int = 1, groups: int = 1) -> JsonObject:
    selector = {"query": ".spec", "fieldGroups": ["own"] * groups}
    return {
        "apiVersion": "policy.gatewright.io/v1alpha1",
        "kind": "SpecMapping",
        "metadata": {"name": "acme"},
        "spec": {"workloadType": ACME, "specSelectors": many(selectors, selector)},
    }


ROWS = [
    pytest.param(
        lambda n: formatter(fields=n), MAX_FORMATTER_FIELDS, "spec.fields", id="fields-of-formatter"
    ),
    pytest.param(
        lambda n: formatter(args=n), MAX_ARGUMENTS, "spec.fields.n0.argsInfo", id="arguments"
    ),
    pytest.param(
        lambda n: formatter(args=MAX_ARGUMENTS, enums=n),
        MAX_ARGUMENTS,
        "spec.fields.n0.argsEnum",
        id="arguments-with-choices",
    ),
    pytest.param(lambda n: group(fields=n), MAX_GROUP_FIELDS, "spec.fields", id="fields-of-group"),
    pytest.param(
        lambda n: group(selectors=n), MAX_ITEM_SELECTORS, "spec.itemSelectors", id="item-selectors"
    ),
    pytest.param(
        lambda n: group(selectors=1, args=n),
        MAX_ARGUMENTS,
        "spec.itemSelectors.n0.argsInfo",
        id="arguments-of-item-selector",
    ),
    pytest.param(
        lambda n: mapping(selectors=n), MAX_SPEC_SELECTORS, "spec.specSelectors", id="selectors"
    ),
]


def problems_of(*documents: JsonObject) -> list[DocumentProblem]:
    return list(make_snapshot(*documents).problems)


@pytest.mark.parametrize(("make", "most", "path"), ROWS)
def test_a_document_may_hold_so_much(make: Callable[[int], Any], most: int, path: str) -> None:
    documents = [group(), make(most)] if make(1)["kind"] == "SpecMapping" else [make(most)]

    assert problems_of(*documents) == []


@pytest.mark.parametrize(("make", "most", "path"), ROWS)
def test_more_is_refused_with_how_much_there_is(
    make: Callable[[int], Any], most: int, path: str
) -> None:
    (problem,) = problems_of(make(most + 1))

    assert (problem.path, problem.problem) == (
        path,
        f"has {most + 1} entries; at most {most} are allowed",
    )


def test_the_groups_of_a_selector_are_bounded() -> None:
    (problem,) = problems_of(mapping(groups=MAX_FIELD_GROUPS + 1))

    assert problem.path == "spec.specSelectors.n0.fieldGroups"
    assert f"at most {MAX_FIELD_GROUPS} are allowed" in problem.problem


def test_all_selectors_of_a_mapping_together_are_bounded() -> None:
    fits = MAX_EXPOSED_FIELDS // MAX_GROUP_FIELDS
    large = group(fields=MAX_GROUP_FIELDS)

    assert problems_of(large, mapping(selectors=fits)) == []
    (problem,) = problems_of(large, mapping(selectors=fits + 1))
    assert problem.path == "spec.specSelectors"
    assert problem.problem == (
        f"expose {MAX_EXPOSED_FIELDS + MAX_GROUP_FIELDS} fields in all;"
        f" at most {MAX_EXPOSED_FIELDS} are allowed"
    )


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param(MAX_TRIALS, [], id="so-many"),
        pytest.param(
            MAX_TRIALS + 1,
            [
                f"give {MAX_TRIALS + 1} values to fields of formatters and item selectors, each of"
                f" which is tried; at most {MAX_TRIALS} are allowed in one policy"
            ],
            id="one-more",
        ),
    ],
)
def test_what_a_policy_gives_to_formatters_is_bounded(values: int, want: list[str]) -> None:
    field = {
        "getExpr": ".a[$ARGS.named.key]",
        "setExpr": "{a: {($ARGS.named.key): $ARGS.named.value}}",
        "argsInfo": {"key": "string", "value": "string"},
    }
    rules = [
        make_rule("f", "n0", {"default": {"key": f"k{number}", "value": "v"}})
        for number in range(values)
    ]

    problems = problems_of(
        make_formatter({"f": field}),
        make_group({"f": {"formatter": "acme"}}),
        mapping(),
        make_gvk_policy(*rules, kind=ACME),
    )

    assert [problem.problem for problem in problems] == want


def test_a_mapping_without_selectors_is_refused() -> None:
    (problem,) = problems_of(mapping(selectors=0))

    assert (problem.path, problem.problem) == ("spec.specSelectors", "must not be empty")


@pytest.mark.parametrize(
    ("kind", "part", "most"),
    [
        pytest.param("Formatter", "fields", MAX_FORMATTER_FIELDS, id="formatter"),
        pytest.param("FieldGroup", "fields", MAX_GROUP_FIELDS, id="group"),
        pytest.param("FieldGroup", "itemSelectors", MAX_ITEM_SELECTORS, id="item-selectors"),
        pytest.param("SpecMapping", "specSelectors", MAX_SPEC_SELECTORS, id="mapping"),
    ],
)
def test_a_crd_says_how_much(kind: str, part: str, most: int) -> None:
    (crd,) = [crd for crd in build_crds() if crd["spec"]["names"]["kind"] == kind]
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    described = schema["properties"]["spec"]["properties"][part]["description"]
    assert described.startswith(f"At most {most} ")
