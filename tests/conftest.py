"""Options of the test run."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what is answered now into the golden cases; review the diff",
    )


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the collector need not go through it again and again."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Captured text may hold half a surrogate pair on purpose; reports cross a pipe as UTF-8."""
    report = yield
    report.sections = [
        (title, text.encode("utf-8", "backslashreplace").decode())
        for title, text in report.sections
    ]
    return report
