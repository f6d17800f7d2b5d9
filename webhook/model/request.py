"""One admission request, decoded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from webhook.model.kinds import GroupVersionKind


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class Phase(StrEnum):
    """
    Which door a review came through; REVIEW is the command line: mutate, then judge all.

    EXISTING is for what a cluster holds: nobody has completed it, and nobody will.
    """

    MUTATE = "mutate"
    VALIDATE = "validate"
    REVIEW = "review"
    EXISTING = "existing"

    @property
    def fills_in(self) -> bool:
        """Whether the policies in force write into the object."""
        return self in (Phase.MUTATE, Phase.REVIEW)


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """
    One `request` of an AdmissionReview (admission.k8s.io/v1).

    *object* and *old_object* are as received. Sending them through a model would drop fields
    that we do not know, and a patch made from that would delete them from the user's object.
    A review edits *object* in place, so a request is answered once.
    """

    uid: str
    kind: GroupVersionKind
    operation: Operation
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    name: str = ""
    namespace: str = ""
    # Plural and group of the resource that was called: `("apps", "v1", "deployments")`.
    resource: tuple[str, str, str] = ("", "", "")
    sub_resource: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def display_name(self) -> str:
        """
        The best name there is, for people and records.

        Objects made by controllers have only a generateName while they are admitted.
        """
        metadata = (self.object or self.old_object or {}).get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        for name in (metadata.get("name"), self.name, metadata.get("generateName"), self.uid):
            if isinstance(name, str) and name:
                return name
        return "(unnamed)"
