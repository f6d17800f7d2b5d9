"""Evaluation of jq expressions: which child runs what, for how long, and who waits for whom."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

import orjson

from webhook.errors import EvaluationError, SpecError
from webhook.mapping.answers import MAX_QUESTIONS, Question, encode
from webhook.mapping.jq_child import (
    COMPILE,
    EVALUATE,
    FAILED,
    NOTHING,
    TOO_LONG,
    Answer,
    DiedError,
)
from webhook.mapping.lanes import Lane, Recent
from webhook.mapping.limits import LARGE_DOCUMENT_BYTES, WorkerLimits
from webhook.mapping.programs import Expression, alone, combine, combine_values
from webhook.mapping.results import (
    TOO_MANY_PLACES,
    QueryFailure,
    QueryResult,
    ValueResult,
    read_compile_problem,
    read_results,
    read_values,
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
    return encode(without_managed_fields(document))


def without_managed_fields(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """*document*, which stays as it is, without `metadata.managedFields`."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return document
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**document, "metadata": kept}


# Answers questions in the child for doubtful expressions.
Evaluate = Callable[[Sequence[Question]], list[ValueResult]]


class Trial(Protocol):
    """
    Something to find out about expressions before they take effect.

    *key* is equal for two trials that find out the same. *expressions* compile first.
    """

    @property
    def key(self) -> str: ...

    @property
    def expressions(self) -> Sequence[Expression]: ...

    def problem(self, evaluate: Evaluate) -> str:
        """What is wrong with them, as a sentence; ``""`` if nothing is."""
        ...


class JqWorker:
    """
    Evaluates jq expressions in child processes. Safe to use from several threads.

    Calls block, for some seconds at most, without holding the interpreter lock. They wait for
    those before them until *begin_until* (monotonic), or as long as the limits say. A child is
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
        self._usual = Lane(self._limits)
        self._large = Lane(self._limits)
        self._doubtful = Lane(self._limits)
        # Program -> until when (monotonic) it runs apart.
        self._suspects: Recent[float] = Recent(256)
        # Source -> why it does not compile; "" if it does.
        self._compile_problems: Recent[str] = Recent(4096)
        # What was checked and found sound: whoever has checked a change puts it in force next.
        self._sound: Recent[bool] = Recent(4096)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the children. Later calls raise EvaluationError."""
        for lane in (self._usual, self._large, self._doubtful):
            lane.close()

    def evaluate_paths(
        self, sources: tuple[str, ...], document_json: bytes, begin_until: float | None = None
    ) -> list[QueryResult]:
        """
        The places that each of *sources* selects in the document, in jq's order.

        Indexes that count from the end of a list are resolved; those before its beginning are
        dropped, as there is no such place.

        Raises:
            EvaluationError: an evaluation took too long or too much memory, and with several
                expressions it is unknown which; or the child is busy or can't be started.
        """
        if begin_until is None:
            begin_until = _after_ms(self._limits.wait_ms)
        problems = self._compile_problems_of([alone(source) for source in sources], begin_until)
        sound = [source for source, problem in zip(sources, problems, strict=True) if not problem]
        results = iter(self._evaluate(sound, document_json, begin_until) if sound else ())
        return [QueryFailure(problem) if problem else next(results) for problem in problems]

    def evaluate_values(
        self,
        expressions: Sequence[Expression],
        questions: Sequence[Question],
        begin_until: float | None = None,
    ) -> list[ValueResult]:
        """
        What jq says to each of *questions*, which are about *expressions*.

        Numbers that jq may have rounded are `Inexact`.

        Raises:
            EvaluationError: as in `evaluate_paths`; or there are too many questions.
        """
        if not questions:
            return []
        if len(questions) > MAX_QUESTIONS:
            raise EvaluationError(f"more than {MAX_QUESTIONS} items would have to be looked at")

        if begin_until is None:
            begin_until = _after_ms(self._limits.wait_ms)
        problems = {
            expression: next(filter(None, found), "")
            for expression in expressions
            for found in [self._compile_problems_of(_programs_of(expression), begin_until)]
        }
        sound = [expression for expression in expressions if not problems[expression]]
        asked = [question for question in questions if not problems[question.expression]]
        results = iter(self._answer(sound, asked, begin_until) if asked else ())
        return [
            QueryFailure(problem) if (problem := problems[question.expression]) else next(results)
            for question in questions
        ]

    def _answer(
        self, expressions: Sequence[Expression], questions: Sequence[Question], begin_until: float
    ) -> list[ValueResult]:
        program = combine_values(expressions)
        document = _questionnaire(expressions, questions)
        answer = self._run(program, len(expressions), document, begin_until)
        results = read_values(answer.payload, questions)
        if results is not None:
            return results
        if len(expressions) == 1:
            problem = self._whole_problem(answer, expressions[0].source)
            return [QueryFailure(problem)] * len(questions)

        # One of them stopped the program around its `try`; each by itself tells which.
        by_question: dict[Question, ValueResult] = {}
        for expression in expressions:
            own = [question for question in questions if question.expression == expression]
            if own:
                answers = self._answer([expression], own, begin_until)
                by_question.update(zip(own, answers, strict=True))
        return [by_question[question] for question in questions]

    def check(self, subject: str | Trial, *, path: str) -> None:
        """
        Compile a selector, which stands at *path* of its document, and try it on sample objects;
        or make a trial.

        That jq raises an error on a sample is fine: the mapping may be for other objects.

        Raises:
            SpecError: it does not compile, selects a flood of places, or exceeds the limits; or
                the trial found a problem.
            EvaluationError: the child is busy or can't be started.
        """
        key = subject if isinstance(subject, str) else f"trial {subject.key}"
        if self._sound.get(key):
            return
        try:
            if isinstance(subject, str):
                problem = self._compile_problem(alone(subject), self._doubtful, _trial_end())
                if not problem:
                    problem = self._trial_problem(subject)
            else:
                problem = self._compile_problem_of(subject)
                if not problem and (found := subject.problem(self._try_questions)):
                    raise SpecError(path, found)
        except DiedError as e:
            problem = str(e)

        if problem:
            raise SpecError(path, f"the expression {problem}")
        self._sound.put(key, True)

    def _compile_problem_of(self, trial: Trial) -> str:
        for expression in trial.expressions:
            for program in _programs_of(expression):
                problem = self._compile_problem(program, self._doubtful, _trial_end())
                if problem:
                    return problem
        return ""

    def _try_questions(self, questions: Sequence[Question]) -> list[ValueResult]:
        expressions = list(dict.fromkeys([question.expression for question in questions]))
        program = combine_values(expressions)
        document = _questionnaire(expressions, questions)
        try:
            answer = self._doubtful.run(EVALUATE, program, document, _trial_end())
        except DiedError:
            # Once more: the machine may have been busy with something else.
            answer = self._doubtful.run(EVALUATE, program, document, _trial_end())
        results = read_values(answer.payload, questions)
        if results is None:
            problem = self._whole_problem(answer, expressions[0].source)
            failure = QueryFailure(problem, is_flood=answer.kind == TOO_LONG)
            return [failure] * len(questions)
        return results

    def _compile_problems_of(self, programs: Sequence[str], begin_until: float) -> list[str]:
        try:
            return [
                self._compile_problem(program, self._usual, begin_until) for program in programs
            ]
        except DiedError as e:
            raise EvaluationError(f"the expression {e}") from e

    def _compile_problem(self, program: str, lane: Lane, begin_until: float) -> str:
        problem = self._compile_problems.get(program)
        if problem is None:
            answer = lane.run(COMPILE, program, b"", begin_until)
            problem = read_compile_problem(answer)
            self._compile_problems.put(program, problem)
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
        program = combine((source,))
        return self._doubtful.run(EVALUATE, program, sample, _trial_end())

    def _evaluate(
        self, sources: Sequence[str], document_json: bytes, begin_until: float
    ) -> list[QueryResult]:
        program = combine(sources)
        answer = self._run(program, len(sources), document_json, begin_until)
        results = read_results(answer.payload, sources, document_json)
        if results is not None:
            return results
        if len(sources) == 1:
            return [QueryFailure(self._whole_problem(answer, sources[0]))]

        # One of them stopped the program around its `try`; each by itself tells which.
        return [self._evaluate([source], document_json, begin_until)[0] for source in sources]

    def _run(self, program: str, count: int, document_json: bytes, begin_until: float) -> Answer:
        """What a combined program of *count* expressions answers, in the child for its like."""
        is_large = len(document_json) > LARGE_DOCUMENT_BYTES
        lane = self._large if is_large else self._usual
        if (self._suspects.get(program) or 0.0) > time.monotonic():
            lane = self._doubtful
            # Not for long: each waiting call holds a thread that others need.
            begin_until = min(begin_until, _after_ms(2 * self._limits.evaluate_ms))
        try:
            return lane.run(EVALUATE, program, document_json, begin_until)
        except DiedError as e:
            if not is_large:
                self._suspects.put(program, time.monotonic() + self._limits.suspect_s)
            which = "the expression" if count == 1 else f"one of {count} expressions"
            raise EvaluationError(f"{which} {e}") from e

    def _whole_problem(self, answer: Answer, source: str) -> str:
        if answer.kind == FAILED:
            return shown_error(answer.text, source)
        if answer.kind == TOO_LONG:
            return f"has a result of more than {self._limits.answer_max_bytes} bytes"
        if answer.kind == NOTHING:
            return "stopped the program"
        return "has no result that can be read"


def _after_ms(wait_ms: int) -> float:
    return time.monotonic() + wait_ms / 1000


def _programs_of(expression: Expression) -> list[str]:
    """Programs that compile if the parts of *expression* are complete expressions."""
    parts = [expression.source, *filter(None, [expression.then])]
    return [alone(part, takes_arguments=True) for part in parts]


def _trial_end() -> float:
    return _after_ms(_TRIAL_WAIT_MS)


def _questionnaire(expressions: Sequence[Expression], questions: Sequence[Question]) -> bytes:
    """The input of `combine_values`: each subject and each set of arguments stands in it once."""
    subjects: dict[bytes, int] = {}
    arguments: dict[bytes, int] = {}
    positions = {expression: index for index, expression in enumerate(expressions)}
    rows = [
        [
            positions[question.expression],
            subjects.setdefault(question.subject, len(subjects)),
            arguments.setdefault(question.arguments, len(arguments)),
        ]
        for question in questions
    ]
    return b'{"q":%b,"i":[%b],"a":[%b]}' % (
        orjson.dumps(rows),
        b",".join(subjects),
        b",".join(arguments),
    )
