"""A gate that is slow keeps no promise."""

from __future__ import annotations

import pytest

from benchmarks.api_server import CreateResult, promises
from benchmarks.lanes import CEL, GATE, PATHS, Lane


def result(kind: str, lane: Lane, added_ms: float, state: str = "clean") -> CreateResult:
    return CreateResult(f"{kind}, {state}", lane.name, 201, 5.0, 6.0, added_ms)


@pytest.mark.parametrize(
    ("clean_ms", "refused_ms", "kept"),
    [
        pytest.param(4.9, 1.0, [True, True], id="quick"),
        pytest.param(5.0, 1.0, [False, True], id="as-slow-as-cel"),
        pytest.param(4.9, 1.1, [True, False], id="slow-to-refuse"),
    ],
)
def test_a_slow_gate_keeps_no_promise(clean_ms: float, refused_ms: float, kept: list[bool]) -> None:
    results = [
        *[result(kind, GATE, clean_ms) for kind in PATHS],
        *[result(kind, CEL, 5.0) for kind in PATHS],
        *[result(kind, GATE, refused_ms, "violating") for kind in PATHS],
    ]

    met = {target.what.partition(": ")[0]: target.met for target in promises(results)}

    assert met == {
        "PyTorchJob, clean": kept[0],
        "Pod, clean": kept[0],
        "PyTorchJob, refused": kept[1],
        "Pod, refused": kept[1],
    }
