"""What is kept of the documents of `rightsizing.kubex.ai`, and of recommendations."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from webhook.clients.informer import Resource
from webhook.model.rightsizing.documents import RightsizingDocument, key_of, read_document
from webhook.model.rightsizing.policies import GROUP, GROUP_VERSION, DocumentKey
from webhook.model.rightsizing.recommendations import (
    API_VERSION,
    KIND,
    GpuRecommendation,
    read_recommendation,
)
from webhook.reactive.observation.keyed import Keyed

log = logging.getLogger("gatewright.reconcile")

PLURALS: Mapping[str, str] = {
    "GpuReactivePolicy": "gpureactivepolicies",
    "ClusterGpuReactivePolicy": "clustergpureactivepolicies",
    "AutomationStrategy": "automationstrategies",
    "ClusterAutomationStrategy": "clusterautomationstrategies",
    "GlobalConfiguration": "globalconfigurations",
    "PolicyEvaluation": "policyevaluations",
}

_PROBLEM_MAX_CHARS = 300


def document_resource(kind: str) -> Resource:
    """
    Where documents of *kind* are.

    Not an optional resource, although the CRDs are somebody else's: an API server that does not
    know them for a moment must not make all policies look deleted.
    """
    plural = PLURALS[kind]
    return Resource(f"{plural}.{GROUP}", f"/apis/{GROUP_VERSION}/{plural}")


class SeenReactive(msgspec.Struct, frozen=True):
    """
    One document: *document* is what it says, None where *problem* says why it can't be read.

    *conditions* are those of its status, as they are. *name* is its key, `namespace/name`.
    """

    name: str
    resource_version: str
    key: DocumentKey
    document: RightsizingDocument | None
    problem: str = ""
    uid: str = ""
    generation: int = 0
    conditions: tuple[Mapping[str, Any], ...] = ()

    @property
    def change_key(self) -> object:
        """What is said; a status that we write ourselves changes nothing."""
        return self.uid, self.generation, self.document, self.problem


class StoredRecommendation(Keyed, msgspec.Struct, frozen=True):
    """
    One recommendation; None where *problem* says why it can't be read. Somebody else wrote that
    one, as ours can. Where it is there all the same, *problem* says what of its status somebody
    spoilt; that is lost, and written anew. *name* is its key, `namespace/name`.
    """

    name: str
    resource_version: str
    uid: str
    recommendation: GpuRecommendation | None
    problem: str = ""


def decode_document(raw: bytes, kind: str) -> SeenReactive:
    """
    Read one document of *kind*.

    Raises:
        msgspec.DecodeError: *raw* is no object at all.
    """
    # Items of a list don't say what they are.
    manifest = {**_object(raw, kind), "apiVersion": GROUP_VERSION, "kind": kind}
    key = key_of(manifest)
    metadata = manifest["metadata"]
    document, problem = None, ""
    try:
        document = read_document(manifest)
    except ExceptionGroup as group:
        problem = _shorten("; ".join([str(error) for error in group.exceptions]))
        log.warning("a document can't be read", extra={"document": str(key), "problem": problem})
    status = manifest.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    generation = metadata.get("generation")
    return SeenReactive(
        name=f"{key.namespace}/{key.name}" if key.namespace else key.name,
        resource_version=_text(metadata, "resourceVersion"),
        key=key,
        document=document,
        problem=problem,
        uid=_text(metadata, "uid"),
        generation=generation if isinstance(generation, int) else 0,
        conditions=tuple(conditions) if isinstance(conditions, list) else (),
    )


def decode_recommendation(raw: bytes) -> StoredRecommendation:
    """
    Read one GpuRecommendation, with its whole status.

    Raises:
        msgspec.DecodeError: *raw* is no object at all.
    """
    manifest = _object(raw, KIND)
    metadata = manifest["metadata"]
    recommendation, problem = None, ""
    try:
        recommendation = read_recommendation({**manifest, "apiVersion": API_VERSION})
        unread: Sequence[Exception] = recommendation.unread
    except ExceptionGroup as group:
        unread = group.exceptions
    if unread:
        problem = _shorten(str(unread[0]))
    return StoredRecommendation(
        name=f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}",
        resource_version=_text(metadata, "resourceVersion"),
        uid=_text(metadata, "uid"),
        recommendation=recommendation,
        problem=problem,
    )


def _object(raw: bytes, kind: str) -> dict[str, Any]:
    manifest = msgspec.json.decode(raw)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("metadata"), dict):
        raise msgspec.DecodeError(f"no {kind}")
    return manifest


def _text(metadata: Mapping[str, Any], key: str) -> str:
    found = metadata.get(key)
    return found if isinstance(found, str) else ""


def _shorten(text: str) -> str:
    return text if len(text) <= _PROBLEM_MAX_CHARS else f"{text[: _PROBLEM_MAX_CHARS - 1]}…"
