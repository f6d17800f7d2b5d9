"""Plain selectors: what is recognised, what they find, and that jq finds the same."""

from __future__ import annotations

import json
from typing import Any

import jq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webhook.errors import EvaluationError
from webhook.mapping.plain import MAX_PLACES, PlainQuery, parse_plain, parse_ref
from webhook.mapping.walk import Located, Mismatch
from webhook.model.pointer import Path

CONTAINERS = """
(
  .spec.template.spec.containers[]?,
  .spec.template.spec.initContainers[]?
)
| select(.)
"""

WORKFLOW = (
    ".spec.templates[] | (.container, .script, .containerSet.containers[]?, .sidecars[]?)"
    " | select(.)"
)


def plain(source: str) -> PlainQuery:
    query = parse_plain(source)
    assert query is not None, f"{source!r} should be plain"
    return query


def paths_or_error(program: Any, document: Any) -> tuple[Path, ...] | str:
    """What jq itself finds, or the text of its error."""
    try:
        (paths,) = program.input_text(json.dumps(document)).all()
    except ValueError as e:
        return str(e)
    return tuple([tuple(path) for path in paths])


def jq_paths(source: str, document: Any) -> tuple[Path, ...] | str:
    return paths_or_error(jq.compile(f"[path({source})]"), document)


@pytest.mark.parametrize(
    ("source", "document", "want"),
    [
        pytest.param(".", {"a": 1}, [()], id="the-object-itself"),
        pytest.param(".a.b", {"a": {"b": 1}}, [("a", "b")], id="names"),
        pytest.param(".a.b", {}, [("a", "b")], id="a-missing-key-is-a-place"),
        pytest.param(".a.b", {"a": None}, [("a", "b")], id="below-null-is-a-place"),
        pytest.param(".a | select(.)", {}, [], id="select-drops-what-is-missing"),
        pytest.param(".a[] | select(.)", {"a": [0, "", False, None]}, [("a", 0), ("a", 1)]),
        pytest.param('.["x.y/z"]', {"x.y/z": 1}, [("x.y/z",)], id="key-in-brackets"),
        pytest.param('."x.y/z".b', {}, [("x.y/z", "b")], id="quoted-key"),
        pytest.param('.a["b"].c', {}, [("a", "b", "c")], id="brackets-without-a-dot"),
        pytest.param('.["\\u00e9\\n"]', {}, [("é\n",)], id="escapes-in-keys"),
        pytest.param(".a[0].b", {"a": [{"b": 1}]}, [("a", 0, "b")], id="index"),
        pytest.param(".a[7]", {"a": [1]}, [("a", 7)], id="index-behind-the-end-is-a-place"),
        pytest.param(".a[]", {"a": {"y": 1, "x": 2}}, [("a", "y"), ("a", "x")], id="values"),
        pytest.param(".a[]?", {}, [], id="iterating-what-is-missing"),
        pytest.param(".b, .a", {"a": 1}, [("b",), ("a",)], id="alternatives-keep-their-order"),
        pytest.param("(.a, .b).c", {}, [("a", "c"), ("b", "c")], id="step-after-parentheses"),
        pytest.param(".a[] | .x, .y", {"a": [{}]}, [("a", 0, "x"), ("a", 0, "y")], id="pipe"),
        pytest.param(".a?.b", {"a": {"b": 1}}, [("a", "b")], id="optional-name"),
        pytest.param("\n .a\n .b\t| select( . ) ", {"a": {"b": 1}}, [("a", "b")], id="space"),
        pytest.param(". .a", {}, [("a",)], id="a-dot-of-its-own"),
        pytest.param(".if.select.env", {}, [("if", "select", "env")], id="words-of-jq-as-names"),
    ],
)
def test_a_plain_query_finds_what_jq_finds(source: str, document: Any, want: list[Path]) -> None:
    assert plain(source).locate(document) == Located(tuple(want))
    assert jq_paths(source, document) == tuple(want)


def test_containers_and_init_containers_are_found_in_order() -> None:
    document: dict[str, Any] = {
        "spec": {"template": {"spec": {"containers": [{}, {}], "initContainers": [{}]}}},
    }

    located = plain(CONTAINERS).locate(document)

    prefix = ("spec", "template", "spec")
    assert located == Located(
        (
            (*prefix, "containers", 0),
            (*prefix, "containers", 1),
            (*prefix, "initContainers", 0),
        )
    )


def test_alternatives_behind_an_iteration_are_taken_item_by_item() -> None:
    document: dict[str, Any] = {
        "spec": {"templates": [{"script": {}, "container": {}}, {"sidecars": [{}, {}]}]},
    }

    located = plain(WORKFLOW).locate(document)

    assert [path[2:] for path in located.paths] == [
        (0, "container"),
        (0, "script"),
        (1, "sidecars", 0),
        (1, "sidecars", 1),
    ]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("", id="empty"),
        pytest.param("spec.x", id="no-leading-dot"),
        pytest.param("..", id="recursion"),
        pytest.param("..a", id="recursion-and-a-word"),
        pytest.param(".a..b", id="two-dots"),
        pytest.param(". a", id="space-behind-the-dot"),
        pytest.param(".a b", id="two-words"),
        pytest.param(".a.", id="open-end"),
        pytest.param(".a |", id="open-pipe"),
        pytest.param(".a, ", id="open-union"),
        pytest.param("(.a", id="open-parenthesis"),
        pytest.param(".a)", id="stray-parenthesis"),
        pytest.param('["a"]', id="constructs-a-list"),
        pytest.param('"a"', id="constant"),
        pytest.param(".a[-1]", id="negative-index"),
        pytest.param(".a[1.5]", id="fraction"),
        pytest.param(".a[1e3]", id="exponent"),
        pytest.param(".a[1:2]", id="slice"),
        pytest.param(".a[.b]", id="computed-key"),
        pytest.param(".a[99999999999]", id="index-beyond-int"),
        pytest.param('."a\\(1)"', id="interpolation"),
        pytest.param('."\\ud800"', id="half-a-surrogate-pair"),
        pytest.param('."a\nb"', id="line-break-in-a-key"),
        pytest.param(".?", id="optional-dot"),
        pytest.param(".a??", id="twice-optional"),
        pytest.param("(.a)?", id="optional-parentheses"),
        pytest.param(".a # note", id="comment"),
        pytest.param(".a // .b", id="alternative-operator"),
        pytest.param(".a | select(.b)", id="select-with-a-condition"),
        pytest.param(".a | map(.)", id="call"),
        pytest.param(".a = 1", id="assignment"),
        pytest.param(".é", id="letters-that-jq-does-not-take"),
        pytest.param("(" * 40 + ".a" + ")" * 40, id="too-many-parentheses"),
        pytest.param("|".join(["(.,.)"] * 10), id="too-many-visits"),
        pytest.param("." + "[0]" * 101, id="too-many-steps"),
    ],
)
def test_anything_richer_is_left_to_jq(source: str) -> None:
    assert parse_plain(source) is None


@pytest.mark.parametrize(
    ("source", "document", "want"),
    [
        pytest.param(
            ".spec.containers[]?",
            {"spec": {"containers": "abc"}},
            Mismatch(("spec", "containers"), "list", "text"),
            id="text-for-a-list",
        ),
        pytest.param(
            ".spec.containers[]",
            {"spec": {"containers": True}},
            Mismatch(("spec", "containers"), "list", "boolean"),
            id="boolean-for-a-list",
        ),
        pytest.param(
            ".a.b.c",
            {"a": {"b": 3}},
            Mismatch(("a", "b"), "object", "number"),
            id="number",
        ),
        pytest.param(".a.b", {"a": []}, Mismatch(("a",), "object", "list"), id="list-for-object"),
        pytest.param(".a", "text", Mismatch((), "object", "text"), id="the-object-itself"),
        pytest.param(".a[0]", {"a": {}}, Mismatch(("a",), "list", "object"), id="index"),
        pytest.param(
            ".a[].b",
            {"a": [{}, 10**40]},
            Mismatch(("a", 1), "object", "number"),
            id="one-item",
        ),
        pytest.param(
            ".a.b, .a.c",
            {"a": ""},
            Mismatch(("a",), "object", "text"),
            id="reported-once",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_reported(source: str, document: Any, want: Mismatch) -> None:
    assert plain(source).locate(document).mismatches == (want,)


def test_the_items_beside_a_wrong_one_are_still_found() -> None:
    located = plain(".a[].b").locate({"a": [{"b": 1}, "x", {"b": 2}]})

    assert located.paths == (("a", 0, "b"), ("a", 2, "b"))
    assert located.mismatches == (Mismatch(("a", 1), "object", "text"),)


@pytest.mark.parametrize("source", [".a.b?", ".a.b?.c", ".[0]?", ".a[0]?.b"])
def test_a_question_mark_behind_a_name_or_index_asks_for_silence(source: str) -> None:
    """It has no other use there: a missing key is no error in jq anyway."""
    assert plain(source).locate({"a": "text"}) == Located(())


@pytest.mark.parametrize("source", [".a[]", ".a[]?", ".a[].b", ".a[][]"])
@pytest.mark.parametrize("document", [{}, {"a": None}])
def test_iterating_null_finds_nothing_and_is_no_fault(source: str, document: Any) -> None:
    """To Kubernetes null is absent. jq raises for `[]` here."""
    assert plain(source).locate(document) == Located(())


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param(".", True, id="the-object"),
        pytest.param(".spec.template", True, id="names"),
        pytest.param(".a[0] | select(.)", True, id="index-and-select"),
        pytest.param("(.a).b?", True, id="parentheses"),
        pytest.param(".a[]?", False, id="iteration"),
        pytest.param(".a, .b", False, id="alternatives"),
    ],
)
def test_a_query_without_iteration_is_single(source: str, want: bool) -> None:
    assert plain(source).is_single is want


def test_a_flood_of_places_is_refused() -> None:
    query = plain(".a[]")

    assert len(query.locate({"a": [0] * MAX_PLACES}).paths) == MAX_PLACES
    with pytest.raises(EvaluationError, match=f"more than {MAX_PLACES} places"):
        query.locate({"a": [0] * (MAX_PLACES + 1)})


def test_as_many_steps_as_are_allowed_lead_to_a_place() -> None:
    """Each of them is a call within the one before."""
    assert plain("." + "[0]" * 100).locate([]) == Located(((0,) * 100,))


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"a": [None] * 50_001}, id="list"),
        pytest.param({"a": [{}] * 25_000}, id="list-that-is-met-twice"),
        pytest.param({"a": dict.fromkeys(map(str, range(50_001)))}, id="object"),
        pytest.param({"a": [[None] * 250] * 250}, id="lists-in-a-list"),
    ],
)
def test_a_flood_of_values_on_the_way_is_refused(document: Any) -> None:
    query = plain("(.a[], .a[][]?) | select(.) | .b[]?")

    with pytest.raises(EvaluationError, match="more than 50000 values"):
        query.locate(document)


def test_large_numbers_beside_the_places_stay_as_they_are() -> None:
    document = {"spec": {"seed": 9007199254740993, "big": 18446744073709551615, "list": [1]}}
    before = json.dumps(document)

    plain(".spec.list[], .spec").locate(document)

    assert json.dumps(document) == before


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param("image", ("image",), id="one-name"),
        pytest.param("securityContext.privileged", ("securityContext", "privileged"), id="names"),
        pytest.param('limits["nvidia.com/gpu"]', ("limits", "nvidia.com/gpu"), id="brackets"),
        pytest.param('limits.["nvidia.com/gpu"]', ("limits", "nvidia.com/gpu"), id="dot-brackets"),
        pytest.param('limits."nvidia.com/gpu".x', ("limits", "nvidia.com/gpu", "x"), id="quoted"),
        pytest.param('["a/b"].c', ("a/b", "c"), id="brackets-first"),
        pytest.param('"a b"', ("a b",), id="quoted-first"),
        pytest.param('a["\\"\\u00e9"]', ("a", '"é'), id="escapes"),
        pytest.param('a[""]', ("a", ""), id="the-empty-key"),
    ],
)
def test_a_reference_is_read_into_its_keys(source: str, want: tuple[str, ...]) -> None:
    assert parse_ref(source) == want


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        pytest.param("", "empty", id="empty"),
        pytest.param(".a", "starts with a dot", id="leading-dot"),
        pytest.param("a..b", "empty step at character 2", id="two-dots"),
        pytest.param("a.", "empty step at character 2", id="trailing-dot"),
        pytest.param("a[0]", "goes into a list", id="index"),
        pytest.param("a[-1].b", "goes into a list", id="negative-index"),
        pytest.param("a[]", "goes into a list", id="iteration"),
        pytest.param("a-b", "no plain name", id="dash"),
        pytest.param("nvidia.com/gpu", "no plain name", id="slash"),
        pytest.param("a b", "no plain name", id="space"),
        pytest.param("a | b", "no plain name", id="jq"),
        pytest.param('a"b"', "a dot is missing", id="no-dot-before-a-quote"),
        pytest.param('["a"]b', "a dot is missing", id="no-dot-before-a-name"),
        pytest.param('["a', "no plain name", id="open-quote"),
        pytest.param('["\\udfff"]', "no Unicode text", id="half-a-surrogate-pair"),
    ],
)
def test_a_reference_that_cannot_be_read_says_why(source: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_ref(source)


# --- the same as jq, on generated sources and objects --------------------------------------------

KEYS = ("a", "b", "c", "x/y", "", "é", '"', "\0")
NAMES = ("a", "b", "c")

keys = st.sampled_from(KEYS)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "text"])
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)

spaces = st.sampled_from(["", "", "", " ", "\n", "\t ", "\r\n"])


def _quoted(key: str) -> str:
    return json.dumps(key)


steps = st.one_of(
    st.sampled_from(NAMES).map(lambda name: f".{name}"),
    keys.map(lambda key: f".{_quoted(key)}"),
    keys.map(lambda key: f"[{_quoted(key)}]"),
    keys.map(lambda key: f".[ {_quoted(key)} ]"),
    st.integers(0, 3).map(lambda index: f"[{index}]"),
    st.just("[]"),
    st.just(".[]"),
)


# One step of a walk, as it may be written.
written_steps = st.tuples(spaces, steps, spaces, st.sampled_from(["", "", "?"])).map("".join)
walks = st.builds(
    lambda begin, rest: begin + "".join(rest),
    st.sampled_from([". ", ".a", ".b", '."x/y"']),
    st.lists(written_steps, max_size=4),
)
terms = walks | st.sampled_from(["select(.)", "select ( . )"])


def pipes(term: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Pipes of unions of *term*."""
    unions = st.lists(term, min_size=1, max_size=3)
    union = st.builds(lambda space, parts: f"{space},".join(parts), spaces, unions)
    bar = st.builds("{}|{}".format, spaces, spaces)
    pipe = st.builds(
        lambda bar, parts: bar.join(parts), bar, st.lists(union, min_size=1, max_size=3)
    )
    return st.tuples(spaces, pipe, spaces).map("".join)


def enclosed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """*inner* in parentheses, sometimes with a step behind it."""
    return st.builds("({}){}".format, inner, st.just("") | steps)


# With parentheses to a depth of two.
sources = pipes(terms | enclosed(pipes(terms | enclosed(pipes(terms)))))


def _inserted(source: str, position: int, character: str) -> str:
    position %= len(source) + 1
    return source[:position] + character + source[position:]


spoilt_sources = st.builds(
    _inserted, sources, st.integers(0, 200), st.sampled_from('.ab"[]()?,| 01e\n#\\-:/')
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(source=sources | spoilt_sources, candidates=st.lists(documents, min_size=1, max_size=4))
@example(source=".a[].b?", candidates=[{"a": [{"b": 1}, 2]}])
@example(source="..a", candidates=[{}])
@example(source='["a"]', candidates=[{}])
def test_jq_finds_the_same_places_in_the_same_order(source: str, candidates: list[Any]) -> None:
    """Also: what jq would refuse is never taken as plain, with a meaning of our own."""
    query = parse_plain(source)
    if query is None:
        return

    program = jq.compile(f"[path({source})]")
    for document in candidates:
        located = query.locate(document)
        found = paths_or_error(program, document)
        if isinstance(found, str):
            assert located.mismatches or "Cannot iterate over null" in found
        else:
            assert located.paths == found


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(source=sources)
def test_what_the_grammar_describes_is_plain(source: str) -> None:
    """The comparison with jq would be worth little if most sources were left to jq."""
    visits = source.count(",") + source.count("|")
    assert parse_plain(source) is not None or visits >= 6


@settings(max_examples=100, deadline=None)
@given(source=st.text(alphabet='ab."[]/\\0- ', max_size=10))
@example(source='a["b/0"].b')
def test_a_reference_names_the_same_keys_as_the_path_in_jq(source: str) -> None:
    try:
        keys_read = parse_ref(source)
    except ValueError:
        return
    assert jq_paths(f".{source}", None) == (keys_read,)
