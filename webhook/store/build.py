"""
Documents, compiled into one `Snapshot`.

A document that can't be compiled never takes effect: its last good version stays in force where
there is one, and the snapshot lists the problem. All doors that judge documents (`lint`, the
server, later REST and the webhook for our own kinds) go through `build_snapshot`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from webhook.catalog import builtin_documents, native_rows
from webhook.errors import (
    EvaluationError,
    FieldConflictError,
    MissingReferenceError,
    SpecError,
)
from webhook.mapping.compiled import CompiledMapping, compile_mapping
from webhook.mapping.evaluator import Trial
from webhook.mapping.fields import CompiledGroup, compile_group, extend_group, native_groups
from webhook.mapping.formatters import CompiledFormatter, compile_formatter
from webhook.mapping.joint_trials import Together
from webhook.mapping.trials import SmokeRun, WritesSamples, trials_of_lists
from webhook.model.documents import (
    POLICY_KINDS,
    UNCOMPILED_KINDS,
    Document,
    is_ours,
    parse_document,
    revision_of,
)
from webhook.model.kinds import POLICY_GROUP, GroupVersionKind, why_never_registered
from webhook.model.manifests import Manifest
from webhook.model.names import did_you_mean
from webhook.model.rightsizing.documents import KINDS as RIGHTSIZING_KINDS
from webhook.model.rightsizing.policies import GROUP as RIGHTSIZING_GROUP
from webhook.model.scopes import Scope
from webhook.model.settings import EngineSettings
from webhook.policy.checks.advice import advise
from webhook.policy.checks.contradictions import Territory, check_policy, shadowed
from webhook.policy.compile.assets import Asset, by_reference, compile_asset
from webhook.policy.compile.compiler import compile_policy
from webhook.policy.compile.trials import trials_of
from webhook.policy.effective import PolicySet, age
from webhook.policy.rules.enforcement import CompiledPolicy
from webhook.store.memo import Memo
from webhook.store.served import KindVersions
from webhook.store.snapshot import DocumentProblem, ProblemReason, Snapshot, territory_of

log = logging.getLogger("gatewright.store")

# Tries a query for places (text), or makes a `Trial`, where it can be killed; raises SpecError at
# the given path. What it is given goes on to `JqWorker.check` as it is.
QueryCheck = Callable[[Any, str], None]

_POLICY_KINDS = ("WorkloadPolicy", "GVKPolicy")
_KAI_QUEUE_GROUP = "scheduling.run.ai"
# Where policies are kept for a cluster too, such a file lists them.
_KUSTOMIZE_GROUP = "kustomize.config.k8s.io"
# A document that waits looks harmless: it is a warning, and no other message says what it costs.
_WAITING = "; until it is there, nothing of this document is enforced"
_UNSERVED = "; nothing is judged by this mapping until it is"
# Ours, as the limits of `model.documents`: a trial takes some 10 ms.
MAX_TRIALS = 150
# Of a group of many kinds so many are named: warnings are short.
_MAX_KINDS = 4
_BARE_KEYS = frozenset({"defaults", "rules", "imposedAssets"})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """
    Labels of each namespace and the parent of each KAI queue, where they are known already.

    *served* are the kinds that the API server serves of the groups that were looked at, with the
    versions of each.
    """

    namespaces: Mapping[str, Mapping[str, str]]
    queues: Mapping[str, str]
    served: Mapping[str, KindVersions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """
    One place where documents come from: those that could be read, or why none could.

    *surroundings* stand for manifests of Namespaces and Queues. *written* is when the file was,
    as Kubernetes writes times.
    """

    name: str
    manifests: tuple[Manifest, ...] = ()
    error: str = ""
    surroundings: Surroundings | None = None
    written: str = ""


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
        builder.read(file)
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
        self._surroundings: Surroundings | None = None
        self._in_force: list[Document] = []
        # Which documents of the last snapshot a file or document that failed stands for.
        self._failed: list[Callable[[Document], bool]] = []
        self._transient = False
        # What stands beside the documents and is none of them, and its kind.
        self._others: list[tuple[str, GroupVersionKind]] = []

    # -- reading ----------------------------------------------------------------------------

    def read(self, file: SourceFile) -> None:
        """Take in one file. If it can't be read, what it last said stays."""
        if file.error:
            self._problems.append(DocumentProblem(file.name, "", file.error))
            self._failed.append(
                lambda good: file.name in (good.source, good.source.rpartition("#")[0])
            )
        if file.surroundings is not None:
            self._surroundings = file.surroundings
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
            if kind.kind not in UNCOMPILED_KINDS:
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
            self._advise(manifest.name, "apiVersion", problem)
        elif kind.group == RIGHTSIZING_GROUP and kind.kind in RIGHTSIZING_KINDS:
            pass  # The reconciler acts by them, and store/rightsizing.py judges them.
        elif kind.group != _KUSTOMIZE_GROUP:
            self._others.append((manifest.name, kind))

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
            # By the object that was read: whoever keeps it does not change it.
            document = self._memo.recall(
                ("parsed", *key, manifest.name),
                (value,),
                lambda: parse_document(value, manifest.name),
            )
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

    def build(self, sources: tuple[SourceFile, ...]) -> Snapshot:
        self._keep_last_good()
        groups = self._compile_groups(self._compile_formatters())
        mappings = self._compile_mappings(groups)
        policies = self._compile_policies(mappings, self._compile_assets(groups))
        self._advise_on_others(mappings)
        self._advise_on_served()
        self._advise_on_case(mappings)
        self._advise_on_registering(mappings)
        documents = tuple(sorted(self._in_force, key=lambda document: document.key))
        around = self._around()
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
            refused_queries={
                source: why for source, why in self._refused.items() if source in self._seen_queries
            },
            is_provisional=self._transient,
            problems=tuple(sorted(self._problems, key=lambda item: (item.document, item.path))),
            territory=self._territory(),
            sources=sources,
            memo=self._memo.seal(),
        )

    def _around(self) -> Surroundings:
        """Namespaces and queues, from wherever they came."""
        if self._surroundings is None:
            self._surroundings = Surroundings(self._namespaces, self._queues)
        elif self._namespaces or self._queues:
            given = self._surroundings
            self._surroundings = replace(
                given,
                namespaces={**given.namespaces, **self._namespaces},
                queues={**given.queues, **self._queues},
            )
            self._namespaces, self._queues = {}, {}
        return self._surroundings

    def _around_revision(self) -> str:
        around = self._around()
        return self._memo.recall(
            ("surroundings",),
            (around,),
            lambda: revision_of({"namespaces": around.namespaces, "queues": around.queues}),
        )

    def _territory(self) -> Territory:
        around = self._around()
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
            [document for document in self._documents.values() if document.kind in kinds],
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
                    formatter = self._compile_formatter(version)
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
                        self._try_expressions(formatter)
                        self._advise_on_writing(formatter, document.source)
                except Exception as error:  # noqa: BLE001  See _report.
                    self._report(document.source, error)
                else:
                    formatters[name], holders[name] = formatter, version
                    self._accept(version)
                    break
        return formatters

    def _try_expressions(self, formatter: CompiledFormatter) -> None:
        self._make_trials(
            [
                (f"spec.fields.{name}.{part}", SmokeRun(expression, field.args))
                for name, field in formatter.fields.items()
                for part, expression in (("getExpr", field.get), ("setExpr", field.set))
                if expression is not None
            ]
        )

    def _advise_on_writing(self, formatter: CompiledFormatter, source: str) -> None:
        """Say of expressions that seem to write nothing that they do."""
        trials = [
            (f"spec.fields.{name}.setExpr", WritesSamples(field))
            for name, field in formatter.fields.items()
            if field.set is not None
        ]
        try:
            self._make_trials(trials)
        except ExceptionGroup as error:
            for leaf in _leaves(error):
                self._advise(source, leaf.path, leaf.problem)

    def _make_trials(self, trials: Iterable[tuple[str, Trial]]) -> None:
        """Make each trial, with the path that it is about; one that was made is not made again."""
        problems: list[SpecError] = []
        for path, trial in trials:
            self._seen_queries.add(trial.key)
            if trial.key in self._refused:
                problems.append(SpecError(path, self._refused[trial.key]))
                continue
            try:
                self._memo.recall(
                    ("tried", trial.key),
                    (self._check_query is not None,),
                    partial(self._make_trial, trial, path),
                )
            except SpecError as error:
                self._refused[trial.key] = error.problem
                problems.append(error)
            except EvaluationError as error:
                # Not the expression's fault: jq was busy, or could not be started.
                self._transient = True
                problems.append(SpecError(path, str(error)))
        if problems:
            raise ExceptionGroup("an expression is wrong", problems)

    def _make_trial(self, trial: Trial, path: str) -> None:
        if self._check_query is not None:
            self._check_query(trial, path)

    def _compile_groups(
        self, formatters: Mapping[str, CompiledFormatter]
    ) -> dict[str, CompiledGroup]:
        """The field groups in force, by name in lower case."""
        groups = dict(_native_groups())
        for document in self._of_kind("FieldGroup"):
            for version in self._versions(document):
                try:
                    name = (version.spec.name or version.name).lower()
                    group = self._compile_group(version, formatters, groups.get(name))
                    if not version.builtin:
                        self._try_group(group, groups.get(name))
                    self._extend(groups, group)
                except Exception as error:  # noqa: BLE001  See _report.
                    self._report(document.source, error)
                else:
                    self._accept(version)
                    break
        return groups

    def _try_group(self, group: CompiledGroup, base: CompiledGroup | None) -> None:
        beside = {**(base.fields if base is not None else {}), **group.fields}
        self._make_trials(
            [
                *[
                    (f"spec.itemSelectors.{name}.query", SmokeRun(own.query, own.args))
                    for name, own in group.item_selectors.items()
                ],
                *[("spec.fields", trial) for trial in trials_of_lists(beside.values())],
            ]
        )

    def _compile_mappings(
        self, groups: Mapping[str, CompiledGroup]
    ) -> dict[GroupVersionKind, CompiledMapping]:
        mappings: dict[GroupVersionKind, CompiledMapping] = {}
        for document in self._of_kind("SpecMapping"):
            for version in self._versions(document):
                try:
                    mapping = self._compile_mapping(version, groups)
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
                        self._check_queries(mapping)
                        self._make_trials(
                            [
                                (f"spec.specSelectors.{selector.name}.fieldGroups", trial)
                                for selector in mapping.selectors.values()
                                for trial in trials_of_lists(selector.fields.values())
                            ]
                        )
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
                    asset = self._compile_asset(version, groups["training"])
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
        # For each kind something that stands for all that was accepted so far, in its order, and
        # for where their projects lie.
        chains: dict[GroupVersionKind, object] = {}
        tried: list[CompiledPolicy] = []
        documents = list(self._of_kind(*_POLICY_KINDS))
        territory = self._territory()
        for document in documents:
            for version in self._versions(document):
                try:
                    compiled = self._compile_policy(version, mappings, assets)
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
                    self._make_trials(_bounded([t for p in compiled for t in trials_of(p)]))
                except Exception as error:  # noqa: BLE001  See _report.
                    self._report(document.source, error)
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
            self._advise(source, path, problem)
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

    # -- compiling one, unless it was compiled before ----------------------------------------

    def _compile_formatter(self, document: Document) -> CompiledFormatter:
        return self._memo.recall(
            ("formatter", _identity(document)), (), lambda: compile_formatter(document)
        )

    def _compile_group(
        self,
        document: Document,
        formatters: Mapping[str, CompiledFormatter],
        base: CompiledGroup | None,
    ) -> CompiledGroup:
        named = {
            field.formatter.lower(): None
            for field in document.spec.fields.values()
            if field.formatter is not None
        }
        return self._memo.recall(
            ("group", _identity(document)),
            (base, *[formatters.get(name) for name in named]),
            lambda: compile_group(document, formatters, base),
        )

    def _extend(self, groups: dict[str, CompiledGroup], added: CompiledGroup) -> None:
        name = added.name.lower()
        base = groups.get(name)
        # The same parts are the same group: mappings are compiled by the identity of theirs.
        groups[name] = self._memo.recall(
            ("extended", name, len(base.fields) if base is not None else 0),
            (base, added),
            lambda: extend_group(base, added),
        )

    def _compile_mapping(
        self, document: Document, groups: Mapping[str, CompiledGroup]
    ) -> CompiledMapping:
        named = {
            name.lower(): None
            for selector in document.spec.spec_selectors.values()
            for name in selector.field_groups
        }
        return self._memo.recall(
            ("mapping", _identity(document)),
            tuple([groups.get(name) for name in named]),
            lambda: compile_mapping(document, groups),
        )

    def _compile_asset(self, document: Document, group: CompiledGroup) -> Asset:
        return self._memo.recall(
            ("asset", _identity(document)),
            (group,),
            lambda: compile_asset(document, group.fields),
        )

    def _compile_policy(
        self,
        document: Document,
        mappings: Mapping[GroupVersionKind, CompiledMapping],
        assets: Mapping[str, Asset],
    ) -> list[CompiledPolicy]:
        spec = document.spec
        kinds = spec.workload_type if isinstance(spec.workload_type, tuple) else ()
        used = [mappings.get(kind) for kind in kinds or (spec.workload_type,)]
        if None in used:
            # What is said about a missing one depends on all that there are.
            return compile_policy(document, mappings, assets)
        imposes = getattr(spec, "imposed_assets", None)
        return self._memo.recall(
            ("policy", _identity(document)),
            (*used, *(assets.values() if imposes else ())),
            lambda: compile_policy(document, mappings, assets),
        )

    def _advise_on_others(self, mappings: Mapping[GroupVersionKind, CompiledMapping]) -> None:
        """
        Say of documents that have no effect that they have none.

        Workloads may stand beside policies, to try these on them.
        """
        for source, kind in self._others:
            if kind in mappings:
                continue
            hint = f"; KAI's are of {_KAI_QUEUE_GROUP}" if kind.kind == "Queue" else ""
            if kind.group == RIGHTSIZING_GROUP:
                hint = did_you_mean(kind.kind, RIGHTSIZING_KINDS)
            self._advise(source, "", f"{kind} is no document of ours, and is ignored{hint}")

    def _advise_on_served(self) -> None:
        """Say of mappings in force that there are no objects of their kind (yet)."""
        served = self._around().served
        for document in self._in_force:
            if document.kind != "SpecMapping":
                continue
            kind = document.spec.workload_type
            kinds = served.get(kind.group)
            if kinds is None or kind.version in kinds.get(kind.kind, ()):
                continue
            problem = f"{kind.api_version} {kind.kind} is not served here ({_told(kind, kinds)})"
            self._problems.append(
                DocumentProblem(
                    document.source,
                    "spec.workloadType",
                    problem + _UNSERVED,
                    warning=True,
                    reason=ProblemReason.KIND_NOT_SERVED,
                    cost=_UNSERVED,
                )
            )

    def _advise_on_case(self, mappings: Mapping[GroupVersionKind, CompiledMapping]) -> None:
        """Say of mappings that others differ from them in case only, unless both are served."""
        served = self._around().served
        first: dict[tuple[str, str, str], CompiledMapping] = {}
        for kind, mapping in mappings.items():
            twin = first.setdefault((kind.group, kind.version, kind.kind.lower()), mapping)
            # Of what is served, `_advise_on_served` says how it is spelt.
            known = [name.lower() for name in served.get(kind.group, ())]
            if twin is not mapping and kind.kind.lower() not in known:
                self._advise(
                    mapping.source,
                    "spec.workloadType",
                    f"{kind} differs from {twin.kind}, which {twin.source} is for, in case only;"
                    " kinds are told apart by case, and hardly a cluster has both",
                )

    def _advise_on_registering(self, mappings: Mapping[GroupVersionKind, CompiledMapping]) -> None:
        """Say of mappings in force that the API server asks nobody about their kind."""
        for kind, mapping in mappings.items():
            if not mapping.builtin and (why := why_never_registered(kind)):
                problem = f"{kind} is never registered with the API server, because {why}"
                self._advise(mapping.source, "spec.workloadType", problem)

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
            missing = isinstance(leaf, MissingReferenceError)
            reason, problem, cost = ProblemReason.COMPILE_ERROR, leaf.problem, ""
            if missing:
                reason, cost = ProblemReason.REFERENCE_NOT_FOUND, _WAITING
                problem += cost
            elif isinstance(leaf, FieldConflictError):
                reason, cost = ProblemReason.FIELD_CONFLICT, leaf.cost
            self._problems.append(
                DocumentProblem(document, leaf.path, problem, missing, reason, cost)
            )

    def _warn(self, document: Document, compiled: Sequence[CompiledPolicy]) -> None:
        if document.builtin:
            return
        warnings = dict.fromkeys([text for policy in compiled for text in policy.warnings])
        for text in warnings:
            path, _, problem = text.partition(": ")
            # Of several kinds one has no mapping: nothing else is said about that path.
            missing = path == "spec.workloadType"
            self._advise(document.source, path, problem, missing=missing)

    def _advise(self, document: str, path: str, problem: str, *, missing: bool = False) -> None:
        reason = ProblemReason.REFERENCE_NOT_FOUND if missing else ProblemReason.ADVICE
        self._problems.append(DocumentProblem(document, path, problem, warning=True, reason=reason))


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


def _bounded(trials: Sequence[tuple[str, Trial]]) -> Sequence[tuple[str, Trial]]:
    """
    Raises:
        ExceptionGroup: they are more than can be made in a second or two.
    """
    # One that tries values together is made of those that are counted.
    count = len({trial.key for _, trial in trials if not isinstance(trial, Together)})
    if count > MAX_TRIALS:
        problem = (
            f"give {count} values to fields of formatters and item selectors, each of which is"
            f" tried; at most {MAX_TRIALS} are allowed in one policy"
        )
        raise ExceptionGroup("the policy is wrong", [SpecError("spec.rules", problem)])
    return trials


def _told(kind: GroupVersionKind, kinds: KindVersions) -> str:
    """What is served in place of *kind*: *kinds* are those of its group."""
    versions = kinds.get(kind.kind)
    if versions:
        return f"served: {', '.join(versions)}"
    if not kinds:
        return f"nothing of {kind.group or 'the core group'} is"
    alike = {name: kinds[name] for name in kinds if name.lower() == kind.kind.lower()}
    if alike:
        named = [f"{name} {', '.join(versions)}" for name, versions in sorted(alike.items())]
        return f"served: {'; '.join(named)}; kinds are told apart by case"
    named = [f"{name} {', '.join(versions)}" for name, versions in sorted(kinds.items())]
    more = [f"and {len(named) - _MAX_KINDS} more"] if len(named) > _MAX_KINDS else []
    return f"served of {kind.group or 'the core group'}: {'; '.join(named[:_MAX_KINDS] + more)}"


def _identity(document: Document) -> tuple[object, ...]:
    """Equal for two documents that compile to the same, if what they depend on is the same."""
    return (
        document.kind,
        document.name,
        document.revision,
        document.source,
        document.created,
        document.builtin,
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
