"""
Fields that jq reads: what they share.

A field with a formatter of somebody's own, and a list of which a rule is about some items, are read
by asking jq. They are read once as submitted, which decides what is written, and once more after
mutation, which is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from webhook.mapping.answers import JqAnswers, Question, UnansweredError
from webhook.mapping.fields import Field
from webhook.mapping.merging import merge
from webhook.mapping.programs import Expression
from webhook.mapping.results import Inexact
from webhook.model.decision import Rule, Source
from webhook.model.pointer import Path, lookup
from webhook.model.values import same_value
from webhook.patch import Editor
from webhook.policy.effective import FieldPlan
from webhook.policy.enforcement import Enforcement
from webhook.policy.judge import Problem

INEXACT = Problem("has the wrong type", "a number below 2^53, as jq rounds others")


class Unknown:
    """Stands for what jq has not been asked yet."""


UNKNOWN = Unknown()


class Inquiry:
    """What is asked about one object: answers that are there, and questions that have none."""

    def __init__(self, answers: JqAnswers, expressions: tuple[Expression, ...]) -> None:
        self._answers = answers
        self._expressions = expressions
        self._missing: dict[Question, None] = {}

    def ask(self, question: Question) -> tuple[Any, ...] | Unknown:
        values = self._answers.values.get(question)
        if values is None:
            self._missing[question] = None
            return UNKNOWN
        return values

    def close(self) -> None:
        """
        Raises:
            UnansweredError: something was asked that nobody has asked jq yet.
        """
        if self._missing:
            raise UnansweredError(expressions=self._expressions, questions=tuple(self._missing))


@dataclass(frozen=True, slots=True)
class Spot:
    """
    One place and one field there.

    *old_path* is that of the place before an update, None where it is new or there is none.
    *old_of* finds the old path of anything, as long as the object is as submitted.
    """

    plan: FieldPlan
    path: Path
    editor: Editor
    old: dict[str, Any] | None
    old_path: Path | None
    old_of: Callable[[Path], Path | None]
    is_judged_only: bool = False

    @property
    def node(self) -> Any:
        """What stands at the place now."""
        return lookup(self.editor.document, self.path)

    @property
    def old_node(self) -> Any:
        return None if self.old_path is None else lookup(self.old, self.old_path)

    @property
    def is_new(self) -> bool:
        """Whether nothing stood there before; always so in a creation."""
        return self.old is None or (self.old_node is None and self.node is not None)

    def merge(self, result: dict[str, Any], key: str | None) -> bool:
        """Merge what a setExpr says into the element. Whether that changed anything."""
        node = self.node
        merged = merge(node, result, key)
        before = node if isinstance(node, dict) else {}
        changed = [name for name in result if not _is_same_at(before, merged, name)]
        for name in changed:
            self.editor.write((*self.path, name), merged[name])
        return bool(changed)


def _is_same_at(before: dict[str, Any], after: dict[str, Any], name: str) -> bool:
    if name not in after:
        return True  # It was null, which says nothing.
    return name in before and same_value(before[name], after[name])


@dataclass(frozen=True, slots=True)
class Written:
    """A value that was written: where, of which item, what was there."""

    path: Path
    item: str
    old: Any
    new: Any
    field: Field
    enforcement: Enforcement


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A default that was left out, and why."""

    path: Path
    reason: str
    enforcement: Enforcement


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that is broken. *value* is what there is; *field* says how to print it."""

    path: Path
    item: str
    rule: Rule
    problem: Problem
    value: Any
    field: Field
    source: Source


class ComputedField(Protocol):
    """A field at a place, read with the help of jq."""

    spot: Spot

    def gather(self, inquiry: Inquiry, *, mutates: bool) -> None:
        """Read the field as it is now; with *mutates*, also what to write. Asks what it lacks."""
        ...

    def set(self) -> Iterator[Written]: ...

    def default(self) -> Iterator[Written | LeftOut]: ...

    def judge(self) -> Iterator[Broken]: ...


def gather_all(
    fields: Sequence[ComputedField],
    answers: JqAnswers,
    expressions: tuple[Expression, ...],
    *,
    mutates: bool,
) -> None:
    """
    Raises:
        UnansweredError: jq has to be asked first.
    """
    inquiry = Inquiry(answers, expressions)
    for field in fields:
        field.gather(inquiry, mutates=mutates and not field.spot.is_judged_only)
    inquiry.close()


def has_inexact(value: Any) -> bool:
    """Whether a number in *value* may have been rounded."""
    match value:
        case Inexact():
            return True
        case list():
            return any(map(has_inexact, value))
        case dict():
            return any(map(has_inexact, value.values()))
        case _:
            return False


def plain_numbers(value: Any) -> Any:
    """*value* with what jq made of its numbers."""
    match value:
        case Inexact():
            return value.value
        case list():
            return [plain_numbers(part) for part in value]
        case dict():
            return {name: plain_numbers(part) for name, part in value.items()}
        case _:
            return value
