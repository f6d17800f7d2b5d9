"""One submission reviewed without being admitted: what the gate would answer to a manifest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from webhook.admission.report import report_of
from webhook.admission.review import review
from webhook.errors import EvaluationError, ManifestError
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.locate import answer_by_jq
from webhook.model.decision import Decision
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import Manifest
from webhook.model.request import AdmissionRequest, Operation, Phase
from webhook.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Submission:
    """
    How a manifest is submitted. None leaves it to the manifest, and to what is known of its
    namespace.
    """

    namespace: str | None = None
    project: str | None = None
    department: str | None = None
    operation: Operation | None = None
    old_object: dict[str, Any] | None = None
    user: str = ""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """One document and its answer; *error* where a mapping failed on it."""

    source: str
    request: AdmissionRequest
    decision: Decision
    error: str = ""

    @property
    def report(self) -> dict[str, Any]:
        return report_of(self.source, self.request, self.decision, error=self.error)


def kind_of(manifest: Manifest) -> GroupVersionKind:
    """
    Raises:
        ManifestError: *manifest* is no object of Kubernetes.
    """
    if not isinstance(manifest.value, dict):
        raise ManifestError(manifest.name, "is no Kubernetes object")
    kind = GroupVersionKind.of(manifest.value)
    if not kind.version or not kind.kind:
        raise ManifestError(manifest.name, "apiVersion and kind are needed")
    return kind


def name_of(manifest: Manifest) -> str:
    """Its name; ``""`` where it has none."""
    name = _metadata_of(manifest).get("name")
    return name if isinstance(name, str) else ""


def namespace_of(manifest: Manifest, given: str | None = None) -> str:
    """The namespace that it is submitted to: the *given* one, else its own, else `default`."""
    namespace = _metadata_of(manifest).get("namespace") if given is None else given
    return namespace if isinstance(namespace, str) and namespace else "default"


def try_submission(
    manifest: Manifest, submission: Submission, snapshot: Snapshot, worker: JqWorker
) -> Reviewed:
    """
    Complete and judge *manifest*. It is edited in place: the report shows it as it will be.

    Blocks where a mapping needs jq.

    Raises:
        ManifestError: *manifest* is no object of Kubernetes.
    """
    kind = kind_of(manifest)
    namespace = namespace_of(manifest, submission.namespace)
    default = Operation.CREATE if submission.old_object is None else Operation.UPDATE
    request = AdmissionRequest(
        uid=manifest.name,
        kind=kind,
        operation=submission.operation or default,
        object=manifest.value,
        old_object=submission.old_object,
        name=name_of(manifest),
        namespace=namespace,
        user=submission.user,
    )
    branch = snapshot.branch(namespace, project=submission.project)
    if submission.department is not None:
        branch = replace(branch, department=submission.department)
    try:
        decision = answer_by_jq(
            worker,
            manifest.value,
            lambda answers: review(request, Phase.REVIEW, snapshot, answers, branch),
        )
    except EvaluationError as error:
        return Reviewed(manifest.name, request, Decision(allowed=False, mapped=True), str(error))
    return Reviewed(manifest.name, request, decision)


def _metadata_of(manifest: Manifest) -> dict[str, Any]:
    metadata = manifest.value.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
