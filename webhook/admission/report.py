"""A decision as programs read it: the JSON of `gatewright review` (and of the REST API)."""

from __future__ import annotations

from typing import Any

from webhook.admission.previews import preview_texts
from webhook.model.decision import Change, Decision, Violation
from webhook.model.pointer import to_pointer
from webhook.model.request import AdmissionRequest


def report_of(
    source: str, request: AdmissionRequest, decision: Decision, *, error: str = ""
) -> dict[str, Any]:
    """
    One element of the array that `review -o json` prints.

    *object* is the object as it will be. With *error*, the mapping failed and nothing is known:
    `allowed` is null.
    """
    report: dict[str, Any] = {
        "source": source,
        "kind": {
            "group": request.kind.group,
            "version": request.kind.version,
            "kind": request.kind.kind,
        },
        "namespace": request.namespace,
        "name": request.display_name,
        "mapped": decision.mapped,
        "allowed": None if error else decision.allowed,
        "violations": [_violation(violation) for violation in decision.violations],
        "changes": [_change(change) for change in decision.changes],
        "patch": decision.patch,
        "object": request.object,
        "warnings": warnings_of(decision),
    }
    if error:
        report["error"] = error
    return report


def warnings_of(decision: Decision) -> list[str]:
    """
    What whoever asks is warned of. He wants to know more than a submitter is told: also what
    policies with `mode: Audit` would do.
    """
    silent = [preview for preview in decision.previews if not preview.is_told]
    return [*decision.warnings, *[text for each in silent for text in preview_texts(each)]]


def _violation(violation: Violation) -> dict[str, Any]:
    return {
        "field": violation.field,
        "rule": violation.rule.value,
        "path": to_pointer(violation.path),
        "selector": violation.selector,
        "item": violation.item,
        "message": violation.problem,
        "value": violation.value,
        "accepted": violation.accepted,
        "policy": violation.source.policy,
        "scope": violation.source.scope.value,
        "unit": violation.source.unit,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "path": to_pointer(change.path),
        "field": change.field,
        "rule": change.rule.value,
        "old": change.old,
        "new": change.new,
        "policy": change.source.policy,
        "scope": change.source.scope.value,
        "unit": change.source.unit,
    }
