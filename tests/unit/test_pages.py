"""What single pages of docs/ promise to be true."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.unit.test_docs import ROOT, read_docs, texts_of_package

_SPAN = re.compile(r"`([^`]+)`")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


# --- troubleshooting ---


def rows_below(head: str, text: str) -> Iterator[str]:
    """The first cells of all tables of *text* whose first column is *head*."""
    for table in re.findall(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE):
        for row in table.splitlines():
            yield row.split(" | ")[0].removeprefix("| ")


def quoted() -> list[str]:
    text = read_docs("troubleshooting.md")
    spans = [span for cell in rows_below("Gatewright says", text) for span in _SPAN.findall(cell)]
    return [part for span in spans for part in span.split("…") if part.strip()]


def texts_of_chart() -> Iterator[str]:
    for path in (ROOT / "charts" / "gatewright" / "templates").rglob("*"):
        if path.is_file():
            yield path.read_text()


@pytest.mark.slow
def test_what_gatewright_is_quoted_with_it_says() -> None:
    said = "\n".join([*texts_of_package(), *texts_of_chart()])

    assert len(quoted()) > 40
    assert [part for part in quoted() if part not in said] == []


# --- threats ---


@pytest.mark.parametrize(("file", "name"), _TEST.findall(read_docs("threats.md")))
def test_what_is_said_to_show_it_is_a_test(file: str, name: str) -> None:
    assert re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


# --- all of them ---


def test_the_readme_leads_to_each_page() -> None:
    text = (ROOT / "README.md").read_text()
    pages = sorted([path.name for path in (ROOT / "docs").glob("*.md")])

    assert [name for name in pages if f"(docs/{name})" not in text] == []
