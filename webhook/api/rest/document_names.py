"""Objects of the API as documents: what those are called, and what is written into them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from webhook.api.problems import BadRequestError
from webhook.api.rest.resources import Resource
from webhook.model.documents import Kind, name_problem
from webhook.model.kinds import POLICY_GROUP, VERSION, GroupVersionKind
from webhook.store.source import Stored

# With `api-<kind>-` before it and `.yaml` behind it, the name of a file.
_NAME_MAX_CHARS = 200

_DNS_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_NOT_DNS = re.compile(r"[^a-z0-9.-]+")

_KIND: TypeAdapter[GroupVersionKind] = TypeAdapter(Kind)


def read_name(body: Mapping[str, Any]) -> str:
    """
    The `name` of a formatter or field group.

    Raises:
        BadRequestError: there is none, or it breaks the rule for names.
    """
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise BadRequestError("name", "is needed")
    problem = name_problem(name)
    if problem:
        raise BadRequestError("name", problem)
    if len(name) > _NAME_MAX_CHARS:
        raise BadRequestError("name", f"is longer than {_NAME_MAX_CHARS} characters")
    return name


def read_document_name(name: Any) -> str:
    """
    The name of a document as its author gives it.

    Raises:
        BadRequestError: it is none that Kubernetes would take.
    """
    if not isinstance(name, str) or not _DNS_NAME.fullmatch(name) or len(name) > _NAME_MAX_CHARS:
        raise BadRequestError("name", "must be a DNS name: a-z, 0-9, - and . inside")
    return name


def read_workload_type(body: Mapping[str, Any]) -> GroupVersionKind:
    """
    The `workloadType` that says what a request is about: a kind, or the name of a native type.

    Raises:
        BadRequestError: there is none, or it is none.
    """
    told = body.get("workloadType")
    if told is None:
        raise BadRequestError("workloadType", "is needed: {group, version, kind}")
    try:
        return _KIND.validate_python(told)
    except ValidationError as error:
        (problem,) = error.errors()
        raise BadRequestError("workloadType", str(problem["ctx"]["error"])) from None


def document_name_for(identity: Sequence[str], taken: Iterable[str]) -> str:
    """
    A DNS name for what *identity* tells apart from all others; none of *taken*.

    It is the parts in lower case with hyphens between them. Where that loses something, or is
    taken by another, a hash of the identity is added.
    """
    parts = [part for part in identity if part]
    joined = "-".join(parts).lower()
    slug = _NOT_DNS.sub("-", joined)
    is_exact = slug == joined and bool(_DNS_NAME.fullmatch(slug)) and len(slug) <= _NAME_MAX_CHARS
    if is_exact and slug not in {name.lower() for name in taken}:
        return slug
    digest = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:8]
    labels = [label.strip("-") for label in slug[: _NAME_MAX_CHARS - 9].split(".")]
    return "-".join([".".join([label for label in labels if label]) or "x", digest])


def manifest_of(
    resource: Resource,
    name: str,
    spec: Mapping[str, Any],
    *,
    resource_version: str = "",
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The document for an object."""
    metadata: dict[str, Any] = {"name": name}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return {
        "apiVersion": f"{POLICY_GROUP}/{VERSION}",
        "kind": resource.kind,
        "metadata": metadata,
        "spec": dict(spec),
    }


def changed_manifest(
    stored: Stored, spec: Mapping[str, Any], annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The document of *stored* with another spec; what else is in its metadata stays."""
    metadata = {**stored.manifest["metadata"], "resourceVersion": stored.resource_version}
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    # Servers don't take their own bookkeeping back.
    metadata.pop("managedFields", None)
    return {**stored.manifest, "metadata": metadata, "spec": dict(spec)}
