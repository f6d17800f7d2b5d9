"""One plan enforced on one object: what is written, then what is judged."""

from __future__ import annotations

from typing import Any

from webhook.admission.subresources import judged_object
from webhook.mapping.answers import JqAnswers
from webhook.model.kinds import GroupVersionKind
from webhook.model.request import AdmissionRequest, Operation
from webhook.policy.enforce.enforcer import Enforcer
from webhook.policy.plans import Plan

_POD = GroupVersionKind("", "v1", "Pod")


def enforce(
    plan: Plan,
    request: AdmissionRequest,
    document: dict[str, Any],
    answers: JqAnswers,
    *,
    fills_in: bool,
) -> Enforcer:
    """
    Judge *document* by *plan*; with *fills_in* it is edited before, if such a request ever is.

    Raises:
        EvaluationError: a mapping failed on this object.
        UnansweredError: jq has to be asked first.
    """
    old = request.old_object if request.operation is Operation.UPDATE else None
    sub_resource = request.sub_resource
    enforcer = Enforcer(
        plan,
        judged_object(document, sub_resource),
        None if old is None else judged_object(old, sub_resource),
        answers,
    )
    # A Pod that runs is not changed under its owner's feet; most of it is immutable anyway.
    runs = request.kind == _POD and request.operation is Operation.UPDATE
    if fills_in and not runs and not sub_resource:
        enforcer.mutate()
    enforcer.judge()
    return enforcer
