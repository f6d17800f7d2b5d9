"""
What would be wrong if a document were written or deleted.

Every door that writes documents asks here first, and gets what `lint` would say afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.errors import EvaluationError
from webhook.model.documents import is_ours
from webhook.model.manifests import Manifest
from webhook.store.compile.inputs import QueryCheck, SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.snapshot import DocumentProblem, ProblemReason, Snapshot

# Kind and name; the name in lower case.
Key = tuple[str, str]

# What other documents refer to. Policies are referred to by none.
REFERABLE = ("Formatter", "FieldGroup", "SpecMapping", "DataSource")


@dataclass(frozen=True, slots=True)
class ChangeCheck:
    """
    What a change would lead to.

    *problems* are errors of the changed document, and those that the change makes in others (a
    policy that no longer compiles). *missing* are its references that are not there (yet).
    *users* are the documents ("GVKPolicy acme-baseline") that use what is to be deleted.
    """

    problems: tuple[DocumentProblem, ...] = ()
    missing: tuple[DocumentProblem, ...] = ()
    warnings: tuple[DocumentProblem, ...] = ()
    users: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether nothing speaks against it but references that may come later."""
        return not self.problems and not self.users


def check_change(
    sources: Sequence[SourceFile],
    snapshot: Snapshot,
    *,
    put: dict[str, Any] | None = None,
    delete: tuple[str, str] | None = None,
    check_query: QueryCheck | None = None,
) -> ChangeCheck:
    """
    What would come of writing the manifest *put* beside *sources*, or in place of the one of its
    kind and name; or of deleting the document *delete* (kind and name).

    *snapshot* is the one in force. A problem of another document that was there before is not
    reported. Blocks: jq is asked, and all that depends on the document is compiled.

    Raises:
        EvaluationError: jq could not be asked now.
    """
    if put is not None:
        return _Check(sources, snapshot, check_query).put(put)
    if delete is not None:
        return _Check(sources, snapshot, check_query).delete((delete[0], delete[1].lower()))
    return ChangeCheck()


class _Check:
    def __init__(
        self, sources: Sequence[SourceFile], snapshot: Snapshot, check_query: QueryCheck | None
    ) -> None:
        self._sources = sources
        self._settings = snapshot.settings
        self._check_query = check_query
        # Others may have been written since the one in force was built.
        is_current = _are_same(sources, snapshot.sources) and not snapshot.is_provisional
        self._before = snapshot if is_current else self._build(sources, snapshot)
        self._known = frozenset(map(_identity, self._before.problems))

    def put(self, manifest: dict[str, Any]) -> ChangeCheck:
        key = _key_of(manifest)
        sources, name = self._with(manifest, key)
        after = self._build(sources, self._before)
        own, others = self._new_problems(after, name)
        if any(not problem.is_harmless for problem in others):
            # It counts as older than those: say it of the one that is being written.
            after = self._build(sources, self._before, youngest=key)
            own_as_youngest, others_then = self._new_problems(after, name)
            if any(not problem.warning for problem in own_as_youngest):
                own, others = own_as_youngest, others_then
        broken = [problem for problem in others if not problem.is_harmless]
        advice = [problem for problem in others if problem.reason is ProblemReason.ADVICE]
        missing = [item for item in own if item.reason is ProblemReason.REFERENCE_NOT_FOUND]
        return ChangeCheck(
            problems=(*[item for item in own if not item.warning], *broken),
            missing=tuple(missing),
            warnings=(*[item for item in own if item.warning and item not in missing], *advice),
        )

    def delete(self, key: Key) -> ChangeCheck:
        if key[0] not in REFERABLE:
            return ChangeCheck()
        titles = _titles(self._sources)
        after = self._build([_without(source, key) for source in self._sources], self._before)
        _, others = self._new_problems(after, "")
        users = [
            titles.get(problem.document, problem.document)
            for problem in others
            if not problem.is_harmless
        ]
        return ChangeCheck(users=tuple(dict.fromkeys(users)))

    def _build(
        self, sources: Sequence[SourceFile], previous: Snapshot, *, youngest: Key | None = None
    ) -> Snapshot:
        built = build_snapshot(
            sources,
            self._settings,
            previous=previous,
            check_query=self._check_query,
            youngest=youngest,
        )
        if built.is_provisional:
            raise EvaluationError("expressions can't be tried now; try again")
        return built

    def _with(self, manifest: dict[str, Any], key: Key) -> tuple[list[SourceFile], str]:
        """The sources with *manifest* in them, and how problems name it there."""
        for index, source in enumerate(self._sources):
            for place, old in enumerate(source.manifests):
                if isinstance(old.value, dict) and is_ours(old.value) and _key_of(old.value) == key:
                    manifests = list(source.manifests)
                    manifests[place] = replace(old, value=manifest)
                    files = list(self._sources)
                    files[index] = replace(source, manifests=tuple(manifests))
                    return files, old.name
        added = Titled(" ".join(part for part in _named(manifest) if part), 0, 1, manifest)
        return [*self._sources, SourceFile(added.source, (added,))], added.name

    def _new_problems(
        self, after: Snapshot, name: str
    ) -> tuple[list[DocumentProblem], list[DocumentProblem]]:
        """Those of the document that problems call *name*, and those that are new in others."""
        own = [problem for problem in after.problems if problem.document == name]
        others = [
            problem
            for problem in after.problems
            if problem.document != name and _identity(problem) not in self._known
        ]
        return own, others


class Titled(Manifest):
    """A document that is in no file: it is named by its kind and name, which *source* says."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self.source


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _identity(problem: DocumentProblem) -> tuple[str, str, str]:
    return problem.document, problem.path, problem.problem


def _named(manifest: Mapping[str, Any]) -> tuple[str, str]:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    kind = manifest.get("kind")
    return kind if isinstance(kind, str) else "", name if isinstance(name, str) else ""


def _key_of(manifest: Mapping[str, Any]) -> Key:
    kind, name = _named(manifest)
    return kind, name.lower()


def _titles(sources: Iterable[SourceFile]) -> dict[str, str]:
    """Kind and name of each document, by what problems call it."""
    return {
        manifest.name: " ".join(_named(manifest.value))
        for source in sources
        for manifest in source.manifests
        if isinstance(manifest.value, dict) and is_ours(manifest.value)
    }


def _without(source: SourceFile, key: Key) -> SourceFile:
    kept = tuple(
        [
            manifest
            for manifest in source.manifests
            if not (
                isinstance(manifest.value, dict)
                and is_ours(manifest.value)
                and _key_of(manifest.value) == key
            )
        ]
    )
    return source if len(kept) == len(source.manifests) else replace(source, manifests=kept)
