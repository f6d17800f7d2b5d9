"""What is found out about formatters before a policy or group takes effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import JsonObject, make_gvk_policy, make_rule
from tests.jq import ACME, Jq, make_formatter, make_group, make_mapping
from webhook.catalog import builtin_documents
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.formatters import FormatterField, compile_formatter
from webhook.mapping.limits import WorkerLimits
from webhook.mapping.samples import elements_for
from webhook.mapping.trials import SmokeRun, WritesSamples
from webhook.store.snapshot import DocumentProblem

ADVICE = "fails with every sample value, whatever the element: "
NUMBER = {
    "getExpr": ".a",
    "setExpr": "{a: ($ARGS.named.value | tonumber | tostring)}",
    "argsInfo": {"value": "string"},
}
LIST = {
    "getExpr": ".list[]?",
    "setExpr": '{list: [{name: $ARGS.named.name, size: ($ARGS.named.size // error("no size"))}]}',
    "arrayKey": {"argName": "name"},
    "argsInfo": {"name": "string", "size": "integer"},
}


@pytest.fixture(scope="module")
def jq() -> Iterator[Jq]:
    with JqWorker(WorkerLimits(evaluate_ms=2000)) as worker:
        yield Jq(worker)


def problems_of(
    jq: Jq, formatter_field: JsonObject, *enforcements: JsonObject, **more: Any
) -> list[DocumentProblem]:
    """What there is to say about a formatter's field `f`, and a policy on it."""
    group_field: JsonObject = {"formatter": "acme"}
    selectors: JsonObject = {}
    if "itemSelector" in more:
        group_field |= {"itemSelectors": ["big"]}
        selectors = {"itemSelectors": {"big": {"query": ".size > 1"}}}
    documents = [
        make_formatter({"f": formatter_field}),
        make_group({"f": group_field}, **selectors),
        make_mapping(),
    ]
    if enforcements:
        documents.append(make_gvk_policy(make_rule("f", "s", *enforcements, **more), kind=ACME))
    return list(jq.build(*documents).problems)


# --- a setExpr that always fails ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formatter_field", "enforcement", "want"),
    [
        pytest.param(
            {"getExpr": ".a", "setExpr": 'error("never")'},
            {"default": "v"},
            "spec.rules[0].enforcements[0]: setExpr of acme.f fails with this value,"
            " whatever the element: jq says: never",
            id="always",
        ),
        pytest.param(
            NUMBER,
            {"default": "v"},
            "spec.rules[0].enforcements[0]: setExpr of acme.f fails with this value,"
            ' whatever the element: jq says: string ("v") cannot be parsed as a number',
            id="this-value",
        ),
        pytest.param(
            NUMBER,
            {"set": "v"},
            "spec.rules[0].enforcements[0]: setExpr of acme.f fails with this value,"
            ' whatever the element: jq says: string ("v") cannot be parsed as a number',
            id="set",
        ),
        pytest.param(
            {**NUMBER, "argsInfo": {"key": "string", "value": "string"}},
            {"set": {"key": "k", "value": "v"}},
            "spec.rules[0].enforcements[0]: setExpr of acme.f fails with this value,"
            ' whatever the element: jq says: string ("v") cannot be parsed as a number',
            id="of-a-key",
        ),
        pytest.param(
            LIST,
            {"default": {"name": "n"}},
            "spec.rules[0].enforcements[0]: setExpr of acme.f fails with this value,"
            " whatever the element: jq says: no size",
            id="of-a-list",
        ),
    ],
)
def test_a_value_with_which_setexpr_always_fails_is_refused(
    jq: Jq, formatter_field: JsonObject, enforcement: JsonObject, want: str
) -> None:
    errors = [item for item in problems_of(jq, formatter_field, enforcement) if not item.warning]

    assert [f"{item.path}: {item.problem}" for item in errors] == [want]


def test_a_set_of_selected_items_that_always_fails_is_refused(jq: Jq) -> None:
    field = {**LIST, "setExpr": 'error("never")'}

    problems = problems_of(jq, field, {"set": {"size": 3}}, itemSelector="big")

    assert [item.problem for item in problems if not item.warning] == [
        "setExpr of acme.f fails with this value, whatever the element: jq says: never"
    ]


def test_a_set_of_selected_items_gets_its_other_arguments_from_them(jq: Jq) -> None:
    assert problems_of(jq, LIST, {"set": {"size": 3}}, itemSelector="big") == []


@pytest.mark.parametrize(
    ("formatter_field", "value"),
    [
        pytest.param(NUMBER, "5", id="another-value"),
        pytest.param(
            {
                "getExpr": '.address | split(":")[1]',
                "setExpr": '{address: "\\(.address | split(":")[0]):\\($ARGS.named.value)"}',
            },
            "80",
            id="needs-a-text-of-the-element",
        ),
        pytest.param(
            {
                "getExpr": ".spec | .ports[0].name | ascii_upcase",
                "setExpr": "{spec: {ports: [{name: (.spec | .ports[0].name | ascii_downcase)}]}}",
            },
            "v",
            id="needs-what-is-deep-in-it",
        ),
        pytest.param(
            {
                "getExpr": ".kind",
                "setExpr": 'if .kind == "B" then {kind: .kind} else error("no") end',
            },
            "v",
            id="needs-a-certain-text",
        ),
    ],
)
def test_what_fails_in_some_elements_only_is_taken(
    jq: Jq, formatter_field: JsonObject, value: str
) -> None:
    assert problems_of(jq, formatter_field, {"default": value}) == []


def test_what_jq_says_of_a_secret_is_not_shown(jq: Jq) -> None:
    field = {**NUMBER, "getExpr": ".password"}

    (problem,) = problems_of(jq, field, {"default": "S3CRET"})

    assert "setExpr of acme.f fails with this value" in problem.problem
    assert "S3CRET" not in problem.problem


@pytest.mark.parametrize(
    ("formatter_field", "want"),
    [
        pytest.param(
            {"getExpr": ".a", "setExpr": 'error("never")'},
            [f"{ADVICE}jq says: never"],
            id="without-arguments",
        ),
        pytest.param(
            {
                "getExpr": ".a",
                "setExpr": "{a: ($ARGS.named.n | explode)}",
                "argsInfo": {"n": "integer"},
            },
            [f"{ADVICE}jq says: explode input must be a string"],
            id="not-for-its-type",
        ),
        pytest.param(
            {
                "getExpr": ".a",
                "setExpr": "{a: ($ARGS.named.size | tonumber)}",
                "argsInfo": {"size": "string"},
                "argsEnum": {"size": ["small", "large"]},
            },
            [f'{ADVICE}jq says: string ("small") cannot be parsed as a number'],
            id="not-for-its-texts",
        ),
        pytest.param(NUMBER, [], id="for-some-texts"),
        pytest.param(
            {
                "getExpr": ".until",
                "setExpr": "{until: ($ARGS.named.date | fromdateiso8601)}",
                "argsInfo": {"date": "string"},
            },
            [],
            id="for-a-time",
        ),
        pytest.param(LIST, [], id="of-a-list"),
    ],
)
def test_a_setexpr_that_takes_no_sample_is_warned_about(
    jq: Jq, formatter_field: JsonObject, want: list[str]
) -> None:
    problems = problems_of(jq, formatter_field)

    assert [item.problem for item in problems] == want
    assert all(item.warning and item.path == "spec.fields.f.setExpr" for item in problems)


def test_the_warning_stays_as_long_as_the_formatter(jq: Jq) -> None:
    formatter = make_formatter({"f": {"getExpr": ".a", "setExpr": 'error("never")'}})
    first = jq.build(formatter)

    assert [item.problem for item in jq.build(formatter, previous=first).problems] == [
        f"{ADVICE}jq says: never"
    ]


SHIPPED = [
    pytest.param(field, id=str(field))
    for document in builtin_documents()
    if document.kind == "Formatter"
    for field in compile_formatter(document).fields.values()
]


@pytest.mark.parametrize("field", SHIPPED)
def test_what_we_ship_passes_the_trials(jq: Jq, field: FormatterField) -> None:
    """The server makes none of our own formatters."""
    for expression in filter(None, (field.get, field.set)):
        jq.worker.check(SmokeRun(expression, field.args), path="expression")
    if field.set is not None:
        jq.worker.check(WritesSamples(field), path="setExpr")


def test_elements_have_what_an_expression_spells_out() -> None:
    elements = elements_for(['.a.b[0].c | split(",") | .[0], .d["e"]?'])

    assert elements[0] == {}
    assert {"a": {"b": [{"c": "sample"}]}, "b": "sample", "c": "sample", "d": "sample"} in [
        {**element, "d": "sample"} for element in elements
    ]


# --- paths into lists -----------------------------------------------------------------------------

INTO = "leads into the list {!r}; rule that field with an itemSelector"


@pytest.mark.parametrize(
    ("fields", "more", "want"),
    [
        pytest.param({"names": {"type": "strings"}}, {}, "names", id="type"),
        pytest.param(
            {"names": {"type": "object", "itemSelectors": ["big"]}},
            {"itemSelectors": {"big": {"query": ".size > 1"}}},
            "names",
            id="item-selectors",
        ),
        pytest.param({"n": {"specRef": "names", "having": "a"}}, {}, "n", id="having"),
        pytest.param({"n": {"specRef": "names", "texts": ["a"]}}, {}, "n", id="texts"),
    ],
)
@pytest.mark.parametrize(
    "into",
    [
        pytest.param({"specRef": "names.first"}, id="value"),
        pytest.param({"specRef": "names.first.deep"}, id="deep"),
        pytest.param({"specRef": "names.first", "formatter": "KeyValueMap"}, id="map-below"),
        pytest.param({"specRef": "names", "formatter": "KeyValueMap"}, id="map"),
    ],
)
def test_a_path_into_a_list_of_the_group_is_refused_with_the_group(
    jq: Jq, fields: JsonObject, more: JsonObject, want: str, into: JsonObject
) -> None:
    group = make_group({**fields, "first": into}, **more)

    (problem,) = jq.build(group).problems

    assert (problem.path, problem.problem) == ("spec.fields.first.specRef", INTO.format(want))


@pytest.mark.parametrize(
    ("path", "group", "name"),
    [
        pytest.param("volumes.name", "podSpec", "volumes", id="volumes"),
        pytest.param("imagePullSecrets.name", "podSpec", "imagePullSecrets", id="names"),
        pytest.param("ports.containerPort", "podSpecContainer", "ports", id="ports"),
        pytest.param(
            "securityContext.capabilities.add.first",
            "podSpecContainer",
            "capabilitiesAdd",
            id="deep",
        ),
    ],
)
def test_a_path_into_a_list_of_a_system_group_is_refused(
    jq: Jq, path: str, group: str, name: str
) -> None:
    """With the mapping that has both groups, or as an addition to the system group."""
    field = {"first": {"specRef": path}}
    beside = jq.build(make_group(field), make_mapping(".spec", "own", group)).problems
    addition = make_group(field, name="more")
    addition["spec"]["name"] = group
    added = jq.build(addition).problems

    (of_mapping,), (of_group,) = beside, added
    assert of_mapping.path == "spec.specSelectors.s.fieldGroups"
    assert of_mapping.problem.startswith("specRef of field 'first' leads into the list ")
    assert (of_group.path, of_group.problem) == ("spec.fields.first.specRef", INTO.format(name))


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([{"f": {"formatter": "acme"}, "first": {"specRef": "list.name"}}], id="one"),
        pytest.param([{"f": {"formatter": "acme"}}, {"first": {"specRef": "list.name"}}], id="two"),
    ],
)
def test_a_path_into_a_list_that_a_formatter_writes_is_refused(
    jq: Jq, groups: list[JsonObject]
) -> None:
    formatter = make_formatter({"f": {**LIST, "setExpr": "{list: [{name: $ARGS.named.name}]}"}})
    documents = [make_group(fields, name=f"own-{i}") for i, fields in enumerate(groups)]
    mapping = make_mapping(".spec", *[f"own-{i}" for i in range(len(groups))])

    first = jq.build(formatter, *documents, mapping).problems[0]

    assert first.path in ("spec.fields", "spec.specSelectors.s.fieldGroups")
    assert first.problem == (
        "specRef of field 'first' leads into list, of which setExpr of acme.f makes a list"
    )


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"a": {"type": "object"}, "b": {"specRef": "a.b"}}, id="object"),
        pytest.param({"a": {"type": "strings"}, "b": {"specRef": "ab.b"}}, id="another-name"),
        pytest.param(
            {"a": {"formatter": "KeyValueMap"}, "b": {"specRef": "a.b"}}, id="key-of-a-map"
        ),
    ],
)
def test_a_path_below_an_object_is_taken(jq: Jq, fields: JsonObject) -> None:
    assert jq.build(make_group(fields), make_mapping()).problems == ()
