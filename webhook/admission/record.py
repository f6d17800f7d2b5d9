"""`Decision` -> the line that auditors read, and its short form for the audit annotation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from webhook.admission.texts import NAME_MAX_CHARS, TEXT_MAX_CHARS, clean, printable, to_json
from webhook.model.decision import (
    Change,
    Decision,
    NotApplied,
    Outcome,
    Preview,
    Rule,
    Source,
    Violation,
)
from webhook.model.pointer import to_pointer
from webhook.model.request import AdmissionRequest
from webhook.model.scopes import Branch

# Container runtimes split log lines at 16 KiB; the rest is for what the logger adds.
RECORD_MAX_BYTES = 15 * 1024

# Audit events are kept for long and often sent over the network.
ANNOTATION_MAX_BYTES = 4096

# More entries of one kind than could fit into either, so that none of the rest is encoded.
_MAX_ENTRIES = 200

# One element of a list as it is kept.
_Entry = dict[str, Any]

# To ask a member for its value takes ten times as long as to look it up.
_RULE_NAMES = {rule: rule.value for rule in Rule}

_Lists = Mapping[str, tuple[Sequence[Any], Callable[[Any], dict[str, Any]]]]


def decision_record(
    request: AdmissionRequest,
    decision: Decision | None,
    *,
    phase: str,
    branch: Branch,
    snapshot: str,
    duration_s: float,
    error: str = "",
) -> dict[str, Any]:
    """
    What is kept of one review. No object, and no value that must not be printed.

    *decision* is None where we failed; *error* then names the fault. *snapshot* is the
    revision of what was in force. The time of day is added by whoever writes the record.
    """
    head: dict[str, Any] = {
        "uid": clean(request.uid, NAME_MAX_CHARS),
        "phase": phase,
        "operation": request.operation.value,
        "dryRun": request.dry_run,
        "user": clean(request.user, NAME_MAX_CHARS),
        "kind": {
            "group": clean(request.kind.group, NAME_MAX_CHARS),
            "version": clean(request.kind.version, NAME_MAX_CHARS),
            "kind": clean(request.kind.kind, NAME_MAX_CHARS),
        },
        "subResource": clean(request.sub_resource, NAME_MAX_CHARS),
        "namespace": clean(request.namespace, NAME_MAX_CHARS),
        "name": clean(request.display_name, NAME_MAX_CHARS),
        "project": clean(branch.project, NAME_MAX_CHARS),
        "department": clean(branch.department, NAME_MAX_CHARS),
        "outcome": (decision.outcome if decision else Outcome.FAILED).value,
        "snapshot": snapshot,
        "durationMs": round(duration_s * 1000, 3),
    }
    if error:
        head["error"] = clean(error)
    if decision is None:
        return head
    if decision.reason:
        head["reason"] = clean(decision.reason)

    lists: _Lists = {
        "changes": (decision.changes, change_entry),
        "violations": (decision.violations, violation_entry),
        "notApplied": (decision.not_applied, not_applied_entry),
        "previews": (_preview_findings(decision), preview_entry),
        "policies": (decision.consulted, source_entry),
    }
    return _fit(head, lists, RECORD_MAX_BYTES, decision)


def audit_annotation(decision: Decision) -> str:
    """
    The decision as JSON for the cluster's audit log, at most `ANNOTATION_MAX_BYTES` long.

    Empty where nothing was changed and nothing violated: the API server keeps only the first
    annotation of a key, and a second pass, which changes nothing, must not take its place.
    """
    previews = _preview_findings(decision)
    if not decision.changes and not decision.violations and not previews:
        return ""
    lists: _Lists = {
        "violations": (decision.violations, violation_entry),
        "changes": (decision.changes, change_entry),
        "previews": (previews, preview_entry),
        "policies": (decision.consulted, source_entry),
    }
    return to_json(_fit({}, lists, ANNOTATION_MAX_BYTES, decision)).decode()


def source_entry(source: Source) -> dict[str, Any]:
    """A policy that was consulted."""
    return {
        "kind": source.kind,
        **_origin(source),
        "revision": clean(source.revision, NAME_MAX_CHARS),
    }


def change_entry(change: Change) -> dict[str, Any]:
    """A value that was written."""
    path, field, _, _, rule, old, new, source, pointer = change
    origin = _origin(source)
    return {
        "path": clean(pointer or to_pointer(path), TEXT_MAX_CHARS * 2),
        "field": _field_name(field),
        "rule": _RULE_NAMES[rule],
        "old": None if old is None else printable(old),
        "new": printable(new),
        "policy": origin["policy"],
        "scope": origin["scope"],
        "unit": origin["unit"],
    }


def violation_entry(violation: Violation) -> dict[str, Any]:
    """A rule that was broken."""
    return {
        "path": clean(to_pointer(violation.path), TEXT_MAX_CHARS * 2),
        "field": clean(violation.field),
        "rule": _RULE_NAMES[violation.rule],
        "problem": clean(violation.problem),
        "value": printable(violation.value),
        "accepted": clean(violation.accepted),
        **_origin(violation.source),
    }


def _preview_findings(decision: Decision) -> list[tuple[Preview, Change | Violation | None]]:
    """Each thing that a policy which is only tried would have done."""
    found: list[tuple[Preview, Change | Violation | None]] = []
    for preview in decision.previews:
        if preview.error:
            found.append((preview, None))
        found += [(preview, violation) for violation in preview.violations]
        found += [(preview, change) for change in preview.changes]
    return found


def preview_entry(found: tuple[Preview, Change | Violation | None]) -> dict[str, Any]:
    """A change or violation of a policy that is only tried, with its mode."""
    preview, item = found
    if item is None:
        return {"mode": preview.mode, "error": clean(preview.error), **_origin(preview.source)}
    entry = violation_entry(item) if isinstance(item, Violation) else change_entry(item)
    return {"mode": preview.mode, **entry}


def not_applied_entry(left_out: NotApplied) -> dict[str, Any]:
    """A default that was left out, and why."""
    return {
        "path": clean(to_pointer(left_out.path), TEXT_MAX_CHARS * 2),
        "field": clean(left_out.field),
        "rule": left_out.rule.value,
        "reason": clean(left_out.reason),
        **_origin(left_out.source),
    }


# Fields are those of the policies, of which there are not many.
_field_name = lru_cache(maxsize=1024)(clean)


@lru_cache(maxsize=1024)
def _origin(source: Source) -> Mapping[str, Any]:
    return {
        "policy": clean(source.policy, NAME_MAX_CHARS),
        "scope": source.scope.value,
        "unit": clean(source.unit, NAME_MAX_CHARS),
    }


def _entries(
    decision: Decision, key: str, items: Sequence[Any], encode: Callable[[Any], _Entry]
) -> tuple[list[_Entry], int]:
    """
    The entries of one list, and their size as JSON, a comma for each included.

    Annotation and record share them.
    """
    found: tuple[list[_Entry], int] | None = decision.memo.get(key)
    if found is None:
        entries = [encode(item) for item in items[:_MAX_ENTRIES]]
        found = decision.memo[key] = entries, len(to_json(entries)) - 1
    return found


def _fit(
    head: Mapping[str, Any], lists: _Lists, max_bytes: int, decision: Decision
) -> dict[str, Any]:
    """
    *head* and *lists* as one object whose JSON has at most *max_bytes*.

    Where they don't fit, the list that takes most room loses its last entry, again and again;
    `omitted` then says how many each has lost. Empty lists are left out. *head* must fit.
    """
    entries: dict[str, list[_Entry]] = {}
    totals: dict[str, int] = {}
    for key, (items, encode) in lists.items():
        if items:
            entries[key], totals[key] = _entries(decision, key, items, encode)
    # Beside the entries: the keys, their brackets, and the longest `omitted`.
    frame = len(to_json(dict(head))) + sum([2 * len(key) + 24 for key in lists]) + 16
    if frame + sum(totals.values()) > max_bytes:
        _shorten(entries, max_bytes - frame)
    omitted = {
        key: len(lists[key][0]) - len(kept)
        for key, kept in entries.items()
        if len(lists[key][0]) > len(kept)
    }
    shown = {key: kept for key, kept in entries.items() if kept}
    return {**head, **shown, **({"omitted": omitted} if omitted else {})}


def _shorten(entries: dict[str, list[_Entry]], max_bytes: int) -> None:
    """Leave out of *entries* what is too much; their lists are replaced, not changed."""
    sizes = {key: [len(to_json(entry)) + 1 for entry in kept] for key, kept in entries.items()}
    totals = {key: sum(each) for key, each in sizes.items()}
    while sum(totals.values()) > max_bytes and any(totals.values()):
        largest = max(totals, key=lambda key: totals[key])
        totals[largest] -= sizes[largest].pop()
    for key, kept in entries.items():
        entries[key] = kept[: len(sizes[key])]
