"""What the rounds of both servers come to, and what keeps its promise."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import orjson
import pytest

from benchmarks.mutate import JOB, Sent, load_result, promises, send
from benchmarks.report import Section, to_json
from benchmarks.server import cpu_time_s
from benchmarks.table import write_json
from tests.unit.benchmarks.tls_server import answering, http_answer

ANSWER = orjson.dumps({"response": {"allowed": False}})


def sent(*cpu_s: float) -> list[Sent]:
    """Rounds of ten requests."""
    return [Sent([0.002] * 10, 0.02, each, ANSWER) for each in cpu_s]


@pytest.mark.parametrize(
    ("ours_s", "floors_s", "ratio", "kept"),
    [
        pytest.param((0.05, 0.04), (0.01, 0.02), 4.0, True, id="best-rounds-at-the-limit"),
        pytest.param((0.041,), (0.01,), 4.1, False, id="more"),
        pytest.param((0.04,), (0.0,), math.nan, False, id="floor-shorter-than-a-tick"),
        pytest.param((math.nan,), (math.nan,), math.nan, False, id="not-measured"),
    ],
)
def test_what_was_not_measured_keeps_no_promise(
    ours_s: tuple[float, ...], floors_s: tuple[float, ...], ratio: float, kept: bool
) -> None:
    result = load_result(JOB, 8, sent(*ours_s), sent(*floors_s))

    assert result.ratio == pytest.approx(ratio, nan_ok=True)
    assert [target.met for target in promises([result], [])] == [kept]


def test_what_was_not_measured_is_null_in_the_file(tmp_path: Path) -> None:
    result = load_result(JOB, 8, sent(math.nan), sent(math.nan))
    section = Section([], {"mutate": [asdict(result)]}, promises([result], []))
    file = tmp_path / "last.json"

    write_json(str(file), to_json({"B": section}))

    written = json.loads(file.read_text(), parse_constant=lambda text: f"no JSON: {text}")
    assert {name: written["mutate"][0][name] for name in ("cpu_ms", "floor_ms", "ratio")} == {
        "cpu_ms": None,
        "floor_ms": None,
        "ratio": None,
    }
    assert (written["targets"][0]["measured"], written["targets"][0]["met"]) == (None, False)


def test_the_time_of_a_process_that_is_not_in_proc_is_no_number() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    assert math.isnan(cpu_time_s(ended.pid))


def test_each_request_is_answered_and_timed(tmp_path: Path) -> None:
    with answering(tmp_path, [http_answer(ANSWER)] * 10) as server:
        found = send(server, b"{}", requests=10, connections=3)

    assert len(found.durations_s) == 10
    assert min(*found.durations_s, found.took_s) > 0
    assert found.answer == ANSWER


@pytest.mark.parametrize(
    ("later", "told"),
    [
        pytest.param([], "/mutate did not answer: RemoteDisconnected", id="hung-up"),
        pytest.param([b"SSH-2.0\r\n"], "/mutate did not answer: BadStatusLine", id="no-http"),
        pytest.param(
            [http_answer(b"\xff", "503 Busy")], "/mutate answered 503: \ufffd", id="refused"
        ),
    ],
)
@pytest.mark.parametrize("connections", [1, 3])
def test_figures_of_what_was_not_answered_are_none(
    tmp_path: Path, later: list[bytes], told: str, connections: int
) -> None:
    """Else what was answered before would be divided as if all had been."""
    with (
        answering(tmp_path, [http_answer(ANSWER), *later]) as server,
        pytest.raises(SystemExit) as ended,
    ):
        send(server, b"{}", requests=50, connections=connections)

    assert str(ended.value.code).startswith(told)


def test_who_cannot_connect_is_told(tmp_path: Path) -> None:
    with answering(tmp_path, []) as server:
        pass

    with pytest.raises(SystemExit) as ended:
        send(server, b"{}", requests=50, connections=3)

    assert str(ended.value.code).startswith("cannot connect: ")
