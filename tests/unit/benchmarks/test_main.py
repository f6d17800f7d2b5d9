"""All parts, chosen by their letters."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.__main__ import PARTS, Part, build_parser, main, measure
from benchmarks.command import LETTERS, provide_control_plane, run_alone
from benchmarks.gpu_round import Result, Round, promises
from benchmarks.report import Section, Target


def test_an_unknown_part_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "A", "X"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert "no such part: X; there are A, B, C, D, E, F, G" in capsys.readouterr().err


def test_each_part_has_a_letter() -> None:
    assert "".join(PARTS) == "ABCDEFG"


def test_help_says_what_takes_a_control_plane_and_what_does_not() -> None:
    told = " ".join(build_parser().format_help().split())

    assert "C and G need a control plane, which is built once" in told
    assert "without: A B D E F." in told
    assert "The exit code is 0 whether promises hold or not: see docs/sizing.md." in told


@pytest.mark.parametrize(
    ("letters", "built"),
    [
        pytest.param("ABDEF", 0, id="nothing-needs-it"),
        pytest.param("C", 1, id="creates"),
        pytest.param("G", 1, id="large-cluster"),
        pytest.param("ABCDEFG", 1, id="all"),
    ],
)
def test_a_control_plane_is_built_where_a_part_needs_it(letters: str, built: int) -> None:
    builds: list[str] = []

    provide_control_plane(list(letters), lambda: builds.append("control plane"))

    assert len(builds) == built


@pytest.mark.parametrize(
    ("quick", "promised"),
    [pytest.param(False, 1, id="full"), pytest.param(True, 0, id="quick")],
)
def test_what_is_measured_quickly_promises_nothing(*, quick: bool, promised: int) -> None:
    """Its figures are shown all the same."""

    def start() -> Section:
        return Section([[("start", "s"), ("idle", "1")]], {"start_s": 1.0}, [Target("s", 1.0, 2.0)])

    sections = measure(["E"], quick=quick, parts={"E": Part("Start", start, start)})

    assert sections["E"].results == {"start_s": 1.0}
    assert len(sections["E"].targets) == promised


@pytest.fixture
def handlers() -> Iterator[None]:
    """Those of signals are as before when the test ends."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(("module", "letter"), LETTERS.items(), ids=LETTERS)
def test_a_part_by_itself_has_the_letter_that_it_has_among_all(
    module: str,
    letter: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "one.json"
    monkeypatch.setattr(sys, "argv", [module, "--json", str(file)])

    run_alone(module, "", lambda: Section([], {}, [Target("start", 1.0, 2.0)]))

    assert [target["part"] for target in json.loads(file.read_text())["targets"]] == [letter]
    assert f"\n{letter}  start " in capsys.readouterr().out


@pytest.mark.parametrize(
    "module",
    [
        "benchmarks.__main__",
        *[f"benchmarks.{module}" for module in LETTERS],
        "benchmarks.noop",
        "tests.load.overload",
    ],
)
def test_each_command_says_how_it_is_called(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, "--help"])

    with pytest.raises(SystemExit) as ended:
        import_module(module).main()

    assert ended.value.code == 0
    usage = capsys.readouterr().out.partition("\n")[0]
    assert usage.startswith(f"usage: python -m {module.removesuffix('.__main__')} ")
    assert "[--json]" not in usage


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

    promised = promises(Result(10_000, 1.0, 80.0, peak_mib, rounds))

    assert [target.met for target in promised] == kept
