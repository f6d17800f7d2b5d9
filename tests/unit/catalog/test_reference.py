"""docs/reference is what the catalogue says."""

from __future__ import annotations

import re

import pytest

from tests.reference import DIRECTORY, FILES, SECTIONS, pages, section_of
from tests.unit.catalog.policies import TYPES
from webhook.catalog import native_rows, native_rows_of

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_catalogue_says(name: str) -> None:
    text = (DIRECTORY / name).read_text()

    assert text == PAGES[name], "run python -m tests.reference and look at the diff"


def test_there_is_no_other_page() -> None:
    assert {path.name for path in DIRECTORY.iterdir()} == set(PAGES)
    assert set(FILES) == set(TYPES)


@pytest.mark.parametrize("workload_type", TYPES)
def test_a_page_has_every_field_and_attribute_of_its_type(workload_type: str) -> None:
    shown = re.findall(r"^\| \[?`([^`]+)`", PAGES[FILES[workload_type]], re.MULTILINE)
    rows = native_rows_of(workload_type)

    assert set(rows) <= set(shown)
    assert {name for row in rows.values() for name in row.get("attributes", ())} <= set(shown)
    assert [path for path in native_rows() if path not in rows and path in shown] == []


def test_every_section_has_a_title() -> None:
    assert {section_of(path) for path in native_rows()} == set(SECTIONS)


@pytest.mark.parametrize("rule", ["canAdd", "locked", "defaultFrom", "step", "pattern"])
def test_the_page_of_rules_explains_each_rule(rule: str) -> None:
    assert f"| `{rule}` |" in PAGES["rules.md"]
