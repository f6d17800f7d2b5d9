"""
What our registrations should say, from what is in force and what the API server serves.

Pure: equal arguments give equal registrations, in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from webhook.catalog.rightsizing_crds import build_rightsizing_crds
from webhook.clients.discovery import ServedResource
from webhook.mapping.compiled import CompiledMapping
from webhook.model.kinds import (
    POLICY_GROUP,
    VERSION,
    GroupVersionKind,
    why_never_registered,
)
from webhook.model.names import is_dns_label
from webhook.model.rightsizing.documents import KINDS, POLICY_KINDS
from webhook.model.rightsizing.policies import GROUP_VERSION
from webhook.registrations.conditions import ANY, CHANGES, HAS_GPUS
from webhook.store.changes import REFERABLE
from webhook.store.cluster import PLURALS
from webhook.store.snapshot import Snapshot

# By group version (`apps/v1`, `v1`) what is served of it, by kind. One that is not there could not
# be looked at.
Served = Mapping[str, Mapping[str, ServedResource]]


class Configuration(StrEnum):
    """The two objects, in the words of our settings and metrics."""

    MUTATING = "mutating"
    VALIDATING = "validating"


# The entries, whose names the chart gives.
WORKLOADS = "workloads.gatewright.io"
PODS = "pods.gatewright.io"
PROBE = "probe.gatewright.io"
DOCUMENTS = "documents.gatewright.io"

_CHANGES = "gatewright.io/changes"
_OF_INTEREST = "gatewright.io/of-interest"

_POD = GroupVersionKind("", "v1", "Pod")
_WRITES = ("CREATE", "UPDATE")
# Subresources of Pods that are judged.
_POD_PARTS = ("ephemeralcontainers", "resize")


@dataclass(frozen=True, slots=True)
class Filling:
    """What is filled in of one entry: its *rules*, and by name the *conditions* that are ours."""

    rules: Sequence[Mapping[str, Any]]
    conditions: Mapping[str, str]


Fillings = Mapping[Configuration, Mapping[str, Filling]]


def needed_versions(snapshot: Snapshot) -> frozenset[str]:
    """The group versions of which `Served` should tell."""
    return frozenset(
        [kind.api_version for kind in snapshot.concerned_kinds] + [_POD.api_version, GROUP_VERSION]
    )


def build_fillings(snapshot: Snapshot, served: Served, *, only_confirmed: bool = False) -> Fillings:
    """
    What each entry of both objects should say.

    With *only_confirmed*, kinds are left out of which the API server did not say that it serves
    them, for where it takes no rule for one of those.
    """
    kinds = [kind for kind in snapshot.concerned_kinds if not why_never_registered(kind)]
    if only_confirmed:
        kinds = [kind for kind in kinds if kind.kind in served.get(kind.api_version, ())]
    mappings = [snapshot.mappings[kind] for kind in kinds if kind != _POD]
    is_about_pods = _POD in kinds
    changes = {_CHANGES: CHANGES}
    return {
        Configuration.MUTATING: {
            WORKLOADS: Filling(_workload_rules(mappings, served), changes),
            # Pods that run are never mutated.
            PODS: Filling(
                [_rule("v1", ["pods"], ["CREATE"], "Namespaced")]
                if is_about_pods or _may_resize(served)
                else [],
                {_OF_INTEREST: ANY if is_about_pods else HAS_GPUS},
            ),
            PROBE: Filling([_rule("v1", ["pods"], ["CREATE"], "Namespaced")], {}),
        },
        Configuration.VALIDATING: {
            WORKLOADS: Filling(
                [*_workload_rules(mappings, served), *_scale_rules(mappings, served)], changes
            ),
            PODS: Filling(_pod_rules(served) if is_about_pods else [], changes),
            DOCUMENTS: Filling(_document_rules(), changes),
        },
    }


def _may_resize(served: Served) -> bool:
    """Whether there can be GPU recommendations: the policies that they come from are served."""
    kinds = served.get(GROUP_VERSION)
    return kinds is None or any(kind in kinds for kind in POLICY_KINDS)


def _workload_rules(mappings: Iterable[CompiledMapping], served: Served) -> list[Mapping[str, Any]]:
    found = []
    for mapping in mappings:
        resource = _resource_of(mapping, served)
        if resource is not None:
            found.append((mapping.kind.api_version, _scope(resource), resource.plural))
    return _gathered(found, _WRITES)


def _scale_rules(mappings: Iterable[CompiledMapping], served: Served) -> list[Mapping[str, Any]]:
    """Only judged, never changed; so the mutating object has no such rules."""
    found = []
    for mapping in mappings:
        resource = _resource_of(mapping, served)
        if resource is not None and mapping.scale and "scale" in resource.sub_resources:
            plural = f"{resource.plural}/scale"
            found.append((mapping.kind.api_version, _scope(resource), plural))
    return _gathered(found, ("UPDATE",))


def _resource_of(mapping: CompiledMapping, served: Served) -> ServedResource | None:
    """
    As what the kind is served; None if it is not.

    Where that could not be found out, what the mapping says must do: rules of what is not served
    match nothing.
    """
    kinds = served.get(mapping.kind.api_version)
    resource: ServedResource | None
    if kinds is None:
        parts = {"scale"} if mapping.scale else ()
        resource = ServedResource(mapping.plural, None, frozenset(parts))
    else:
        resource = kinds.get(mapping.kind.kind)
    # Whoever says what is served, `*` and `pods/status` would stand for something else in a rule.
    return resource if resource is not None and is_dns_label(resource.plural) else None


def _scope(resource: ServedResource) -> str:
    if resource.namespaced is None:
        return "*"
    return "Namespaced" if resource.namespaced else "Cluster"


def _pod_rules(served: Served) -> list[Mapping[str, Any]]:
    pods = served.get(_POD.api_version, {}).get(_POD.kind)
    parts = [part for part in _POD_PARTS if pods is None or part in pods.sub_resources]
    rules = [_rule("v1", ["pods"], _WRITES, "Namespaced")]
    if parts:
        rules.append(_rule("v1", [f"pods/{part}" for part in parts], ["UPDATE"], "Namespaced"))
    return rules


def _document_rules() -> list[Mapping[str, Any]]:
    """
    Our documents and those about GPUs. Not all of their groups: the reconciler writes some.

    Only what others refer to can't be deleted at any time: the rest must go while nobody answers.
    """
    own = f"{POLICY_GROUP}/{VERSION}"
    referable = {PLURALS[kind] for kind in REFERABLE}
    named = {crd["spec"]["names"]["kind"]: crd["spec"]["names"] for crd in build_rightsizing_crds()}
    return [
        _rule(own, sorted(set(PLURALS.values()) - referable), _WRITES, "Cluster"),
        _rule(own, sorted(referable), (*_WRITES, "DELETE"), "Cluster"),
        _rule(GROUP_VERSION, sorted([named[kind]["plural"] for kind in KINDS]), _WRITES, "*"),
    ]


def _gathered(
    found: Collection[tuple[str, str, str]], operations: Sequence[str]
) -> list[Mapping[str, Any]]:
    """One rule for all resources of one group version and scope."""
    places = sorted({(api_version, scope) for api_version, scope, _ in found})
    return [
        _rule(
            *place[:1],
            sorted({resource for *other, resource in found if tuple(other) == place}),
            operations,
            place[1],
        )
        for place in places
    ]


def _rule(
    api_version: str, resources: Sequence[str], operations: Sequence[str], scope: str
) -> Mapping[str, Any]:
    group, _, version = api_version.rpartition("/")
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
        "scope": scope,
    }
