"""
Documents, compiled into one `Snapshot`.

A document that can't be compiled never takes effect: its last good version stays in force where
there is one, and the snapshot lists the problem. All doors that judge documents (`lint`, the
server, REST and the webhook for our own kinds) go through `build_snapshot`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from webhook.catalog import builtin_documents, native_rows
from webhook.errors import FieldConflictError, SpecError
from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.fields import CompiledGroup, native_groups
from webhook.mapping.formatters import CompiledFormatter
from webhook.model.documents import Document, revision_of
from webhook.model.kinds import GroupVersionKind
from webhook.model.scopes import Scope
from webhook.model.settings import EngineSettings
from webhook.policy.checks.advice import advise
from webhook.policy.checks.contradictions import Territory, check_policy, shadowed
from webhook.policy.compile.assets import Asset, by_reference
from webhook.policy.effective import age
from webhook.policy.planning import PolicySet
from webhook.policy.rules.enforcement import CompiledPolicy
from webhook.store.compile import remarks
from webhook.store.compile.inputs import BareTarget, QueryCheck, SourceFile
from webhook.store.compile.parts import Parts
from webhook.store.compile.problems import Problems
from webhook.store.compile.reading import Reader
from webhook.store.compile.trying import Trials
from webhook.store.memo import Memo
from webhook.store.snapshot import Snapshot, territory_of

_POLICY_KINDS = ("WorkloadPolicy", "GVKPolicy")


def build_snapshot(
    files: Iterable[SourceFile],
    settings: EngineSettings,
    *,
    previous: Snapshot | None = None,
    check_query: QueryCheck | None = None,
    bare: BareTarget | None = None,
    youngest: tuple[str, str] | None = None,
) -> Snapshot:
    """
    Compile *files* and the built-in documents; nothing raises, `problems` tells.

    What *previous* worked out is used again where it depends on nothing that has changed. The
    document with the key *youngest* counts as younger than all others.
    """
    sources = tuple(files)
    builder = _Builder(settings, previous, check_query, bare, youngest, _builtin_memo())
    for file in sources:
        builder.reader.read(file)
    return builder.build(sources)


class _Builder:
    def __init__(
        self,
        settings: EngineSettings,
        previous: Snapshot | None,
        check_query: QueryCheck | None,
        bare: BareTarget | None,
        youngest: tuple[str, str] | None,
        memo: Memo | None = None,
    ) -> None:
        self._settings = settings
        self._youngest = youngest
        self._memo = Memo(previous.memo if previous is not None else memo)
        self._last_good = {document.key: document for document in _documents_of(previous)}
        self._problems = Problems()
        self._trials = Trials(check_query, self._memo, self._problems, previous)
        self._parts = Parts(self._memo)
        self._in_force: list[Document] = []
        self.reader = Reader(self._problems, self._memo, bare)

    def build(self, sources: tuple[SourceFile, ...]) -> Snapshot:
        self.reader.keep_last_good(self._last_good.values())
        groups = self._compile_groups(self._compile_formatters())
        mappings = self._compile_mappings(groups)
        policies = self._compile_policies(mappings, self._compile_assets(groups))
        around = self.reader.around
        remarks.on_others(self._problems, self.reader.others, mappings)
        remarks.on_served(self._problems, self._in_force, around.served)
        remarks.on_case(self._problems, mappings, around.served)
        remarks.on_registering(self._problems, mappings)
        documents = tuple(sorted(self._in_force, key=lambda document: document.key))
        revision = revision_of([[d.key, d.revision] for d in documents] + [self._around_revision()])
        return Snapshot(
            revision=revision,
            settings=self._settings,
            documents=documents,
            mappings=mappings,
            # The same one, with the plans that it has built, where nothing of it has changed.
            policies=self._memo.recall(
                ("policies",),
                (*mappings.values(), None, *policies),
                lambda: PolicySet(mappings, policies),
            ),
            namespaces=around.namespaces,
            queues=around.queues,
            refused_queries=self._trials.refused,
            is_provisional=self._trials.is_transient,
            problems=self._problems.all,
            territory=self._territory(),
            sources=sources,
            memo=self._memo.seal(),
        )

    def _around_revision(self) -> str:
        around = self.reader.around
        return self._memo.recall(
            ("surroundings",),
            (around,),
            lambda: revision_of({"namespaces": around.namespaces, "queues": around.queues}),
        )

    def _territory(self) -> Territory:
        around = self.reader.around
        return self._memo.recall(
            ("territory",),
            (around, self._settings),
            lambda: territory_of(around.namespaces, around.queues, self._settings),
        )

    def _home(self, policy: CompiledPolicy, territory: Territory) -> object:
        """
        Where the project of *policy* lies: all that its check takes from the territory, beside
        the same of those that it meets. The same object as long as it lies there.
        """
        if policy.scope is not Scope.PROJECT:
            return None
        return self._memo.recall_equal(("home", policy.unit), territory.departments_of(policy.unit))

    def _of_kind(self, *kinds: str) -> Iterator[Document]:
        """Built-in documents first, then the others, the older first."""
        yield from [document for document in builtin_documents() if document.kind in kinds]
        yield from sorted(
            [document for document in self.reader.documents.values() if document.kind in kinds],
            key=lambda document: (document.key == self._youngest, age(document)),
        )

    def _versions(self, document: Document) -> Iterator[Document]:
        """The document, then its last good version."""
        yield document
        good = self._last_good.get(document.key)
        if good is not None and good.revision != document.revision:
            yield replace(good, source=document.source)

    def _accept(self, document: Document) -> None:
        if not document.builtin:
            self._in_force.append(document)

    def _compile_formatters(self) -> dict[str, CompiledFormatter]:
        """The formatters in force, by name in lower case."""
        formatters: dict[str, CompiledFormatter] = {}
        holders: dict[str, Document] = {}
        for document in self._of_kind("Formatter"):
            for version in self._versions(document):
                try:
                    formatter = self._parts.formatter(version)
                    name = formatter.name.lower()
                    holder = holders.get(name)
                    if holder is not None:
                        which = "is built in" if holder.builtin else f"is {holder.source} already"
                        raise ExceptionGroup(
                            "the formatter is wrong",
                            [
                                FieldConflictError(
                                    "spec.name", f"formatter {formatter.name} {which}"
                                )
                            ],
                        )
                    if not version.builtin:
                        # Tests try those that we ship.
                        self._trials.of_formatter(formatter)
                        self._trials.advise_on_writing(formatter, document.source)
                except Exception as error:  # noqa: BLE001  See `Problems.report`.
                    self._problems.report(document.source, error)
                else:
                    formatters[name], holders[name] = formatter, version
                    self._accept(version)
                    break
        return formatters

    def _compile_groups(
        self, formatters: Mapping[str, CompiledFormatter]
    ) -> dict[str, CompiledGroup]:
        """The field groups in force, by name in lower case."""
        groups = dict(_native_groups())
        for document in self._of_kind("FieldGroup"):
            for version in self._versions(document):
                try:
                    name = (version.spec.name or version.name).lower()
                    group = self._parts.group(version, formatters, groups.get(name))
                    if not version.builtin:
                        self._trials.of_group(group, groups.get(name))
                    self._parts.extend(groups, group)
                except Exception as error:  # noqa: BLE001  See `Problems.report`.
                    self._problems.report(document.source, error)
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
                    mapping = self._parts.mapping(version, groups)
                    twin = mappings.get(mapping.kind)
                    if twin is not None:
                        raise ExceptionGroup(
                            "the mapping is wrong",
                            [
                                FieldConflictError(
                                    "spec.workloadType",
                                    f"{mapping.kind} has a mapping already: {twin.source}",
                                )
                            ],
                        )
                    if not version.builtin:
                        # Tests try those that we ship.
                        self._trials.of_mapping(mapping)
                except Exception as error:  # noqa: BLE001  See `Problems.report`.
                    self._problems.report(document.source, error)
                else:
                    mappings[mapping.kind] = mapping
                    self._accept(version)
                    break
        return mappings

    def _compile_assets(self, groups: Mapping[str, CompiledGroup]) -> dict[str, Asset]:
        """The data sources in force, by what policies may call them."""
        assets: list[tuple[Document, Asset]] = []
        for document in self._of_kind("DataSource"):
            for version in self._versions(document):
                try:
                    asset = self._parts.asset(version, groups["training"])
                except Exception as error:  # noqa: BLE001  See `Problems.report`.
                    self._problems.report(document.source, error)
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
        # For each kind something that stands for all that was accepted so far, in its order, and
        # for where their projects lie.
        chains: dict[GroupVersionKind, object] = {}
        tried: list[CompiledPolicy] = []
        documents = list(self._of_kind(*_POLICY_KINDS))
        territory = self._territory()
        for document in documents:
            for version in self._versions(document):
                try:
                    compiled = self._parts.policy(version, mappings, assets)
                    problems = [
                        problem
                        for policy in compiled
                        for problem in self._check_policy(
                            policy,
                            # One that is only tried holds no slot, and nobody's keeps it out.
                            accepted.get(policy.kind, ()) if policy.is_enforced else (),
                            chains.get(policy.kind) if policy.is_enforced else None,
                            territory,
                        )
                    ]
                    if problems:
                        raise ExceptionGroup("the policy is wrong", problems)
                    self._trials.of_policy(compiled)
                except Exception as error:  # noqa: BLE001  See `Problems.report`.
                    self._problems.report(document.source, error)
                else:
                    self._warn(document, compiled)
                    tried += [policy for policy in compiled if not policy.is_enforced]
                    for policy in [policy for policy in compiled if policy.is_enforced]:
                        before = accepted.setdefault(policy.kind, [])
                        chains[policy.kind] = self._memo.recall(
                            ("chain", policy.kind, len(before)),
                            (chains.get(policy.kind), policy, self._home(policy, territory)),
                            object,
                        )
                        before.append(policy)
                    self._accept(version)
                    break
        advice: dict[tuple[str, str, str], None] = {}
        for kind, policies in accepted.items():
            never = self._memo.recall(
                ("advice", kind),
                (chains[kind],),
                partial(_list_advice, policies, territory),
            )
            advice |= {(source, warning.path, warning.problem): None for source, warning in never}
        # Once, however many kinds a document is for.
        for source, path, problem in advice:
            self._problems.advise(source, path, problem)
        return [*[policy for policies in accepted.values() for policy in policies], *tried]

    def _check_policy(
        self,
        policy: CompiledPolicy,
        accepted: Sequence[CompiledPolicy],
        chain: object,
        territory: Territory,
    ) -> list[SpecError]:
        return self._memo.recall(
            ("checked", policy.document.key, policy.kind),
            (policy, chain, self._home(policy, territory)),
            partial(check_policy, policy, accepted, territory),
        )

    def _warn(self, document: Document, compiled: Sequence[CompiledPolicy]) -> None:
        if document.builtin:
            return
        warnings = dict.fromkeys([text for policy in compiled for text in policy.warnings])
        for text in warnings:
            path, _, problem = text.partition(": ")
            # Of several kinds one has no mapping: nothing else is said about that path.
            missing = path == "spec.workloadType"
            self._problems.advise(document.source, path, problem, missing=missing)


@cache
def _builtin_memo() -> Memo:
    """What the built-in documents alone compile to: some fifty mappings, which never change."""
    return _Builder(EngineSettings(), None, None, None, None).build(()).memo


@cache
def _native_groups() -> Mapping[str, CompiledGroup]:
    """The groups of the native types: they never change, and there are some five hundred fields."""
    return native_groups(native_rows())


def _list_advice(
    policies: Sequence[CompiledPolicy], territory: Territory
) -> list[tuple[str, SpecError]]:
    return [*shadowed(policies, territory), *advise(policies)]


def _documents_of(snapshot: Snapshot | None) -> tuple[Document, ...]:
    return snapshot.documents if snapshot is not None else ()
