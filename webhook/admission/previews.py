"""Policies that are only tried (`mode: Warn` or `Audit`): what each would do to an object."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import Any

from webhook.admission.enforcing import enforce
from webhook.admission.response import violation_text
from webhook.admission.subresources import is_counted
from webhook.admission.texts import clean, value_text
from webhook.errors import EvaluationError
from webhook.mapping.answers import JqAnswers, UnansweredError
from webhook.model.decision import Change, Preview, Violation
from webhook.model.pointer import Path, lookup
from webhook.model.request import AdmissionRequest, Phase
from webhook.model.values import same_value
from webhook.policy.enforce.findings import sort_key
from webhook.policy.plans import Plan, PreviewPlan

# Previews, and what those lack that are not there yet.
Previewed = tuple[tuple[Preview, ...], list[UnansweredError]]


def preview_all(
    plan: Plan,
    request: AdmissionRequest,
    document: dict[str, Any],
    phase: Phase,
    answers: JqAnswers,
) -> Previewed:
    """
    What each policy that *plan* only tries would do to a copy of *document*.

    *phase* is any but REVIEW, which is told what MUTATE finds in the object as it was submitted
    and what VALIDATE finds in the object as the policies in force have made it: see `joined`.
    """
    previews: list[Preview] = []
    unanswered: list[UnansweredError] = []
    for tried in plan.previews:
        try:
            previews.append(_preview(tried, plan, request, document, phase, answers))
        except (UnansweredError, EvaluationError) as error:
            # Whatever is wrong with a policy that is only tried, the others decide.
            if isinstance(error, UnansweredError) and not answers.are_final:
                unanswered.append(error)
            else:
                failed = "it could not be tried on this object"
                previews.append(Preview(tried.mode, tried.source, error=failed))
    return tuple(previews), unanswered


def joined(first: Sequence[Preview], second: Iterable[Preview]) -> tuple[Preview, ...]:
    """*first*, and what *second* found beside it: previews of the same policies, or of some."""
    more = {preview.source: preview for preview in second}
    return tuple([_joined(preview, more.get(preview.source)) for preview in first])


def _joined(preview: Preview, other: Preview | None) -> Preview:
    if other is None:
        return preview
    found = dict.fromkeys([*preview.violations, *other.violations])
    return replace(
        preview,
        violations=tuple(sorted(found, key=sort_key)),
        error=preview.error or other.error,
    )


def _preview(
    tried: PreviewPlan,
    plan: Plan,
    request: AdmissionRequest,
    document: dict[str, Any],
    phase: Phase,
    answers: JqAnswers,
) -> Preview:
    missing = tuple([s for s in tried.plan.jq_sources if s not in answers.places])
    if missing:
        raise UnansweredError(queries=missing)
    edited = copy.deepcopy(document)
    # Also where an object is only judged: the policy in force would have completed it before.
    fills_in = phase is not Phase.EXISTING
    findings = enforce(tried.plan, request, edited, answers, fills_in=fills_in).findings
    violations = [
        item
        for item in findings.violations
        # As for the policies in force: somebody after us may still fill it in.
        if is_counted(item, request.sub_resource)
        and not (phase is Phase.MUTATE and item.is_missing)
    ]
    if phase is Phase.VALIDATE:
        given = _given(plan, request, document, violations, answers)
        violations = [item for item in violations if item.path not in given]
    # What was changed was told at /mutate.
    changes = findings.changes if phase is Phase.MUTATE else ()
    return Preview(tried.mode, tried.source, tuple(changes), tuple(violations))


def _given(
    plan: Plan,
    request: AdmissionRequest,
    document: dict[str, Any],
    violations: Iterable[Violation],
    answers: JqAnswers,
) -> Set[Path]:
    """
    Where one of *violations* is about a value that the policies in force give.

    It is no fault of the workload: without it the policy that is tried saw the object at /mutate,
    and what a submitter writes was told there. Where jq computes values, they are not told apart:
    nobody asks it about an object that nobody has submitted.
    """
    if not plan.is_enforced or plan.may_ask_late:
        return frozenset()
    without = copy.deepcopy(document)
    taken: dict[Path, Any] = {}
    for item in violations:
        home = lookup(without, item.path[:-1])
        if item.path and isinstance(home, dict) and item.path[-1] in home:
            taken[item.path] = home.pop(item.path[-1])
    if not taken:
        return frozenset()
    enforce(plan, request, without, answers, fills_in=True)
    return {path for path, value in taken.items() if same_value(lookup(without, path), value)}


def preview_texts(preview: Preview) -> list[str]:
    """What would be refused or changed. A submitter is told it where the mode is Warn."""
    refused = [
        f"{violation_text(item)}; not enforced yet ({item.source})" for item in preview.violations
    ]
    spots: dict[tuple[object, ...], list[Change]] = {}
    for item in preview.changes:
        # A formatter may have written one value at several spots.
        key = item.field, item.selector, item.item, item.rule, item.source
        spots.setdefault(key, []).append(item)
    changed = [_change_text(each) for each in spots.values()]
    failed = [f"not enforced yet, and {preview.error} ({preview.source})"] if preview.error else []
    return list(dict.fromkeys(refused)) + changed + failed


def _change_text(spots: Sequence[Change]) -> str:
    """What would be written, and where. *spots* are those that one field has in one item."""
    change = spots[0]
    inside = f"{change.selector} {change.item}".strip()
    where = clean(f"{change.field} [{inside}]" if inside else change.field)
    written = f"{len(spots)} values"
    if len(spots) == 1:
        old = "" if change.old is None else f"{value_text(change.old)} -> "
        written = f"{old}{value_text(change.new)}"
    return f"{where}: {change.rule} would be applied, {written}; not enforced yet ({change.source})"
