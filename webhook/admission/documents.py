"""
Reviews of our own documents: refused is what `lint` calls an error, before it is stored.

Pure, as the reviews of workloads are. Whoever asks makes the check, which takes longer than a
review of a workload may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webhook.admission.decode import Review
from webhook.admission.response import MAX_CAUSES, MESSAGE_MAX_LINES, shorten_warnings
from webhook.admission.texts import NAME_MAX_CHARS, TEXT_MAX_CHARS, clean
from webhook.model.decision import Decision
from webhook.model.documents import UNCOMPILED_KINDS, revision_of
from webhook.model.kinds import POLICY_GROUP
from webhook.model.request import AdmissionRequest, Operation
from webhook.store.changes import REFERABLE, ChangeCheck
from webhook.store.snapshot import DocumentProblem, Door, ProblemReason

# A line about a document may name a field, two policies and what would be right.
_LINE_MAX_CHARS = TEXT_MAX_CHARS * 4


@dataclass(frozen=True, slots=True)
class Change:
    """What a request would do to the documents: write *put*, or delete (kind, name)."""

    put: dict[str, Any] | None = None
    delete: tuple[str, str] | None = None


def is_about_documents(request: AdmissionRequest) -> bool:
    """Whether the request is about a document of our policy group."""
    return request.kind.group == POLICY_GROUP


def change_of(request: AdmissionRequest) -> Change | str:
    """What has to be checked, or why nothing has."""
    if request.kind.kind in UNCOMPILED_KINDS:
        return f"{request.kind.kind} is no policy"
    if request.sub_resource:
        return f"{clean(request.sub_resource)} of a document is not judged"
    if request.operation is Operation.DELETE:
        if request.kind.kind not in REFERABLE:
            return "nothing refers to a document of this kind"
        return Change(delete=(request.kind.kind, request.display_name))
    if request.operation not in (Operation.CREATE, Operation.UPDATE) or request.object is None:
        return f"{request.operation} is not judged"
    old = request.old_object
    if request.operation is Operation.UPDATE and old is not None and _is_same(old, request.object):
        # Of one that was bad before, finalizers and labels must stay editable.
        return "nothing but metadata and status has changed"
    return Change(put=name_generated(request.object))


def _is_same(old: dict[str, Any], new: dict[str, Any]) -> bool:
    # As text: to Python, 1 and true are equal.
    parts = [
        {key: value for key, value in document.items() if key not in ("metadata", "status")}
        for document in (old, new)
    ]
    return revision_of(parts[0]) == revision_of(parts[1])


def name_generated(document: dict[str, Any]) -> dict[str, Any]:
    """*document* with a name: one with only a generateName gets its own after us."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name"):
        return document
    prefix = metadata.get("generateName")
    if not isinstance(prefix, str) or not prefix:
        return document
    return {**document, "metadata": {**metadata, "name": f"{prefix}new"}}


def decide(request: AdmissionRequest, check: ChangeCheck) -> Decision:
    """The decision, as it is recorded."""
    lines = _problem_lines(request, check)
    reason = lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "") if lines else ""
    return Decision(
        allowed=check.allowed,
        warnings=(
            *[_line(request, problem) for problem in check.missing],
            *[_line(request, problem) for problem in check.warnings],
        ),
        reason=reason,
    )


def respond(review: Review, decision: Decision, check: ChangeCheck | None) -> dict[str, Any]:
    """The AdmissionReview that tells *decision*; a denial says all that *check* found."""
    response: dict[str, Any] = {"uid": review.request.uid, "allowed": decision.allowed}
    if check is not None and not decision.allowed:
        response["status"] = _denial(review.request, check)
    if warnings := shorten_warnings(decision.warnings):
        response["warnings"] = warnings
    return {"apiVersion": review.api_version, "kind": "AdmissionReview", "response": response}


def _denial(request: AdmissionRequest, check: ChangeCheck) -> dict[str, Any]:
    lines = _problem_lines(request, check)
    more = len(lines) - MESSAGE_MAX_LINES
    in_use = bool(check.users)
    return {
        "code": 409 if in_use else 403,
        "reason": "Conflict" if in_use else "Forbidden",
        "message": "\n".join(
            [*lines[:MESSAGE_MAX_LINES], *([f"and {more} more"] if more > 0 else [])]
        ),
        "details": {
            "name": clean(request.display_name, NAME_MAX_CHARS),
            "group": clean(request.kind.group, NAME_MAX_CHARS),
            "kind": clean(request.kind.kind, NAME_MAX_CHARS),
            "causes": [_cause(problem) for problem in check.problems[:MAX_CAUSES]],
        },
    }


def _problem_lines(request: AdmissionRequest, check: ChangeCheck) -> list[str]:
    """What speaks against a change, a line for each problem."""
    lines = [_line(request, problem) for problem in check.problems]
    if check.users:
        shown = check.users[:MESSAGE_MAX_LINES]
        more = len(check.users) - len(shown)
        users = ", ".join(shown) + (f" and {more} more" if more else "")
        lines.append(clean(f"it is in use by {users}", _LINE_MAX_CHARS * 4))
    return lines


def _line(request: AdmissionRequest, problem: DocumentProblem) -> str:
    """As `lint` prints it; the document is named if it is another one than that of *request*."""
    own = f"{request.kind.kind} {request.display_name}".lower()
    other = problem.document if problem.document.lower() != own else ""
    parts = filter(None, (other, problem.path, problem.told(Door.KUBECTL)))
    return clean(": ".join(parts), _LINE_MAX_CHARS)


def _cause(problem: DocumentProblem) -> dict[str, Any]:
    is_conflict = problem.reason is ProblemReason.FIELD_CONFLICT
    return {
        "reason": "FieldValueDuplicate" if is_conflict else "FieldValueInvalid",
        "field": clean(problem.path, TEXT_MAX_CHARS * 2),
        "message": clean(problem.told(Door.KUBECTL), _LINE_MAX_CHARS),
    }
