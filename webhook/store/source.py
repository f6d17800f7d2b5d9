"""
Where documents come from and go to: one interface, whatever keeps them.

The embedded store is a directory (`directory.py`), the other one the cluster (`cluster.py`).
Whoever writes documents checks them first with `changes.check_change`, which is what `lint` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from webhook.store.compile.inputs import SourceFile


@dataclass(frozen=True, slots=True)
class Stored:
    """
    One document of ours as its store has it.

    *manifest* is whole: apiVersion, kind, metadata with `name` and `resourceVersion` (in a
    directory a hash of the content), spec, and in a cluster uid, creationTimestamp and status.
    *source* is how problems name it. *read_only* says why it can't be written through us; it is
    empty if it can. *updated* is when it was last changed, but for its status (of a file: when
    that was written), as Kubernetes writes times; empty if that is not known.
    """

    manifest: dict[str, Any]
    source: str
    read_only: str = ""
    updated: str = ""

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def resource_version(self) -> str:
        return str(self.manifest["metadata"].get("resourceVersion", ""))


class DocumentStore(Protocol):
    """
    Documents of our policy group: what is there, and writing it.

    Kinds are those of `model.documents.POLICY_KINDS`; names are compared without regard to case.
    Reads give what the store has now, whether or not it could be compiled. Nothing returns before
    it is stored; a write is in force soon after, when the store has loaded it.
    """

    @property
    def sources(self) -> Sequence[SourceFile]:
        """Everything that is there now, as the snapshot is built from it."""

    async def list_documents(self, kind: str) -> Sequence[Stored]:
        """All documents of one kind, by name."""

    async def fetch_document(self, kind: str, name: str) -> Stored:
        """
        Raises:
            NotFoundError: there is none.
        """

    async def create_document(self, manifest: dict[str, Any], *, dry_run: bool = False) -> Stored:
        """
        With *dry_run*, this is tried, and all is left as it is.

        Raises:
            ConflictError: there is one of this kind and name.
        """

    async def replace_document(self, manifest: dict[str, Any], *, dry_run: bool = False) -> Stored:
        """
        Write a new version. `metadata.resourceVersion`, if given, is the one that it replaces.
        With *dry_run*, this is tried, and all is left as it is.

        Raises:
            NotFoundError: there is none.
            ConflictError: it was changed meanwhile, or is not ours to write.
        """

    async def delete_document(self, kind: str, name: str, resource_version: str = "") -> None:
        """
        Raises:
            NotFoundError: there is none.
            ConflictError: it was changed meanwhile, or is not ours to write.
        """
