"""`Decision` -> the AdmissionReview that answers it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from webhook.admission.decode import Review
from webhook.admission.record import audit_annotation
from webhook.admission.texts import (
    NAME_MAX_CHARS,
    TEXT_MAX_CHARS,
    clean,
    to_json,
    value_text,
)
from webhook.model.decision import Decision, Rule, Source, Violation
from webhook.model.pointer import to_field_path
from webhook.model.request import AdmissionRequest

# The API server cuts a warning after 256 characters and all of them together after 4,096
# (apiserver, `pkg/warning`). We shorten them ourselves, to keep the policy's name.
WARNING_MAX_CHARS = 256
WARNINGS_MAX_CHARS = 4096

# A terminal's worth; what is left is counted. The causes are for programs, so there are more.
MESSAGE_MAX_LINES = 20
MAX_CAUSES = 100

CAUSE_REASON = {
    Rule.REQUIRED: "FieldValueRequired",
    Rule.OPTIONS: "FieldValueNotSupported",
    Rule.PATTERN: "FieldValueNotSupported",
    Rule.MIN: "FieldValueInvalid",
    Rule.MAX: "FieldValueInvalid",
    Rule.STEP: "FieldValueInvalid",
    Rule.CAN_ADD: "FieldValueForbidden",
    Rule.LOCKED: "FieldValueForbidden",
    Rule.IMPOSED: "FieldValueForbidden",
    Rule.TYPE: "FieldValueInvalid",
    Rule.SCHEMA: "FieldValueInvalid",
    Rule.UNIQUE: "FieldValueInvalid",
    Rule.BLOCKED: "FieldValueForbidden",
    Rule.CAN_EDIT: "FieldValueForbidden",
    Rule.SET: "FieldValueForbidden",
}

_POLICY_TAIL = re.compile(r" ?\(policy [^()]*\)$")


def respond(review: Review, decision: Decision) -> dict[str, Any]:
    """
    The AdmissionReview to send back, in the apiVersion of *review*.

    `patchType` is there exactly when `patch` is, and a denial has no patch: the API server
    would not apply it.
    """
    response: dict[str, Any] = {"uid": review.request.uid, "allowed": decision.allowed}
    if not decision.allowed:
        response["status"] = _denial(review, decision)
    elif decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(to_json(decision.patch)).decode("ascii")
    if warnings := shorten_warnings(decision.warnings):
        response["warnings"] = warnings
    if annotation := audit_annotation(decision):
        response["auditAnnotations"] = {"decision": annotation}

    return {"apiVersion": review.api_version, "kind": "AdmissionReview", "response": response}


def _denial(review: Review, decision: Decision) -> dict[str, Any]:
    request = review.request
    # Message and causes say the same of a violation.
    texts = [
        f"{_explain(violation)} {_whose(violation.source)}"
        for violation in decision.violations[:MAX_CAUSES]
    ]
    return {
        "code": 403,
        "reason": "Forbidden",
        "message": _message(request, decision, texts),
        "details": {
            "name": clean(request.display_name, NAME_MAX_CHARS),
            "group": clean(request.kind.group, NAME_MAX_CHARS),
            "kind": clean(request.kind.kind, NAME_MAX_CHARS),
            "causes": [
                {
                    "reason": CAUSE_REASON.get(violation.rule, "FieldValueInvalid"),
                    "field": clean(to_field_path(violation.path), TEXT_MAX_CHARS * 2),
                    "message": text,
                }
                for violation, text in zip(decision.violations, texts, strict=False)
            ],
        },
    }


def _message(request: AdmissionRequest, decision: Decision, texts: Sequence[str]) -> str:
    """
    What people read: which object breaks how many rules, a line per violation, and how many more
    there are.

    kubectl prints its own words before the first line, and a file may hold many objects. So the
    first line says nothing that has to be looked for; it gives way where there is no room.
    """
    count = len(decision.violations)
    lines = [
        f"{_where(violation)}: {text}"
        for violation, text in zip(decision.violations[:MESSAGE_MAX_LINES], texts, strict=False)
    ]
    if 0 < count < MESSAGE_MAX_LINES:
        what = clean(f"{request.kind.kind} {request.display_name}", NAME_MAX_CHARS)
        lines.insert(0, f"{what} breaks {'a rule' if count == 1 else f'{count} rules'}:")
    if left := max(0, count - MESSAGE_MAX_LINES):
        lines.append(f"and {left} more")
    if not lines:
        lines = [clean(line) for line in decision.reason.splitlines()[:MESSAGE_MAX_LINES]]
    return "\n".join(lines) or "refused by policy"


def violation_line(violation: Violation) -> str:
    """
    One violation in one line.

    `<field> [<selector> <item>]: <problem>, got <value>; <accepted> (policy <name>, <scope>
    <unit>)`, without the parts that are empty.
    """
    return f"{violation_text(violation)} {_whose(violation.source)}"


def violation_text(violation: Violation) -> str:
    """As `violation_line`, without the policy."""
    return f"{_where(violation)}: {_explain(violation)}"


def _where(violation: Violation) -> str:
    where = clean(violation.field) or clean(to_field_path(violation.path)) or "object"
    inside = f"{clean(violation.selector)} {clean(violation.item)}".strip()
    if inside:
        where = f"{where} [{inside}]"
    return where


def _explain(violation: Violation) -> str:
    text = clean(violation.problem)
    if violation.value is not None:
        text += f", got {value_text(violation.value)}"
    if violation.accepted:
        text += f"; {clean(violation.accepted)}"
    return text


@lru_cache(maxsize=1024)
def _whose(source: Source) -> str:
    return f"({clean(str(source), NAME_MAX_CHARS * 2)})"


def shorten_warnings(warnings: Iterable[str]) -> list[str]:
    """
    *warnings* as the API server passes them on: single lines within its limits, no doubles.

    A text that is too long loses its middle, so that the `(policy …)` at its end stays.
    """
    lines = list(dict.fromkeys(filter(None, map(_warning_line, warnings))))
    kept: list[str] = []
    room = WARNINGS_MAX_CHARS
    for position, line in enumerate(lines):
        more = f"and {len(lines) - position} more warnings"
        is_last = position == len(lines) - 1
        if len(line) > room - (0 if is_last else len(more)):
            return [*kept, more]
        kept.append(line)
        room -= len(line)
    return kept


def _warning_line(warning: str) -> str:
    line = clean(warning, max(len(warning), 1))
    if len(line) <= WARNING_MAX_CHARS:
        return line
    tail = _POLICY_TAIL.search(line)
    # A name may have 253 characters: then its beginning is what there is room for.
    end = clean(tail.group(), WARNING_MAX_CHARS - 40) if tail else ""
    return f"{line[: WARNING_MAX_CHARS - len(end) - 2]}… {end}".rstrip()
