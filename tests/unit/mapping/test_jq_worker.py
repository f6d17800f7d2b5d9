"""The worker process by itself: its protocol, and what it has given up."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from webhook.mapping import jq_child, jq_worker
from webhook.mapping.jq_worker import (
    ANSWER,
    COMPILE,
    COMPILED,
    COMPILING,
    EVALUATE,
    FAILED,
    NOTHING,
    OUT_OF_MEMORY_EXIT,
    READY,
    REFUSED,
    REQUEST,
    RESULT,
    TOO_LONG,
    Programs,
)

Frame = tuple[bytes, bytes]


class Process:
    """A running worker, seen through its pipes."""

    def __init__(
        self,
        *,
        memory_mib: int = 512,
        compile_ms: int = 5000,
        evaluate_ms: int = 5000,
        answer_max_bytes: int = 1 << 20,
    ) -> None:
        self.evaluate_ms = evaluate_ms
        limits = (memory_mib << 20, compile_ms, answer_max_bytes)
        self.popen = subprocess.Popen(
            [sys.executable, "-I", jq_worker.__file__, *map(str, limits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
        )
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.requests, self.answers = self.popen.stdin, self.popen.stdout
        self.first = self.frame()

    def frame(self) -> Frame | None:
        """The next frame, or None at the end of the answers."""
        header = self.answers.read(ANSWER.size)
        if len(header) < ANSWER.size:
            return None
        kind, length = ANSWER.unpack(header)
        return kind, self.answers.read(length)

    def send(self, program: str, document: str = "null", task: bytes = EVALUATE) -> None:
        texts = program.encode(), document.encode()
        header = REQUEST.pack(task, self.evaluate_ms, *map(len, texts))
        self.requests.write(header + b"".join(texts))
        self.requests.flush()

    def ask(self, program: str, document: str = "null", task: bytes = EVALUATE) -> Frame | None:
        """The last frame of the answer, or None if the process died."""
        self.send(program, document, task)
        while (frame := self.frame()) is not None and frame[0] in (COMPILING, COMPILED):
            pass
        return frame

    def end(self) -> int:
        self.requests.close()
        code = self.popen.wait(timeout=10)
        self.answers.close()
        assert self.popen.stderr is not None
        self.popen.stderr.close()
        return code


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start_one(**limits: int) -> Process:
        started.append(Process(**limits))
        return started[-1]

    yield start_one
    for process in started:
        process.popen.kill()
        process.end()


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    """For requests that it survives."""
    shared = Process()
    yield shared
    shared.popen.kill()
    shared.end()


def result(value: object) -> Frame:
    return RESULT, json.dumps(value, separators=(",", ":")).encode()


def test_it_says_when_it_is_ready(start: Callable[..., Process]) -> None:
    assert start().first == (READY, b"")


def test_it_ends_when_the_other_side_closes(start: Callable[..., Process]) -> None:
    """So no child outlives a server that was killed."""
    assert start().end() == 0


def test_half_a_request_is_no_request(start: Callable[..., Process]) -> None:
    process = start()
    process.requests.write(REQUEST.pack(EVALUATE, 100, 1, 4)[:5])

    assert process.end() == 0


def test_a_request_may_arrive_in_pieces(start: Callable[..., Process]) -> None:
    process = start()
    message = REQUEST.pack(EVALUATE, 5000, 2, 7) + b".a" + b'{"a":1}'
    for index in range(len(message)):
        process.requests.write(message[index : index + 1])
        process.requests.flush()

    assert [process.frame() for _ in range(3)] == [(COMPILING, b""), (COMPILED, b""), result(1)]


def test_a_program_is_compiled_once(start: Callable[..., Process]) -> None:
    process = start()
    process.ask(".a")

    process.send(".a", '{"a":2}')

    assert process.frame() == result(2)


def test_a_program_that_is_only_compiled_has_an_empty_result(process: Process) -> None:
    assert process.ask(".a", task=COMPILE) == (RESULT, b"")


@pytest.mark.parametrize(
    ("program", "document", "want"),
    [
        pytest.param(".", '{"a":[1,null]}', result({"a": [1, None]}), id="value"),
        pytest.param("1, 2", "null", result(1), id="only-the-first-result-counts"),
        pytest.param("empty", "null", (NOTHING, b""), id="nothing"),
        pytest.param("halt", "null", (NOTHING, b""), id="halt"),
        pytest.param('"x" | halt_error', "null", (NOTHING, b""), id="halt-error"),
        pytest.param("error(7)", "null", (FAILED, b"7"), id="error"),
        pytest.param('"x" * 3e6', "null", (TOO_LONG, b""), id="too-long"),
        pytest.param('"é\\u0000"', "null", (RESULT, b'"\\u00e9\\u0000"'), id="any-text"),
    ],
)
def test_an_answer_says_what_it_is(
    process: Process, program: str, document: str, want: Frame
) -> None:
    assert process.ask(program, document) == want
    assert process.ask(".still", '{"still":"here"}') == result("here")


def test_the_text_of_an_error_is_bounded(process: Process) -> None:
    answer = process.ask('error("é" * 5000)')

    assert answer == (FAILED, "é".encode() * 500)


def test_what_jq_refuses_is_answered_with_its_text(process: Process) -> None:
    answer = process.ask(".a b")

    assert answer is not None
    assert answer[0] == REFUSED
    assert b"syntax error" in answer[1]
    assert process.ask(".a") == result(None)


def test_what_is_no_json_is_an_error_of_the_evaluation(process: Process) -> None:
    answer = process.ask(".", "{nonsense")

    assert answer is not None
    assert answer[0] == FAILED


def test_messages_of_jq_do_not_mix_with_the_answers(process: Process) -> None:
    assert process.ask('debug | stderr | debug("note")', '{"a":1}') == result({"a": 1})
    assert process.ask('[limit(50000; repeat("x" | stderr))] | length') == result(50000)


def test_the_environment_is_empty(
    start: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No prelude here: what is not there can't be read. Python itself may set its locale."""
    monkeypatch.setenv("GATEWRIGHT_CANARY", "sesame-4711")

    assert start().ask('[$ENV, env] | map(keys - ["LC_CTYPE"]) | add') == result([])


@pytest.mark.parametrize(
    "program",
    [
        pytest.param('import "secret" as $d {{search: "{0}"}}; $d', id="data"),
        pytest.param('import "secret" as $d {{search: "{0}", raw: true}}; $d', id="text"),
        pytest.param('include "code" {{search: "{0}"}}; secret', id="code"),
        pytest.param('"code" | modulemeta', id="metadata"),
    ],
)
def test_no_file_can_be_read(process: Process, tmp_path: Path, program: str) -> None:
    (tmp_path / "secret.json").write_text('"sesame-4711"')
    (tmp_path / "code.jq").write_text('module {secret: 1}; def secret: "sesame-4711";')

    answer = process.ask(program.format(tmp_path))

    assert answer is not None
    assert answer[0] in (REFUSED, FAILED)
    assert b"sesame-4711" not in answer[1]
    assert process.ask("1") == result(1)


def test_it_leaves_no_core(process: Process) -> None:
    """It would hold objects of users."""
    limits = Path(f"/proc/{process.popen.pid}/limits").read_text().splitlines()

    (core,) = [line.split() for line in limits if line.startswith("Max core file size")]
    assert core[4:] == ["0", "0", "bytes"]


def test_an_evaluation_past_its_deadline_ends_the_process(start: Callable[..., Process]) -> None:
    process = start(evaluate_ms=100)
    begin = time.monotonic()

    assert process.ask("last(range(1e12))") is None
    assert process.popen.wait(timeout=10) == -signal.SIGALRM
    assert time.monotonic() - begin < 5


def test_a_compilation_past_its_deadline_ends_the_process(start: Callable[..., Process]) -> None:
    process = start(compile_ms=1)
    process.send("[" + "def f: 1; f," * 5000 + "1]", task=COMPILE)

    assert process.frame() == (COMPILING, b"")
    assert process.frame() is None
    assert process.popen.wait(timeout=10) == -signal.SIGALRM


@pytest.mark.slow
def test_a_deadline_is_over_with_its_evaluation(start: Callable[..., Process]) -> None:
    process = start(evaluate_ms=100)
    process.ask("1")

    time.sleep(0.2)

    assert process.ask("2") == result(2)


def test_too_much_memory_ends_the_process(start: Callable[..., Process]) -> None:
    process = start(memory_mib=128)

    assert process.ask('"x" * 1e9 | length') is None
    assert process.popen.wait(timeout=10) == -signal.SIGABRT
    assert process.popen.stderr is not None
    assert b"cannot allocate memory" in process.popen.stderr.read()


def test_memory_that_runs_out_in_python_ends_the_process_too(
    start: Callable[..., Process],
) -> None:
    """The result fits as jq keeps it, shared, and not as Python does."""
    process = start(memory_mib=128)

    assert process.ask('("x" * 1e7) as $x | [range(20) | $x]') is None
    assert process.popen.wait(timeout=10) == OUT_OF_MEMORY_EXIT


@pytest.mark.slow
def test_a_result_that_nests_too_deeply_ends_the_process_at_most(
    start: Callable[..., Process],
) -> None:
    process = start(evaluate_ms=20_000)
    answer = process.ask("reduce range(200000) as $i (1; [.])")

    assert answer is None or answer[0] == FAILED


def test_the_programs_that_were_not_used_for_longest_make_room() -> None:
    programs = Programs(size=2)
    programs.put("a", 1)
    programs.put("b", 2)
    programs.get("a")
    programs.put("c", 3)

    assert [programs.get(text) for text in "abc"] == [1, None, 3]


def test_both_sides_speak_the_same_protocol() -> None:
    """The server can't import the worker, as it would import jq with it."""
    kinds = (READY, COMPILING, COMPILED, RESULT, NOTHING, REFUSED, FAILED, TOO_LONG)
    assert kinds == jq_child.KINDS
    assert (COMPILE, EVALUATE) == (jq_child.COMPILE, jq_child.EVALUATE)
    assert (REQUEST.format, ANSWER.format) == (jq_child.REQUEST.format, jq_child.ANSWER.format)
    assert OUT_OF_MEMORY_EXIT == jq_child.OUT_OF_MEMORY_EXIT


def test_the_server_does_not_load_jq() -> None:
    code = "import sys, webhook.mapping.evaluator; print('jq' in sys.modules)"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "False"
