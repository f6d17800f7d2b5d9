"""Scopes as the API names them: a word, and an id for the cluster, department or project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from webhook.api.problems import BadRequestError
from webhook.model.scopes import Branch, Scope
from webhook.store.snapshot import Snapshot

# Widest first. Ids are the names by which policies know the units.
ID_KEYS: Mapping[Scope, str] = {
    Scope.CLUSTER: "clusterId",
    Scope.DEPARTMENT: "departmentId",
    Scope.PROJECT: "projectId",
}

# What names a scope and its unit in bodies and queries.
PLACE_KEYS = ("scope", *ID_KEYS.values())


@dataclass(frozen=True, slots=True)
class ScopeUnit:
    """
    A scope with its unit; ``""`` where it has none, for a cluster: this one.

    *ids* are all that were given: those of wider scopes say where the unit lies.
    """

    scope: Scope
    unit: str = ""
    ids: tuple[tuple[Scope, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.scope} {self.unit}".strip()

    def is_of(self, spec: Mapping[str, Any]) -> bool:
        """Whether it is the one that *spec*, of a policy, names; wider ones don't count."""
        there = scope_of_spec(spec)
        return there is not None and (there.scope, there.unit) == (self.scope, self.unit)

    @property
    def spec(self) -> dict[str, str]:
        """As the spec of a policy has it."""
        return {"scope": self.scope.value, **({self.scope.value: self.unit} if self.unit else {})}

    def branch(self, snapshot: Snapshot, *, is_strict: bool = True) -> Branch:
        """
        Where a workload of this unit stands.

        Raises:
            BadRequestError: the project lies in several departments, none is named, and that
                *is_strict*ly needed. Without it, what departments say is left out.
        """
        ids = dict(self.ids)
        cluster = ids.get(Scope.CLUSTER) or snapshot.settings.cluster_name
        department = ids.get(Scope.DEPARTMENT, "")
        match self.scope:
            case Scope.PROJECT:
                known = sorted(snapshot.territory.departments_of(self.unit))
                if len(known) > 1 and not department and is_strict:
                    named = ", ".join([name or "none" for name in known])
                    raise BadRequestError("departmentId", f"is needed, one of: {named}")
                branch = snapshot.branch("", project=self.unit)
                branch = replace(branch, cluster=cluster)
                return replace(branch, department=department) if department else branch
            case Scope.DEPARTMENT:
                return Branch(cluster=cluster, department=self.unit)
            case Scope.CLUSTER:
                return Branch(cluster=cluster)
            case _:
                return Branch()


def read_scope(told: Mapping[str, Any]) -> ScopeUnit:
    """
    The scope and unit in *told*, a body or a query.

    Raises:
        BadRequestError: there is no scope, its unit is missing, or a narrower one is given.
    """
    text = told.get("scope")
    if text is None:
        raise BadRequestError("scope", "is needed")
    scope = read_scope_word(text)
    ids: dict[Scope, str] = {}
    for of_scope, key in ID_KEYS.items():
        given = told.get(key)
        if isinstance(given, int) and not isinstance(given, bool):
            # Project ids are numbers elsewhere.
            given = str(given)
        if given is None or given == "":
            continue
        if not isinstance(given, str):
            raise BadRequestError(key, "must be text")
        if of_scope.breadth > scope.breadth:
            raise BadRequestError(key, f"does not go with scope {scope}")
        ids[of_scope] = given
    unit = ids.get(scope, "")
    if scope in (Scope.DEPARTMENT, Scope.PROJECT) and not unit:
        raise BadRequestError(ID_KEYS[scope], f"is needed with scope {scope}")
    return ScopeUnit(scope, unit, tuple(ids.items()))


@dataclass(frozen=True, slots=True)
class ScopeFilter:
    """Which scopes and units are meant; None: any."""

    scope: Scope | None
    unit: str | None

    def holds(self, at: ScopeUnit) -> bool:
        return self.scope in (None, at.scope) and self.unit in (None, at.unit)


def read_scope_filter(told: Mapping[str, Any]) -> ScopeFilter:
    """
    What the query of a list says of scopes and units. An id alone is about its own scope.

    Raises:
        BadRequestError: there is no such scope, or an id of a narrower one is given.
    """
    narrowest = next((scope for scope in reversed(list(ID_KEYS)) if told.get(ID_KEYS[scope])), None)
    if told.get("scope") is None and narrowest is None:
        return ScopeFilter(None, None)
    scope = read_scope_word(told.get("scope", narrowest))
    if narrowest is not None and narrowest.breadth > scope.breadth:
        raise BadRequestError(ID_KEYS[narrowest], f"does not go with scope {scope}")
    key = ID_KEYS.get(scope)
    return ScopeFilter(scope, (told.get(key) or None) if key is not None else None)


def read_scope_word(told: Any) -> Scope:
    """
    Raises:
        BadRequestError: *told* is no scope.
    """
    scope = next((one for one in Scope if isinstance(told, str) and told.lower() == one), None)
    if scope is None:
        raise BadRequestError("scope", f"must be one of {', '.join(Scope)}")
    return scope


def scope_of_spec(spec: Mapping[str, Any]) -> ScopeUnit | None:
    """The scope and unit that a stored policy names; None where it names none that there is."""
    text = spec.get("scope")
    scope = next((one for one in Scope if isinstance(text, str) and text.lower() == one), None)
    if scope is None:
        return None
    unit = spec.get(scope.value) if scope.has_unit else None
    unit = unit if isinstance(unit, str) else ""
    return ScopeUnit(scope, unit, ((scope, unit),) if unit else ())


def show_unit(scope: str, unit: str) -> dict[str, str]:
    """`scope`, and the id that goes with it."""
    key = next((key for of_scope, key in ID_KEYS.items() if of_scope == scope), None)
    return {"scope": scope, **({key: unit} if key and unit else {})}
