"""Reading YAML and JSON: text stays text, what is ambiguous is refused, nothing runs away."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from webhook.errors import ManifestError
from webhook.model.manifests import (
    MAX_BYTES,
    MAX_DEPTH,
    Manifest,
    dump_yaml,
    load_documents,
    load_file,
    yaml_reader,
    yaml_writer,
)


@pytest.fixture(params=["libyaml", "python"])
def either_yaml(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """libyaml is not there on every platform; PyYAML's own code must do the same."""
    if request.param == "python":
        monkeypatch.setattr(yaml_reader, "_LOADER", yaml.SafeLoader)
        monkeypatch.setattr(yaml_writer, "_DUMPER", yaml.SafeDumper)


def values(text: str | bytes) -> list[Any]:
    return [manifest.value for manifest in load_documents(text, "jobs.yaml")]


def same(left: object, right: object) -> bool:
    """Equal, and of the same types: True is not 1, and 1.0 is not 1."""
    return left == right and repr(left) == repr(right)


SCALARS = [
    pytest.param("no", "no", id="no"),
    pytest.param("No", "No", id="capital-no"),
    pytest.param("yes", "yes", id="yes"),
    pytest.param("on", "on", id="on"),
    pytest.param("off", "off", id="off"),
    pytest.param("y", "y", id="y"),
    pytest.param("n", "n", id="n"),
    pytest.param("true", True, id="true"),
    pytest.param("False", False, id="capital-false"),
    pytest.param("tRUE", "tRUE", id="odd-case"),
    pytest.param("", None, id="empty"),
    pytest.param("~", None, id="tilde"),
    pytest.param("null", None, id="null"),
    pytest.param("nULL", "nULL", id="odd-null"),
    pytest.param("8", 8, id="int"),
    pytest.param("+8", 8, id="plus"),
    pytest.param("-8", -8, id="minus"),
    pytest.param("0o17", 15, id="octal"),
    pytest.param("017", 15, id="octal-as-kubectl-reads-it"),
    pytest.param("0644", 420, id="file-mode"),
    pytest.param("-017", -15, id="negative-octal"),
    pytest.param("08", 8, id="no-octal-digit"),
    pytest.param("0", 0, id="zero"),
    pytest.param("0x1F", 31, id="hexadecimal"),
    pytest.param("0b11", "0b11", id="no-binary"),
    pytest.param("1_000", "1_000", id="underscore"),
    pytest.param("12:30", "12:30", id="time"),
    pytest.param("190:20:30", "190:20:30", id="sexagesimal"),
    pytest.param("2024-01-01", "2024-01-01", id="date"),
    pytest.param("18446744073709551617", 2**64 + 1, id="beyond-64-bits"),
    pytest.param("0.5", 0.5, id="float"),
    pytest.param("1.", 1.0, id="float-without-digits-after"),
    pytest.param(".5", 0.5, id="float-without-digits-before"),
    pytest.param("1e3", 1000.0, id="exponent"),
    pytest.param("129e6", 129e6, id="exponent-of-a-quantity"),
    pytest.param("1E", "1E", id="exa"),
    pytest.param("500m", "500m", id="milli"),
    pytest.param("1e400", "1e400", id="too-large-for-a-float"),
    pytest.param("1.2.3", "1.2.3", id="version"),
    pytest.param("=", "=", id="equals"),
    pytest.param("<<", "<<", id="merge-as-a-value"),
    pytest.param("'8'", "8", id="single-quoted"),
    pytest.param('"true"', "true", id="double-quoted"),
    pytest.param("'~'", "~", id="quoted-tilde"),
    pytest.param("''", "", id="quoted-empty"),
    pytest.param("|\n  8\n", "8\n", id="block"),
    pytest.param("!!str 8", "8", id="tag-str"),
    pytest.param("!!int '8'", 8, id="tag-int"),
    pytest.param("!!float 8", 8.0, id="tag-float"),
    pytest.param("!!bool 'true'", True, id="tag-bool"),
    pytest.param("!!null ''", None, id="tag-null"),
    pytest.param("! 'x'", "x", id="tag-non-specific"),
]


@pytest.mark.usefixtures("either_yaml")
@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_text_stays_text_and_numbers_are_those_of_kubectl(text: str, value: Any) -> None:
    assert same(values(f"value: {text}"), [{"value": value}])


@pytest.mark.usefixtures("either_yaml")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("1: a", {"1": "a"}, id="int-key"),
        pytest.param("017: a", {"15": "a"}, id="octal-key"),
        pytest.param("True: a", {"true": "a"}, id="boolean-key"),
        pytest.param("y: a\nno: b", {"y": "a", "no": "b"}, id="words-stay-words"),
        pytest.param("a: &k b\n*k : c", {"a": "b", "b": "c"}, id="alias-key"),
        pytest.param("? a\n? b", {"a": None, "b": None}, id="keys-without-values"),
        pytest.param("'<<': {a: 1}", {"<<": {"a": 1}}, id="quoted-merge-key"),
    ],
)
def test_keys_are_text(text: str, value: Any) -> None:
    assert same(values(text), [value])


@pytest.mark.usefixtures("either_yaml")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("{<<: *x, b: 3}", {"a": 1, "b": 3}, id="own-key-wins"),
        pytest.param("{<<: *x}", {"a": 1, "b": 2}, id="all-of-it"),
        pytest.param("{<<: [*x, {a: 9, c: 4}]}", {"a": 1, "b": 2, "c": 4}, id="first-wins"),
        pytest.param("{c: 3, <<: *x}", {"c": 3, "a": 1, "b": 2}, id="late-but-without-conflict"),
        pytest.param("{<<: {d: 5}}", {"d": 5}, id="without-an-alias"),
    ],
)
def test_a_merge_key_takes_in_mappings(text: str, value: Any) -> None:
    [document] = values(f"x: &x {{a: 1, b: 2}}\ny: {text}")

    assert same(document["y"], value)


def test_an_alias_is_a_copy() -> None:
    """A review edits objects in place: two places must not share one."""
    [document] = values("a: &x {b: [1]}\nc: *x")
    document["a"]["b"].append(2)

    assert document["c"] == {"b": [1]}


def test_documents_are_counted_without_the_empty_ones_and_know_their_line() -> None:
    text = "# nothing\n---\n\n---\na: 1\n---\n# a comment\n---\n~\n---\n\nb: 2\n...\n"

    assert load_documents(text, "jobs.yaml") == [
        Manifest("jobs.yaml", 0, 5, {"a": 1}),
        Manifest("jobs.yaml", 1, 12, {"b": 2}),
    ]


def test_a_document_is_named_by_file_and_index() -> None:
    assert [m.name for m in load_documents("a: 1\n---\nb: 2", "jobs.yaml")] == [
        "jobs.yaml#0",
        "jobs.yaml#1",
    ]


def test_a_list_becomes_its_items() -> None:
    text = """\
a: 1
---
apiVersion: v1
kind: List
items:
- b: 2
-
  c: 3
- kind: List
  items: [{d: 4}]
---
e: 5
"""

    assert load_documents(text, "jobs.yaml") == [
        Manifest("jobs.yaml", 0, 1, {"a": 1}),
        Manifest("jobs.yaml", 1, 6, {"b": 2}),
        Manifest("jobs.yaml", 2, 8, {"c": 3}),
        Manifest("jobs.yaml", 3, 9, {"d": 4}),
        Manifest("jobs.yaml", 4, 12, {"e": 5}),
    ]


def test_an_empty_list_is_no_document_and_a_list_without_items_is_one() -> None:
    assert values("kind: List\nitems: []") == []
    assert values("kind: List") == [{"kind": "List"}]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param('{"a": 1}', [(1, {"a": 1})], id="object"),
        pytest.param('\n [1, "no", null]', [(2, [1, "no", None])], id="list"),
        pytest.param('{"a": 1}{"b": 2}\n[3]', [(1, {"a": 1}), (1, {"b": 2}), (2, [3])], id="row"),
        pytest.param('{"a": 1}\n---\n{"b": 2}', [(1, {"a": 1}), (3, {"b": 2})], id="documents"),
        pytest.param("{a: no}", [(1, {"a": "no"})], id="flow-style-of-yaml"),
        pytest.param('{"a": 1,}', [(1, {"a": 1})], id="trailing-comma-is-yaml"),
        pytest.param('{\t"a":\t"b\\/c"}', [(1, {"a": "b/c"})], id="tabs-and-escapes"),
        pytest.param('{"a": "\\ud83d\\ude00"}', [(1, {"a": "😀"})], id="surrogate-pair"),
        pytest.param('{"a": 1' + "0" * 30 + "}", [(1, {"a": 10**30})], id="beyond-64-bits"),
        pytest.param('{"a": 1e400}', [(1, {"a": "1e400"})], id="too-large-for-a-float"),
        pytest.param('{"a": 010}', [(1, {"a": 8})], id="leading-zero-is-yaml"),
        pytest.param('{"kind": "List", "items": [{"a": 1}]}', [(1, {"a": 1})], id="list-kind"),
    ],
)  # fmt: skip
def test_json_is_read_as_json_else_as_yaml(text: str, want: list[tuple[int, Any]]) -> None:
    got = [(m.line, m.value) for m in load_documents(text, "jobs.json")]

    assert same(got, want)


@pytest.mark.usefixtures("either_yaml")
@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        pytest.param("a: 1\nb: 2\na: 3", 3, "key 'a' is there twice", id="duplicate-key"),
        pytest.param("1: a\n'1': b", 2, "key '1' is there twice", id="duplicate-after-conversion"),
        pytest.param('{\n"a": 1,\n"a": 2}', 3, "key 'a' is there twice", id="duplicate-in-json"),
        pytest.param("<<: {a: 1}\na: 2\na: 3", 3, "key 'a' is there twice", id="after-merge"),
        pytest.param("<<: {a: 1}\n<<: {b: 1}", 2, "key '<<' is there twice", id="two-merges"),
        pytest.param("a: 1\n<<: {a: 2}", 2, "'<<' repeats the key 'a' above it", id="late-merge"),
        pytest.param("<<: 5", 1, "'<<' takes a mapping", id="merge-of-a-number"),
        pytest.param("1.50: a", 1, "a key is no text; put it in quotes", id="float-key"),
        pytest.param("~: a", 1, "a key is no text", id="null-key"),
        pytest.param("? [1]\n: a", 1, "a key must be text", id="list-key"),
        pytest.param("a: .inf", 1, ".inf has no form in JSON", id="infinity"),
        pytest.param("a: -.INF", 1, "-.INF has no form in JSON", id="minus-infinity"),
        pytest.param("a: .NaN", 1, ".NaN has no form in JSON", id="nan"),
        pytest.param("a: " + "9" * 5000, 1, "is longer than 1024 characters", id="long-number"),
        pytest.param("a: 0x" + "f" * 5000, 1, "is longer than 1024", id="long-hexadecimal"),
        pytest.param('{"a": ' + "9" * 5000 + "}", 1, "is longer than 1024", id="long-in-json"),
        pytest.param("a: !!binary aGk=", 1, "tag '!!binary'", id="binary"),
        pytest.param("a: !!int x", 1, "tag '!!int' does not fit", id="wrong-tag"),
        pytest.param("a: !mine x", 1, "a tag that YAML does not define", id="own-tag"),
        pytest.param("a: !!python/object:os.system {}", 1, "a tag that YAML does not define", id="code"),
        pytest.param("a: *b", 1, "an alias has no anchor", id="unknown-alias"),
        pytest.param("a: &b 1\n---\nc: *b", 3, "an alias has no anchor", id="other-document"),
        pytest.param("a: &b\n  c: *b", 2, "an alias stands inside its own", id="recursive"),
        pytest.param("a:\n\tb: 1", 2, "a tab stands where YAML wants spaces", id="tab"),
        pytest.param("a: 'b\nc: d", 2, "is not YAML: while scanning", id="open-quote"),
        pytest.param("a: b: c", 1, "mapping values are not allowed", id="two-colons"),
        pytest.param('{"a" 1}', 1, "is not JSON: Expecting ':' delimiter", id="broken-json"),
        pytest.param('{"a": 1,\n"b": [}', 2, "is not", id="broken-json-further-down"),
        pytest.param('{"a": "\\ud800"}', 1, "half a surrogate pair", id="lone-surrogate-escape"),
        pytest.param("a: 1\nb: \x01", 2, "holds the character U+0001", id="control-character"),
        pytest.param("a: 1\n\ufeffb: 2", 2, "holds the character U+FEFF", id="late-bom"),
        pytest.param("a: \ud800", 1, "holds the character U+D800", id="lone-surrogate"),
        pytest.param("a: 1\nb: \0", 2, "holds a NUL byte", id="nul"),
    ],
)  # fmt: skip
def test_a_text_that_has_no_clear_meaning_is_refused(text: str, line: int, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_documents(text, "jobs.yaml")

    assert caught.value.line == line
    assert problem in caught.value.problem
    assert str(caught.value).startswith("jobs.yaml:")


@pytest.mark.usefixtures("either_yaml")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a: 1\npassword: *hunter2secret", 2, id="alias"),
        pytest.param("a: 1\npassword: &hunter2secret\n  b: *hunter2secret", 3, id="own-anchor"),
        pytest.param("a: 1\npassword: !hunter2secret", 2, id="tag"),
        pytest.param("a: 1\npassword: !!hunter2secret x", 2, id="standard-looking-tag"),
        pytest.param("a: 1\npassword: !<hunter2secret> [x]", 2, id="tag-of-a-list"),
        pytest.param("a: 1\npassword: !hunter2secret!x y", 2, id="handle"),
        pytest.param("%TAG !hunter2secret! x\n%TAG !hunter2secret! x\n---\na: 1", 2, id="twice"),
        pytest.param("a: 1\npassword: 'hunter2secret", 2, id="open-quote"),
        pytest.param('a: 1\npassword: "hunter2secret\\q"', 2, id="escape"),
        pytest.param("a: 1\npassword: @hunter2secret", 2, id="reserved-character"),
        pytest.param("a: 1\npassword: hunter2secret: x", 2, id="two-colons"),
        pytest.param("a: 1\npassword: [hunter2secret", 2, id="open-bracket"),
        pytest.param("a: 1\npassword: {hunter2secret]", 2, id="wrong-bracket"),
        pytest.param("a: 1\npassword:\n\thunter2secret", 3, id="tab"),
        pytest.param("a: 1\npassword: |hunter2secret", 2, id="block"),
        pytest.param("a: 1\npassword: !!int hunter2secret", 2, id="tag-that-does-not-fit"),
        pytest.param('{"a": 1,\n"password" hunter2secret "x"}', 2, id="json"),
        pytest.param('{"a": 1,\n"password": "hunter2secret\\q"}', 2, id="escape-in-json"),
    ],
)  # fmt: skip
def test_an_error_says_where_and_never_quotes_what_may_be_a_secret(text: str, line: int) -> None:
    with pytest.raises(ManifestError) as caught:
        load_documents(text, "jobs.yaml")

    assert "hunter2" not in str(caught.value)
    assert caught.value.line is not None
    assert caught.value.line >= line


@pytest.mark.parametrize(
    ("word", "want"),
    [(".nan", "NaN"), (".NaN", "NaN"), (".inf", "+Inf"), ("+.Inf", "+Inf"), ("-.INF", "-Inf")],
)
def test_in_a_scenario_what_is_no_number_is_the_text_that_prometheus_writes(
    word: str, want: str
) -> None:
    text = f"values: [{word}]\nkind: GpuScenario"

    assert load_documents(text, "f")[0].value["values"] == [want]
    with pytest.raises(ManifestError, match="has no form in JSON") as caught:
        load_documents(f"{text}\n---\na: {word}", "f")
    assert caught.value.line == 4


@pytest.mark.parametrize(
    "number",
    [
        pytest.param("123456789" * 200, id="yaml"),
        pytest.param('{"a": ' + "123456789" * 200 + "}", id="json"),
    ],
)
def test_digits_may_be_a_secret_too(number: str) -> None:
    with pytest.raises(ManifestError, match="a number is longer than 1024") as caught:
        load_documents(number, "jobs.yaml")

    assert "123456" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "line", "problem"),
    [
        pytest.param(b"a: 1\nb: \xff", 2, "is not UTF-8", id="broken-utf-8"),
        pytest.param("a: 1".encode("utf-16"), None, "is UTF-16 or UTF-32", id="utf-16"),
        pytest.param("a: 1".encode("utf-16-le"), None, "is UTF-16 or UTF-32", id="no-bom"),
        pytest.param("a: 1".encode("utf-32"), None, "is UTF-16 or UTF-32", id="utf-32"),
    ],
)
def test_bytes_must_be_utf_8(data: bytes, line: int | None, problem: str) -> None:
    with pytest.raises(ManifestError, match=problem) as caught:
        load_documents(data, "jobs.yaml")

    assert caught.value.line == line


def test_a_byte_order_mark_at_the_start_is_accepted() -> None:
    assert values("\ufeffa: é".encode()) == [{"a": "é"}]


LAUGHS = "a0: &a0 [lol]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(LAUGHS, "aliases expand to more than 200,000 values", id="billion-laughs"),
        pytest.param(
            "a: &a " + "x" * 1_000_000 + "\nb: [" + ", ".join(["*a"] * 1000) + "]",
            "aliases expand to more than 200,000 values",
            id="long-text-a-thousand-times",
        ),
        pytest.param("[" * 200_000, "nested deeper than 500 levels", id="brackets"),
        pytest.param('{"a":' * 200_000, "nested deeper than 500 levels", id="json"),
        pytest.param("- " * 200_000, "nested deeper than 500 levels", id="dashes"),
        pytest.param(
            "".join(" " * i + "a:\n" for i in range(1000)),
            "nested deeper than 500 levels",
            id="indents",
        ),
        pytest.param("? " * 200_000, "a key must be text", id="keys-of-keys"),
        pytest.param(
            "".join(f"%TAG !a{i}! x\n" for i in range(200_000)) + "---\n",
            "more than 100 %TAG directives",
            id="directives",
        ),
        pytest.param("a" * (MAX_BYTES + 1), "is larger than 16 MiB", id="size"),
    ],
)
def test_a_hostile_text_is_refused_at_once(text: str, problem: str) -> None:
    started = time.perf_counter()

    with pytest.raises(ManifestError, match=problem):
        load_documents(text, "jobs.yaml")

    # It takes less than half a second; without the limit it takes minutes, or the process.
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("open_", "close", "prefix"),
    [
        pytest.param("[", "]", "", id="json-lists"),
        pytest.param('{"a":', "}", "", id="json-objects"),
        pytest.param("[", "]", "--- ", id="yaml-lists"),
        pytest.param('{"a": ', "}", "--- ", id="yaml-mappings"),
    ],
)
def test_the_deepest_text_is_read_and_written(open_: str, close: str, prefix: str) -> None:
    """Both readers count alike, and neither needs the stack for it."""
    text = prefix + open_ * MAX_DEPTH + "1" * (open_ != "[") + close * MAX_DEPTH
    deeper = prefix + open_ * (MAX_DEPTH + 1) + "1" * (open_ != "[") + close * (MAX_DEPTH + 1)

    [value] = values(text)

    assert values(dump_yaml([value])) == [value]
    with pytest.raises(ManifestError, match="nested deeper"):
        values(deeper)


def test_an_alias_does_not_reach_deeper_than_allowed() -> None:
    lists = "[" * 300 + "]" * 300

    with pytest.raises(ManifestError, match="nested deeper"):
        values(f"a: &a {lists}\nb: " + "[" * 300 + "*a" + "]" * 300)


@pytest.mark.slow
def test_a_row_of_many_json_values_is_read_in_one_go() -> None:
    started = time.perf_counter()

    assert len(values("{}\n" * 100_000)) == 100_000

    # Less than a second; counting lines anew for each takes minutes.
    assert time.perf_counter() - started < 10


def test_a_file_is_read_and_named_as_given(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_bytes(b"a: 1\r\nb: no\r\n")

    assert load_file(path) == [Manifest(str(path), 0, 1, {"a": 1, "b": "no"})]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param("absent.yaml", "cannot be read: No such file or directory", id="absent"),
        pytest.param(".", "cannot be read: Is a directory", id="directory"),
        pytest.param("a\0b", "cannot be read: embedded null byte", id="nul-in-the-name"),
        pytest.param("/dev/zero", "is larger than 16 MiB", id="endless"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    path: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ManifestError, match=problem) as caught:
        load_file(path)

    assert caught.value.source == path


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        [
            *("no", "on", "y", "N", "~", "null", "0o17", "017", "1_000", "12:30", "1e3", "0x1F"),
            *("<<", "=", "2024-01-01", "- a", "a: b", "a #b", "#", "'", '"', "|", "!x", "&x"),
            *("*x", "%", "@", ".", "-", "---", "...", "?", ":", "a:", "1.", ".5", "500m", "1Gi"),
            *("nginx:1.25", "é", "a\n", "\na", " a\nb", "a\n\n", "a\r\nb", "a \nb", "\t", "\x85"),
            *("\u2028", "\ufeff", "---\na", "...\n", "# a\nb"),
        ]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=4))
def test_written_yaml_reads_back_by_both_versions(value: dict[str, Any]) -> None:
    text = dump_yaml([value])

    assert same(values(text), [value])
    assert same(yaml.safe_load(text), value)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(), st.text(), min_size=1, max_size=3), max_size=3))
def test_written_documents_stay_apart(documents: list[dict[str, Any]]) -> None:
    assert values(dump_yaml(documents)) == documents


@pytest.mark.slow
@settings(deadline=None)
@given(json_values.filter(lambda value: isinstance(value, dict | list)))
def test_json_is_read_as_the_standard_library_reads_it(value: Any) -> None:
    assume(not (isinstance(value, dict) and value.get("kind") == "List"))
    text = json.dumps(value)

    assert same(values(text), [json.loads(text)])


@settings(deadline=None)
@given(st.text() | st.text("abc:-?[]{},&*!|>'\"%@#~<\n\t 01.\\"))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    try:
        load_documents(text, "jobs.yaml")
    except ManifestError as e:
        assert e.source == "jobs.yaml"  # noqa: PT017 - both outcomes are right


@pytest.mark.usefixtures("either_yaml")
def test_written_yaml_is_as_people_write_it() -> None:
    document = {
        "kind": "Job",
        "spec": {"image": "nginx:1.25", "cpu": "500m", "script": "set -e\nrun\n"},
        "args": ["no", ""],
        "labels": {},
    }

    assert dump_yaml([document, {"a": None}]) == (
        "kind: Job\n"
        "spec:\n"
        "  image: nginx:1.25\n"
        "  cpu: 500m\n"
        "  script: |\n"
        "    set -e\n"
        "    run\n"
        "args:\n"
        "- 'no'\n"
        "- ''\n"
        "labels: {}\n"
        "---\n"
        "a: null\n"
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, b"a", {1: "a"}, {"a"}])
def test_what_json_cannot_hold_is_not_written(value: object) -> None:
    with pytest.raises(TypeError, match="has no form in JSON"):
        dump_yaml([{"a": value}])
