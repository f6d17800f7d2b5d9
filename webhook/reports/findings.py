"""Decisions on what runs -> the results of each namespace's report. Pure, and bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from webhook.admission.response import violation_line
from webhook.admission.texts import NAME_MAX_CHARS, TEXT_MAX_CHARS, clean
from webhook.model.decision import Decision, Violation
from webhook.model.pointer import to_pointer

MAX_RESULTS = 500
# Of all reports together, some 20 MB here and in etcd: reports must not be what fills it.
MAX_RESULTS_IN_ALL = 20_000

_MESSAGE_MAX_CHARS = 500


class Verdict(StrEnum):
    """What a result says, in the words of the report APIs."""

    # A policy in force is broken.
    FAIL = "fail"
    # A policy that is only tried would be.
    WARN = "warn"
    # It could not be found out.
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that a result is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, document: dict[str, Any]) -> Subject:
        metadata = document.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        return cls(
            clean(str(document.get("apiVersion") or ""), NAME_MAX_CHARS),
            clean(str(document.get("kind") or ""), NAME_MAX_CHARS),
            clean(str(metadata.get("namespace") or ""), NAME_MAX_CHARS),
            clean(str(metadata.get("name") or ""), NAME_MAX_CHARS),
            clean(str(metadata.get("uid") or ""), NAME_MAX_CHARS),
        )


@dataclass(frozen=True, slots=True)
class Result:
    """One open violation. *message* has no value that must not be printed."""

    verdict: Verdict
    subject: Subject
    policy: str
    rule: str
    message: str
    # More about it, as (name, value).
    properties: tuple[tuple[str, str], ...] = ()


def results_of(subject: Subject, decision: Decision) -> Iterator[Result]:
    """The violations of *decision*, and those of policies that are only tried."""
    for violation in decision.violations:
        yield _result(Verdict.FAIL, subject, violation, "Enforce")
    for preview in decision.previews:
        for violation in preview.violations:
            yield _result(Verdict.WARN, subject, violation, preview.mode)
        if preview.error:
            yield Result(
                Verdict.ERROR,
                subject,
                clean(preview.source.policy, NAME_MAX_CHARS),
                "",
                clean(preview.error, _MESSAGE_MAX_CHARS),
                (("mode", preview.mode),),
            )


def failure_of(subject: Subject) -> Result:
    """What is said of an object that the mapping of its kind fails on: what is in it stays here."""
    kind = subject.kind
    return Result(Verdict.ERROR, subject, f"SpecMapping of {kind}", "", "the mapping fails on it")


def _result(verdict: Verdict, subject: Subject, violation: Violation, mode: str) -> Result:
    field_name = clean(violation.field)
    source = violation.source
    properties = {
        "mode": mode,
        "path": clean(to_pointer(violation.path), TEXT_MAX_CHARS * 2),
        "scope": source.scope.value,
        "unit": clean(source.unit, NAME_MAX_CHARS),
    }
    return Result(
        verdict,
        subject,
        clean(source.policy, NAME_MAX_CHARS),
        f"{field_name}.{violation.rule.value}" if field_name else violation.rule.value,
        clean(violation_line(violation), _MESSAGE_MAX_CHARS),
        tuple([(key, text) for key, text in properties.items() if text]),
    )


@dataclass(slots=True)
class NamespaceFindings:
    """The open violations of one namespace: all are counted, and `MAX_RESULTS` kept."""

    counts: Counter[Verdict] = field(default_factory=Counter)
    # Those that matter most push out others. Within one kind the first ones stay, so that the
    # same cluster gives the same report.
    _urgent: list[Result] = field(default_factory=list)
    _others: list[Result] = field(default_factory=list)

    def add(self, result: Result, *, keep: bool) -> int:
        """Count *result*, and keep it if *keep*. How many more are kept than before."""
        self.counts[result.verdict] += 1
        is_urgent = result.verdict is Verdict.FAIL
        if not keep or len(self._urgent) + (not is_urgent) * len(self._others) >= MAX_RESULTS:
            return 0
        (self._urgent if is_urgent else self._others).append(result)
        if len(self._urgent) + len(self._others) <= MAX_RESULTS:
            return 1
        self._others.pop()
        return 0

    def count(self, verdicts: Counter[Verdict]) -> None:
        """Count results that are not kept."""
        self.counts += verdicts

    @property
    def results(self) -> list[Result]:
        return self._urgent + self._others

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Findings:
    """What one look at a cluster found, by namespace; `""` is what lies in none."""

    def __init__(self, max_results: int = MAX_RESULTS_IN_ALL) -> None:
        self.by_namespace: dict[str, NamespaceFindings] = {}
        self.judged = 0
        self._room = max_results

    def add(self, result: Result) -> None:
        found = self.by_namespace.setdefault(result.subject.namespace, NamespaceFindings())
        self._room -= found.add(result, keep=self._room > 0)

    def merge(self, others: Findings) -> None:
        """Add all of *others*, in their order, as far as there is room."""
        self.judged += others.judged
        for namespace, found in others.by_namespace.items():
            kept = found.results
            for result in kept:
                self.add(result)
            left_out = found.counts - Counter([result.verdict for result in kept])
            self.by_namespace[namespace].count(left_out)

    @property
    def room(self) -> int:
        """How many results more can be kept."""
        return self._room

    @property
    def counts(self) -> Counter[Verdict]:
        """All results by what they say, those that are not kept included."""
        return sum([found.counts for found in self.by_namespace.values()], Counter())
