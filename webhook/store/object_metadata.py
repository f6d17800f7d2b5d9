"""The metadata of an object, as far as anybody here looks at it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

# Many objects have the same one.
_OWNERS = 8192


class OwnerRef(NamedTuple):
    """A controller owner. *uid* is empty where only the name is known."""

    api_version: str
    kind: str
    name: str
    uid: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class Reference(msgspec.Struct, gc=False):
    """One of an object's `ownerReferences`."""

    api_version: str = msgspec.field(default="", name="apiVersion")
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, gc=False):
    """*deleted* is when it was asked to go, as text; None while nobody asked."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owners: list[Reference] | None = msgspec.field(default=None, name="ownerReferences")
    deleted: str | None = msgspec.field(default=None, name="deletionTimestamp")

    @property
    def key(self) -> str:
        """`namespace/name`; of an object of the whole cluster its name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def controller_of(owners: Iterable[Reference] | None) -> OwnerRef | None:
    """Who of its *owners* made an object and keeps it; None for one that stands for itself."""
    for owner in owners or ():
        if owner.controller:
            return _owner(owner.api_version, owner.kind, owner.name, owner.uid)
    return None


@lru_cache(maxsize=_OWNERS)
def _owner(api_version: str, kind: str, name: str, uid: str) -> OwnerRef:
    return OwnerRef(api_version, kind, name, uid)
