"""
Fields that jq reads: what they share.

A field with a formatter of somebody's own, and a list of which a rule is about some items, are read
by asking jq. They are read as they are when it is their turn, which decides what is written, and
once more after mutation, which is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any, Protocol

from webhook.errors import EvaluationError
from webhook.mapping.answers import JqAnswers, Question, UnansweredError
from webhook.mapping.fields import Field
from webhook.mapping.merging import Difference, differences
from webhook.mapping.programs import Expression
from webhook.mapping.results import Inexact
from webhook.model.decision import Rule, Source
from webhook.model.pointer import Path, lookup, to_pointer
from webhook.model.values import FieldType
from webhook.patch import Editor
from webhook.policy.computed.hiding import is_secret_path, says_one_of, secret_texts
from webhook.policy.computed.traces import Trace
from webhook.policy.plans import FieldPlan
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.judge import Problem

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
        End it; who asks after that has the answers.

        Raises:
            UnansweredError: something was asked that nobody has asked jq yet.
        """
        if self._missing:
            raise UnansweredError(expressions=self._expressions, questions=tuple(self._missing))


class Secrets:
    """The texts that stand in an element where secrets do, looked for once they are needed."""

    def __init__(self) -> None:
        self._texts: frozenset[str] | None = None

    def tell(self, spot: Spot, values: Iterable[Any]) -> bool:
        """Whether one of *values* at *spot* says one of them."""
        if self._texts is None:
            self._texts = secret_texts(spot.node) | secret_texts(spot.old_node)
        return any(says_one_of(plain_numbers(value), self._texts) for value in values)


@dataclass(frozen=True, slots=True)
class Taken:
    """
    Where fields that stand at a path are set or filled, which no formatter may undo.

    By what the policies say, and not by what a review wrote: a second one has to find the same.
    """

    sets: Trace = dataclass_field(default_factory=Trace)
    defaults: Trace = dataclass_field(default_factory=Trace)


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
    taken: Taken = dataclass_field(default_factory=Taken)
    secrets: Secrets = dataclass_field(default_factory=Secrets)

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

    def difference(self, result: dict[str, Any]) -> tuple[Any, list[Difference]]:
        """The element as it is with what a setExpr says in it, and where that changes it."""
        formatter, node = self.plan.field.formatter, self.node
        assert formatter is not None, "only formatters have a setExpr"
        merged = formatter.merged(node, result)
        # A list of them: before the editor changes what they are taken from.
        return merged, list(differences(node if isinstance(node, dict) else {}, merged))

    def obstacle(self, result: dict[str, Any], rule: Rule) -> str:
        """Why *rule* may not write what a setExpr says: it would undo another; else ``""``."""
        _, found = self.difference(result)
        for change in found:
            path = (*self.path, *change.path)
            other = self.taken.sets.last(path)
            if not other and rule is Rule.DEFAULT and change.old is not None:
                other = self.taken.defaults.last(path)
            if other:
                formatter = self.plan.field.formatter
                return f"setExpr of {formatter} would write over {to_pointer(path)} of {other}"
        return ""

    def merge(self, result: dict[str, Any], item: str, enforcement: Enforcement) -> list[Written]:
        """
        Merge what a setExpr says of *item* into the element; each spot that this changed.

        Raises:
            EvaluationError: another policy sets what it would change.
        """
        obstacle = self.obstacle(result, enforcement.rule)
        if obstacle:
            raise EvaluationError(
                f"{enforcement.rule} of {self.plan.label} ({enforcement.source}): {obstacle}"
            )
        merged, found = self.difference(result)
        written = [self._written(difference, item, enforcement) for difference in found]
        for name in dict.fromkeys([str(difference.path[0]) for difference in found]):
            self.editor.write((*self.path, name), merged[name])
        return written

    def _written(self, found: Difference, item: str, enforcement: Enforcement) -> Written:
        path = (*self.path, *found.path)
        field = self.guarded(self.plan.field, found.old, found.new)
        is_flag = all(value is None or isinstance(value, bool) for value in (found.old, found.new))
        # An expression may write beside its field, where a secret stands.
        if is_secret_path(path, FieldType.BOOLEAN if is_flag else None):
            field = replace(field, sensitive=True)
        return Written(path, item, found.old, found.new, field, enforcement)

    def guarded(self, field: Field, *values: Any) -> Field:
        """*field*, hidden if one of *values* may come from where a secret stands in the element."""
        formatter = self.plan.field.formatter
        if field.sensitive or formatter is None or formatter.names_all:
            return field
        return replace(field, sensitive=True) if self.secrets.tell(self, values) else field


@dataclass(frozen=True, slots=True)
class Written:
    """A value that was written: where, of which item, what was there. *field* prints both."""

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
    """
    A field at a place, read with the help of jq.

    It is gathered before it writes, on the element as others have left it, and again before it is
    judged. Where an answer is missing, what was known before stands for it: a guess, by which the
    rest can be asked in the same round. Nobody sees it, for the inquiry then ends with questions.
    """

    spot: Spot

    def gather(self, inquiry: Inquiry, *, mutates: bool) -> None:
        """Read the field as it is now; with *mutates*, also what to write. Asks what it lacks."""
        ...

    def set(self) -> Iterator[Written]: ...

    def default(self) -> Iterator[Written | LeftOut]: ...

    def unread(self, *, is_touched: bool) -> Enforcement | None:
        """
        What was written or there and, as the field was gathered last, is not read any more.

        With *is_touched*, somebody wrote there afterwards: then a default has to be what it was.
        """
        ...

    def judge(self) -> Iterator[Broken]: ...


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
