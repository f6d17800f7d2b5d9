"""Queries that can select no place are known by their text, and no others are."""

from __future__ import annotations

from typing import Any

import jq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import JsonObject, make_snapshot
from tests.jq import make_group, make_mapping
from webhook.catalog import builtin_documents
from webhook.errors import SpecError
from webhook.mapping.programs import compile_selector
from webhook.mapping.selecting import why_it_selects_nothing

NEVER = [
    pytest.param("1,2,3", "numbers", id="numbers"),
    pytest.param("tojson", "text", id="encoded"),
    pytest.param('"a"', "text", id="text"),
    pytest.param('"a\\(.spec | "b\\(.c)")"', "text", id="interpolation"),
    pytest.param("@base64", "text", id="format"),
    pytest.param('@sh "x \\(.a)"', "text", id="format-with-text"),
    pytest.param(".. | tostring", "text", id="all-as-text"),
    pytest.param(".spec | keys", "lists", id="keys"),
    pytest.param("[.spec.template]", "lists", id="list-around-it"),
    pytest.param("[.spec.template] | .[]", "lists", id="list-and-out-again"),
    pytest.param(".spec.items | map(.template)", "lists", id="map"),
    pytest.param(".spec.items | sort_by(.name) | .[]", "lists", id="sorted"),
    pytest.param("{a: .spec}", "objects", id="object-around-it"),
    pytest.param("{a: .spec}.a", "objects", id="object-and-out-again"),
    pytest.param(".spec | to_entries[] | .value", "lists", id="entries"),
    pytest.param('.spec | with_entries(select(.key == "a"))', "objects", id="with-entries"),
    pytest.param(".spec | length", "numbers", id="length"),
    pytest.param("-.spec.a", "numbers", id="negative"),
    pytest.param(".spec.a + 1 | . * 2 + 1", "numbers", id="sum"),
    pytest.param('"a" + .spec.name', "text", id="text-and-more"),
    pytest.param(".spec.a == 1", "true or false", id="comparison"),
    pytest.param(".spec.a and .spec.b", "true or false", id="and"),
    pytest.param('.spec | has("a")', "true or false", id="has"),
    pytest.param(".spec | not", "true or false", id="not"),
    pytest.param("true", "true or false", id="true"),
    pytest.param(".spec.items[0:2]", "part of a list", id="slice"),
    pytest.param(".spec.items[:2][]", "part of a list", id="items-of-a-slice"),
    pytest.param("empty", "selects nothing", id="empty"),
    pytest.param('error("no")', "selects nothing", id="error"),
    pytest.param('if .spec.a then "a" else "b" end', "text", id="both-branches"),
    pytest.param('if .a then "a" elif .b then [.b] else {} end', "text", id="three-branches"),
    pytest.param('.spec.a | tojson // "b"', "text", id="alternatives"),
    pytest.param('.spec | (try tojson catch "x")', "text", id="try"),
    pytest.param(". as $x | .spec | tojson", "text", id="binding"),
    pytest.param("label $out | .spec | tojson", "text", id="label"),
    pytest.param('.spec | select(.a) | tojson | select(. != "")', "text", id="filtered"),
    pytest.param(".spec, 1", "numbers", id="one-of-two-is-a-number"),
    pytest.param('.spec.items[]? | (.template, "x")', "text", id="one-of-two-is-text"),
    pytest.param('(.spec.a[]? | (., "x")), (.spec.b[]? | 1)', "text", id="both-of-two-fail"),
    pytest.param('.spec, (.spec.a | "x")', "text", id="one-of-two-computes-for-sure"),
    pytest.param(".spec, (.spec as $s | 1)", "numbers", id="one-of-two-binds-and-computes"),
    pytest.param("first(tojson)", "text", id="first"),
    pytest.param(". as {spec: $s} | .spec", "taking a value apart", id="taken-apart"),
    pytest.param(". as {$spec} | .spec.template", "taking a value apart", id="taken-apart-by-name"),
    pytest.param(
        '.spec.items[]? as {name: $n, template: $t} | select($n == "a") | $t',
        "taking a value apart",
        id="items-taken-apart",
    ),
    pytest.param(". as $r | .a as [$x] | $r", "taking a value apart", id="list-taken-apart"),
    pytest.param("(.a as {b: $x} | .c)?, empty", "taking a value apart", id="taken-apart-in-vain"),
    pytest.param(".spec, (.a as {b: $x} | .c)", "taking a value apart", id="one-taken-apart"),
    pytest.param("# a note\n tojson # another", "text", id="notes"),
]

MAY = [
    pytest.param('.spec.groups[]? | select(.role == "head") | .template', id="filter"),
    pytest.param("(.spec | if . then .a else empty end)", id="conditional"),
    pytest.param('if .spec.a then .spec.b else "none" end', id="one-branch"),
    pytest.param("if .spec then .spec end", id="without-else"),
    pytest.param('.spec.a // "b"', id="alternative"),
    pytest.param(".. | select(type == \"object\") | select(has(\"containers\"))", id="recursion"),
    pytest.param(".. | objects | .containers?", id="objects"),
    pytest.param("first(.spec.a, 1)", id="first-of-two"),
    pytest.param("(.spec, 1) | select(type == \"object\")", id="filtered-union"),
    pytest.param("limit(2; .spec.items[])", id="limit"),
    pytest.param('getpath(["spec", "a"])', id="getpath"),
    pytest.param('.["spec"], .["a\\(1)"]', id="computed-key"),
    pytest.param(". as $root | \"a\" | $root", id="variable"),
    pytest.param('.spec | . + {}', id="unchanged-by-a-sum"),
    pytest.param('(.spec.items + [])[]', id="items-unchanged-by-a-sum"),
    pytest.param('.spec | ltrimstr("a")', id="unchanged-by-a-function"),
    pytest.param("(.absent[]? |= 1)", id="unchanged-by-an-update"),
    pytest.param(".absent | null", id="null"),
    pytest.param(".absent | tojson | fromjson", id="null-again"),
    pytest.param(".spec | del(.absent)", id="nothing-deleted"),
    pytest.param("last(.spec.items[])", id="last"),
    pytest.param(".spec | try .a catch .", id="try"),
    pytest.param(".spec.items | .[length - 1]", id="computed-index"),
    pytest.param("label $out | .spec.items[] | if .b then ., break $out else . end", id="label"),
    pytest.param('.spec.template, (.spec.extra[]? | "x")', id="nothing-is-computed-of-no-items"),
    pytest.param(
        "(.spec.roles[] | .template), (.spec.legacy | objects | [.template])",
        id="nothing-is-computed-of-what-is-filtered-out",
    ),
    pytest.param(".spec.template, (empty | 1)", id="nothing-is-computed-of-nothing"),
    pytest.param('.spec, (first(empty) | "x")', id="nothing-is-computed-of-no-first"),
    pytest.param('.spec, (.extra? | "x")', id="nothing-is-computed-of-what-may-fail"),
    pytest.param(".spec, (.extra[]? as $x | 1)", id="nothing-is-bound"),
    pytest.param("label $out | .spec, [break $out], 1", id="out-before-it-computes"),
    pytest.param(". as $r | 1 | try error($r) catch .", id="a-place-that-was-thrown"),
    pytest.param(". as {spec: $s} | $s", id="what-was-taken-apart"),
    pytest.param(".spec and .on as $both | .spec", id="behind-a-condition-that-is-bound"),
    pytest.param("1 + 2 as $three | .spec", id="behind-a-sum-that-is-bound"),
    pytest.param("-1 as $one | .spec", id="behind-a-negative-number-that-is-bound"),
    pytest.param(". as {spec: {template: $t}} | $t.spec", id="below-what-was-taken-apart"),
    pytest.param(".spec | . as {template: $t} | $t", id="a-part-that-is-taken-apart"),
    pytest.param(".a | . as {b: $t} | .", id="null-that-is-taken-apart"),
    pytest.param(". as [$t] ?// $t | .spec", id="one-of-two-ways-to-take-it-apart"),
    pytest.param("select(. as {spec: $s} | $s) | .spec", id="taken-apart-in-a-condition"),
    pytest.param("def", id="what-is-no-query"),
    pytest.param("(" * 500 + "tojson" + ")" * 500, id="too-deep-to-be-looked-into"),
    pytest.param("try " * 1000 + "tojson", id="too-many-words"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "want"), NEVER)
def test_a_query_that_computes_is_refused_with_what_it_gives(source: str, want: str) -> None:
    with pytest.raises(SpecError) as caught:
        compile_selector(source, path="spec.specSelectors.s.query")

    assert caught.value.path == "spec.specSelectors.s.query"
    assert caught.value.problem.startswith("can never select a place: ")
    assert want in caught.value.problem
    assert "only path expressions do" in caught.value.problem
    assert not works(source)


@pytest.mark.parametrize("source", MAY)
def test_a_query_that_may_select_is_left_alone(source: str) -> None:
    assert why_it_selects_nothing(source) == ""


def test_many_stages_are_no_trouble() -> None:
    assert why_it_selects_nothing("tojson" + " | ." * 1000)
    assert why_it_selects_nothing("- " * 1000 + "1")


def test_every_query_that_ships_may_select() -> None:
    sources = [
        selector.query
        for document in builtin_documents()
        if document.kind == "SpecMapping"
        for selector in document.spec.spec_selectors.values()
    ]

    assert len(sources) > 100
    assert [source for source in sources if why_it_selects_nothing(source)] == []


def test_a_mapping_with_such_a_query_is_refused() -> None:
    (problem,) = make_snapshot(make_group({"size": {}}), make_mapping("tojson")).problems

    assert problem.path == "spec.specSelectors.s.query"
    assert "it gives text" in problem.problem


# -- that jq thinks so too ------------------------------------------------------------------------

PART: JsonObject = {"name": "n", "template": {"a": 1}, "b": True, "c": None, "l": [{"a": {}}, 1]}
DOCUMENTS: list[Any] = [
    {},
    {"a": {"a": {"a": {}}}, "b": {}, "n": 1, "s": "s", "t": True, "l": [PART, {}, [PART]]},
    {"a": [[PART]], "b": "text", "c": True, "d": {}, "l": []},
    {"a": True, "b": False, "c": None, "l": [None, {"a": None}], "n": {"n": {}}},
]


def works(source: str) -> bool:
    """Whether jq finds a place in one of the documents: a path of keys to an object or nothing."""
    try:
        program = jq.compile(f"[limit(1001; path(\n{source}\n\n))]")
    except ValueError:
        return False
    return any(_finds_places(program, document) for document in DOCUMENTS)


def _finds_places(program: Any, document: Any) -> bool:
    try:
        paths = program.input_value(document).first()
    except ValueError:
        return False
    are_places = [
        all(type(token) in (str, int) for token in path)
        and isinstance(_at(document, path), dict | None)
        for path in paths
    ]
    # A part of a list makes all of them fail.
    return any(are_places) and all(type(t) in (str, int) for path in paths for t in path)


def _at(node: Any, path: list[str | int]) -> Any:
    for token in path:
        try:
            node = node[token]
        except (LookupError, TypeError):
            return None
    return node


LEAVES = [
    *(".", ".a", ".b", ".l[]?", ".l", "..", "null", "true", "1", '"a"', "[]", "{}", "$v", "empty"),
    *("tojson", "tostring", "keys", "not", "length", "values", "objects", "first", "fromjson"),
    *("to_entries", "reverse", "sort", "unique", "add", "type", ".n", ".s", ".[0:1]", "recurse"),
]
SHAPES = [
    *("{} | {}", "{}, {}", "({})", "[{}]", "{{a: {}}}", "({}).a", "({})[]?", "({})[0]", "({})?"),
    *("{} // {}", "{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} and {}", "{} == {}", "-({})"),
    *("if {} then {} else {} end", "if {} then {} end", "try ({}) catch ({})", "({}) as $v | {}"),
    *("first({})", "limit(1; {})", "select({})", "map({})", "sort_by({})", "with_entries({})"),
    *("{} + {} as $w | {}", "{} and {} as $w | {}", "{} // {} as $w | {}", "-1 as $w | {}"),
    *("({}) |= {}", "({}) = {}", "last({})", "({})[0:1]", "({})[{}]?", "path({})", "any({})"),
    *(".a, ({} | {})", ".a, ({}[]? | {})", ".a, ({}? as $w | {})", "., (.l[]? | {} | {})"),
    *(
        ". as {{a: $w}} | {}",
        "({}) as {{a: $w}} | {}",
        "({}) as [$w] | {}",
        "try error({}) catch {}",
    ),
    *(". as {{a: $w}} | $w | {}", "., (label $w | ({}, [break $w], {}))", ".. as {{a: $w}} | {}"),
    *("del({})", '"x\\({})"', "@json", "label $v | {}", "({}).a?", ". + ({})", "({}) + null"),
]


@st.composite
def queries(draw: st.DrawFn) -> str:
    source = draw(st.sampled_from(LEAVES))
    for shape in draw(st.lists(st.sampled_from(SHAPES), max_size=5)):
        parts = [source] + [draw(st.sampled_from(LEAVES)) for _ in range(shape.count("{}") - 1)]
        source = (
            shape.format(*draw(st.permutations(parts))) if parts[1:] or "{}" in shape else shape
        )
    return f". as $v | {source}"


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(source=queries())
@example(source=". as $v | (.l + [])[]?")
@example(source=". as $v | .a | . + {}")
@example(source=". as $v | 1 | $v")
@example(source=". as $v | .c | tojson | fromjson")
@example(source=". as $v | . and . as $w | .")
@example(source=". as $v | .a, (empty | 1)")
@example(source=". as $v | .a, (.nope[]? | [.])")
@example(source=". as $v | 1 | try error($v) catch .")
@example(source=". as $v | . as {a: $w} | $w")
@example(source=". as $v | .nope | . as {a: $w} | .")
def test_a_query_that_is_refused_works_on_no_object(source: str) -> None:
    assert not (why_it_selects_nothing(source) and works(source))
