"""
A recommendation that is written into a pod while it is made.

It comes last, when the policies have written what they want, and must not be what makes their
rules broken: then the pod stays as it was, and a warning and the record say why.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from webhook.errors import EvaluationError
from webhook.mapping.answers import JqAnswers, UnansweredError
from webhook.model.decision import Change, Decision, NotApplied, Rule, Source, Violation
from webhook.model.kinds import GroupVersionKind
from webhook.model.pointer import Path, lookup
from webhook.model.request import AdmissionRequest
from webhook.model.rightsizing.injections import Injection
from webhook.model.scopes import Branch, Scope
from webhook.patch import Editor
from webhook.policy.enforce.enforcer import Enforcer
from webhook.policy.gpu.before import GPU_BEFORE
from webhook.policy.gpu.injection import GpuChange, GpuPlan, plan_injection
from webhook.policy.gpu.pod import annotations_of
from webhook.policy.gpu.restoring import has_note, is_of
from webhook.policy.plans import Plan
from webhook.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policies say of a pod with the recommendation: its violations, or an *obstacle*."""

    violations: tuple[Violation, ...] = ()
    obstacle: str = ""


# Judges a copy of the pod that has the recommendation; the last one may edit the copy.
Judge = Callable[[dict[str, Any]], Verdict]

_NOTE: Path = ("metadata", "annotations", GPU_BEFORE)
_NO_RECOMMENDATION = Source("recommendations", Scope.SYSTEM, kind="GpuRecommendation")

# Where the kinds of Kubernetes have their pod template.
_TEMPLATES: Mapping[tuple[str, str], Path] = {
    **{
        ("apps", kind): ("spec", "template")
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    },
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}


@dataclass(frozen=True, slots=True)
class Injected:
    """What became of a recommendation. *verdict* is None where nothing was written."""

    changes: tuple[Change, ...] = ()
    not_applied: tuple[NotApplied, ...] = ()
    verdict: Verdict | None = None


def source_of(injection: Injection, branch: Branch, container: str = "") -> Source:
    """
    The policy that an injection, or what it says of one *container*, comes from.

    One of a namespace counts as one of its project, the narrowest scope that there is.
    """
    policy = injection.policies.get(container, injection.policy)
    scope = Scope.PROJECT if policy.namespace else Scope.CLUSTER
    return Source(str(policy), scope, branch.unit(scope), kind=policy.kind)


def inject(
    editor: Editor, injection: Injection | None, branch: Branch, judges: Sequence[Judge]
) -> Injected:
    """
    Write *injection* into the pod of *editor*, which stands at *branch*, unless one of *judges*
    is against it. The violations are those that the last one found.

    What the pod says that it asked for before is taken away, whatever becomes of that, unless it
    is what *injection* made of it.

    Raises:
        UnansweredError: jq has to be asked first. Nothing was written.
    """
    if not has_note(editor.document) or is_of(editor.document, injection):
        return _inject(editor, injection, branch, judges) if injection else Injected()
    note = annotations_of(editor.document)[GPU_BEFORE]
    clean = Editor(copy.deepcopy(editor.document))
    clean.remove(_NOTE)
    injected = _inject(clean, injection, branch, judges) if injection else Injected()
    left = lookup(clean.document, _NOTE)
    if left is None:
        editor.remove(_NOTE)
    source = source_of(injection, branch) if injection else _NO_RECOMMENDATION
    field = f"annotations[{GPU_BEFORE}]"
    dropped = Change(_NOTE, field, "podMetadata", "", Rule.SET, note, left, source)
    _write(editor, [(change.path, change.new) for change in injected.changes])
    kept = [change for change in injected.changes if change.path != _NOTE]
    return replace(injected, changes=(*kept, dropped) if left != note else tuple(kept))


def _inject(
    editor: Editor, injection: Injection, branch: Branch, judges: Sequence[Judge]
) -> Injected:
    plan = plan_injection(editor.document, injection)
    not_applied = [
        NotApplied(
            found.path,
            found.field,
            Rule.SET,
            found.reason,
            source_of(injection, branch, found.item),
        )
        for found in plan.obstacles
    ]
    if not plan.changes:
        return Injected(not_applied=tuple(not_applied))
    trial = Editor(copy.deepcopy(editor.document))
    _apply(trial, plan)
    verdict = Verdict()
    for judge in judges:
        verdict = judge(trial.document)
        if not verdict.obstacle:
            continue
        first = plan.changes[0]
        source = source_of(injection, branch, first.item)
        not_applied.append(NotApplied(first.path, first.field, Rule.SET, verdict.obstacle, source))
        return Injected(not_applied=tuple(not_applied))
    _apply(editor, plan)
    changes = tuple(
        [_recorded(change, source_of(injection, branch, change.item)) for change in plan.changes]
    )
    return Injected(changes, tuple(not_applied), verdict)


def inject_alone(
    decision: Decision,
    request: AdmissionRequest,
    snapshot: Snapshot,
    answers: JqAnswers,
    branch: Branch,
    injection: Injection | None,
) -> Decision:
    """
    *decision*, by which no policy acts on this pod, with the recommendation if there is one.

    A pod that is not judged because its owner was must not come to break a rule of its own
    kind's policies all the same.

    Raises:
        UnansweredError: jq has to be asked first. Nothing was written.
    """
    document = request.object or {}
    judges: list[Judge] = []
    plan = None
    if injection is not None:
        judges = judges_of_workload(document, snapshot, answers, branch, injection)
        plan = snapshot.plan(request.kind, branch)
    if plan is not None:
        judges.append(
            judge_by(plan, partial(_violations, plan, document, answers), answers, is_mutated=False)
        )
    editor = Editor(document)
    injected = inject(editor, injection, branch, judges)
    return replace(
        decision,
        changes=injected.changes,
        not_applied=injected.not_applied,
        warnings=tuple([warning_of(item) for item in injected.not_applied]),
        patch=editor.operations,
        consulted=(source_of(injection, branch),) if injection else (),
    )


def judges_of_workload(
    document: dict[str, Any],
    snapshot: Snapshot,
    answers: JqAnswers,
    branch: Branch,
    injection: Injection,
) -> list[Judge]:
    """
    The policies of the workload's own kind, which judged the pod's template and won't see the pod.

    Of kinds whose pod template is known; there are none where jq is needed to find something in
    them, as it is asked about the pod.
    """
    workload = injection.workload
    kind = GroupVersionKind.of({"apiVersion": workload.api_version, "kind": workload.kind})
    template = _TEMPLATES.get((kind.group, kind.kind))
    plan = None if template is None else snapshot.plan(kind, branch)
    if template is None or plan is None or plan.jq_sources:
        return []
    before = partial(_violations, plan, _inside(document, template), answers)
    judge = judge_by(plan, before, answers, is_mutated=False)
    return [lambda changed: judge(_inside(changed, template))]


def _inside(pod: dict[str, Any], template: Path) -> dict[str, Any]:
    """An object that has *pod* as its template, at that path."""
    found = pod
    for key in reversed(template):
        found = {str(key): found}
    return found


def _violations(plan: Plan, document: dict[str, Any], answers: JqAnswers) -> tuple[Violation, ...]:
    require_places(plan, answers)
    enforcer = Enforcer(plan, document, None, answers)
    enforcer.judge()
    return tuple(enforcer.findings.violations)


def require_places(plan: Plan, answers: JqAnswers) -> None:
    """
    Raises:
        UnansweredError: jq has not been asked yet where things are.
    """
    missing = tuple([source for source in plan.jq_sources if source not in answers.places])
    if missing:
        raise UnansweredError(queries=missing)


def warning_of(item: NotApplied) -> str:
    """What a submitter is told of something that was left out."""
    return f"{item.field}: {item.rule} not applied, {item.reason} ({item.source})"


def judge_by(
    plan: Plan,
    before: Callable[[], tuple[Violation, ...]],
    answers: JqAnswers,
    *,
    is_mutated: bool,
) -> Judge:
    """
    A judge by the policies of *plan*.

    It is against what breaks a rule that was not broken *before*, without the recommendation,
    and, where the pod *is_mutated* by the policies, against what they would change again when
    they are asked a second time.
    """

    def judge(document: dict[str, Any]) -> Verdict:
        try:
            enforcer = Enforcer(plan, document, None, answers)
            if is_mutated:
                enforcer.mutate()
            if enforcer.editor.operations:
                sources = [str(change.source) for change in enforcer.findings.changes]
                return Verdict(obstacle=f"{(*sources, 'a policy')[0]} would change it again")
            enforcer.judge()
            known = {_key(violation) for violation in before()}
        except UnansweredError as unanswered:
            if not answers.are_final:
                raise UnansweredError.of([unanswered], is_optional=True) from None
            return Verdict(obstacle=_UNJUDGED)
        except EvaluationError:
            return Verdict(obstacle=_UNJUDGED)
        violations = tuple(enforcer.findings.violations)
        for found in violations:
            if _key(found) not in known:
                return Verdict(obstacle=_broken(found))
        return Verdict(violations)

    return judge


_UNJUDGED = "the policies in force could not judge it"


def _broken(found: Violation) -> str:
    accepted = f"; {found.accepted}" if found.accepted else ""
    return f"{found.field} would be refused: {found.problem}{accepted} ({found.source})"


def _key(violation: Violation) -> tuple[Any, ...]:
    return violation.path, violation.field, violation.rule, violation.source


def _apply(editor: Editor, plan: GpuPlan) -> None:
    _write(editor, [(change.path, change.new) for change in plan.changes])


def _write(editor: Editor, values: Iterable[tuple[Path, Any]]) -> None:
    for path, new in values:
        if new is None:
            editor.remove(path)
        else:
            editor.write(path, new)


def _recorded(change: GpuChange, source: Source) -> Change:
    return Change(
        path=change.path,
        field=change.field,
        selector=change.selector,
        item=change.item,
        rule=Rule.SET,
        old=change.old,
        new=change.new,
        source=source,
    )
