"""What others wrote stays text on a terminal, and the same data in JSON and YAML."""

from __future__ import annotations

import json

import pytest

from webhook.model.manifests import dump_yaml, load_documents
from webhook.model.printable import printable, printable_lines

HOSTILE = (
    *(chr(code) for code in range(0x20) if chr(code) not in "\t\n"),
    *(chr(code) for code in range(0x7F, 0xA0)),
    *"\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e",
    *"\u2060\u2066\u2067\u2068\u2069\ufeff\U000e0001\U000e0041",
)


@pytest.mark.parametrize("character", HOSTILE, ids=ascii)
def test_what_moves_a_cursor_or_turns_text_is_escaped_as_in_json(character: str) -> None:
    shown = printable(f"a{character}b")

    assert shown.isascii()
    assert shown.isprintable()
    assert json.loads(f'"{shown}"') == f"a{character}b"


@pytest.mark.parametrize("text", ["", "plain", "Größe ≤ 8, 日本語 🚀", "two\nlines\tand a tab"])
def test_everything_else_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize("character", HOSTILE, ids=ascii)
def test_yaml_is_the_same_data_without_them(character: str) -> None:
    value = {f"k{character}": [f"{character} a", f"b\n{character}\n"]}

    text = dump_yaml([value])

    assert printable(text) == text
    (document,) = load_documents(text.encode(), "x.yaml")
    assert document.value == value


def test_a_name_of_a_file_that_is_no_utf_8_can_be_written() -> None:
    name = b"a\xff.yaml".decode(errors="surrogateescape")

    assert printable(name) == "a\\udcff.yaml"
    assert dump_yaml([name]) == "'a\ufffd.yaml'\n"


def test_further_lines_are_set_in_so_that_none_looks_like_a_message_of_its_own() -> None:
    assert printable_lines("a\ngatewright: all is well") == "a\n  gatewright: all is well"
