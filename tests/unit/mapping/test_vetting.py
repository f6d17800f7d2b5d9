"""What an expression may say, and that jq reads the words in it as we do."""

from __future__ import annotations

import re

import jq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webhook.errors import SpecError
from webhook.mapping.vetting import SOURCE_MAX_CHARS, vet

REFUSED = [
    pytest.param("$ENV.PATH", "$ENV", "environment", id="environment-variable"),
    pytest.param("env.PATH", "env", "environment", id="environment-function"),
    pytest.param('.["a", env.PATH]', "env", "environment", id="in-an-index"),
    pytest.param('"a \\( "b \\(env)" )"', "env", "environment", id="in-nested-interpolation"),
    pytest.param('.["\\(env.A)"]', "env", "environment", id="in-a-key-with-interpolation"),
    pytest.param('@base64 "\\($ENV)"', "$ENV", "environment", id="in-a-format"),
    pytest.param("{a: env}", "env", "environment", id="value-in-an-object"),
    pytest.param("{(env|tostring): 1}", "env", "environment", id="computed-key"),
    pytest.param('{"a": 1 | env}', "env", "environment", id="behind-a-pipe-in-an-object"),
    pytest.param("{$ENV}", "$ENV", "environment", id="short-form-of-an-object"),
    pytest.param("{a: (1, env)}", "env", "environment", id="behind-a-comma-in-parentheses"),
    pytest.param("{a: {b: 1}} | env", "env", "environment", id="behind-an-object"),
    pytest.param(".a # .env\n| env", "env", "environment", id="behind-a-comment"),
    pytest.param('"\\\\" , env', "env", "environment", id="behind-an-escaped-backslash"),
    pytest.param('"\\"" , env', "env", "environment", id="behind-an-escaped-quote"),
    pytest.param("1 as $x | [$x,env]", "env", "environment", id="in-a-list"),
    pytest.param("$$$ENV", "$ENV", "environment", id="odd-form-of-a-variable"),
    pytest.param("input", "input", "no further input", id="input"),
    pytest.param("[inputs]", "inputs", "no further input", id="inputs"),
    pytest.param("input_filename", "input_filename", "no further input", id="file-name"),
    pytest.param("input_line_number", "input_line_number", "no further input", id="line"),
    pytest.param('import "a" as $d {search: "/etc"}; $d', "import", "files", id="import"),
    pytest.param('import "a" as d; d::f', "import", "files", id="import-of-a-module"),
    pytest.param('include "a"; .', "include", "files", id="include"),
    pytest.param("d::f", "d::f", "files", id="name-in-a-module"),
    pytest.param("$d::d", "$d::d", "files", id="data-of-a-module"),
    pytest.param('"a" | modulemeta', "modulemeta", "files", id="metadata-of-a-module"),
    pytest.param("module {}; .", "module", "no module", id="module"),
    pytest.param("get_search_list", "get_search_list", "paths", id="search-list"),
    pytest.param("get_prog_origin", "get_prog_origin", "paths", id="origin"),
    pytest.param(".a | debug", "debug", "log", id="debug"),
    pytest.param('debug("x")', "debug", "log", id="debug-with-a-message"),
    pytest.param("stderr", "stderr", "log", id="stderr"),
    pytest.param("halt", "halt", "stops", id="halt"),
    pytest.param('"x" | halt_error(1)', "halt_error", "stops", id="halt-with-an-error"),
    pytest.param("now", "now", "clock", id="clock"),
    pytest.param("0 | localtime", "localtime", "time zone", id="time-zone"),
    pytest.param('0 | strflocaltime("%H")', "strflocaltime", "time zone", id="time-zone-format"),
    pytest.param("def f: f; f", "def", "itself without end", id="recursion"),
    pytest.param(".[range(1e12)]", "range", "does not bound", id="range"),
    pytest.param("while(true; .)", "while", "does not bound", id="while"),
    pytest.param("until(false; .)", "until", "does not bound", id="until"),
    pytest.param("repeat(.)", "repeat", "does not bound", id="repeat"),
    pytest.param("limit(9; repeat(.))", "repeat", "does not bound", id="limited-repeat"),
    pytest.param("recurse(.)", "recurse", "does not bound", id="recurse-with-a-step"),
    pytest.param("recurse # c\n (.a; .)", "recurse", "does not bound", id="recurse-and-comment"),
    pytest.param("[..] | combinations", "combinations", "multiplies", id="combinations"),
    pytest.param("reduce .. as $x (.; [., .])", "reduce", "without bound", id="reduce"),
    pytest.param("foreach .. as $x (.; [., .])", "foreach", "without bound", id="foreach"),
    pytest.param("_nwise(0)", "_nwise", "internal", id="internal-function"),
]


@pytest.mark.parametrize(("source", "word", "reason"), REFUSED)
def test_a_word_that_no_query_needs_is_refused_with_the_reason(
    source: str, word: str, reason: str
) -> None:
    with pytest.raises(SpecError) as caught:
        vet(source, path="spec.specSelectors.a.query")

    assert caught.value.path == "spec.specSelectors.a.query"
    assert caught.value.problem.startswith(f"a query may not use {word}: ")
    assert reason in caught.value.problem


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(".spec.env", id="field"),
        pytest.param(".spec.containers[].env[]?", id="field-with-iteration"),
        pytest.param('.["env"] // "$ENV" | ."input"', id="text"),
        pytest.param("{env: 1, input, debug: .now}", id="keys"),
        pytest.param("{a: [1, 2], env}", id="key-behind-a-list"),
        pytest.param("{\n # note\n env # note\n : 1}", id="key-between-comments"),
        pytest.param('{"a": .b, def: 1}', id="key-word-as-key"),
        pytest.param(". as {env: $x} | $x", id="key-of-a-pattern"),
        pytest.param(". as $env | $env", id="variable-of-that-name"),
        pytest.param("@env", id="format"),
        pytest.param(".a # env, $ENV, def\n", id="comment"),
        pytest.param('"a \\(.env) env"', id="field-in-an-interpolation"),
        pytest.param("recurse | .. | select(.a?)", id="recursion-over-the-object"),
        pytest.param("label $out | .a[] | if .b then ., break $out else . end", id="label"),
        pytest.param('getpath(["spec", "env"])', id="getpath"),
        pytest.param("environment, renv, env_", id="longer-words"),
        pytest.param("first(.a[] | select(.b)) // limit(2; .c[])", id="bounded-generators"),
        pytest.param(".a\r\n| .b", id="line-breaks-of-windows"),
    ],
)
def test_words_that_only_look_like_functions_pass(source: str) -> None:
    vet(source, path="query")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        pytest.param("", "the query is empty", id="empty"),
        pytest.param(" \n", "the query is empty", id="space"),
        pytest.param("." + " " * SOURCE_MAX_CHARS, "at most 4096 characters", id="too-long"),
        pytest.param(". #\0 | env", "control characters", id="nul"),
        pytest.param(". # \r env", "control characters", id="carriage-return"),
        pytest.param('"\ud800"', "control characters", id="half-a-surrogate-pair"),
        pytest.param(". # note \\", "may not end with a backslash", id="comment-goes-on"),
        pytest.param(". # note \\\r\n| .", "may not end with a backslash", id="windows"),
        pytest.param("1) , (2", "')' closes nothing", id="stray-parenthesis"),
        pytest.param("[1, (2])", "']' closes nothing", id="crossed-brackets"),
        pytest.param("[{a: 1}", "'[' is not closed", id="open-bracket"),
        pytest.param('"abc', "'\"' is not closed", id="open-quote"),
        pytest.param('"abc\\', "ends inside a text", id="ends-with-a-backslash"),
    ],
)
def test_text_that_could_be_read_in_two_ways_is_refused(source: str, problem: str) -> None:
    with pytest.raises(SpecError, match=re.escape(problem)):
        vet(source, path="query")


# Anything new in the libjq of a later release must be looked at before it counts as harmless.
REVIEWED = (
    "IN INDEX JOIN abs acos acosh add all any arrays ascii_downcase ascii_upcase asin asinh atan "
    "atan2 atanh booleans bsearch builtins capture cbrt ceil contains copysign cos cosh del "
    "delpaths drem empty endswith erf erfc error exp exp10 exp2 explode expm1 fabs fdim finites "
    "first flatten floor fma fmax fmin fmod format frexp from_entries fromdate fromdateiso8601 "
    "fromjson fromstream gamma getpath gmtime group_by gsub has have_decnum have_literal_numbers "
    "hypot implode in index indices infinite inside isempty isfinite isinfinite isnan isnormal "
    "iterables j0 j1 jn join keys keys_unsorted last ldexp length lgamma lgamma_r limit log log10 "
    "log1p log2 logb ltrim ltrimstr map map_values match max max_by min min_by mktime modf nan "
    "nearbyint nextafter nexttoward normals not nth nulls numbers objects path paths pick pow "
    "recurse remainder reverse rindex rint round rtrim rtrimstr scalars scalb scalbln scan select "
    "setpath significand sin sinh skip sort sort_by split splits sqrt startswith strftime strings "
    "strptime sub tan tanh test tgamma to_entries toboolean todate todateiso8601 tojson tonumber "
    "tostream tostring transpose trim trimstr trunc truncate_stream type unique unique_by "
    "utf8bytelength values walk with_entries y0 y1 yn "
)


def is_refused(word: str) -> bool:
    try:
        vet(word, path="query")
    except SpecError:
        return True
    return False


def test_each_function_of_jq_is_either_refused_or_reviewed() -> None:
    names = {name.partition("/")[0] for name in jq.compile("builtins[]").input_value(None)}

    assert {name for name in names if not is_refused(name)} == set(REVIEWED.split())


LEAVES = [
    *("env", "$ENV", ".env", '."env"', '"env"', "{env}", "{env: 1}", "{$ENV}", "{env, a: 1}"),
    *("@json", "1.5e3", ".5", "..", ".", "# env\n .", '"\\\\"', '"\\""', '"#"', "$__loc__"),
]
SHAPES = [
    *("({})", "[{}]", "{{a: {}}}", "{{a: ({}), env: 1}}", '{{"env": [{}], env}}', "{} | {}"),
    *("{{({} | tostring): 1}}", "({}), ({})", '"x\\({})y"', '@text "env \\({}) \\({})"', "({})?"),
    *("if ({}) then ({}) else . end", "try ({}) catch .", "({}) as {{env: $x}} | $x", "[{}][0]"),
    *(
        "# $ENV\n({})",
        "({}) # \\( env\n",
        ".[{}]",
        "{{a: {{b: ({}) | ({})}}, env: 2}}",
        "first({})",
    ),
]


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Expressions in which `env` and `$ENV` stand in all places where they can."""
    source = draw(st.sampled_from(LEAVES))
    for shape in draw(st.lists(st.sampled_from(SHAPES), max_size=4)):
        parts = [source] + [draw(st.sampled_from(LEAVES)) for _ in range(shape.count("{}") - 1)]
        source = shape.format(*draw(st.permutations(parts)))
    return source


def reads_environment(source: str) -> bool | None:
    """
    jq's own opinion. None: it does not compile.

    A name that jq doesn't know takes the place of the two, so that jq complains exactly where it
    was a function or a variable.
    """
    try:
        jq.compile(source)
    except ValueError:
        return None
    try:
        jq.compile(source.replace("env", "unknown_name").replace("ENV", "unknown_name"))
    except ValueError as e:
        return "unknown_name" in str(e) and "is not defined" in str(e)
    return False


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(source=expressions())
@example(source='"\\("\\(env)")"')
@example(source="{a: 1 | env}")
@example(source="{$ENV}")
def test_a_word_is_refused_exactly_where_jq_takes_it_for_a_function(source: str) -> None:
    reads = reads_environment(source)

    assert reads is None or is_refused(source) is reads
