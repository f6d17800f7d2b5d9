"""A decision: the answer to one review, with every reason for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.model.pointer import Path
from webhook.model.scopes import Scope

# Stands where a value must not be printed: environment variables, arguments, commands,
# annotations, secrets.
NOT_SHOWN = "(not shown)"


# A user name and password, or a token, in a URL.
_USERINFO = re.compile(r"(?<=://)[^/?#\s@]*(?:@[^/?#\s@]*)*@")


def without_credentials(text: str) -> str:
    """*text* with `(not shown)` for what stands before the host of a URL."""
    return _USERINFO.sub(f"{NOT_SHOWN}@", text) if "@" in text else text


class Rule(StrEnum):
    """What an enforcement asks for. Not all stand in the rules of a policy."""

    SET = "set"
    DEFAULT = "default"
    DEFAULT_FROM = "defaultFrom"
    REQUIRED = "required"
    MIN = "min"
    MAX = "max"
    STEP = "step"
    OPTIONS = "options"
    PATTERN = "pattern"
    BLOCKED = "blocked"
    CAN_EDIT = "canEdit"
    CAN_ADD = "canAdd"
    LOCKED = "locked"
    # An asset that a policy imposes: no word in its rules, but a section of its own.
    IMPOSED = "imposedAssets"
    # The value has a wrong type.
    TYPE = "type"
    # The workload API: fields that are unknown, out of bounds or don't go together.
    SCHEMA = "schema"
    # Two items have one key.
    UNIQUE = "unique"

    @property
    def is_policy_rule(self) -> bool:
        """Whether a policy can say it."""
        return self not in (Rule.TYPE, Rule.SCHEMA, Rule.UNIQUE, Rule.IMPOSED)


class Outcome(StrEnum):
    """The closed set that metrics and records count by."""

    ALLOWED = "allowed"
    MUTATED = "mutated"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Source:
    """The policy that an enforcement comes from. *revision* is a hash of its content."""

    policy: str
    scope: Scope
    unit: str = ""
    kind: str = "GVKPolicy"
    revision: str = ""

    def __hash__(self) -> int:
        # What is known of a source is looked up for each thing that a review finds.
        return hash((self.policy, self.revision))

    def __str__(self) -> str:
        return f"policy {self.policy}, {self.scope} {self.unit}".rstrip()


class Change(NamedTuple):
    """
    One value that mutation wrote. *old* and *new* are as printed: hidden where secret.

    A tuple, because a review makes a dozen, and a frozen dataclass takes six times as long.
    """

    path: Path
    field: str
    selector: str
    item: str
    rule: Rule
    old: Any
    new: Any
    source: Source
    # The JSON pointer of *path*, where it is known.
    pointer: str = ""


class Violation(NamedTuple):
    """
    One rule that the workload breaks. A tuple, as `Change` is.

    *problem* says what is wrong (`above the maximum`), *accepted* what would be right (`≤ 8`);
    *value* is as printed: hidden where secret, None where there is none.
    """

    path: Path
    field: str
    selector: str
    item: str
    rule: Rule
    problem: str
    value: Any
    accepted: str
    source: Source
    # Something is needed and not there: somebody after us may still fill it in.
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class NotApplied:
    """A default that was left out because it contradicts a submitted value."""

    path: Path
    field: str
    rule: Rule
    reason: str
    source: Source


@dataclass(frozen=True, slots=True)
class Preview:
    """
    What one policy that is only tried (`mode: Warn` or `Audit`) would have done to this object.

    Its changes and violations are those that it would add by itself, were it in force.
    """

    mode: str
    source: Source
    changes: tuple[Change, ...] = ()
    violations: tuple[Violation, ...] = ()
    # Why nothing is known of it.
    error: str = ""

    @property
    def is_told(self) -> bool:
        """Whether whoever submits is warned of it."""
        return self.mode == "Warn"


@dataclass(frozen=True, slots=True)
class Decision:
    """
    The answer to one review.

    *patch* is RFC 6902, as it goes over the wire. *reason* says why nothing was judged where
    nothing was (no mapping, no policy, DELETE, a subresource, ...).
    """

    allowed: bool
    mapped: bool = False
    changes: tuple[Change, ...] = ()
    violations: tuple[Violation, ...] = ()
    not_applied: tuple[NotApplied, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: list[dict[str, Any]] = field(default_factory=list)
    consulted: tuple[Source, ...] = ()
    previews: tuple[Preview, ...] = ()
    reason: str = ""
    # What answer and record both need of it, made by the first of them.
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def outcome(self) -> Outcome:
        if not self.allowed:
            return Outcome.DENIED
        return Outcome.MUTATED if self.patch else Outcome.ALLOWED
