"""What a jq expression may use, and that no expression harms the process or its neighbours."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webhook.errors import EvaluationError, SpecError
from webhook.mapping import programs
from webhook.mapping.programs import (
    MAX_PLACES,
    SOURCE_MAX_CHARS,
    JqQuery,
    JqWorker,
    PlainSelector,
    QueryFailure,
    WorkerLimits,
    alone,
    combine,
    compile_selector,
    document_for_jq,
    vet,
)

GROUPS = '.spec.groups[] | select(has("template")) | .template'
DOCUMENT = {
    "kind": "Sample",
    "spec": {"groups": [{"template": {}}, {"name": "b"}, {"template": {"x": 1}}]},
    "secret": "hunter2",
}
DOCUMENT_JSON = json.dumps(DOCUMENT).encode()
GROUP_PLACES = [("spec", "groups", 0, "template"), ("spec", "groups", 2, "template")]

# Longer than any limit together with a start of the child on a machine that is busy.
ENDS_WITHIN_S = 5.0


@pytest.fixture(scope="module")
def worker() -> Iterator[JqWorker]:
    """For expressions that end. The deadline is long, so that a busy machine breaks no test."""
    with JqWorker(WorkerLimits(evaluate_ms=2000)) as shared:
        yield shared


@pytest.fixture(scope="module")
def default_worker() -> Iterator[JqWorker]:
    with JqWorker() as shared:
        yield shared


@pytest.fixture
def make_worker() -> Iterator[Callable[..., JqWorker]]:
    made: list[JqWorker] = []

    def make(**limits: Any) -> JqWorker:
        made.append(JqWorker(WorkerLimits(**limits)))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


def children() -> set[int]:
    """The worker processes of this process."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if int(status[1]) == os.getpid() and b"jq_worker.py" in command:
            found.add(int(entry.name))
    return found


# --- vetting -------------------------------------------------------------------------------------

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


@settings(max_examples=200, deadline=None)
@given(source=expressions())
@example(source='"\\("\\(env)")"')
@example(source="{a: 1 | env}")
@example(source="{$ENV}")
def test_a_word_is_refused_exactly_where_jq_takes_it_for_a_function(source: str) -> None:
    reads = reads_environment(source)

    assert reads is None or is_refused(source) is reads


def test_a_path_becomes_a_plain_selector() -> None:
    selector = compile_selector(".spec.template.spec", path="query")

    assert isinstance(selector, PlainSelector)
    assert selector.plain.is_single
    assert selector.source == ".spec.template.spec"


def test_anything_else_becomes_a_query_for_the_worker() -> None:
    selector = compile_selector(GROUPS, path="query")

    assert selector == JqQuery(GROUPS)
    assert selector.plain is None


@pytest.mark.parametrize("source", ["env.PATH", "", "." + " " * SOURCE_MAX_CHARS])
def test_a_selector_that_is_not_allowed_is_a_fault_of_the_document(source: str) -> None:
    with pytest.raises(SpecError, match=r"^spec\.x: "):
        compile_selector(source, path="spec.x")


# --- one program for several expressions ---------------------------------------------------------


def test_several_expressions_run_as_one_program() -> None:
    program = combine((".kind", ".spec[]", ".kind[]"), mode="paths")

    (entries,) = jq.compile(program).input_value(DOCUMENT).all()

    assert entries == [
        [["kind"]],
        [["spec", "groups"]],
        {"error": 'Cannot iterate over string ("Sample")'},
    ]


def test_an_expression_that_stands_alone_compiles_alone() -> None:
    jq.compile(alone(GROUPS + " # note \\"))
    with pytest.raises(ValueError, match="syntax error"):
        jq.compile(alone("1) , (2"))


# Each would swallow, close, replace or stop its neighbours if it could.
DISTURBERS = [
    pytest.param(".kind #", [("kind",)], id="comment"),
    pytest.param(".kind # \\", [("kind",)], id="comment-that-goes-on"),
    pytest.param(".kind |", "does not compile", id="open-pipe"),
    pytest.param("1) , (2", "does not compile", id="closes-a-parenthesis"),
    pytest.param("1)] , [(2", "does not compile", id="closes-the-list"),
    pytest.param("(.kind", "does not compile", id="open-parenthesis"),
    pytest.param('"', "does not compile", id="open-quote"),
    pytest.param("", "does not compile", id="empty"),
    pytest.param("def path(f): 1;", "does not compile", id="definition-without-expression"),
    pytest.param("def path(f): 1; .kind", [("kind",)], id="definition"),
    pytest.param('import "a" as a; .', "does not compile", id="import"),
    pytest.param(". #\0", "no result that can be read", id="nul"),
    pytest.param("error({__jq: (0, 1, 2, 3)})", "failed in jq", id="forged-break"),
    pytest.param("error(null)", "failed in jq", id="error-without-text"),
    pytest.param("halt", "halt, which is not available", id="halt"),
    pytest.param('"x" | halt_error', "halt_error, which is not available", id="halt-error"),
    pytest.param("input", "input, which is not available", id="input"),
    pytest.param("empty", [], id="emits-nothing"),
    pytest.param(".kind.x", 'cannot index string with "x"', id="type-error"),
    pytest.param(".kind + 1", "met string and number, which cannot be added", id="arithmetic"),
    pytest.param(".kind | keys", "met string, which has no keys", id="keys"),
    pytest.param('{} | has("a") | .', "computes a value", id="computed-value"),
    pytest.param(".items[range(1e6)]", "selected more than 1000 places", id="million-outputs"),
    pytest.param(".spec.groups[0:1]", "selected a part of a list", id="slice"),
    pytest.param(".x[0.5]", "selected a part of a list", id="fraction"),
]


@pytest.mark.parametrize(("source", "want"), DISTURBERS)
def test_an_expression_does_not_disturb_its_neighbours(
    worker: JqWorker, source: str, want: list[Any] | str
) -> None:
    """Vetting refuses most of these; it is left out here."""
    before, result, after = worker.evaluate_paths((GROUPS, source, ".kind"), DOCUMENT_JSON)

    assert before == GROUP_PLACES
    assert after == [("kind",)]
    shown = result.reason if isinstance(result, QueryFailure) else result
    assert want in shown if isinstance(want, str) else shown == want


# --- results -------------------------------------------------------------------------------------


def test_places_are_found_in_the_order_of_jq(worker: JqWorker) -> None:
    assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]


def test_no_expression_means_no_result(worker: JqWorker) -> None:
    assert worker.evaluate_paths((), DOCUMENT_JSON) == []


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param(".spec.groups[-1]", [("spec", "groups", 2)], id="last"),
        pytest.param(".spec.groups | last.name", [("spec", "groups", 2, "name")], id="function"),
        pytest.param(".spec.groups[-4]", [], id="before-the-beginning"),
        pytest.param(".absent[-1]", [], id="of-nothing"),
        pytest.param(".spec.groups[-1, 0]", [("spec", "groups", 2), ("spec", "groups", 0)]),
    ],
)
def test_an_index_from_the_end_becomes_one_from_the_beginning(
    worker: JqWorker, source: str, want: list[Any]
) -> None:
    assert worker.evaluate_paths((source,), DOCUMENT_JSON) == [want]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("error(.secret)", id="raised"),
        pytest.param(".secret[]", id="iterated"),
        pytest.param(".secret.x", id="indexed"),
        pytest.param(".spec[.secret].x.y[]", id="as-a-key"),
        pytest.param(".kind[.secret]", id="as-a-key-of-text"),
        pytest.param(".secret + 1", id="added"),
        pytest.param(".secret | keys", id="keys"),
        pytest.param(".secret | fromjson", id="parsed"),
        pytest.param(".secret | tonumber", id="number"),
        pytest.param(".secret | ascii_downcase", id="computed"),
        pytest.param('error("startswith() \\(.secret) requires string inputs")', id="forged"),
        pytest.param('error("Cannot index null with string (\\"\\(.secret)\\")")', id="forged-key"),
    ],
)
def test_a_failure_shows_no_value_of_the_object(worker: JqWorker, source: str) -> None:
    (result,) = worker.evaluate_paths((source,), DOCUMENT_JSON)

    assert "hunter2" not in repr(result)


def test_exactly_as_many_places_as_allowed_are_fine(worker: JqWorker) -> None:
    document = json.dumps([{"a": 1}] * MAX_PLACES).encode()

    (result,) = worker.evaluate_paths((".[] | select(.a == 1)",), document)

    assert isinstance(result, list)
    assert len(result) == MAX_PLACES


def test_a_result_that_is_too_long_is_no_result(make_worker: Callable[..., JqWorker]) -> None:
    worker = make_worker(answer_max_bytes=2000)
    long, short = worker.evaluate_paths(
        ('.["a" * (900, 901, 902)]', ".kind | select(true)"), DOCUMENT_JSON
    )

    assert long == QueryFailure("has a result of more than 2000 bytes")
    assert short == [("kind",)]


def test_a_compile_error_is_placed_in_the_author_s_own_lines(worker: JqWorker) -> None:
    with pytest.raises(SpecError) as caught:
        worker.check(".spec\n| no_such_thing(1)", path="spec.x")

    assert caught.value.path == "spec.x"
    assert caught.value.problem == (
        "the expression does not compile: no_such_thing/1 is not defined (line 2, column 3)"
    )


def test_a_sound_expression_passes_the_check(worker: JqWorker) -> None:
    worker.check(GROUPS, path="query")


def test_an_error_on_a_sample_is_no_reason_to_refuse(worker: JqWorker) -> None:
    worker.check(".spec.replicas[] | .x", path="query")


def test_large_numbers_in_the_object_are_not_touched(worker: JqWorker) -> None:
    """jq computes with floats, so that only paths come back from it."""
    text = '{"seed":9007199254740993,"big":18446744073709551615,"f":1.0,"list":[{"a":1}]}'
    document = json.loads(text)

    (result,) = worker.evaluate_paths((".list[] | select(.a == 1)",), document_for_jq(document))

    assert result == [("list", 0)]
    assert json.dumps(document, separators=(",", ":")) == text


def test_managed_fields_are_left_out_without_touching_the_object() -> None:
    metadata = {"name": "a", "managedFields": [{"manager": "kubectl"}], "labels": {}}
    document = {"kind": "Pod", "metadata": metadata, "spec": {"x": 10**30}}

    text = document_for_jq(document)

    assert json.loads(text) == {
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {}},
        "spec": {"x": 10**30},
    }
    assert document["metadata"] is metadata
    assert "managedFields" in metadata


def test_an_object_that_nests_without_end_is_refused() -> None:
    document: dict[str, Any] = {}
    for _ in range(100_000):
        document = {"a": document}

    with pytest.raises(EvaluationError, match="nests too deeply"):
        document_for_jq(document)


# --- hostile expressions, with vetting bypassed --------------------------------------------------

ENDLESS = [
    pytest.param("def f: f; f", id="endless-recursion"),
    pytest.param("last(range(1e12))", id="range"),
    pytest.param("last(repeat(1))", id="repeat"),
    pytest.param("until(false; .)", id="until"),
    pytest.param("[limit(1e12; repeat(1))]", id="limited-repeat"),
    pytest.param("def f: 1 + f; f", id="recursion-that-grows"),
    pytest.param("[range(1e12)]", id="growing-array"),
    pytest.param("null | .[1e8] = 1", id="array-with-a-far-index"),
    pytest.param('reduce range(60) as $i ("xx"; . + .)', id="doubling-text"),
    pytest.param("reduce range(10000000) as $i (1; [.])", id="deep-result"),
    pytest.param('"x" * 1e9', id="huge-text"),
    pytest.param('.["x" * 1e9]', id="huge-key"),
]

REASONS = re.compile(
    r"^(one of 2 expressions|the expression) "
    r"(did not (end|compile) within \d+ ms|used more than 512 MiB|ended its process with SIG\w+)$"
)


@pytest.mark.parametrize("source", ENDLESS)
def test_an_expression_without_end_ends(default_worker: JqWorker, source: str) -> None:
    """In time, with a clear reason; and the next evaluation does not notice."""
    worker = default_worker
    start = time.monotonic()

    with pytest.raises(EvaluationError) as caught:
        worker.evaluate_paths((source, ".kind"), DOCUMENT_JSON)

    assert time.monotonic() - start < ENDS_WITHIN_S
    assert REASONS.match(str(caught.value))
    assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]


@pytest.mark.parametrize("source", [*ENDLESS, pytest.param(".a[range(1e6)]", id="flood")])
def test_the_check_refuses_an_expression_without_end(
    make_worker: Callable[..., JqWorker], source: str
) -> None:
    worker = make_worker(evaluate_ms=100)

    with pytest.raises(SpecError, match=r"^query: the expression (did|used|ended|selected)"):
        worker.check(source, path="query")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('.[$ENV.GATEWRIGHT_CANARY // "nothing"]', id="variable"),
        pytest.param(".[env.GATEWRIGHT_CANARY]", id="function"),
        pytest.param("error($ENV)", id="raised"),
        pytest.param(".[$ENV | tostring]", id="all-of-it"),
        pytest.param(".[env | tostring]", id="all-of-it-by-function"),
        pytest.param('.["\\($ENV)"]', id="interpolated"),
        pytest.param(".[$$$ENV | tostring]", id="odd-form"),
        pytest.param('.[("GATEWRIGHT_CANARY" | $ENV[.]) // "nothing"]', id="computed-name"),
    ],
)
def test_the_environment_never_appears(
    make_worker: Callable[..., JqWorker], monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("GATEWRIGHT_CANARY", "sesame-4711")
    worker = make_worker()

    results = worker.evaluate_paths((source,), b"{}")

    assert "sesame-4711" not in repr(results)
    assert "GATEWRIGHT_CANARY" not in repr(results)


def test_time_is_the_reason_given_for_a_loop(make_worker: Callable[..., JqWorker]) -> None:
    worker = make_worker(evaluate_ms=80)

    with pytest.raises(EvaluationError, match=r"^the expression did not end within 80 ms$"):
        worker.evaluate_paths(("last(range(1e12))",), b"{}")


def test_memory_is_the_reason_given_for_a_flood(make_worker: Callable[..., JqWorker]) -> None:
    worker = make_worker(evaluate_ms=20_000, memory_mib=128)

    with pytest.raises(EvaluationError, match=r"^the expression used more than 128 MiB$"):
        worker.evaluate_paths(('.["x" * 1e9 | length]',), b"{}")


# --- life of the child ---------------------------------------------------------------------------


def test_other_threads_go_on_during_an_endless_evaluation(
    make_worker: Callable[..., JqWorker],
) -> None:
    """A native call that held the interpreter lock would stop them, the server's loop included."""
    worker = make_worker(evaluate_ms=500)
    worker.evaluate_paths((".a | first",), b"{}")
    ended = threading.Event()
    ticks: list[float] = []

    def tick() -> None:
        while not ended.wait(0.01):
            ticks.append(time.monotonic())

    ticker = threading.Thread(target=tick)
    ticker.start()
    with pytest.raises(EvaluationError):
        worker.evaluate_paths(("last(range(1e12))",), b"{}")
    ended.set()
    ticker.join()

    assert len(ticks) > 10


def test_nothing_is_started_before_the_first_call(make_worker: Callable[..., JqWorker]) -> None:
    before = children()
    worker = make_worker()

    assert children() == before
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    assert len(children() - before) == 1


def test_a_child_that_somebody_killed_is_replaced_unnoticed(
    make_worker: Callable[..., JqWorker],
) -> None:
    before = children()
    worker = make_worker()
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    (child,) = children() - before

    os.kill(child, signal.SIGKILL)
    while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)

    assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]


def test_a_child_that_does_not_get_to_run_is_given_up(
    make_worker: Callable[..., JqWorker],
) -> None:
    """Its own timer can't help there: it starts with the evaluation."""
    before = children()
    worker = make_worker()
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    (child,) = children() - before

    os.kill(child, signal.SIGSTOP)
    with pytest.raises(EvaluationError, match="did not end within 250 ms"):
        worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)

    assert child not in children()
    assert worker.evaluate_paths((".kind | first(.)",), DOCUMENT_JSON) == [[("kind",)]]


def test_closing_ends_the_children(make_worker: Callable[..., JqWorker]) -> None:
    before = children()
    worker = make_worker()
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    worker.check(".spec | first(.[])", path="query")
    assert len(children() - before) == 2

    worker.close()

    assert children() == before
    with pytest.raises(EvaluationError, match="closed"):
        worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)


def test_many_threads_share_one_child(worker: JqWorker) -> None:
    results: list[Any] = []

    def ask(name: str) -> None:
        document = json.dumps({"names": [{"name": name}] * 3}).encode()
        for _ in range(20):
            found = worker.evaluate_paths((f'.names[] | select(.name == "{name}")',), document)
            results.append(found == [[("names", 0), ("names", 1), ("names", 2)]])

    threads = [threading.Thread(target=ask, args=(f"n{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [True] * 80


def test_an_expression_that_ended_a_child_does_not_hold_up_the_others(
    make_worker: Callable[..., JqWorker],
) -> None:
    """Somebody may send the object that it fails on again and again."""
    worker = make_worker(evaluate_ms=1500)
    hostile = ("last(range(1e12))",)
    with pytest.raises(EvaluationError):
        worker.evaluate_paths(hostile, DOCUMENT_JSON)
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    failures: list[str] = []

    def repeat() -> None:
        try:
            worker.evaluate_paths(hostile, DOCUMENT_JSON)
        except EvaluationError as e:
            failures.append(str(e))

    again = threading.Thread(target=repeat)
    again.start()
    time.sleep(0.3)
    assert worker.evaluate_paths((GROUPS,), DOCUMENT_JSON) == [GROUP_PLACES]
    assert again.is_alive()

    again.join()
    assert failures == ["the expression did not end within 1500 ms"]


def test_a_call_does_not_wait_for_ever_for_those_before_it(
    make_worker: Callable[..., JqWorker],
) -> None:
    worker = make_worker(evaluate_ms=1500, wait_ms=50)
    worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)

    def block() -> None:
        with pytest.raises(EvaluationError):
            worker.evaluate_paths(("last(range(1e12))",), b"{}")

    blocker = threading.Thread(target=block)
    blocker.start()
    time.sleep(0.3)
    with pytest.raises(EvaluationError, match="busy with other expressions for 50 ms"):
        worker.evaluate_paths((GROUPS,), DOCUMENT_JSON)
    blocker.join()


READY = struct.pack("!cI", b"s", 0)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(struct.pack("!cI", b"R", 1 << 31), "can't be read", id="too-long"),
        pytest.param(b"?" * 50, "can't be read", id="unknown-kind"),
        pytest.param(struct.pack("!cI", b"R", 99) + b"[", "exit code 0", id="ends-too-early"),
        pytest.param(b"", "exit code 0", id="says-nothing"),
    ],
)
def test_an_answer_that_makes_no_sense_is_not_believed(
    make_worker: Callable[..., JqWorker],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answer: bytes,
    reason: str,
) -> None:
    """A child that was taken over from inside can only spoil its own answer."""
    script = tmp_path / "jq_worker.py"
    script.write_text(
        "import sys\n"
        f"sys.stdout.buffer.write({READY!r})\n"
        "sys.stdout.flush()\n"
        "sys.stdin.buffer.read(9)\n"
        f"sys.stdout.buffer.write({answer!r})\n"
    )
    monkeypatch.setattr(programs, "_WORKER", script)

    with pytest.raises(EvaluationError, match=reason):
        make_worker().evaluate_paths((".",), b"{}")


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"nonsense", id="no-json"),
        pytest.param(b'{"a":1}', id="no-list"),
        pytest.param(b"[[],[]]", id="too-many-results"),
        pytest.param(b"[7]", id="no-paths"),
        pytest.param(b"[[7]]", id="no-path"),
        pytest.param(b"[[[true]]]", id="no-key"),
        pytest.param(b"[[[null]]]", id="null-for-a-key"),
    ],
)
def test_a_result_of_another_form_is_a_failure(
    make_worker: Callable[..., JqWorker],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    payload: bytes,
) -> None:
    script = tmp_path / "jq_worker.py"
    frame = struct.pack("!cI", b"R", len(payload)) + payload
    script.write_text(
        "import struct, sys\n"
        f"sys.stdout.buffer.write({READY!r})\n"
        "sys.stdout.flush()\n"
        "while header := sys.stdin.buffer.read(9):\n"
        "    sys.stdin.buffer.read(sum(struct.unpack('!II', header[1:])))\n"
        f"    sys.stdout.buffer.write({frame!r})\n"
        "    sys.stdout.flush()\n"
    )
    monkeypatch.setattr(programs, "_WORKER", script)

    (result,) = make_worker().evaluate_paths((".",), b"{}")

    assert isinstance(result, QueryFailure)


def test_a_child_that_does_not_start_says_why(
    make_worker: Callable[..., JqWorker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "jq_worker.py"
    script.write_text("raise ImportError('no jq here')\n")
    monkeypatch.setattr(programs, "_WORKER", script)

    with pytest.raises(EvaluationError, match="does not start: ImportError: no jq here"):
        make_worker().evaluate_paths((".",), b"{}")
