"""
The main path: one request and one snapshot to a decision.

Nothing here waits, reads a clock or asks the network: equal arguments give equal decisions.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from webhook.admission.enforcing import enforce
from webhook.admission.injecting import (
    Injected,
    Judge,
    inject,
    inject_alone,
    judge_by,
    judges_of_workload,
    require_places,
    source_of,
    warning_of,
)
from webhook.admission.previews import joined, preview_all, preview_texts
from webhook.admission.probe import answer_probe, is_probe
from webhook.admission.subresources import (
    find_governing,
    is_counted,
    narrow_plan,
)
from webhook.mapping.answers import NO_ANSWERS, JqAnswers, UnansweredError
from webhook.model.decision import Decision, Rule, Violation
from webhook.model.globs import Glob
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.object_metadata import BOOKKEEPING, controller_of
from webhook.model.request import AdmissionRequest, Operation, Phase
from webhook.model.rightsizing.injections import Injection
from webhook.model.scopes import Branch
from webhook.model.values import same_value
from webhook.policy.enforce.findings import sort_key
from webhook.policy.gpu.restoring import has_note
from webhook.policy.native.violations import native_violations
from webhook.policy.plans import Plan
from webhook.store.snapshot import Snapshot

_POD = GroupVersionKind("", "v1", "Pod")
_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
NODES_GROUP = "system:nodes"
# KAI's own pods that hold a shared GPU or scale a node group; made by its service accounts.
KAI_NAMESPACES = frozenset({"kai-resource-reservation", "kai-scale-adjust"})
_KAI_USERS = tuple(
    [
        Glob.compile(f"system:serviceaccount:{namespace}:*")
        for namespace in ("kai-scheduler", "kai-resource-reservation", "kai-scale-adjust")
    ]
)

# A controller owner of this kind stands for the workloads that its own owner may be.
_OWNER_KINDS: Mapping[tuple[str, str], tuple[GroupVersionKind, ...]] = {
    ("apps/v1", "ReplicaSet"): (
        GroupVersionKind("apps", "v1", "Deployment"),
        GroupVersionKind("apps", "v1", "ReplicaSet"),
    ),
    ("batch/v1", "Job"): (
        GroupVersionKind("batch", "v1", "CronJob"),
        GroupVersionKind("batch", "v1", "Job"),
    ),
}


def review(
    request: AdmissionRequest,
    phase: Phase,
    snapshot: Snapshot,
    answers: JqAnswers = NO_ANSWERS,
    branch: Branch | None = None,
    injection: Injection | None = None,
) -> Decision:
    """
    Decide on one request.

    *answers* are those that jq gave about this object; `answer_by_jq` gets them. *branch* stands
    in for the namespace's where the caller knows better (`review --project`). *injection* is what
    a pod is recommended; it is for pods that are being made. `request.object` is edited:
    afterwards it is the object as it will be.

    Raises:
        EvaluationError: a mapping failed on this object.
        UnansweredError: jq has to be asked first. The object is as it was.
    """
    if is_probe(request, snapshot.settings.own_namespace):
        return answer_probe(request, phase, snapshot)
    branch = snapshot.branch(request.namespace) if branch is None else branch
    is_made = phase.fills_in and may_inject(request)
    injection = injection if is_made else None
    is_noted = is_made and has_note(request.object or {})
    plan = _find_plan(request, snapshot, branch)
    if isinstance(plan, Decision):
        if injection is None and not is_noted:
            return plan
        return inject_alone(plan, request, snapshot, answers, branch, injection)
    require_places(plan, answers)
    return _enforce(
        request,
        request.object or {},
        phase,
        snapshot,
        plan,
        answers,
        branch,
        injection,
        is_noted=is_noted,
    )


def may_inject(request: AdmissionRequest) -> bool:
    """Whether this is a pod that is being made, and not by its node or by KAI for itself."""
    return (
        (request.kind.group, request.kind.kind) == ("", "Pod")
        and request.operation is Operation.CREATE
        and request.object is not None
        and not request.sub_resource
        and not _system_pod(request)
    )


def _find_plan(request: AdmissionRequest, snapshot: Snapshot, branch: Branch) -> Plan | Decision:
    """What has to be enforced on this request, or why nothing has."""
    if request.operation not in (Operation.CREATE, Operation.UPDATE):
        return Decision(allowed=True, reason=f"{request.operation} is not judged")
    if request.object is None:
        return Decision(allowed=True, reason="there is no object")
    if request.operation is Operation.UPDATE and _only_bookkeeping(request):
        return Decision(allowed=True, reason="nothing changed that a policy could govern")
    of = f"{request.sub_resource} of " if request.sub_resource else ""
    if request.sub_resource:
        mapping = find_governing(request, snapshot.mappings)
        if mapping is None:
            reason = f"{of}{'/'.join(filter(None, request.resource))} is not judged"
            return Decision(allowed=True, mapped=request.kind in snapshot.mappings, reason=reason)
    else:
        mapping = snapshot.mappings.get(request.kind)
        if mapping is None:
            return Decision(allowed=True, reason=f"no mapping covers {request.kind}")
    plan = snapshot.plan(mapping.kind, branch)
    if plan is not None and request.sub_resource:
        plan = narrow_plan(plan, request.sub_resource)
    if mapping.kind in NATIVE_TYPE_OF and not request.sub_resource:
        # What the workload API asks for holds without a policy.
        plan = plan or Plan(mapping, (), ())
    if plan is None:
        reason = f"no policy concerns {of}{mapping.kind} here"
        return Decision(allowed=True, mapped=True, reason=reason)
    exempt = _exemption(request, snapshot, branch)
    return Decision(allowed=True, mapped=True, reason=exempt) if exempt else plan


def _enforce(
    request: AdmissionRequest,
    document: dict[str, Any],
    phase: Phase,
    snapshot: Snapshot,
    plan: Plan,
    answers: JqAnswers,
    branch: Branch,
    injection: Injection | None,
    *,
    is_noted: bool,
) -> Decision:
    old = request.old_object if request.operation is Operation.UPDATE else None
    sub_resource = request.sub_resource
    is_review = phase is Phase.REVIEW
    # Before the object is changed: a preview shows what its policy would have made of it.
    previews, unanswered = preview_all(
        plan, request, document, Phase.MUTATE if is_review else phase, answers
    )
    previews_again = is_review and bool(plan.previews)
    # What jq has yet to be asked may turn up when half is written.
    may_ask = plan.may_ask_late or bool(unanswered) or previews_again or injection is not None
    edited = copy.deepcopy(document) if may_ask else document
    enforcer = enforce(plan, request, edited, answers, fills_in=phase.fills_in)
    if previews_again:
        completed, lacking = preview_all(plan, request, edited, Phase.VALIDATE, answers)
        previews = joined(previews, completed)
        unanswered += lacking
    if unanswered:
        raise UnansweredError.of(unanswered, is_optional=True)
    findings = enforcer.findings
    found = tuple(findings.violations)
    consulted, injected = plan.consulted, Injected()
    judges: list[Judge] = []
    if injection is not None:
        before = found
        judges = judges_of_workload(edited, snapshot, answers, branch, injection)
        judges.append(judge_by(plan, lambda: before, answers, is_mutated=True))
        consulted = (*consulted, source_of(injection, branch))
    if injection is not None or is_noted:
        injected = inject(enforcer.editor, injection, branch, judges)
        found = found if injected.verdict is None else injected.verdict.violations
    if edited is not document:
        document.clear()
        document.update(edited)
    changes = (*findings.changes, *injected.changes)
    not_applied = (*findings.not_applied, *injected.not_applied)
    violations = tuple([item for item in found if is_counted(item, sub_resource)])
    if request.kind in NATIVE_TYPE_OF and not sub_resource:
        violations = _with_native(violations, NATIVE_TYPE_OF[request.kind], document, old)
    denied = bool(violations)
    if phase is Phase.MUTATE:
        # Where something is only missing, a later webhook may fill it: /validate judges again.
        denied = snapshot.settings.refuse_early and any(
            not violation.is_missing for violation in violations
        )
        violations = violations if denied else ()
    keeps_changes = is_review or not denied
    return Decision(
        allowed=not denied,
        mapped=True,
        changes=changes if keeps_changes else (),
        violations=violations,
        not_applied=not_applied,
        warnings=(
            *[warning_of(item) for item in not_applied],
            *[text for preview in previews if preview.is_told for text in preview_texts(preview)],
        ),
        previews=previews,
        patch=enforcer.editor.operations if keeps_changes else [],
        consulted=consulted,
    )


def _with_native(
    violations: tuple[Violation, ...],
    workload_type: str,
    document: dict[str, Any],
    old: dict[str, Any] | None,
) -> tuple[Violation, ...]:
    """*violations* and what the workload API says. A wrong type is told once."""
    told = {item.path for item in violations if item.rule is Rule.TYPE}
    native = [
        item
        for item in native_violations(workload_type, document, old)
        if item.rule is not Rule.TYPE or item.path not in told
    ]
    return tuple(sorted([*violations, *native], key=sort_key)) if native else violations


def _only_bookkeeping(request: AdmissionRequest) -> bool:
    """
    Whether an update leaves alone all that a mapping could read.

    Asked before jq is: a mapping that fails on an object must not keep its finalizers in place.
    """
    if request.object is None or request.old_object is None or request.sub_resource:
        return False
    new, old = _without_bookkeeping(request.object), _without_bookkeeping(request.old_object)
    return same_value(new, old)


def _without_bookkeeping(document: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        metadata = {key: part for key, part in metadata.items() if key not in BOOKKEEPING}
    return {**kept, "metadata": metadata}


def _exemption(request: AdmissionRequest, snapshot: Snapshot, branch: Branch) -> str:
    """
    Why this object is not judged; ``""`` if it is.

    Decided by who asks. Labels, annotations and ownerReferences can be written by anybody and
    never exempt by themselves.
    """
    if request.kind == _POD and (system := _system_pod(request)):
        return system
    if _is_trusted(request.user, snapshot):
        owner = judged_owner(request, snapshot, branch)
        if owner is not None:
            return f"made by {request.user} for a {owner.kind}, which was judged"
    return ""


def judged_owner(
    request: AdmissionRequest, snapshot: Snapshot, branch: Branch
) -> GroupVersionKind | None:
    """The kind that the object's controller has, if a policy in force concerns it on *branch*."""
    owner = controller_of(_metadata_of(request))
    if owner is None:
        return None
    kinds = _OWNER_KINDS.get((owner.api_version, owner.kind)) or (
        GroupVersionKind.of({"apiVersion": owner.api_version, "kind": owner.kind}),
    )
    for candidate in kinds:
        plan = snapshot.plan(candidate, branch)
        if plan is not None and plan.is_enforced:
            return candidate
    return None


def _system_pod(request: AdmissionRequest) -> str:
    """Whose pod this is, if it is one that nobody submits; else ``""``."""
    annotations = _metadata_of(request).get("annotations")
    if (
        NODES_GROUP in request.groups
        and isinstance(annotations, dict)
        and _MIRROR_ANNOTATION in annotations
    ):
        return "mirror pod of a node"
    if request.namespace in KAI_NAMESPACES and any(user.match(request.user) for user in _KAI_USERS):
        return "pod of the KAI scheduler itself"
    return ""


def _metadata_of(request: AdmissionRequest) -> dict[str, Any]:
    metadata = (request.object or {}).get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _is_trusted(user: str, snapshot: Snapshot) -> bool:
    return any(glob.match(user) for glob in _globs(snapshot.settings.trusted_controllers))


# By the patterns alone: a name of a user can be as long as a body.
@lru_cache(maxsize=16)
def _globs(patterns: tuple[str, ...]) -> tuple[Glob, ...]:
    return tuple([Glob.compile(pattern) for pattern in patterns])
