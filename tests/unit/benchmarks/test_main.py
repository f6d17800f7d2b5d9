"""All parts, chosen by their letters."""

from __future__ import annotations

import sys

import pytest

from benchmarks.__main__ import PARTS, gpu_promises, main
from benchmarks.gpu_round import Result, Round


def test_an_unknown_part_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "A", "X"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert "no such part: X; there are A, B, C, D, E, F" in capsys.readouterr().err


def test_each_part_has_a_letter() -> None:
    assert "".join(PARTS) == "ABCDEF"


@pytest.mark.parametrize(
    ("cpu_s", "peak_mib", "queries", "kept"),
    [
        pytest.param(10.0, 300.0, 4, [True] * 3, id="at-limits"),
        pytest.param(10.1, 300.0, 4, [False, True, True], id="slow"),
        pytest.param(10.0, 300.1, 4, [True, False, True], id="large"),
        pytest.param(10.0, 300.0, 5, [True, True, False], id="many-queries"),
    ],
)
def test_the_worst_round_counts(
    cpu_s: float, peak_mib: float, queries: int, kept: list[bool]
) -> None:
    rounds = (Round("quiet", 1.0, 1.0, 1, {}), Round("busy", cpu_s, 1.0, queries, {}))

    promised = gpu_promises(Result(10_000, 1.0, 80.0, peak_mib, rounds))

    assert [target.met for target in promised] == kept
