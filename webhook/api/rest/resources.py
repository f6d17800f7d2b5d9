"""
The objects of the API: which documents they are, what they are called, how they are shown.

An answer has the body that the object was registered with, and beside it `id`, `scope`,
`resourceVersion` and, where they are known, `createdAt` and `updatedAt`. `problems` say why it is
not in force, `warnings` what its author may not have meant.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from webhook.api.rest.body_paths import in_body
from webhook.catalog import builtin_documents
from webhook.errors import ConflictError
from webhook.model.documents import Document, Kind
from webhook.model.kinds import GroupVersionKind
from webhook.model.scopes import Scope
from webhook.store.snapshot import DocumentProblem, Snapshot
from webhook.store.source import DocumentStore, Stored


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object: its documents' *kind* and *plural*, its name in lists and messages."""

    kind: str
    plural: str
    list_key: str
    noun: str


FORMATTERS = Resource("Formatter", "formatters", "formatters", "formatter")
FIELD_GROUPS = Resource("FieldGroup", "fieldgroups", "fieldGroups", "field group")
MAPPINGS = Resource("SpecMapping", "specmappings", "mappings", "mapping")
GVK_POLICIES = Resource("GVKPolicy", "gvkpolicies", "policies", "policy")
WORKLOAD_POLICIES = Resource("WorkloadPolicy", "workloadpolicies", "policies", "policy")

_KIND: TypeAdapter[GroupVersionKind] = TypeAdapter(Kind)

# Any that is ours alone: ids without a cluster are made from names within it.
_ID_SPACE = uuid.UUID("5b0c9f0a-6c5e-5d64-9a55-1f0f6a3f7c11")


@dataclass(frozen=True, slots=True)
class Registered:
    """
    One object as the API knows it.

    *name* is that of formatters and field groups as their author spells it, of the others that of
    the document. *stored* is None for what ships with us; to a group of ours *additions* add.
    """

    resource: Resource
    name: str
    spec: Mapping[str, Any]
    stored: Stored | None = None
    additions: tuple[Stored, ...] = ()

    @property
    def written(self) -> Stored | None:
        """The document that a change of it is written to; None where there is none yet."""
        if self.stored is not None:
            return self.stored
        return next((one for one in self.additions if not one.read_only), None)

    @property
    def is_system(self) -> bool:
        return self.stored is None

    @property
    def whose(self) -> str:
        """What stands before its noun in messages: `system ` if it ships with us."""
        return "system " if self.is_system else ""

    def require_own(self) -> Stored:
        """
        Its document.

        Raises:
            ConflictError: it ships with us.
        """
        if self.stored is None:
            raise ConflictError(
                f"{self.name} is a system {self.resource.noun}; it can't be changed"
            )
        return self.stored

    @property
    def document_name(self) -> str:
        """The name of the document, which is what rights are about."""
        return self.stored.name if self.stored is not None else self.name.lower()

    @property
    def id(self) -> str:
        if self.stored is None:
            return _made_id("builtin", self.resource.kind, self.name)
        return id_of(self.stored)

    @property
    def scope(self) -> str:
        """Of a policy the one it says, of all else `system` or `tenant`."""
        told = self.spec.get("scope")
        if isinstance(told, str):
            return told.lower()
        return (Scope.SYSTEM if self.is_system else Scope.TENANT).value

    @property
    def kind(self) -> GroupVersionKind:
        """The workload type of a mapping, or of a policy for one; empty parts where it is none."""
        try:
            return _KIND.validate_python(self.spec.get("workloadType"))
        except ValidationError:
            return GroupVersionKind("", "", "")


def id_of(stored: Stored) -> str:
    """The uid; without a cluster an id that stays the same as long as the name does."""
    uid = stored.manifest["metadata"].get("uid")
    return uid if isinstance(uid, str) and uid else _made_id("", stored.kind, stored.name)


def _made_id(*parts: str) -> str:
    return str(uuid.uuid5(_ID_SPACE, "/".join(parts).lower()))


def version_of(stored: Stored) -> str:
    """
    What tells two versions of a document apart, for whoever means to change one of them.

    In a cluster, writing a status makes a new resourceVersion of the same content, so the
    generation is in it too, and a part of the uid, as generations begin anew with each object.
    """
    metadata = stored.manifest["metadata"]
    generation, uid = metadata.get("generation"), metadata.get("uid")
    if not isinstance(generation, int) or not isinstance(uid, str):
        return stored.resource_version
    return f"{stored.resource_version}.{generation}.{uid[:8]}"


def has_version(stored: Stored, version: str) -> bool:
    """
    Whether *stored* has the content that *version* had: a resourceVersion of an answer, or that of
    the document itself.
    """
    now = version_of(stored)
    if version in (now, stored.resource_version):
        return True
    content = now.partition(".")[2]
    return bool(content) and version.partition(".")[2] == content


# What answers say of an object beside what can be written; whoever sends it back means nothing.
SHOWN_KEYS = ("id", "createdAt", "updatedAt", "problems", "warnings", "readOnly")


def without_shown(body: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """*body* without what only answers say, and *more* of that."""
    return {key: value for key, value in body.items() if key not in (*SHOWN_KEYS, *more)}


# What is wrong with each document, by how problems name it.
Findings = Mapping[str, Sequence[DocumentProblem]]


def findings_in(snapshot: Snapshot) -> Findings:
    """What *snapshot* tells. It takes a look at all of it: for a list once, and not for each."""
    found: dict[str, list[DocumentProblem]] = {}
    for problem in snapshot.problems:
        found.setdefault(problem.document, []).append(problem)
    return found


def show(
    registered: Registered, findings: Findings, warnings: Iterable[str] = ()
) -> dict[str, Any]:
    """
    *registered* as an answer shows it; *findings* tell what is wrong with it, *warnings* were
    given when it was written.
    """
    body: dict[str, Any] = {"id": registered.id, "scope": registered.scope}
    if registered.resource in (FORMATTERS, FIELD_GROUPS):
        body["name"] = registered.name
    body |= {key: value for key, value in registered.spec.items() if key not in body}
    stored = registered.stored
    if stored is not None:
        body |= envelope_of(stored, findings, warnings)
    elif registered.additions:
        body |= _envelope_of_additions(registered, findings, warnings)
    return body


def _envelope_of_additions(
    group: Registered, findings: Findings, warnings: Iterable[str]
) -> dict[str, Any]:
    """What an answer says of the documents that add to a group of ours."""
    told: dict[str, Any] = {}
    if group.written is not None:
        told["resourceVersion"] = version_of(group.written)
    else:
        told["readOnly"] = group.additions[0].read_only
    updated = max([one.updated for one in group.additions])
    if updated:
        told["updatedAt"] = updated
    return told | _findings(group.additions, findings, warnings)


def envelope_of(stored: Stored, findings: Findings, warnings: Iterable[str] = ()) -> dict[str, Any]:
    """What an answer says of the document behind an object."""
    told: dict[str, Any] = {"resourceVersion": version_of(stored)}
    created = stored.manifest["metadata"].get("creationTimestamp")
    if isinstance(created, str):
        told["createdAt"] = created
    if stored.updated:
        told["updatedAt"] = stored.updated
    if stored.read_only:
        told["readOnly"] = stored.read_only
    return told | _findings((stored,), findings, warnings)


def _findings(
    documents: Sequence[Stored], findings: Findings, warnings: Iterable[str]
) -> dict[str, list[str]]:
    """`problems` and `warnings` of *documents*, as far as there are any."""
    found = {"problems": dict[str, None](), "warnings": dict.fromkeys(warnings)}
    for document in documents:
        for problem in findings.get(document.source, ()):
            key = "warnings" if problem.is_harmless else "problems"
            found[key][in_body(document.kind, problem.path, problem.problem)] = None
    return {key: list(lines) for key, lines in found.items() if lines}


# -- what is there ----------------------------------------------------------------------------


@cache
def system_objects(resource: Resource) -> tuple[Registered, ...]:
    """Those that ship with us."""
    found = [
        Registered(resource, _name_of(document.spec, document), _dump(document))
        for document in builtin_documents()
        if document.kind == resource.kind
    ]
    return tuple(found)


async def list_objects(store: DocumentStore, resource: Resource) -> list[Registered]:
    """All objects of *resource*: the system's, then those of *store*."""
    stored = [
        Registered(resource, _spoken_name(document, resource), spec_of(document), document)
        for document in await store.list_documents(resource.kind)
    ]
    if resource is not FIELD_GROUPS:
        return [*system_objects(resource), *stored]
    # A document with the name of a system group adds to it: they are one group.
    added: dict[str, list[Registered]] = {}
    for registered in stored:
        added.setdefault(registered.name.lower(), []).append(registered)
    found = [
        _extend(group, added.pop(group.name.lower(), [])) for group in system_objects(resource)
    ]
    return [*found, *[registered for group in added.values() for registered in group]]


def _extend(group: Registered, additions: Sequence[Registered]) -> Registered:
    spec = dict(group.spec)
    for addition in additions:
        for key in ("fields", "itemSelectors"):
            if isinstance(addition.spec.get(key), Mapping):
                spec[key] = {**spec.get(key, {}), **addition.spec[key]}
    documents = tuple(one.stored for one in additions if one.stored is not None)
    return replace(group, spec=spec, additions=documents)


def find_by_name(objects: Iterable[Registered], name: str) -> Registered | None:
    return next((one for one in objects if one.name.lower() == name.lower()), None)


def find_by_kind(objects: Iterable[Registered], kind: GroupVersionKind) -> Registered | None:
    return next((one for one in objects if one.kind == kind), None)


def find_by_id(objects: Iterable[Registered], identity: str) -> Registered | None:
    return next((one for one in objects if one.id == identity), None)


def _name_of(spec: Any, document: Document) -> str:
    return getattr(spec, "name", "") or document.name


def _dump(document: Document) -> dict[str, Any]:
    dumped: dict[str, Any] = document.spec.model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    dumped.pop("name", None)
    return dumped


def spec_of(document: Stored) -> dict[str, Any]:
    """Its spec; empty where it is no object."""
    spec = document.manifest.get("spec")
    return dict(spec) if isinstance(spec, dict) else {}


def _spoken_name(document: Stored, resource: Resource) -> str:
    if resource in (FORMATTERS, FIELD_GROUPS):
        return _text(spec_of(document).get("name")) or document.name
    return document.name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
