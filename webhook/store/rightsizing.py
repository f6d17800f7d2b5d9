"""
Documents of `rightsizing.kubex.ai`, judged: the same for `lint` and for the webhook.

They are in no snapshot: the reconciler alone acts by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.catalog.pod_makers import pod_makers
from webhook.errors import MissingReferenceError, SpecError
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import Manifest
from webhook.model.rightsizing.documents import (
    DEFAULT_NAMESPACE,
    KINDS,
    STRATEGY_KINDS,
    is_rightsizing,
    key_of,
    read_document,
    warnings_of,
)
from webhook.model.rightsizing.policies import DocumentKey, Strategy
from webhook.model.rightsizing.workload_types import type_of
from webhook.store.changes import ChangeCheck
from webhook.store.compile.inputs import SourceFile
from webhook.store.snapshot import DocumentProblem, ProblemReason

# A document that waits looks harmless; so it is said what it costs.
_WAITING = "; until it is there, nothing is resized"


@dataclass(frozen=True, slots=True)
class RightsizingCheck:
    """What is wrong with the documents of a set, and how many of them can be read."""

    problems: tuple[DocumentProblem, ...]
    readable: int


def is_judged(manifest: Mapping[str, Any]) -> bool:
    """Whether *manifest* is of a kind that is read here; the group has others."""
    return is_rightsizing(manifest) and manifest.get("kind") in KINDS


def check_rightsizing(
    manifest: Mapping[str, Any],
    *,
    namespace: str = DEFAULT_NAMESPACE,
    strategies: Mapping[DocumentKey, Strategy | None] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> ChangeCheck:
    """
    What would come of writing *manifest*, which is called by its kind and name.

    *strategies* are all that there are; with None nothing is said about a missing one. *kinds* are
    from `kinds_of`; with None nothing is said about those.
    """
    key = key_of(manifest, namespace=namespace)
    found = _problems_of(manifest, f"{key.kind} {key.name}", namespace, strategies, kinds)
    return ChangeCheck(
        problems=tuple([problem for problem in found if not problem.warning]),
        missing=tuple([p for p in found if p.reason is ProblemReason.REFERENCE_NOT_FOUND]),
        warnings=tuple([p for p in found if p.reason is ProblemReason.ADVICE]),
    )


def kinds_of(mapped: Iterable[GroupVersionKind]) -> Mapping[str, str]:
    """
    The *mapped* kinds that have a group, as `scope.workloadTypes` names them.

    With each the kind that its pods are of, where it is known not to make these itself.
    """
    known = pod_makers()
    names = [type_of(kind.group, kind.kind) for kind in mapped if kind.group]
    return {name: known[name].makes if name in known else "" for name in names}


def check_sources(
    sources: Iterable[SourceFile], *, kinds: Mapping[str, str] | None = None
) -> RightsizingCheck:
    """
    All documents in *sources* as one set: they may refer to one another.

    *kinds* are from `kinds_of`; with None nothing is said about those.
    """
    manifests = [
        manifest
        for source in sources
        for manifest in source.manifests
        if isinstance(manifest.value, dict) and is_judged(manifest.value)
    ]
    strategies = strategies_in(manifest.value for manifest in manifests)
    problems: list[DocumentProblem] = []
    readable = 0
    first: dict[DocumentKey, Manifest] = {}
    for manifest in manifests:
        found = _problems_of(manifest.value, manifest.name, DEFAULT_NAMESPACE, strategies, kinds)
        key = key_of(manifest.value)
        twin = first.setdefault(key, manifest)
        if twin is not manifest and key.name:
            problem = f"{twin.name} has this name already"
            found = [*found, DocumentProblem(manifest.name, "metadata.name", problem)]
        readable += all(problem.warning for problem in found)
        problems += found
    return RightsizingCheck(tuple(problems), readable)


def strategies_in(manifests: Iterable[Mapping[str, Any]]) -> dict[DocumentKey, Strategy | None]:
    """The strategies among *manifests*; None for one that can't be read."""
    found: dict[DocumentKey, Strategy | None] = {}
    for manifest in manifests:
        if is_rightsizing(manifest) and manifest.get("kind") in STRATEGY_KINDS:
            found.setdefault(key_of(manifest), read_strategy(manifest))
    return found


def read_strategy(manifest: Mapping[str, Any]) -> Strategy | None:
    """The strategy that *manifest* is; None if it can't be read, or is something else."""
    try:
        document = read_document(manifest)
    except ExceptionGroup:
        return None
    return document if isinstance(document, Strategy) else None


def _problems_of(
    manifest: Mapping[str, Any],
    name: str,
    namespace: str,
    strategies: Mapping[DocumentKey, Strategy | None] | None,
    kinds: Mapping[str, str] | None,
) -> list[DocumentProblem]:
    try:
        told = warnings_of(manifest, namespace=namespace, strategies=strategies, kinds=kinds)
    except ExceptionGroup as group:
        return [DocumentProblem(name, error.path, error.problem) for error in _leaves(group)]
    return [_warning(name, error) for error in told]


def _warning(name: str, error: SpecError) -> DocumentProblem:
    if isinstance(error, MissingReferenceError):
        reason = ProblemReason.REFERENCE_NOT_FOUND
        return DocumentProblem(name, error.path, error.problem + _WAITING, True, reason)
    return DocumentProblem(name, error.path, error.problem, True, ProblemReason.ADVICE)


def _leaves(group: ExceptionGroup[Exception]) -> Sequence[SpecError]:
    return [error for error in group.exceptions if isinstance(error, SpecError)]
