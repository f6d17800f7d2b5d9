"""Who calls, and what he wants to do: the words of access control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.model.kinds import POLICY_GROUP

READING_VERBS = frozenset({"get", "list"})

# Paths that have no CRD and change nothing, though some are called by POST.
_READING_PATHS = frozenset(
    {
        "/api/openapi.json",
        "/api/v1/decisions",
        "/api/v1/review",
        "/api/v1/policies/effective",
    }
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has shown who he is; the parts are those of Kubernetes' `UserInfo`."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Action:
    """
    What a caller wants to do.

    Either *resource* (the plural of one of our policy kinds) is given, with *name* unless the
    verb is about none, or *path*, with the method of the request in lower case as the verb.
    """

    verb: str
    resource: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_reading(self) -> bool:
        """Whether it changes nothing."""
        if self.path:
            return self.path in _READING_PATHS
        return self.verb in READING_VERBS

    def __str__(self) -> str:
        """As messages name it: `create formatters.policy.gatewright.io`."""
        if self.path:
            return f"{self.verb} the path {self.path}"
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}.{POLICY_GROUP}{name}"
