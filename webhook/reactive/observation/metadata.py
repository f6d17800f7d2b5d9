"""The metadata of an object, as far as anybody here looks at it."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from webhook.store.gpu_objects import OwnerRef

# Many objects have the same one.
_OWNERS = 8192


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


def controller_of(metadata: Metadata) -> OwnerRef | None:
    """Who made the object and keeps it; None for one that stands for itself."""
    for owner in metadata.owners or ():
        if owner.controller:
            return _owner(owner.api_version, owner.kind, owner.name, owner.uid)
    return None


@lru_cache(maxsize=_OWNERS)
def _owner(api_version: str, kind: str, name: str, uid: str) -> OwnerRef:
    return OwnerRef(api_version, kind, name, uid)
