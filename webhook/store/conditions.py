"""What is said in a document's status: whether it is in force, and why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.store.snapshot import DocumentProblem, ProblemReason

# A condition's message may have 32 KiB (Kubernetes API conventions: "typical status
# properties"); people read it in a terminal.
MESSAGE_MAX_CHARS = 1024

_TYPES = ("Ready", "Compiled", "Conflict")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition without its time."""

    type: str
    is_true: bool
    reason: str
    message: str

    def to_json(self, generation: int, time: str) -> dict[str, Any]:
        """The condition as Kubernetes writes it."""
        return {
            "type": self.type,
            "status": "True" if self.is_true else "False",
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": generation,
            "lastTransitionTime": time,
        }


def conditions_of(
    problems: Sequence[DocumentProblem], *, in_force: bool, older_in_force: bool = False
) -> tuple[Condition, ...]:
    """
    The conditions of a document with these *problems*.

    *in_force*: as it is written now; *older_in_force*: as it was before.
    """
    errors = [problem for problem in problems if not problem.warning]
    missing = [p for p in problems if p.reason is ProblemReason.REFERENCE_NOT_FOUND]
    conflicts = [p for p in problems if p.reason is ProblemReason.FIELD_CONFLICT]
    unserved = [p for p in problems if p.reason is ProblemReason.KIND_NOT_SERVED]
    advice = [p for p in problems if p.reason is ProblemReason.ADVICE]
    if in_force:
        compiled = Condition("Compiled", True, "Compiled", "")
    else:
        why = errors or missing
        reason = why[0].reason if why else ProblemReason.COMPILE_ERROR
        if any(problem.reason is ProblemReason.FIELD_CONFLICT for problem in why):
            reason = ProblemReason.FIELD_CONFLICT
        kept = "its last good version stays in force until a restart" if older_in_force else ""
        compiled = Condition("Compiled", False, reason.value, _message(why, kept))
    conflict = Condition("Conflict", False, "NoConflict", "")
    if conflicts:
        conflict = Condition(
            "Conflict", True, ProblemReason.FIELD_CONFLICT.value, _message(conflicts)
        )
    ready = Condition("Ready", compiled.is_true, compiled.reason, compiled.message)
    if in_force:
        # Of several kinds, say, one has no mapping yet: it holds for the others.
        ready = Condition("Ready", True, "Compiled", _message(advice))
        # A mapping of a kind that isn't there: it is ready for the day when that comes.
        if waiting := missing or unserved:
            ready = Condition("Ready", False, waiting[0].reason.value, _message(waiting))
    return ready, compiled, conflict


def status_of(
    old: Mapping[str, Any] | None,
    conditions: Sequence[Condition],
    generation: int,
    now: str,
) -> dict[str, Any] | None:
    """
    The status to write over *old*, or None if that says the same already.

    A condition whose status stays keeps its `lastTransitionTime`; conditions of others stay.
    """
    old = old if isinstance(old, dict) else {}
    listed = old.get("conditions")
    before = {
        item.get("type"): item
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
    }
    written = []
    for condition in conditions:
        known = before.get(condition.type, {})
        item = condition.to_json(generation, now)
        since = known.get("lastTransitionTime")
        if known.get("status") == item["status"] and isinstance(since, str) and since:
            item["lastTransitionTime"] = since
        written.append(item)
    foreign = [item for kind, item in before.items() if kind not in _TYPES]
    status = {"observedGeneration": generation, "conditions": [*written, *foreign]}
    same = old.get("observedGeneration") == generation and listed == status["conditions"]
    return None if same else status


def _message(problems: Sequence[DocumentProblem], end: str = "") -> str:
    parts = [f"{problem.path}: {problem.problem}".lstrip(": ") for problem in problems]
    if end:
        parts.append(end)
    text = "; ".join(parts)
    return text if len(text) <= MESSAGE_MAX_CHARS else f"{text[: MESSAGE_MAX_CHARS - 1]}…"
