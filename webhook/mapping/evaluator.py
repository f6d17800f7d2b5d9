"""Evaluation of jq expressions: which child runs what, for how long, and who waits for whom."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

import orjson

from webhook.errors import EvaluationError, SpecError
from webhook.mapping.jq_child import (
    COMPILE,
    EVALUATE,
    FAILED,
    NOTHING,
    TOO_LONG,
    Answer,
    Child,
    DiedError,
)
from webhook.mapping.limits import LARGE_DOCUMENT_BYTES, WorkerLimits
from webhook.mapping.programs import alone, combine
from webhook.mapping.results import (
    TOO_MANY_PLACES,
    QueryFailure,
    QueryResult,
    read_compile_problem,
    read_results,
    shown_error,
)
from webhook.mapping.samples import SAMPLES

# For `check`, where a person waits and not the API server.
_TRIAL_WAIT_MS = 10_000


def document_for_jq(document: Mapping[str, Any]) -> bytes:
    """
    *document* as JSON for the worker, without `metadata.managedFields`.

    Those are often half of an object, no policy is about them, and parsing is what jq spends its
    time on. *document* stays as it is.

    Raises:
        EvaluationError: it nests too deeply.
    """
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        kept = {key: value for key, value in metadata.items() if key != "managedFields"}
        document = {**document, "metadata": kept}
    try:
        return orjson.dumps(document)
    except TypeError:
        # Whole numbers beyond 64 bits, nesting beyond 254 levels: the slower encoder takes them.
        try:
            return json.dumps(document).encode()
        except RecursionError as e:
            raise EvaluationError("the object nests too deeply") from e


class JqWorker:
    """
    Evaluates jq expressions in child processes. Safe to use from several threads.

    Calls block, for some seconds at most, without holding the interpreter lock. A child is
    started by the first call that needs it, and again by the next call after it has died. There
    are up to three:

    - one for documents of the usual size;
    - one for large documents, each of which takes it some tenths of a second;
    - one for expressions that are being checked, and for those that have ended the first child
      lately, so that whoever repeats those does not hold up everybody else.

    A large document makes no suspect of the expression that ended the child. The usual cause is
    the size, or a machine that is too busy to read that much in time, and the document held up
    none but other large ones. To run its expression apart would fail the small documents of
    that kind as well.
    """

    def __init__(self, limits: WorkerLimits | None = None) -> None:
        self._limits = limits or WorkerLimits()
        self._usual = _Lane(self._limits)
        self._large = _Lane(self._limits)
        self._doubtful = _Lane(self._limits)
        # Program -> until when (monotonic) it runs apart.
        self._suspects: _Recent[float] = _Recent(256)
        # Source -> why it does not compile; "" if it does.
        self._compile_problems: _Recent[str] = _Recent(4096)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the children. Later calls raise EvaluationError."""
        for lane in (self._usual, self._large, self._doubtful):
            lane.close()

    def evaluate_paths(self, sources: tuple[str, ...], document_json: bytes) -> list[QueryResult]:
        """
        The places that each of *sources* selects in the document, in jq's order.

        Indexes that count from the end of a list are resolved; those before its beginning are
        dropped, as there is no such place.

        Raises:
            EvaluationError: an evaluation took too long or too much memory, and with several
                expressions it is unknown which; or the child is busy or can't be started.
        """
        begin_until = _after_ms(self._limits.wait_ms)
        try:
            problems = [
                self._compile_problem(source, self._usual, begin_until) for source in sources
            ]
        except DiedError as e:
            raise EvaluationError(f"the expression {e}") from e

        sound = [source for source, problem in zip(sources, problems, strict=True) if not problem]
        results = iter(self._evaluate(sound, document_json, begin_until) if sound else ())
        return [QueryFailure(problem) if problem else next(results) for problem in problems]

    def check(self, source: str, *, path: str) -> None:
        """
        Compile *source*, which stands at *path* of its document, and try it on sample objects.

        That jq raises an error on a sample is fine: the mapping may be for other objects.

        Raises:
            SpecError: it does not compile, selects a flood of places, or exceeds the limits.
            EvaluationError: the child is busy or can't be started.
        """
        try:
            problem = self._compile_problem(source, self._doubtful, _after_ms(_TRIAL_WAIT_MS))
            if not problem:
                problem = self._trial_problem(source)
        except DiedError as e:
            problem = str(e)

        if problem:
            raise SpecError(path, f"the expression {problem}")

    def _compile_problem(self, source: str, lane: _Lane, begin_until: float) -> str:
        problem = self._compile_problems.get(source)
        if problem is None:
            answer = lane.run(COMPILE, alone(source), b"", begin_until)
            problem = read_compile_problem(answer)
            self._compile_problems.put(source, problem)
        return problem

    def _trial_problem(self, source: str) -> str:
        for sample in SAMPLES:
            try:
                answer = self._try(source, sample)
            except DiedError:
                # Once more: the machine may have been busy with something else.
                answer = self._try(source, sample)
            results = read_results(answer.payload, (source,), sample)
            if answer.kind == TOO_LONG or results == [QueryFailure(TOO_MANY_PLACES)]:
                return f"{TOO_MANY_PLACES} of a small sample object"
        return ""

    def _try(self, source: str, sample: bytes) -> Answer:
        program = combine((source,), mode="paths")
        return self._doubtful.run(EVALUATE, program, sample, _after_ms(_TRIAL_WAIT_MS))

    def _evaluate(
        self, sources: Sequence[str], document_json: bytes, begin_until: float
    ) -> list[QueryResult]:
        program = combine(sources, mode="paths")
        is_large = len(document_json) > LARGE_DOCUMENT_BYTES
        lane = self._large if is_large else self._usual
        if (self._suspects.get(program) or 0.0) > time.monotonic():
            lane = self._doubtful
            # Not for long: each waiting call holds a thread that others need.
            begin_until = min(begin_until, _after_ms(2 * self._limits.evaluate_ms))
        try:
            answer = lane.run(EVALUATE, program, document_json, begin_until)
        except DiedError as e:
            if not is_large:
                self._suspects.put(program, time.monotonic() + self._limits.suspect_s)
            which = "the expression" if len(sources) == 1 else f"one of {len(sources)} expressions"
            raise EvaluationError(f"{which} {e}") from e

        results = read_results(answer.payload, sources, document_json)
        if results is not None:
            return results
        if len(sources) == 1:
            return [QueryFailure(self._whole_problem(answer, sources[0]))]

        # One of them stopped the program around its `try`; each by itself tells which.
        return [self._evaluate([source], document_json, begin_until)[0] for source in sources]

    def _whole_problem(self, answer: Answer, source: str) -> str:
        if answer.kind == FAILED:
            return shown_error(answer.text, source)
        if answer.kind == TOO_LONG:
            return f"has a result of more than {self._limits.answer_max_bytes} bytes"
        if answer.kind == NOTHING:
            return "stopped the program"
        return "has no result that can be read"


class _Lane:
    """One child at a time, for one call at a time."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._closed = False

    def run(self, task: bytes, program: str, document: bytes, begin_until: float) -> Answer:
        """
        Ask the child, unless it is busy until *begin_until* (monotonic).

        Raises:
            DiedError: the child died of the program.
            EvaluationError: the child is busy or can't be started.
        """
        left_s = begin_until - time.monotonic()
        if left_s <= 0 or not self._lock.acquire(timeout=left_s):
            raise EvaluationError("jq was busy with other objects for too long")

        try:
            if self._closed:
                raise EvaluationError("the jq worker is closed")

            if self._child is None or not self._child.is_alive():
                self._end_child()
                self._child = Child(self._limits)
            return self._child.ask(task, program.encode(errors="replace"), document)
        except BaseException:
            # Whatever it was, the child may be in the middle of an answer.
            self._end_child()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end_child()

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


_V = TypeVar("_V")


class _Recent(Generic[_V]):
    """A bounded map for several threads; what was written longest ago makes room."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._values: OrderedDict[str, _V] = OrderedDict()

    def get(self, key: str) -> _V | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: str, value: _V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._size:
                self._values.popitem(last=False)


def _after_ms(wait_ms: int) -> float:
    return time.monotonic() + wait_ms / 1000
