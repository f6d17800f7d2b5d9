"""
Documents, compiled into one `Snapshot`.

A document that can't be compiled never takes effect: its last good version stays in force where
there is one, and the snapshot lists the problem. All doors that judge documents (`lint`, the
server, later REST and the webhook for our own kinds) go through `build_snapshot`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from webhook.catalog import builtin_documents, native_rows
from webhook.errors import EvaluationError, MissingReferenceError, SpecError
from webhook.mapping.compiled import CompiledMapping, compile_mapping
from webhook.mapping.fields import CompiledGroup, compile_group, native_groups
from webhook.model.documents import (
    POLICY_KINDS,
    Document,
    is_ours,
    parse_document,
    revision_of,
)
from webhook.model.kinds import POLICY_GROUP, GroupVersionKind
from webhook.model.manifests import Manifest
from webhook.model.settings import EngineSettings
from webhook.policy.assets import Asset, by_reference, compile_asset
from webhook.policy.compile import compile_policy
from webhook.policy.contradictions import check_policy, shadowed
from webhook.policy.effective import PolicySet, age
from webhook.policy.enforcement import CompiledPolicy
from webhook.store.snapshot import DocumentProblem, Snapshot, territory_of

log = logging.getLogger("gatewright.store")

# Tries an expression where it can be killed; raises SpecError at the given path.
QueryCheck = Callable[[str, str], None]

_POLICY_KINDS = ("WorkloadPolicy", "GVKPolicy")
_KAI_QUEUE_GROUP = "scheduling.run.ai"
_BARE_KEYS = frozenset({"defaults", "rules", "imposedAssets"})


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One place where documents come from: those that could be read, or why none could."""

    name: str
    manifests: tuple[Manifest, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class BareTarget:
    """What a bare document (only defaults, rules, imposedAssets) is to be a policy for."""

    workload_type: Any
    scope: str
    unit: str = ""


def build_snapshot(
    files: Iterable[SourceFile],
    settings: EngineSettings,
    *,
    previous: Snapshot | None = None,
    check_query: QueryCheck | None = None,
    bare: BareTarget | None = None,
) -> Snapshot:
    """Compile *files* and the built-in documents; nothing raises, `problems` tells."""
    builder = _Builder(settings, previous, check_query, bare)
    for file in files:
        builder.read(file)
    return builder.build()


class _Builder:
    def __init__(
        self,
        settings: EngineSettings,
        previous: Snapshot | None,
        check_query: QueryCheck | None,
        bare: BareTarget | None,
    ) -> None:
        self._settings = settings
        self._check_query = check_query
        self._bare = bare
        self._last_good = {document.key: document for document in _documents_of(previous)}
        self._checked = _checked_queries(previous)
        self._refused = dict(previous.refused_queries) if previous is not None else {}
        self._seen_queries: set[str] = set()
        self._problems: list[DocumentProblem] = []
        self._documents: dict[tuple[str, str], Document] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._queues: dict[str, str] = {}
        self._in_force: list[Document] = []
        # Which documents of the last snapshot a file or document that failed stands for.
        self._failed: list[Callable[[Document], bool]] = []
        self._transient = False

    # -- reading ----------------------------------------------------------------------------

    def read(self, file: SourceFile) -> None:
        """Take in one file. If it can't be read, what it last said stays."""
        if file.error:
            self._problems.append(DocumentProblem(file.name, "", file.error))
            self._failed.append(lambda good: good.source.rpartition("#")[0] == file.name)
        for manifest in file.manifests:
            self._read_manifest(manifest)

    def _read_manifest(self, manifest: Manifest) -> None:
        value = manifest.value
        if not isinstance(value, dict):
            self._problem(manifest.name, "", "is no Kubernetes object")
            return
        if value and set(value) <= _BARE_KEYS:
            value = self._dress(manifest, value)
            if value is None:
                return
        kind = GroupVersionKind.of(value)
        if is_ours(value):
            self._read_document(manifest, value)
        elif kind.group == "" and kind.kind == "Namespace":
            metadata = _object(value.get("metadata"))
            labels = _object(metadata.get("labels"))
            self._namespaces[str(metadata.get("name", ""))] = {
                key: text for key, text in labels.items() if isinstance(text, str)
            }
        elif kind.group == _KAI_QUEUE_GROUP and kind.kind == "Queue":
            parent = _object(value.get("spec")).get("parentQueue")
            if isinstance(parent, str) and parent:
                self._queues[str(_object(value.get("metadata")).get("name", ""))] = parent
        elif not kind.version or not kind.kind:
            self._problem(manifest.name, "", "apiVersion and kind are needed")
        elif kind.kind in POLICY_KINDS:
            problem = f"{kind.kind} of {kind.api_version} is not ours: that is {POLICY_GROUP}"
            self._problems.append(
                DocumentProblem(manifest.name, "apiVersion", problem, warning=True)
            )

    def _dress(self, manifest: Manifest, value: dict[str, Any]) -> dict[str, Any] | None:
        """A bare document in an envelope."""
        bare = self._bare
        if bare is None:
            self._problem(
                manifest.name,
                "",
                "a bare policy (defaults, rules, imposedAssets) needs --workload-type and --scope",
            )
            return None
        spec = {"workloadType": bare.workload_type, "scope": bare.scope, **value}
        if bare.unit:
            spec[bare.scope] = bare.unit
        return {
            "apiVersion": "policy.gatewright.io/v1alpha1",
            "kind": "WorkloadPolicy",
            "metadata": {"name": manifest.name},
            "spec": spec,
        }

    def _read_document(self, manifest: Manifest, value: dict[str, Any]) -> None:
        name = _object(value.get("metadata")).get("name")
        key = (str(value.get("kind")), name.lower() if isinstance(name, str) else "")
        try:
            document = parse_document(value, manifest.name)
        except Exception as error:  # noqa: BLE001  See _report.
            self._report(manifest.name, error)
            if key[1]:
                self._failed.append(lambda good: good.key == key)
            else:
                self._failed.append(lambda good: good.source == manifest.name)
            return
        twin = self._documents.get(document.key)
        if twin is not None:
            if age(document) < age(twin):
                document, twin = twin, document
                self._documents[twin.key] = twin
            self._problem(document.source, "metadata.name", f"{twin.source} has this name already")
            return
        self._documents[document.key] = document

    def _keep_last_good(self) -> None:
        """Once all is read: what could not be, and nobody else supplies, stays as it was."""
        for key, document in self._last_good.items():
            if any(wanted(document) for wanted in self._failed):
                self._documents.setdefault(key, document)

    # -- compiling --------------------------------------------------------------------------

    def build(self) -> Snapshot:
        self._keep_last_good()
        groups = self._compile_groups()
        mappings = self._compile_mappings(groups)
        policies = self._compile_policies(mappings, self._compile_assets(groups))
        documents = tuple(sorted(self._in_force, key=lambda document: document.key))
        surroundings = {"namespaces": self._namespaces, "queues": self._queues}
        return Snapshot(
            revision=revision_of([[d.key, d.revision] for d in documents] + [surroundings]),
            settings=self._settings,
            documents=documents,
            mappings=mappings,
            policies=PolicySet(mappings, policies),
            namespaces=self._namespaces,
            queues=self._queues,
            refused_queries={
                source: why for source, why in self._refused.items() if source in self._seen_queries
            },
            is_provisional=self._transient,
            problems=tuple(sorted(self._problems, key=lambda item: (item.document, item.path))),
        )

    def _of_kind(self, *kinds: str) -> Iterator[Document]:
        """Built-in documents first, then the others, the older first."""
        yield from [document for document in builtin_documents() if document.kind in kinds]
        yield from sorted([d for d in self._documents.values() if d.kind in kinds], key=age)

    def _versions(self, document: Document) -> Iterator[Document]:
        """The document, then its last good version."""
        yield document
        good = self._last_good.get(document.key)
        if good is not None and good.revision != document.revision:
            yield replace(good, source=document.source)

    def _accept(self, document: Document) -> None:
        if not document.builtin:
            self._in_force.append(document)

    def _compile_groups(self) -> dict[str, CompiledGroup]:
        """The field groups in force, by name in lower case."""
        groups = dict(_native_groups())
        for document in self._of_kind("FieldGroup"):
            for version in self._versions(document):
                try:
                    _extend(groups, compile_group(version))
                except Exception as error:  # noqa: BLE001  See _report.
                    self._report(document.source, error)
                else:
                    self._accept(version)
                    break
        return groups

    def _compile_mappings(
        self, groups: Mapping[str, CompiledGroup]
    ) -> dict[GroupVersionKind, CompiledMapping]:
        mappings: dict[GroupVersionKind, CompiledMapping] = {}
        for document in self._of_kind("SpecMapping"):
            for version in self._versions(document):
                try:
                    mapping = compile_mapping(version, groups)
                    twin = mappings.get(mapping.kind)
                    if twin is not None:
                        raise ExceptionGroup(
                            "the mapping is wrong",
                            [
                                SpecError(
                                    "spec.workloadType",
                                    f"{mapping.kind} has a mapping already: {twin.source}",
                                )
                            ],
                        )
                    self._check_queries(mapping)
                except Exception as error:  # noqa: BLE001  See _report.
                    self._report(document.source, error)
                else:
                    mappings[mapping.kind] = mapping
                    self._accept(version)
                    break
        return mappings

    def _check_queries(self, mapping: CompiledMapping) -> None:
        """Let jq try what is no plain path; what was tried before is not tried again."""
        problems: list[SpecError] = []
        for name, selector in mapping.selectors.items():
            source = selector.query.source
            self._seen_queries.add(source)
            if selector.query.plain is not None or source in self._checked:
                continue
            path = f"spec.specSelectors.{name}.query"
            if source in self._refused:
                problems.append(SpecError(path, self._refused[source]))
            elif self._check_query is not None:
                try:
                    self._check_query(source, path)
                except SpecError as error:
                    self._refused[source] = error.problem
                    problems.append(error)
                except EvaluationError as error:
                    # Not the expression's fault: jq was busy, or could not be started.
                    self._transient = True
                    problems.append(SpecError(path, str(error)))
        if problems:
            raise ExceptionGroup("the mapping is wrong", problems)

    def _compile_assets(self, groups: Mapping[str, CompiledGroup]) -> dict[str, Asset]:
        """The data sources in force, by what policies may call them."""
        assets: list[tuple[Document, Asset]] = []
        for document in self._of_kind("DataSource"):
            for version in self._versions(document):
                try:
                    asset = compile_asset(version, groups["training"].fields)
                except Exception as error:  # noqa: BLE001  See _report.
                    self._report(document.source, error)
                else:
                    assets.append((version, asset))
                    self._accept(version)
                    break
        return by_reference(assets)

    def _compile_policies(
        self,
        mappings: Mapping[GroupVersionKind, CompiledMapping],
        assets: Mapping[str, Asset],
    ) -> list[CompiledPolicy]:
        accepted: dict[GroupVersionKind, list[CompiledPolicy]] = {}
        territory = territory_of(self._namespaces, self._queues, self._settings)
        for document in self._of_kind(*_POLICY_KINDS):
            for version in self._versions(document):
                try:
                    compiled = compile_policy(version, mappings, assets)
                    problems = [
                        problem
                        for policy in compiled
                        for problem in check_policy(
                            policy, accepted.get(policy.kind, ()), territory
                        )
                    ]
                    if problems:
                        raise ExceptionGroup("the policy is wrong", problems)
                except Exception as error:  # noqa: BLE001  See _report.
                    self._report(document.source, error)
                else:
                    self._warn(document, compiled)
                    for policy in compiled:
                        accepted.setdefault(policy.kind, []).append(policy)
                    self._accept(version)
                    break
        for policies in accepted.values():
            for source, warning in shadowed(policies, territory):
                self._problems.append(
                    DocumentProblem(source, warning.path, warning.problem, warning=True)
                )
        return [policy for policies in accepted.values() for policy in policies]

    # -- problems ---------------------------------------------------------------------------

    def _problem(self, document: str, path: str, problem: str) -> None:
        self._problems.append(DocumentProblem(document, path, problem))

    def _report(self, document: str, error: Exception) -> None:
        """
        Say what is wrong with *document*.

        Whatever the error is, even a fault of ours: one document must not keep the others from
        taking effect.
        """
        if not isinstance(error, ExceptionGroup):
            log.exception("document failed", extra={"document": document})
            self._problem(document, "", f"can't be compiled: {type(error).__name__}")
            return
        for leaf in _leaves(error):
            self._problems.append(
                DocumentProblem(
                    document,
                    leaf.path,
                    leaf.problem,
                    warning=isinstance(leaf, MissingReferenceError),
                )
            )

    def _warn(self, document: Document, compiled: Sequence[CompiledPolicy]) -> None:
        if document.builtin:
            return
        warnings = dict.fromkeys([text for policy in compiled for text in policy.warnings])
        for text in warnings:
            path, _, problem = text.partition(": ")
            self._problems.append(DocumentProblem(document.source, path, problem, warning=True))


@cache
def _native_groups() -> Mapping[str, CompiledGroup]:
    """The groups of the native types: they never change, and there are some five hundred fields."""
    return native_groups(native_rows())


def _extend(groups: dict[str, CompiledGroup], added: CompiledGroup) -> None:
    """Add the fields of *added* to its group. A field that is there already is not redefined."""
    group = groups.get(added.name.lower(), CompiledGroup(added.name, {}, added.native))
    twice = sorted(group.fields.keys() & added.fields.keys())
    if twice:
        problem = "the group has this field already"
        raise ExceptionGroup(
            "the field group is wrong",
            [SpecError(f"spec.fields.{name}", problem) for name in twice],
        )
    groups[added.name.lower()] = CompiledGroup(
        group.name, {**group.fields, **added.fields}, group.native
    )


def _documents_of(snapshot: Snapshot | None) -> tuple[Document, ...]:
    return snapshot.documents if snapshot is not None else ()


def _checked_queries(snapshot: Snapshot | None) -> frozenset[str]:
    if snapshot is None:
        return frozenset()
    return frozenset(
        [
            selector.query.source
            for mapping in snapshot.mappings.values()
            for selector in mapping.selectors.values()
        ]
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _leaves(group: BaseException) -> Iterator[SpecError]:
    if isinstance(group, BaseExceptionGroup):
        for error in group.exceptions:
            yield from _leaves(error)
    elif isinstance(group, SpecError):
        yield group
