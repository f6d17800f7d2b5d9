"""
Reviews of the documents that say how GPU allocations follow usage.

Pure, and answered at once: unlike our policies, nothing is compiled with them.
"""

from __future__ import annotations

from collections.abc import Mapping

from webhook.admission.decode import Review
from webhook.admission.documents import decide, name_generated, respond
from webhook.admission.texts import clean, to_json
from webhook.model.decision import Decision
from webhook.model.documents import revision_of
from webhook.model.request import AdmissionRequest, Operation, Phase
from webhook.model.rightsizing.documents import DEFAULT_NAMESPACE, KINDS, READ_ANNOTATIONS
from webhook.model.rightsizing.policies import GROUP, DocumentKey, Strategy
from webhook.store.changes import ChangeCheck
from webhook.store.rightsizing import check_rightsizing


def is_about_rightsizing(request: AdmissionRequest) -> bool:
    """Whether the request is about an object of that group."""
    return request.kind.group == GROUP


def judge_rightsizing(
    review: Review,
    phase: Phase,
    strategies: Mapping[DocumentKey, Strategy | None] | None,
    kinds: Mapping[str, str] | None = None,
) -> tuple[Decision, bytes]:
    """
    The decision about writing such a document, and the answer that tells it.

    *strategies* are all that there are, None where that is not known; so are *kinds*, those that
    have mappings (`store.rightsizing.kinds_of`).
    """
    checked = _check(review.request, phase, strategies, kinds)
    if isinstance(checked, str):
        decision = Decision(allowed=True, reason=checked)
        return decision, to_json(respond(review, decision, None))
    decision = decide(review.request, checked)
    return decision, to_json(respond(review, decision, checked))


def _check(
    request: AdmissionRequest,
    phase: Phase,
    strategies: Mapping[DocumentKey, Strategy | None] | None,
    kinds: Mapping[str, str] | None,
) -> ChangeCheck | str:
    """What is wrong, or why nothing has to be checked."""
    if phase is Phase.MUTATE:
        return "documents are judged by /validate"
    if request.kind.kind not in KINDS:
        return f"{clean(request.kind.kind)} is not judged here"
    if request.sub_resource:
        return f"{clean(request.sub_resource)} of a document is not judged"
    new, old = request.object, request.old_object
    if request.operation not in (Operation.CREATE, Operation.UPDATE) or new is None:
        return f"{request.operation} is not judged"
    if request.operation is Operation.UPDATE and old is not None and _is_same(old, new):
        # Of one that was bad before, finalizers and labels must stay editable.
        return "nothing that counts has changed"
    return check_rightsizing(
        name_generated(new),
        namespace=request.namespace or DEFAULT_NAMESPACE,
        strategies=strategies,
        kinds=kinds,
    )


def _is_same(old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    return revision_of(_judged(old)) == revision_of(_judged(new))


def _judged(document: Mapping[str, object]) -> list[object]:
    """The parts of a document that are read, beside its name."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    read = annotations if isinstance(annotations, dict) else {}
    return [document.get("spec"), *[read.get(name) for name in READ_ANNOTATIONS]]
