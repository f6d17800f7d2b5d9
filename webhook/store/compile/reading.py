"""Files to documents: what can be read, and what stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.documents import (
    POLICY_KINDS,
    UNCOMPILED_KINDS,
    Document,
    is_ours,
    parse_document,
)
from webhook.model.kinds import POLICY_GROUP, GroupVersionKind
from webhook.model.manifests import Manifest
from webhook.model.rightsizing.documents import KINDS as RIGHTSIZING_KINDS
from webhook.model.rightsizing.policies import GROUP as RIGHTSIZING_GROUP
from webhook.policy.effective import age
from webhook.store.compile.inputs import BareTarget, SourceFile, Surroundings
from webhook.store.compile.problems import Problems
from webhook.store.memo import Memo

KAI_QUEUE_GROUP = "scheduling.run.ai"
# Where policies are kept for a cluster too, such a file lists them.
_KUSTOMIZE_GROUP = "kustomize.config.k8s.io"
_BARE_KEYS = frozenset({"defaults", "rules", "imposedAssets"})


class Reader:
    """
    Reads files one after the other.

    *documents* are those of ours, by their keys; *others* what stands beside them and is none of
    them: where each comes from, and its kind.
    """

    def __init__(self, problems: Problems, memo: Memo, bare: BareTarget | None) -> None:
        self._problems = problems
        self._memo = memo
        self._bare = bare
        self.documents: dict[tuple[str, str], Document] = {}
        self.others: list[tuple[str, GroupVersionKind]] = []
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._queues: dict[str, str] = {}
        self._surroundings: Surroundings | None = None
        # Which documents of the last snapshot a file or document that failed stands for.
        self._failed: list[Callable[[Document], bool]] = []

    def read(self, file: SourceFile) -> None:
        """Take in one file. If it can't be read, what it last said stays."""
        if file.error:
            self._problems.add(file.name, "", file.error)
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
            self._problems.add(manifest.name, "", "is no Kubernetes object")
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
        elif kind.group == KAI_QUEUE_GROUP and kind.kind == "Queue":
            parent = _object(value.get("spec")).get("parentQueue")
            if isinstance(parent, str) and parent:
                self._queues[str(_object(value.get("metadata")).get("name", ""))] = parent
        elif not kind.version or not kind.kind:
            self._problems.add(manifest.name, "", "apiVersion and kind are needed")
        elif kind.kind in POLICY_KINDS:
            problem = f"{kind.kind} of {kind.api_version} is not ours: that is {POLICY_GROUP}"
            self._problems.advise(manifest.name, "apiVersion", problem)
        elif kind.group == RIGHTSIZING_GROUP and kind.kind in RIGHTSIZING_KINDS:
            pass  # The reconciler acts by them, and store/rightsizing.py judges them.
        elif kind.group != _KUSTOMIZE_GROUP:
            self.others.append((manifest.name, kind))

    def _dress(self, manifest: Manifest, value: dict[str, Any]) -> dict[str, Any] | None:
        """A bare document in an envelope."""
        bare = self._bare
        if bare is None:
            self._problems.add(
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
        except Exception as error:  # noqa: BLE001  See `Problems.report`.
            self._problems.report(manifest.name, error)
            if key[1]:
                self._failed.append(lambda good: good.key == key)
            else:
                self._failed.append(lambda good: good.source == manifest.name)
            return
        twin = self.documents.get(document.key)
        if twin is not None:
            if age(document) < age(twin):
                document, twin = twin, document
                self.documents[twin.key] = twin
            self._problems.add(
                document.source, "metadata.name", f"{twin.source} has this name already"
            )
            return
        self.documents[document.key] = document

    def keep_last_good(self, last_good: Iterable[Document]) -> None:
        """Once all is read: what could not be, and nobody else supplies, stays as it was."""
        for document in last_good:
            if any(wanted(document) for wanted in self._failed):
                self.documents.setdefault(document.key, document)

    @property
    def around(self) -> Surroundings:
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


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
