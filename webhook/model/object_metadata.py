"""What Kubernetes itself keeps in an object's metadata, as far as decisions look at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# What the API server and controllers write about an object, and not what the object is: no rule
# can be about it.
BOOKKEEPING = ("finalizers", "generation", "managedFields", "ownerReferences", "resourceVersion")


class Controller(NamedTuple):
    """The owner that made an object and keeps it."""

    api_version: str
    kind: str
    name: str


def controller_of(metadata: Mapping[str, Any]) -> Controller | None:
    """The owner in *metadata*, as somebody sent it, that is the controller, if there is one."""
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller") is True:
            return Controller(*[str(owner.get(key)) for key in ("apiVersion", "kind", "name")])
    return None
