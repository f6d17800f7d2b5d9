"""Formatters, field groups and item selectors as their authors write them, right and wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import make_gvk_policy, make_rule
from tests.jq import ACME, Jq, make_acme_job, make_formatter, make_group, make_mapping
from webhook.catalog import builtin_documents
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.limits import WorkerLimits
from webhook.model.manifests import load_file
from webhook.store.directory import read_sources

VOLUMES = {
    "getExpr": ".volumes[]? | select(.configMap) | {name, configMapName: .configMap.name}",
    "setExpr": "{volumes: [{name: $ARGS.named.name, configMap: {name: $args.named.configMapName}}]}",
    "arrayKey": {"argName": "name"},
    "argsInfo": {"name": "string", "configMapName": "string"},
}
BY_NAME = {"query": ".name == $ARGS.named.name", "argsInfo": {"name": "string"}}


@pytest.fixture(scope="module")
def jq() -> Iterator[Jq]:
    with JqWorker(WorkerLimits(evaluate_ms=2000)) as worker:
        yield Jq(worker)


def problems_of(jq: Jq, *documents: Any) -> list[str]:
    return [str(problem) for problem in jq.build(*documents).problems]


# --- formatters ----------------------------------------------------------------------------------


def test_the_formatter_of_the_source_is_taken_as_printed(jq: Jq) -> None:
    """It has no getExpr; that is said to whoever writes a policy on it."""
    printed = {
        "configMapVolumes": {
            "setExpr": '{ "volumes": [{ "name": $ARGS.named.name, "configMap": { "name":'
            ' $ARGS.named.configMapName, "defaultMode": $ARGS.named.defaultMode, "items":'
            ' $ARGS.named.items, "optional": $ARGS.named.optional } }] }',
            "arrayKey": {"argName": "name"},
            "argsInfo": {
                "name": "string",
                "configMapName": "string",
                "defaultMode": "integer",
                "items": "object",
                "optional": "boolean",
            },
        }
    }
    formatter = make_formatter(printed, name="podSpecVolumes", description="volumes")

    assert problems_of(jq, formatter) == []


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        pytest.param(
            {"getExpr": ".a", "argsInfo": {"a": "text"}},
            "spec.fields.f.argsInfo.a: must be string, integer, boolean, number, quantity,"
            " ipaddress or object, got text",
            id="type-of-argument",
        ),
        pytest.param(
            {"getExpr": ".a", "argsInfo": {"a-b": "string"}},
            "spec.fields.f.argsInfo.a-b: is no name that an expression can use: letters first",
            id="name-of-argument",
        ),
        pytest.param(
            {"getExpr": ".a", "argsInfo": {"a": "number"}, "argsEnum": {"a": ["1"]}},
            "spec.fields.f.argsEnum.a: is for arguments of type string; a is number",
            id="enum-of-a-number",
        ),
        pytest.param(
            {"getExpr": ".a", "argsInfo": {"mode": "string"}, "argsEnum": {"mood": ["x"]}},
            "spec.fields.f.argsEnum.mood: no argument 'mood'; did you mean \"mode\"?",
            id="enum-of-nothing",
        ),
        pytest.param(
            {"getExpr": ".a", "argsInfo": {"a": "string"}, "argsEnum": {"a": []}},
            "spec.fields.f.argsEnum.a: must not be empty",
            id="empty-enum",
        ),
        pytest.param(
            {"getExpr": ".a", "argsInfo": {"name": "string"}, "arrayKey": {"argName": "nam"}},
            "spec.fields.f.arrayKey.argName: no argument 'nam' in argsInfo; did you mean \"name\"?",
            id="key-of-nothing",
        ),
        pytest.param(
            {"setExpr": "{a: $ARGS.named.valu}", "argsInfo": {"value": "string"}},
            "spec.fields.f.setExpr: uses $ARGS.named.valu, which is not in argsInfo;"
            ' did you mean "value"?',
            id="unknown-argument",
        ),
        pytest.param(
            {"setExpr": '{a: $args.named["b"]}', "argsInfo": {"value": "string"}},
            "spec.fields.f.setExpr: uses $ARGS.named.b, which is not in argsInfo; known: value",
            id="unknown-argument-in-brackets",
        ),
        pytest.param({}, "spec.fields.f: getExpr or setExpr is needed, or both", id="nothing"),
        pytest.param(
            {"getExp": ".a"},
            'spec.fields.f.getExp: unknown field; did you mean "getExpr"?',
            id="typo",
        ),
        pytest.param(
            {"getExpr": "env.PATH"},
            "spec.fields.f.getExpr: a query may not use env: it reads the environment of the server",
            id="environment",
        ),
        pytest.param(
            {"getExpr": ".a | ("}, "spec.fields.f.getExpr: '(' is not closed", id="no-expression"
        ),
        pytest.param(
            {"getExpr": ".a\n| nothing_like_it"},
            "spec.fields.f.getExpr: the expression does not compile: nothing_like_it/0 is not"
            " defined (line 2, column 3)",
            id="does-not-compile",
        ),
    ],
)
def test_a_wrong_formatter_is_refused_with_path_and_reason(
    jq: Jq, field: Any, problem: str
) -> None:
    assert problems_of(jq, make_formatter({"f": field})) == [f"m.yaml#0: {problem}"]


@pytest.mark.parametrize("name", ["a b", "-a", "a-", "a.b", "a_b", "ü"])
@pytest.mark.parametrize("make", [make_formatter, make_group])
def test_a_name_is_of_letters_digits_and_hyphens_between_them(jq: Jq, make: Any, name: str) -> None:
    fields = {"f": {"getExpr": ".a"}} if make is make_formatter else {"f": {"type": "string"}}

    assert problems_of(jq, named(make(fields), name)) == [
        f"m.yaml#0: spec.name: {name!r} is no name: letters and digits, with hyphens between them"
    ]


def named(document: Any, name: str) -> Any:
    return {**document, "spec": {**document["spec"], "name": name}}


def test_names_are_unique_whatever_their_case(jq: Jq) -> None:
    one = named(make_formatter({"f": {"getExpr": ".a"}}, name="one"), "podVolumes")
    two = named(make_formatter({"f": {"getExpr": ".b"}}, name="two"), "PodVolumes")

    assert problems_of(jq, one, two) == [
        "m.yaml#1: spec.name: formatter PodVolumes is m.yaml#0 already"
    ]


@pytest.mark.parametrize("name", ["KeyValue", "keyvaluemap"])
def test_what_is_built_in_is_not_redefined(jq: Jq, name: str) -> None:
    formatter = named(make_formatter({"f": {"getExpr": ".a"}}), name)

    assert problems_of(jq, formatter) == [f"m.yaml#0: spec.name: formatter {name} is built in"]


def test_the_built_in_formatters_are_documents() -> None:
    names = [d.spec.name for d in builtin_documents() if d.kind == "Formatter"]

    assert names == [
        "KeyValue",
        "KeyValueMap",
        "NimImage",
        "SparkGpus",
        "SparkConfGpus",
        "VirtualMachineGpus",
        "ChartImage",
    ]


# --- field groups --------------------------------------------------------------------------------

FORMATTER = make_formatter(
    {"f": {"getExpr": ".a", "setExpr": "{a: $ARGS.named.value}"}, "v": VOLUMES}
)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param(
            {"f": {"formatter": "acme", "specRef": "a.b"}},
            "spec.fields.f.specRef: formatter or specRef, not both",
            id="formatter-and-path",
        ),
        pytest.param(
            {"f": {"formatter": "KeyValue", "specRef": "a.b"}},
            "spec.fields.f.specRef: formatter or specRef, not both",
            id="key-value-and-path",
        ),
        pytest.param(
            {"g": {"formatter": "acme"}},
            "spec.fields.g.formatter: acme has no field 'g'; known: f, v",
            id="field-of-the-formatter",
        ),
        pytest.param(
            {"f": {"specRef": "volumes[0].name"}},
            "spec.fields.f.specRef: 'volumes[0].name' goes into a list; such a path names keys only",
            id="path-into-a-list",
        ),
        pytest.param(
            {"f": {"type": "string", "itemSelectors": ["byName"]}},
            "spec.fields.f.itemSelectors: are for lists; the field is a string",
            id="items-of-a-text",
        ),
        pytest.param(
            {"f": {"formatter": "KeyValueMap", "itemSelectors": ["byName"]}},
            "spec.fields.f.itemSelectors: are for lists; the field is a map",
            id="items-of-a-map",
        ),
        pytest.param(
            {"f": {"formatter": "acme", "itemSelectors": ["byName"]}},
            "spec.fields.f.itemSelectors: are for lists; the field is a formatter without arrayKey",
            id="items-of-one-value",
        ),
        pytest.param(
            {"f": {"type": "object", "itemSelectors": ["byNam"]}},
            "spec.fields.f.itemSelectors[0]: the group has no item selector 'byNam';"
            ' did you mean "byName"?',
            id="no-such-selector",
        ),
        pytest.param(
            {"f": {"formatter": "acme", "having": "x"}},
            "spec.fields.f: having does not go with a formatter of your own",
            id="part-of-a-list",
        ),
        pytest.param(
            {"v": {"formatter": "acme", "type": "itemized"}},
            "spec.fields.v.type: itemized is a type of native fields only",
            id="native-type",
        ),
    ],
)
def test_a_wrong_field_is_refused_with_path_and_reason(jq: Jq, fields: Any, problem: str) -> None:
    group = make_group(fields, itemSelectors={"byName": BY_NAME})

    assert problems_of(jq, FORMATTER, group) == [f"m.yaml#1: {problem}"]


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        pytest.param(
            {"query": ".name == $ARGS.named.nam", "argsInfo": {"name": "string"}},
            'query: uses $ARGS.named.nam, which is not in argsInfo; did you mean "name"?',
            id="unknown-argument",
        ),
        pytest.param(
            {"query": "input"},
            "query: a query may not use input: a query sees one object and no further input",
            id="input",
        ),
        pytest.param({"query": ".[] |"}, "query: the query is empty; `.` selects the whole object"),
        pytest.param({}, "query: is needed", id="no-query"),
        pytest.param(
            {"query": ".a b"},
            "query: the expression does not compile: syntax error, unexpected IDENT, expecting end of"
            " file (line 2, column 4)",
            id="does-not-compile",
        ),
    ],
)
def test_a_wrong_item_selector_is_refused_with_path_and_reason(
    jq: Jq, selector: Any, problem: str
) -> None:
    (found,) = problems_of(jq, make_group({}, itemSelectors={"s": selector}))

    assert found.startswith(f"m.yaml#0: spec.itemSelectors.s.{problem[:60]}")


def test_a_group_waits_for_its_formatter_and_all_that_need_it_wait_with_it(jq: Jq) -> None:
    group = make_group({"f": {"formatter": "acme", "type": "integer"}})
    policy = make_gvk_policy(make_rule("f", "s", {"max": 1}), kind=ACME)
    waiting = jq.build(group, make_mapping(), policy)

    told = [(p.document, p.path, p.warning, p.problem[:20]) for p in waiting.problems]
    assert told == [
        ("m.yaml#0", "spec.fields.f.formatter", True, "no formatter 'acme';"),
        ("m.yaml#1", "spec.specSelectors.s.fieldGroups[0]", True, "no field group 'own'"),
        ("m.yaml#2", "spec.workloadType", True, "no mapping for acme."),
    ]

    complete = jq.build(group, make_mapping(), policy, FORMATTER, previous=waiting)
    assert complete.problems == ()
    assert jq.submit(complete, make_acme_job(a=2)).broken == [("/spec", "max")]


def test_a_group_of_one_s_own_has_one_author(jq: Jq) -> None:
    one = named(make_group({"f": {}}, name="one"), "mine")
    two = named(make_group({"g": {}}, name="two"), "Mine")

    assert problems_of(jq, one, two) == [
        "m.yaml#1: spec.name: a field group is called mine already: m.yaml#0"
    ]


def test_a_built_in_group_gets_fields_and_selectors_but_keeps_its_own(jq: Jq) -> None:
    more = named(
        make_group({"sidecars": {"type": "object"}}, itemSelectors={"byName": BY_NAME}), "podSpec"
    )
    again = named(
        make_group({"volumes": {}}, name="two", itemSelectors={"byName": BY_NAME}), "podSpec"
    )

    assert problems_of(jq, more, again) == [
        "m.yaml#1: spec.fields.volumes: the group has this field already",
        "m.yaml#1: spec.itemSelectors.byName: the group has this item selector already",
    ]


def test_a_selector_that_is_added_to_a_built_in_group_can_be_used_with_its_lists(jq: Jq) -> None:
    """Nobody can edit the fields of such a group to name it."""
    more = named(make_group({}, itemSelectors={"byName": BY_NAME}), "podSpec")
    rule = make_rule(
        "volumes",
        "s",
        {"blocked": True},
        itemSelector="byName",
        selectorParams={"name": "docker"},
    )
    snapshot = jq.snapshot(more, make_mapping(".spec", "podSpec"), make_gvk_policy(rule, kind=ACME))
    job = make_acme_job(volumes=[{"name": "data"}, {"name": "docker"}])

    assert jq.submit(snapshot, job).broken == [("/spec/volumes/1", "blocked")]


def test_a_field_with_a_formatter_is_nothing_that_a_scale_writes(jq: Jq) -> None:
    mapping = make_mapping()
    mapping["spec"]["scale"] = {"specSelector": "s", "field": "f"}
    group = make_group({"f": {"formatter": "acme", "type": "integer"}})

    assert problems_of(jq, FORMATTER, group, mapping) == [
        "m.yaml#2: spec.scale.field: f stands at no path: it has a formatter"
    ]


def test_the_example_of_somebodys_own_kind_compiles_and_is_decided_as_it_says(jq: Jq) -> None:
    examples = Path(__file__).parents[3] / "examples" / "mappings"
    documents = [
        manifest.value
        for source in read_sources(examples / "acme")
        for manifest in source.manifests
    ]
    snapshot = jq.snapshot(*documents)

    nightly, greedy = [
        jq.submit(snapshot, manifest.value) for manifest in load_file(examples / "acmejobs.yaml")
    ]

    assert nightly.allowed
    assert nightly.at("/spec/template/spec/volumes/0/name") == "corp-ca"
    assert [rule for _, rule in greedy.broken] == ["blocked", "pattern", "max"]
