"""The table and the file of the benchmarks, and what counts as a promise kept."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.report import (
    NO_FAILURE,
    Section,
    Target,
    show_section,
    show_targets,
    target_rows,
    to_json,
)
from benchmarks.table import write_json


@pytest.mark.parametrize(
    ("measured", "limit", "strict", "met"),
    [
        pytest.param(2.9, 3.0, False, True, id="less"),
        pytest.param(3.0, 3.0, False, True, id="as-much"),
        pytest.param(3.1, 3.0, False, False, id="more"),
        pytest.param(2.9, 3.0, True, True, id="strict-less"),
        pytest.param(3.0, 3.0, True, False, id="strict-as-much"),
        pytest.param(math.nan, 3.0, False, False, id="no-number"),
        pytest.param(math.nan, 3.0, True, False, id="strict-no-number"),
    ],
)
def test_a_promise_holds_up_to_its_limit(
    measured: float, limit: float, strict: bool, met: bool
) -> None:
    assert Target("start", measured, limit, "s", strict).met is met


def test_the_table_says_what_holds_and_what_does_not() -> None:
    kept, broken = Target("start", 2.5, 3.0, "s"), Target("less", 5.0, 5.0, "ms", strict=True)

    assert target_rows({"E": [kept], "C": [broken]}) == [
        ("promised", "measured", "limit", "unit", "holds"),
        ("E  start", "2.50", "<= 3.00", "s", "yes"),
        ("C  less", "5.00", "< 5.00", "ms", "NO"),
    ]


def test_the_file_has_the_results_of_all_parts_and_each_promise(tmp_path: Path) -> None:
    sections = {
        "A": Section([], {"engine": [{"total_us": 300.0}]}),
        "E": Section([], {"endurance": {"start_s": 4.0}}, [Target("start", 4.0, 3.0, "s")]),
    }
    file = tmp_path / "last.json"

    write_json(str(file), {"machine": "2 x one", **to_json(sections)})

    assert json.loads(file.read_text()) == {
        "machine": "2 x one",
        "engine": [{"total_us": 300.0}],
        "endurance": {"start_s": 4.0},
        "targets": [
            {
                "part": "E",
                "what": "start",
                "measured": 4.0,
                "limit": 3.0,
                "unit": "s",
                "strict": False,
                "met": False,
            }
        ],
    }


def test_a_part_is_printed_as_tables_with_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("memory", "MiB"), ("idle", "84.2"), ("after 100 reviews", "85")]

    show_section(Section([rows], {}, notes=["as it comes"]))

    assert capsys.readouterr().out == (
        "memory              MiB\n"
        "idle               84.2\n"
        "after 100 reviews    85\n"
        "\nas it comes\n\n"
    )


def test_below_the_promises_stands_what_a_no_means(capsys: pytest.CaptureFixture[str]) -> None:
    show_targets({"E": [Target("start", 4.0, 3.0, "s")]})

    assert capsys.readouterr().out.endswith(f" NO\n\n{NO_FAILURE}\n\n")


def test_nothing_is_printed_where_nothing_was_promised(capsys: pytest.CaptureFixture[str]) -> None:
    show_targets({"A": []})

    assert capsys.readouterr().out == ""
