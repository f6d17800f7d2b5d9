"""
What jq said about an object, as values that a review is given.

A review computes with the answers that it has. If it needs others, it ends with an
`UnansweredError` that tells which; whoever runs it asks for those and runs it again with all of
them (`answered`). So it never waits, and equal arguments give equal decisions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

import orjson

from webhook.errors import EvaluationError
from webhook.mapping.programs import Expression
from webhook.model.pointer import Path

# A review asks for places, for values, for what to write into selected items, and for values of
# what was changed; a pod that is recommended GPUs is asked about as it would be then, too: values,
# what to write, values again. Then it has all, and one is to spare. Where what was written may be a
# new place, it asks again from the beginning.
MAX_ROUNDS = 18

# More than any sound object has: that many items take some tenths of a second.
MAX_QUESTIONS = 20_000

_T = TypeVar("_T")


class Question(NamedTuple):
    """An expression, its named arguments and what it runs on, both as JSON."""

    expression: Expression
    arguments: bytes
    subject: bytes


def ask_about(expression: Expression, arguments: Mapping[str, Any], subject: Any) -> Question:
    """
    The question what *expression* says of *subject*.

    Raises:
        EvaluationError: the subject nests too deeply.
    """
    return Question(expression, encode(dict(arguments)), encode(subject))


def encode(value: Any) -> bytes:
    """
    *value* as JSON.

    Raises:
        EvaluationError: it nests too deeply.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        # Whole numbers beyond 64 bits, nesting beyond 254 levels: the slower encoder takes them.
        try:
            return json.dumps(value).encode()
        except RecursionError as e:
            raise EvaluationError("the object nests too deeply") from e


@dataclass(frozen=True, slots=True)
class JqAnswers:
    """
    Places by the text of the query, and the values that expressions yielded.

    They belong to one object; nothing in them depends on when they were asked for.
    """

    places: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    values: Mapping[Question, tuple[Any, ...]] = field(default_factory=dict)
    # Nothing more comes: what could be done without is left out.
    are_final: bool = False

    def with_places(self, places: Mapping[str, tuple[Path, ...]]) -> JqAnswers:
        return replace(self, places={**self.places, **places})

    def with_values(self, values: Mapping[Question, tuple[Any, ...]]) -> JqAnswers:
        return replace(self, values={**self.values, **values})

    def unanswered(self, questions: Iterable[Question]) -> tuple[Question, ...]:
        """Those of *questions* that nobody has asked yet, each once."""
        return tuple([q for q in dict.fromkeys(questions) if q not in self.values])


NO_ANSWERS = JqAnswers()

TOO_MANY_ROUNDS = "the object would have to be looked at again and again"


class UnansweredError(Exception):
    """
    A review can't go on without answers of jq: *queries* for places of its object, *questions*
    for values. *expressions* are all that its policies may ask, so that the program is one
    program for all objects of a kind.
    """

    def __init__(
        self,
        *,
        queries: tuple[str, ...] = (),
        expressions: tuple[Expression, ...] = (),
        questions: tuple[Question, ...] = (),
        is_optional: bool = False,
    ) -> None:
        super().__init__("jq has to be asked first")
        # The review can do without: ask it again with what there is, as final answers.
        self.is_optional = is_optional
        self.queries = queries
        self.expressions = expressions
        self.questions = questions

    @classmethod
    def of(cls, errors: Iterable[Self], *, is_optional: bool = False) -> Self:
        """What all of *errors* lack."""
        found = list(errors)
        return cls(
            queries=tuple(dict.fromkeys([q for error in found for q in error.queries])),
            expressions=tuple(
                sorted({expression for error in found for expression in error.expressions})
            ),
            questions=tuple(dict.fromkeys([q for error in found for q in error.questions])),
            is_optional=is_optional,
        )


def answered(
    review: Callable[[JqAnswers], _T], ask: Callable[[UnansweredError, JqAnswers], JqAnswers]
) -> _T:
    """
    What *review* returns once it has all the answers that it needs from *ask*.

    Raises:
        EvaluationError: it goes on asking, or *ask* gets no answer.
    """
    answers = NO_ANSWERS
    for _ in range(MAX_ROUNDS):
        try:
            return review(answers)
        except UnansweredError as unanswered:
            try:
                answers = ask(unanswered, answers)
            except EvaluationError:
                if not unanswered.is_optional:
                    raise
                answers = replace(answers, are_final=True)
    raise EvaluationError(TOO_MANY_ROUNDS)
