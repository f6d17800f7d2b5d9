"""Everything in force at one moment, as one immutable `Snapshot`; and the one in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.errors import NotReadyError
from webhook.mapping.compiled import CompiledMapping
from webhook.model.documents import Document
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.scopes import Branch
from webhook.model.settings import EngineSettings
from webhook.policy.checks.contradictions import Territory
from webhook.policy.planning import PolicySet
from webhook.policy.plans import Plan
from webhook.store.memo import Memo


class ProblemReason(StrEnum):
    """What kind of problem it is, in the words of our conditions."""

    COMPILE_ERROR = "CompileError"
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
    FIELD_CONFLICT = "FieldConflict"
    # In force as written, and about objects that the API server does not take (yet).
    KIND_NOT_SERVED = "KindNotServed"
    # In force as written, but perhaps not what its author wanted.
    ADVICE = "Advice"


_HARMLESS = frozenset({ProblemReason.ADVICE, ProblemReason.KIND_NOT_SERVED})


class Door(StrEnum):
    """Where a problem is told."""

    # Documents are sent as they stand, and sent again: by kubectl, by GitOps. `lint`, the log and
    # the status say the same.
    KUBECTL = "kubectl"
    # What is wrong is refused at once: nothing of it is there that could wait.
    REST = "rest"


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """
    What is wrong with one document.

    A *warning* does not keep it from being enforced, except that a document whose reference is
    not there (yet) waits for it. *cost* is the end of *problem* where that says what it costs as
    long as the document stays so.
    """

    document: str
    path: str
    problem: str
    warning: bool = False
    reason: ProblemReason = ProblemReason.COMPILE_ERROR
    cost: str = ""

    @property
    def is_harmless(self) -> bool:
        """Whether the document is in force all the same."""
        return self.reason in _HARMLESS

    def told(self, door: Door) -> str:
        """The problem as it is told at *door*."""
        return self.problem.removesuffix(self.cost) if door is Door.REST else self.problem

    def __str__(self) -> str:
        where = f"{self.document}: {self.path}" if self.path else self.document
        return f"{where}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    Everything in force at one moment.

    *documents* are those in force, without the built-in ones; *namespaces* the labels of each
    namespace that is known, *queues* the parent of each KAI queue.
    """

    revision: str
    settings: EngineSettings
    documents: tuple[Document, ...]
    mappings: Mapping[GroupVersionKind, CompiledMapping]
    policies: PolicySet
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    queues: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[DocumentProblem, ...] = ()
    # Queries that jq refused, and why: they are not tried again.
    refused_queries: Mapping[str, str] = field(default_factory=dict)
    # Something could not be checked for a reason that may pass; compile again soon.
    is_provisional: bool = False
    # Which branches there are, as far as namespaces and queues tell.
    territory: Territory = field(default_factory=Territory)
    # The very objects that it was built from.
    sources: tuple[object, ...] = field(default=(), compare=False, repr=False)
    # For the next build.
    memo: Memo = field(default_factory=Memo, compare=False, repr=False)

    @property
    def concerned_kinds(self) -> tuple[GroupVersionKind, ...]:
        """
        The kinds with a mapping on which something is judged or tried, in the order of their names.

        Of native ones the workload API itself asks something.
        """
        concerned = self.policies.kinds
        return tuple(
            sorted([kind for kind in self.mappings if kind in concerned or kind in NATIVE_TYPE_OF])
        )

    def branch(self, namespace: str, *, project: str | None = None) -> Branch:
        """
        Where a workload in *namespace* stands. Without labels, the namespace is the project.

        Another *project* may be named; its department is then the one that it lies in.
        """
        if project is not None:
            known = self.territory.departments_of(project)
            department = next(iter(known)) if len(known) == 1 else self.queues.get(project, "")
            return Branch(self.settings.cluster_name, department, project)
        labels = self.namespaces.get(namespace, {})
        return _branch(namespace, labels, self.queues, self.settings)

    def plan(self, kind: GroupVersionKind, branch: Branch) -> Plan | None:
        return self.policies.plan(kind, branch)


class Current:
    """
    The snapshot in force.

    A request takes `snapshot` once and keeps it: a reload in between changes the next request,
    never the running one.
    """

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None

    @property
    def ready(self) -> bool:
        return self._snapshot is not None

    @property
    def snapshot(self) -> Snapshot:
        """
        Raises:
            NotReadyError: nothing is loaded yet.
        """
        if self._snapshot is None:
            raise NotReadyError("no policies are loaded yet")
        return self._snapshot

    def replace(self, new: Snapshot) -> None:
        self._snapshot = new


def _branch(
    namespace: str,
    labels: Mapping[str, str],
    queues: Mapping[str, str],
    settings: EngineSettings,
) -> Branch:
    named = [labels[label] for label in settings.project_labels if labels.get(label)]
    project = named[0] if named else namespace
    department = labels.get(settings.department_label) or queues.get(project, "")
    return Branch(settings.cluster_name, department, project)


def territory_of(
    namespaces: Mapping[str, Mapping[str, str]],
    queues: Mapping[str, str],
    settings: EngineSettings,
) -> Territory:
    """Which branches there are, as far as *namespaces* and *queues* tell."""
    branches = [_branch(name, labels, queues, settings) for name, labels in namespaces.items()]
    seen = {branch.project for branch in branches}
    # A queue that no namespace uses yet is a project all the same.
    branches += [
        Branch(settings.cluster_name, parent, queue)
        for queue, parent in queues.items()
        if queue not in seen
    ]
    return Territory.of(settings.cluster_name, branches)
