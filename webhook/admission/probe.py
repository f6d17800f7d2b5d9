"""
The probe: a pod that nobody makes, by which the reconciler sees whether this webhook mutates.

It evicts no pod as long as nobody would write the new amount into the next one.
"""

from __future__ import annotations

from webhook.model.decision import NOT_SHOWN, Change, Decision, Rule, Source
from webhook.model.pointer import lookup
from webhook.model.probes import PROBE_LABEL, PROBED
from webhook.model.request import AdmissionRequest, Operation, Phase
from webhook.model.scopes import Scope
from webhook.patch import Editor
from webhook.store.snapshot import Snapshot

_SOURCE = Source("probe", Scope.SYSTEM, kind="Probe")


def is_probe(request: AdmissionRequest, own_namespace: str) -> bool:
    """Whether *request* is a dry run of a pod in our *own_namespace* (``""``: unknown) that
    carries the label.
    """
    return (
        bool(own_namespace)
        and request.namespace == own_namespace
        and request.dry_run
        and request.operation is Operation.CREATE
        and not request.sub_resource
        and (request.kind.group, request.kind.kind) == ("", "Pod")
        and lookup(request.object, ("metadata", "labels", PROBE_LABEL)) == "true"
    )


def answer_probe(request: AdmissionRequest, phase: Phase, snapshot: Snapshot) -> Decision:
    """A change that is seen, and no judgement: nothing will ever be made of this pod."""
    document = request.object or {}
    path = ("metadata", "annotations", PROBED)
    old = lookup(document, path)
    reason = "a probe of this webhook"
    annotations = lookup(document, path[:-1])
    is_writable = annotations is None or isinstance(annotations, dict)
    if not phase.fills_in or old == snapshot.revision or not is_writable:
        return Decision(allowed=True, reason=reason)
    editor = Editor(document)
    editor.write(path, snapshot.revision)
    shown = None if old is None else NOT_SHOWN
    change = Change(path, "annotations", "podMetadata", "", Rule.SET, shown, NOT_SHOWN, _SOURCE)
    return Decision(allowed=True, changes=(change,), patch=editor.operations, reason=reason)
