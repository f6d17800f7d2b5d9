"""
The server's side of the process that runs jq: starting it, asking it, ending it.

What the process does, and the protocol, stand in jq_worker.py. That is not imported here, since
it imports jq, which must not come into the server.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from webhook.errors import JqUnavailableError
from webhook.mapping.limits import WorkerLimits

_WORKER = Path(__file__).absolute().with_name("jq_worker.py")

REQUEST = struct.Struct("!cIII")
COMPILE, EVALUATE = b"C", b"E"
ANSWER = struct.Struct("!cI")
READY, COMPILING, COMPILED = b"s", b"c", b"k"
RESULT, NOTHING, REFUSED, FAILED, TOO_LONG = b"R", b"N", b"X", b"F", b"L"
KINDS = (READY, COMPILING, COMPILED, RESULT, NOTHING, REFUSED, FAILED, TOO_LONG)
OUT_OF_MEMORY_EXIT = 86

_ERROR_MAX_BYTES = 4096

# A start takes 0.1 s; a machine under load takes its time.
_START_S = 10.0
# The child's own timer comes first. Ours is for a child that is stopped or does not get to run.
_GRACE_S = 0.5


@dataclass(frozen=True, slots=True)
class Answer:
    """The last frame of an answer: one of `KINDS`, and what belongs to it."""

    kind: bytes
    payload: bytes

    @property
    def text(self) -> str:
        return self.payload.decode(errors="replace")


class DiedError(Exception):
    """The child died of a program. The text continues a sentence about the expression."""


class _SilentError(Exception):
    """The child has closed its pipe (*overdue* false) or is late."""

    def __init__(self, *, overdue: bool) -> None:
        super().__init__("overdue" if overdue else "closed")
        self.overdue = overdue


class Child:
    """A running jq_worker.py, for one thread at a time."""

    def __init__(self, limits: WorkerLimits) -> None:
        """
        Start it.

        Raises:
            JqUnavailableError: it does not start; the text says why.
        """
        self._limits = limits
        numbers = (limits.memory_mib << 20, limits.compile_ms, limits.answer_max_bytes)
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_WORKER), *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={},
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the server, which then ends the child
        )
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = [pipe.fileno() for pipe in pipes if pipe is not None]
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
        self._received = bytearray()
        self._last_words = b""
        self._ended = False
        try:
            self._receive(time.monotonic() + _START_S)
        except BaseException as e:
            self.end()
            if not isinstance(e, _SilentError):
                raise

            # No object was seen yet, so that its words can be shown.
            words = self._last_words.decode(errors="replace").strip().rpartition("\n")[2]
            raise JqUnavailableError(f"the jq worker does not start: {words or e}") from e

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, task: bytes, program: bytes, document: bytes) -> Answer:
        """
        Raises:
            DiedError: there is no answer and the child is gone, or its answer makes no sense.
        """
        evaluate_ms = self._limits.evaluation_ms(len(document))
        compiling = False
        try:
            # The child reads a request without doing anything else.
            deadline = _deadline(evaluate_ms)
            header = REQUEST.pack(task, evaluate_ms, len(program), len(document))
            self._send(header + program + document, deadline)
            while True:
                answer = self._receive(deadline)
                if answer.kind not in (COMPILING, COMPILED):
                    return answer

                compiling = answer.kind == COMPILING
                deadline = _deadline(self._limits.compile_ms if compiling else evaluate_ms)
        except _SilentError as e:
            if not e.overdue:
                # It is about to end, and how it does is the reason that we want to tell.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=1)
            self.end()
            allowed_ms = self._limits.compile_ms if compiling else evaluate_ms
            late = f"did not {'compile' if compiling else 'end'} within {allowed_ms} ms"
            raise DiedError(late if e.overdue else self._cause_of_death(late)) from e

    def end(self) -> None:
        """Kill it, if it is not dead yet, and close the pipes. The second time does nothing."""
        if self._ended:
            # The numbers of its pipes may belong to somebody else by now.
            return

        self._ended = True
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._last_words = os.read(self._err, 4096)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _cause_of_death(self, late: str) -> str:
        code = self._process.returncode
        if code == -signal.SIGALRM:
            return late
        if code == OUT_OF_MEMORY_EXIT or b"cannot allocate memory" in self._last_words:
            return f"used more than {self._limits.memory_mib} MiB"
        if code < 0:
            # SIGSEGV: jq recurses in C over results that nest too deeply. SIGKILL: the kernel,
            # where the machine or the container has less memory than we allow.
            return f"ended its process with {signal.Signals(-code).name}"
        return f"ended its process with exit code {code}"

    def _send(self, message: bytes, deadline: float) -> None:
        rest = memoryview(message)
        while rest:
            _wait_for(self._in, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._in, rest) :]
            except BrokenPipeError as e:
                raise _SilentError(overdue=False) from e

    def _receive(self, deadline: float) -> Answer:
        kind, length = ANSWER.unpack(self._read(ANSWER.size, deadline))
        if kind not in KINDS or length > max(self._limits.answer_max_bytes, _ERROR_MAX_BYTES):
            raise DiedError("has an answer that can't be read")

        return Answer(kind, self._read(length, deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        while len(self._received) < size:
            _wait_for(self._out, select.POLLIN, deadline)
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                raise _SilentError(overdue=False)

            self._received += chunk
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken


def _deadline(allowed_ms: int) -> float:
    """When a child that may take *allowed_ms* from now on is given up (monotonic)."""
    return time.monotonic() + allowed_ms / 1000 + _GRACE_S


def _wait_for(descriptor: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise _SilentError(overdue=True)
