"""Values and texts that were right once, with a few things changed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import strategies as st

from webhook.model.pointer import Path, lookup

# What stands where something else was expected. All of it is JSON.
ODD: Sequence[Any] = (
    *(None, True, False, 0, -1, 1, 0.5, -0.0, 2**31, 2**63, 2**64 - 1, 1.7976931348623157e308),
    *("", " ", "x", "1", "0.5", "1Gi", "-1", "1e999999999", "٣", "\0", "\u202e", "a\nb", "é" * 90),
    *("~1", "a/b", "..", "*", "(a+)+$", ".[", "{{ x }}", "true", "null", "2026-12-01T00:00:00Z"),
    *([], [None], [[]], [{}], ["a", "a"], [1, "1"], {}, {"": 1}, {"name": None}, {"a": {"b": []}}),
    *([{"name": "main"}, {"name": "main"}], {"main": {"options": [1]}}, {"canEdit": "no"}),
)

Values = st.SearchStrategy[Any]


def paths_in(value: Any, path: Path = ()) -> list[Path]:
    """Where something stands in *value*, itself left out."""
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    found: list[Path] = []
    for token, child in children:
        found += [(*path, token), *paths_in(child, (*path, token))]
    return found


@st.composite
def mutated(draw: st.DrawFn, originals: Sequence[Any], *, below: Path = (), most: int = 3) -> Any:
    """
    One of *originals*, copied, with one to *most* edits below the path *below*.

    An edit puts something odd in a value's place, or a value from somewhere else; removes it; or
    renames its key; or says a list's item twice.
    """
    value = orjson.loads(orjson.dumps(draw(st.sampled_from(originals))))
    for _ in range(draw(st.integers(1, most))):
        places = [(*below, *path) for path in paths_in(lookup(value, below))]
        if not places:
            break
        *around, token = draw(st.sampled_from(places))
        node = lookup(value, tuple(around))
        match draw(st.sampled_from(["odd", "odd", "moved", "removed", "renamed"])):
            case "odd":
                node[token] = copy.deepcopy(draw(st.sampled_from(ODD)))
            case "moved":
                node[token] = copy.deepcopy(lookup(value, draw(st.sampled_from(places))))
            case "removed":
                del node[token]
            case _ if isinstance(node, dict):
                node[draw(KEYS)] = node.pop(token)
            case _:
                node.append(copy.deepcopy(node[token]))
    return value


KEYS = st.sampled_from(
    ["", "a", "name", "Name", "spec", "x/y", "m~n", "~1", "0", "-", "é", "__class__", "a" * 64]
)


@st.composite
def damaged(draw: st.DrawFn, originals: Sequence[bytes]) -> bytes:
    """One of *originals* with one to four stretches cut out, overwritten, doubled or put in."""
    data = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        match draw(st.sampled_from(["cut", "overwritten", "doubled", "put in", "ended"])):
            case "cut":
                data = data[:start] + data[end:]
            case "overwritten":
                data = data[:start] + draw(st.binary(max_size=6)) + data[end:]
            case "doubled":
                data = data[:end] + data[start:]
            case "put in":
                data = data[:start] + draw(SNIPPETS) + data[start:]
            case _:
                data = data[:start]
    return data


SNIPPETS = st.sampled_from(
    [
        *(
            b'"',
            b"\\",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"null",
            b"\xff",
            b"\0",
            b"\xed\xa0\x80",
        ),
        *(
            b'\\ud800"',
            b"1e999",
            b"-0",
            b"9" * 30,
            b"NaN",
            b"\n---\n",
            b"&a ",
            b"*a",
            b"<<: ",
            b"- ",
        ),
        *(
            b"\t",
            b"!!python/object:os.system ",
            b"? ",
            b"|\n",
            b"# ",
            b"%YAML 1.1\n",
            b"\xef\xbb\xbf",
        ),
    ]
)
