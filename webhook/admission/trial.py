"""One object reviewed without being admitted: a manifest, or one that runs already."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from webhook.admission.existing import judge_existing, request_of
from webhook.admission.report import report_of
from webhook.admission.review import review
from webhook.errors import EvaluationError, JqUnavailableError, ManifestError
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
    """
    One document and its answer; *error* where there is none. *is_mapping_fault* tells whether a
    mapping failed on it, or jq had no time for it and may be asked again.
    """

    source: str
    request: AdmissionRequest
    decision: Decision
    error: str = ""
    is_mapping_fault: bool = False

    def decides_as(self, other: Reviewed) -> bool:
        """
        Whether it comes to the same as *other*, a review of the same object by other policies.

        What is decided is the verdict, its reasons, and the object that comes of it, in whatever
        steps. Whose rule it is decides nothing: one that has moved to another policy does as it
        did. Nor do warnings: of what is only tried nothing comes.
        """
        return self._essence == other._essence

    @property
    def _essence(self) -> object:
        reasons = [
            (each.path, each.field, each.rule, each.problem, each.value, each.accepted)
            for each in self.decision.violations
        ]
        return self.error, self.decision.allowed, reasons, self.request.object

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


def namespace_of(manifest: Manifest, given: str | None = None, usual: str = "default") -> str:
    """The namespace that it is submitted to: the *given* one, else its own, else the *usual*."""
    namespace = _metadata_of(manifest).get("namespace") if given is None else given
    return namespace if isinstance(namespace, str) and namespace else usual


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
        return _failed(manifest.name, request, error)
    return Reviewed(manifest.name, request, decision)


def try_existing(
    document: dict[str, Any], source: str, snapshot: Snapshot, worker: JqWorker
) -> Reviewed:
    """
    Judge *document*, an object of the cluster, as it stands: see `judge_existing`.

    It stays as it is. Blocks where a mapping needs jq.
    """
    request = request_of(document)
    try:
        decision = answer_by_jq(
            worker, document, lambda answers: judge_existing(document, snapshot, answers)
        )
    except EvaluationError as error:
        return _failed(source, request, error)
    return Reviewed(source, request, decision)


def _failed(source: str, request: AdmissionRequest, error: EvaluationError) -> Reviewed:
    nothing = Decision(allowed=False, mapped=True)
    is_fault = not isinstance(error, JqUnavailableError)
    return Reviewed(source, request, nothing, str(error), is_mapping_fault=is_fault)


def _metadata_of(manifest: Manifest) -> dict[str, Any]:
    metadata = manifest.value.get("metadata") if isinstance(manifest.value, dict) else None
    return metadata if isinstance(metadata, dict) else {}
