"""
Objects that are there already, judged as they stand.

Nothing is filled in: what is asked is whether that which runs is as the policies want it, and not
what would become of it if somebody submitted it again.
"""

from __future__ import annotations

from typing import Any

from webhook.admission.review import KAI_NAMESPACES, NODES_GROUP, judged_owner, review
from webhook.mapping.answers import NO_ANSWERS, JqAnswers
from webhook.model.decision import Decision
from webhook.model.kinds import GroupVersionKind, why_never_registered
from webhook.model.object_metadata import controller_of
from webhook.model.request import AdmissionRequest, Operation, Phase
from webhook.store.snapshot import Snapshot

_POD = GroupVersionKind("", "v1", "Pod")
_JOB = GroupVersionKind("batch", "v1", "Job")
_NODE = ("v1", "Node")


def kinds_to_judge(snapshot: Snapshot) -> tuple[GroupVersionKind, ...]:
    """The kinds about which admission is asked, as far as policies and mappings say."""
    return tuple([kind for kind in snapshot.concerned_kinds if not why_never_registered(kind)])


def request_of(document: dict[str, Any]) -> AdmissionRequest:
    """What stands for the request by which *document*, which names its kind, came to be."""
    metadata = _part(document, "metadata")
    kind = GroupVersionKind.of(document)
    owner = controller_of(metadata)
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    return AdmissionRequest(
        uid=str(metadata.get("uid") or ""),
        kind=kind,
        # As if new: what was there before the policies is no better for that.
        operation=Operation.CREATE,
        object=document,
        name=name,
        namespace=namespace,
        # A node owns its mirror pods, and nothing else is owned by one.
        groups=(NODES_GROUP,) if owner is not None and owner[:2] == _NODE else (),
    )


def judge_existing(
    document: dict[str, Any], snapshot: Snapshot, answers: JqAnswers = NO_ANSWERS
) -> Decision:
    """
    Whether *document*, an object of the cluster with its apiVersion and kind, breaks a rule.

    A decision with a `reason` says that nothing was judged, and why: no policy concerns it there,
    it was made for an owner that is judged itself, or it runs no more. *document* stays as it is.

    Raises:
        EvaluationError, UnansweredError: as in `review`.
    """
    request = request_of(document)
    branch = snapshot.branch(request.namespace)
    if reason := _exemption(request, snapshot):
        mapped = request.kind in snapshot.mappings
        return Decision(allowed=True, mapped=mapped, reason=reason)
    return review(request, Phase.EXISTING, snapshot, answers, branch)


def _exemption(request: AdmissionRequest, snapshot: Snapshot) -> str:
    """
    Why this object is not judged; ``""`` if it is.

    Who made it is not known any more. A controller as owner is believed: of an owner that is not
    there the garbage collector would have taken the object away.
    """
    document = request.object or {}
    metadata = _part(document, "metadata")
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    if _has_ended(request.kind, document):
        return "it has ended"
    if request.kind == _POD and request.namespace in KAI_NAMESPACES:
        return "pod of the KAI scheduler itself"
    owner = judged_owner(request, snapshot, snapshot.branch(request.namespace))
    if owner is not None:
        return f"made for a {owner.kind}, which is judged itself"
    return ""


def _has_ended(kind: GroupVersionKind, document: dict[str, Any]) -> bool:
    """Of Kubernetes' own kinds; how an object of another kind ends is known to its controller."""
    status = _part(document, "status")
    if kind == _POD:
        return status.get("phase") in ("Succeeded", "Failed")
    conditions = status.get("conditions") if kind == _JOB else None
    return any(
        isinstance(condition, dict)
        and condition.get("type") in ("Complete", "Failed")
        and condition.get("status") == "True"
        for condition in (conditions if isinstance(conditions, list) else ())
    )


def _part(document: dict[str, Any], key: str) -> dict[str, Any]:
    part = document.get(key)
    return part if isinstance(part, dict) else {}
