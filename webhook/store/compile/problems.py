"""What is wrong with documents, as it is found."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from webhook.errors import FieldConflictError, MissingReferenceError, SpecError
from webhook.store.snapshot import DocumentProblem, ProblemReason

log = logging.getLogger("gatewright.store")

# A document that waits looks harmless: it is a warning, and no other message says what it costs.
_WAITING = "; until it is there, nothing of this document is enforced"


class Problems:
    """The problems of one build. *document* is always where it comes from, as messages name it."""

    def __init__(self) -> None:
        self._found: list[DocumentProblem] = []

    @property
    def all(self) -> tuple[DocumentProblem, ...]:
        """In the order of documents and paths."""
        return tuple(sorted(self._found, key=lambda item: (item.document, item.path)))

    def note(self, found: DocumentProblem) -> None:
        """Take in one as it is."""
        self._found.append(found)

    def add(self, document: str, path: str, problem: str) -> None:
        """Say what keeps *document* from being in force."""
        self.note(DocumentProblem(document, path, problem))

    def advise(self, document: str, path: str, problem: str, *, missing: bool = False) -> None:
        """Say what its author should know; *missing*: of something that is not there."""
        reason = ProblemReason.REFERENCE_NOT_FOUND if missing else ProblemReason.ADVICE
        self.note(DocumentProblem(document, path, problem, warning=True, reason=reason))

    def report(self, document: str, error: Exception) -> None:
        """
        Say what is wrong with *document*.

        Whatever the error is, even a fault of ours: one document must not keep the others from
        taking effect.
        """
        if not isinstance(error, ExceptionGroup):
            log.exception("document failed", extra={"document": document})
            self.add(document, "", f"can't be compiled: {type(error).__name__}")
            return
        for leaf in leaves(error):
            missing = isinstance(leaf, MissingReferenceError)
            reason, problem, cost = ProblemReason.COMPILE_ERROR, leaf.problem, ""
            if missing:
                reason, cost = ProblemReason.REFERENCE_NOT_FOUND, _WAITING
                problem += cost
            elif isinstance(leaf, FieldConflictError):
                reason, cost = ProblemReason.FIELD_CONFLICT, leaf.cost
            self.note(DocumentProblem(document, leaf.path, problem, missing, reason, cost))


def leaves(group: BaseException) -> Iterator[SpecError]:
    """The problems that *group* is made of."""
    if isinstance(group, BaseExceptionGroup):
        for error in group.exceptions:
            yield from leaves(error)
    elif isinstance(group, SpecError):
        yield group
