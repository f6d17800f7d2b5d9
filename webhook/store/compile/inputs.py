"""What a snapshot is built from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.model.manifests import Manifest
from webhook.store.served import KindVersions

# Tries a query for places (text), or makes a `Trial`, where it can be killed; raises SpecError at
# the given path. What it is given goes on to `JqWorker.check` as it is.
QueryCheck = Callable[[Any, str], None]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """
    Labels of each namespace and the parent of each KAI queue, where they are known already.

    *served* are the kinds that the API server serves of the groups that were looked at, with the
    versions of each.
    """

    namespaces: Mapping[str, Mapping[str, str]]
    queues: Mapping[str, str]
    served: Mapping[str, KindVersions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """
    One place where documents come from: those that could be read, or why none could.

    *surroundings* stand for manifests of Namespaces and Queues. *written* is when the file was,
    as Kubernetes writes times.
    """

    name: str
    manifests: tuple[Manifest, ...] = ()
    error: str = ""
    surroundings: Surroundings | None = None
    written: str = ""


@dataclass(frozen=True, slots=True)
class BareTarget:
    """What a bare document (only defaults, rules, imposedAssets) is to be a policy for."""

    workload_type: Any
    scope: str
    unit: str = ""
