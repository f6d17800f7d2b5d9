"""
Where hierarchical policies of the API are: one place for each type, scope and unit.

The API writes the document `<type>-<scope>-<unit>`. Where another document says something for the
same place, that one is shown, and nothing is written beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.api.rest.access import Call
from webhook.api.rest.document_names import document_name_for
from webhook.api.rest.resources import WORKLOAD_POLICIES, Registered, list_objects, spec_of
from webhook.api.rest.scope_units import ScopeUnit
from webhook.errors import ConflictError, NotFoundError
from webhook.mapping.compiled import CompiledMapping
from webhook.model.kinds import NATIVE_KINDS
from webhook.model.names import did_you_mean
from webhook.store.source import Stored

TYPES: Mapping[str, str] = {
    "workspaces": "workspace",
    "trainings": "training",
    "distributed": "distributed",
    "inferences": "inference",
    "distributed-inferences": "distributedInference",
    "nim-services": "nimService",
}


@dataclass(frozen=True, slots=True)
class PolicyPlace:
    """What one request is about: *own* is the document that the API writes there."""

    type: str
    at: ScopeUnit
    mapping: CompiledMapping
    own: Stored | None
    others: tuple[Registered, ...]
    name: str

    @property
    def holder(self) -> Registered | None:
        """What is there, whoever wrote it."""
        if self.own is not None:
            return Registered(WORKLOAD_POLICIES, self.own.name, spec_of(self.own), self.own)
        return next(iter(self.others), None)

    def require_free(self) -> None:
        """
        Raises:
            ConflictError: another document holds the place.
        """
        written = [other for other in self.others if other.stored is not None]
        if written:
            raise ConflictError(
                f"the policy for {self.type} at {self.at} is the document {written[0].name},"
                " which was not written through this API"
            )


async def find_place(call: Call, at: ScopeUnit) -> PolicyPlace:
    """
    What is at the place that the path and *at* name.

    Raises:
        NotFoundError: the path names no workload type.
    """
    segment = call.request.match_info["type"]
    workload_type = TYPES.get(segment)
    if workload_type is None:
        raise NotFoundError(f"there is no workload type {segment!r}{did_you_mean(segment, TYPES)}")
    objects = await list_objects(call.rest.store, WORKLOAD_POLICIES)
    mapping = call.snapshot.mappings[NATIVE_KINDS[workload_type]]
    return await call.rest.run(_place_among, objects, workload_type, at, mapping)


def _place_among(
    objects: Sequence[Registered], workload_type: str, at: ScopeUnit, mapping: CompiledMapping
) -> PolicyPlace:
    identity = [workload_type, at.scope.value, at.unit]
    base = document_name_for(identity, ())
    # As it is called, and as it was called when another had that name.
    names = {base, document_name_for(identity, [base])}
    own: Stored | None = None
    others = []
    for one in objects:
        types = types_of(one.spec) if at.is_of(one.spec) else []
        if workload_type not in types:
            continue
        is_own = one.name in names and types == [workload_type]
        if is_own and one.stored is not None:
            own = one.stored
        else:
            others.append(one)
    # Those that people wrote count before what ships with us.
    others.sort(key=lambda one: one.is_system)
    name = own.name if own else document_name_for(identity, [one.name for one in objects])
    return PolicyPlace(workload_type, at, mapping, own, tuple(others), name)


def types_of(spec: Mapping[str, Any]) -> list[str]:
    """The native types that a policy is for, as they are called here."""
    told = spec.get("workloadType")
    names = told if isinstance(told, list) else [told]
    found = []
    for name, kind in NATIVE_KINDS.items():
        as_kind = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        if any(
            one == as_kind or (isinstance(one, str) and one.lower() == name.lower())
            for one in names
        ):
            found.append(name)
    return found


def absent(place: PolicyPlace) -> str:
    return f"there is no policy for {place.type} at {place.at}"
