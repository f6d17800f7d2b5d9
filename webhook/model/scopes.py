"""Scopes: how wide a policy reaches, and where a workload stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Widest first. A policy holds for everything below its unit."""

    SYSTEM = "system"
    TENANT = "tenant"
    CLUSTER = "cluster"
    DEPARTMENT = "department"
    PROJECT = "project"

    @property
    def breadth(self) -> int:
        """0 for the widest."""
        return _BREADTH[self]

    @property
    def has_unit(self) -> bool:
        """Whether a policy of this scope names a cluster, department or project."""
        return self in (Scope.CLUSTER, Scope.DEPARTMENT, Scope.PROJECT)


_BREADTH = {scope: breadth for breadth, scope in enumerate(Scope)}


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a workload stands: one unit per scope. ``""`` where there is none."""

    cluster: str = ""
    department: str = ""
    project: str = ""

    def unit(self, scope: Scope) -> str:
        match scope:
            case Scope.CLUSTER:
                return self.cluster
            case Scope.DEPARTMENT:
                return self.department
            case Scope.PROJECT:
                return self.project
            case _:
                return ""
