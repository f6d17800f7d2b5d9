"""A server that is slow or large on a large cluster keeps no promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.cluster_store import Result, promises, rows

AT_LIMITS = Result(500, 40, 5000, 10.0, 9.0, 250.0, 250.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        pytest.param({}, [True] * 3, id="at-limits"),
        pytest.param({"ready_s": 10.1}, [False, True, True], id="slow-start"),
        pytest.param({"ready_mib": 251.0}, [True, False, True], id="large"),
        pytest.param({"settled_mib": 251.0}, [True, False, True], id="large-later"),
        pytest.param({"change_s": 1.1}, [True, True, False], id="slow-change"),
        pytest.param({"oldest_s": 1.1}, [True, True, False], id="slow-change-of-the-oldest"),
        pytest.param({"label_s": 1.1}, [True, True, False], id="slow-move"),
    ],
)
def test_the_worst_counts(changed: dict[str, Any], kept: list[bool]) -> None:
    assert [target.met for target in promises(replace(AT_LIMITS, **changed))] == kept


def test_the_table_says_how_large_the_cluster_is() -> None:
    assert rows(AT_LIMITS)[0][0] == "500 policies, 40 mappings, 5000 namespaces"
