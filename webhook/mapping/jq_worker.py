"""
The process that runs jq: a program of its own, started by path with `python -I`.

jq cannot be interrupted and takes the memory it wants, so that a bad expression ends the process
that runs it. This is that process. `webhook.mapping.jq_child` starts it, talks to it through two
pipes, and starts another one when it dies. It imports the standard library and jq only.

Before the first request it gives up what an expression could misuse: it is started with an empty
environment, opens no further file (jq's `import` reads files), and may not grow beyond the given
memory. Around each compilation and each evaluation a timer runs whose signal has its default
action: that ends the process in the middle of C code, where no handler of ours would run.

A request is a header `!cIII` (what to do, how many ms an evaluation may take, length of the
program, length of the document) and the two texts in UTF-8. An answer is one or more frames with
a header `!cI` (what it is, length) and that many bytes; the letters are below.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
from collections import OrderedDict

import jq

# As in `typing`, whose import would make each start 7 ms slower.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

REQUEST = struct.Struct("!cIII")
COMPILE = b"C"  # compile the program and say whether it does
EVALUATE = b"E"  # run the program on the document; its first result is the answer

ANSWER = struct.Struct("!cI")
READY = b"s"  # sent once, before the first request is read
COMPILING = b"c"  # the program is not in the cache: from here on the other deadline counts
COMPILED = b"k"
RESULT = b"R"  # JSON; the last frame, like those below
NOTHING = b"N"  # the program ended without a result
REFUSED = b"X"  # jq does not compile it: jq's text
FAILED = b"F"  # jq raised an error on this document: jq's text, which may hold values
TOO_LONG = b"L"  # there is a result, but it's longer than an answer may be

# Ends like the abort of jq when it gets no memory; seen where Python notices it first.
OUT_OF_MEMORY_EXIT = 86

# Programs kept compiled. One takes some 20 KB, and there is one for each mapping in use.
CACHE_SIZE = 256

_MAX_ERROR_CHARS = 500

_NO_RESULT = object()


class Programs:
    """Compiled programs by their text; the one that was not used for longest makes room."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._size = size
        self._compiled: OrderedDict[str, Any] = OrderedDict()

    def get(self, text: str) -> Any | None:
        program = self._compiled.get(text)
        if program is not None:
            self._compiled.move_to_end(text)
        return program

    def put(self, text: str, program: Any) -> None:
        self._compiled[text] = program
        if len(self._compiled) > self._size:
            self._compiled.popitem(last=False)


class Worker:
    """Answers requests until the other side closes the pipe."""

    def __init__(
        self,
        requests: BinaryIO,
        answers: BinaryIO,
        *,
        compile_s: float,
        answer_max_bytes: int,
    ) -> None:
        self._requests = requests
        self._answers = answers
        self._compile_s = compile_s
        self._answer_max_bytes = answer_max_bytes
        self._programs = Programs()

    def serve(self) -> None:
        self._answer(READY)
        while True:
            header = self._requests.read(REQUEST.size)
            if len(header) < REQUEST.size:
                return

            task, evaluate_ms, program_length, document_length = REQUEST.unpack(header)
            text = self._requests.read(program_length).decode()
            document = self._requests.read(document_length).decode()
            self._handle(task, text, document, evaluate_ms / 1000)

    def _handle(self, task: bytes, text: str, document: str, evaluate_s: float) -> None:
        program = self._programs.get(text)
        if program is None:
            self._answer(COMPILING)
            problem = ""
            with Deadline(self._compile_s):
                try:
                    program = jq.compile(text)
                except ValueError as e:
                    problem = str(e)
            if program is None:
                self._answer(REFUSED, problem[:_MAX_ERROR_CHARS].encode(errors="replace"))
                return

            self._programs.put(text, program)
            self._answer(COMPILED)

        if task == EVALUATE:
            with Deadline(evaluate_s):
                answer = self._evaluate(program, document)
            self._answer(*answer)
        else:
            self._answer(RESULT)

    def _evaluate(self, program: Any, document: str) -> tuple[bytes, bytes]:
        try:
            results = iter(program.input_text(document))
            result = next(results, _NO_RESULT)
            if result is _NO_RESULT:
                return NOTHING, b""

            # A program of ours has one result. Running it to its end gives its memory back now,
            # under the deadline, and not in the middle of somebody else's evaluation.
            next(results, _NO_RESULT)
            text = json.dumps(result, separators=(",", ":")).encode()
        except (ValueError, RecursionError) as e:
            return FAILED, str(e)[:_MAX_ERROR_CHARS].encode(errors="replace")

        return (RESULT, text) if len(text) <= self._answer_max_bytes else (TOO_LONG, b"")

    def _answer(self, kind: bytes, payload: bytes = b"") -> None:
        self._answers.write(ANSWER.pack(kind, len(payload)) + payload)
        self._answers.flush()


class Deadline:
    """The process ends if the body takes longer than *seconds* of wall time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *exc: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def contain(memory_bytes: int) -> None:
    """Give up what an expression could misuse. There is no way back in this process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Messages of C code (`jq: error: cannot allocate memory`) must not wait for a reader.
    os.set_blocking(2, False)
    # What is open stays open. No core: it would hold objects of users.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def main(arguments: list[str]) -> None:
    memory_bytes, compile_ms, answer_max_bytes = [int(text) for text in arguments]
    # Only answers go to the pipe; what C code prints to the standard output goes nowhere.
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    contain(memory_bytes)

    worker = Worker(
        sys.stdin.buffer,
        answers,
        compile_s=compile_ms / 1000,
        answer_max_bytes=answer_max_bytes,
    )
    try:
        worker.serve()
    except MemoryError:
        # No clean-up: it would need memory too.
        os._exit(OUT_OF_MEMORY_EXIT)


if __name__ == "__main__":
    main(sys.argv[1:])
