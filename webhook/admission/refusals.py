"""`Decision` -> what an Event in the namespace says of a denial."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.admission.response import violation_line
from webhook.admission.texts import NAME_MAX_CHARS, TEXT_MAX_CHARS, clean
from webhook.model.decision import Decision
from webhook.model.object_metadata import controller_of
from webhook.model.refusals import Refusal
from webhook.model.request import AdmissionRequest, Operation

# Of an Event's note; Kubernetes refuses a longer one (`validation.NoteLengthLimit`).
NOTE_MAX_BYTES = 1024

# What is left out is in the decision record and was in the answer.
_MAX_LINES = 4
_MAX_FIELDS = 8
_MAX_POLICIES = 3

_VERBS = {Operation.CREATE: "create", Operation.UPDATE: "change", Operation.DELETE: "delete"}


def refusal_of(request: AdmissionRequest, decision: Decision) -> Refusal | None:
    """
    What is told of this denial; None where there is nobody to tell.

    That is for all that was admitted, for a dry run, which has no effects, and for objects in no
    namespace: an Event about them would stand in `default`, whose readers have nothing to do
    with it.
    """
    if decision.allowed or request.dry_run or not request.namespace:
        return None
    user = clean(request.user, TEXT_MAX_CHARS) or "somebody"
    kind = clean(request.kind.kind, TEXT_MAX_CHARS)
    may_not = f"{user} may not {_VERBS.get(request.operation, 'submit')}"
    lines = [violation_line(violation) for violation in decision.violations[:_MAX_LINES]]
    if not lines:
        lines = [clean(line) for line in decision.reason.splitlines()[:_MAX_LINES]]
    if left := len(decision.violations) - len(lines):
        lines.append(f"and {left} more" if left > 0 else "")
    note = f"{may_not} {_subject(request, kind)}: {'; '.join(filter(None, lines))}"
    return Refusal(
        clean(request.namespace, NAME_MAX_CHARS),
        _cut(note),
        _cut(f"{may_not} several objects of kind {kind}: {_summary(decision)}"),
    )


def _subject(request: AdmissionRequest, kind: str) -> str:
    """Which object. One that a controller makes has another name each time, its owner has not."""
    of = f"{clean(request.sub_resource, TEXT_MAX_CHARS)} of " if request.sub_resource else ""
    metadata = (request.object or {}).get("metadata")
    owner = controller_of(metadata) if isinstance(metadata, dict) else None
    if owner is not None:
        made_for = f"{clean(owner.kind, TEXT_MAX_CHARS)} {clean(owner.name, NAME_MAX_CHARS)}"
        return f"{of}{kind} of {made_for}"
    return f"{of}{kind} {clean(request.display_name, NAME_MAX_CHARS)}"


def _summary(decision: Decision) -> str:
    """The fields and policies of all violations, without what differs between objects."""
    violations = decision.violations
    fields = _first([clean(item.field) or "object" for item in violations], _MAX_FIELDS)
    policies = _first([clean(str(item.source)) for item in violations], _MAX_POLICIES)
    return f"{', '.join(fields)} ({'; '.join(policies)})" if fields else "refused by policy"


def _first(texts: Iterable[str], count: int) -> list[str]:
    """Each of *texts* once, *count* at most, and a sign that there are more."""
    found = list(dict.fromkeys(texts))
    return found[:count] + (["…"] if len(found) > count else [])


def _cut(note: str) -> str:
    text = note.encode()
    if len(text) <= NOTE_MAX_BYTES:
        return note
    # The sign has three bytes, and the cut may lie inside of a character.
    return text[: NOTE_MAX_BYTES - 3].decode(errors="ignore") + "…"
