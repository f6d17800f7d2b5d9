"""
Kinds of workloads beyond the nine: those that a mapping covers, built-in or of a user's own.

Of a mapping it matters here which kind it is for, and as what that is served; where things are in
its objects does not. It covers a kind also while the admission server can't compile it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import msgspec

from webhook.catalog import builtin_documents
from webhook.catalog.pod_makers import PodMaker, pod_makers
from webhook.clients.discovery import ServedResource
from webhook.clients.informer import Resource
from webhook.model.kinds import POLICY_GROUP, VERSION, GroupVersionKind
from webhook.model.rightsizing.workload_types import is_short, read_type, type_of
from webhook.reactive.observation.kinds import WorkloadKind
from webhook.store.object_metadata import Metadata

MAPPINGS = Resource(
    f"specmappings.{POLICY_GROUP}", f"/apis/{POLICY_GROUP}/{VERSION}/specmappings", optional=True
)

# On a SpecMapping: whether the controller of its kind makes an evicted pod again.
RECREATES_PODS = "gatewright.io/recreates-pods"

# DNS labels.
_VERSION = _PLURAL = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)

# As what the kinds of a group version (`ray.io/v1`) are served, as far as that was looked up.
Served = Mapping[str, Mapping[str, ServedResource]]


class SeenMapping(msgspec.Struct, frozen=True):
    """
    Of a SpecMapping its *kind*, None where that can't be read or has no group, and the plural that
    it gives, ``""`` for none. *recreates* is whether pods of the kind are made again, as it says.
    """

    name: str
    resource_version: str
    kind: GroupVersionKind | None
    plural: str = ""
    recreates: bool = False

    @property
    def change_key(self) -> object:
        return self.kind, self.plural, self.recreates


@dataclass(frozen=True, slots=True)
class MappedKind:
    """
    A kind that is mapped in these *versions*, by the plural of each; ``""`` where that has to be
    asked for.
    """

    group: str
    kind: str
    versions: Mapping[str, str] = field(default_factory=dict)
    maker: PodMaker = field(default_factory=PodMaker)

    def unlooked(self) -> Iterable[str]:
        """The group versions whose plural has to be asked for."""
        return [f"{self.group}/{each}" for each, plural in self.versions.items() if not plural]

    def served(self, known: Served) -> WorkloadKind | None:
        """Where its objects are, by what is *known*; None where nobody said yet."""
        plurals: dict[str, str] = {}
        for version, plural in self.versions.items():
            looked_up = known.get(f"{self.group}/{version}", {}).get(self.kind)
            name = plural or (looked_up.plural if looked_up is not None else "")
            if name:
                plurals[version] = name
        if not plurals:
            return None
        # A kind has one plural in all of its versions.
        name = next(iter(plurals.values()))
        return WorkloadKind(self.kind, self.group, tuple(sorted(plurals)), name)


def mapped_kinds(mappings: Iterable[SeenMapping]) -> Mapping[str, MappedKind]:
    """The kinds beyond the nine that built-in mappings or *mappings* cover, by their types."""
    found = dict(_builtin_kinds())
    versions: dict[str, dict[str, str]] = defaultdict(dict)
    recreates: set[str] = set()
    for each in sorted(mappings, key=lambda mapping: mapping.name):
        kind = each.kind
        name = "" if kind is None else type_of(kind.group, kind.kind)
        if kind is None or is_short(name):
            continue
        found.setdefault(name, MappedKind(kind.group, kind.kind))
        versions[name].setdefault(kind.version, each.plural)
        if each.recreates:
            recreates.add(name)
    for name, own in versions.items():
        known = found[name]
        maker = known.maker
        if name in recreates and name not in pod_makers():
            maker = PodMaker(recreates=True)
        found[name] = replace(known, versions={**own, **known.versions}, maker=maker)
    return found


@cache
def _builtin_kinds() -> Mapping[str, MappedKind]:
    versions: dict[str, dict[str, str]] = defaultdict(dict)
    kinds: dict[str, GroupVersionKind] = {}
    for document in builtin_documents():
        if document.kind != "SpecMapping":
            continue
        kind: GroupVersionKind = document.spec.workload_type
        name = type_of(kind.group, kind.kind)
        if kind.group and not is_short(name):
            kinds[name] = kind
            versions[name][kind.version] = document.spec.resource
    makers = pod_makers()
    return {
        name: MappedKind(kind.group, kind.kind, versions[name], makers.get(name, PodMaker()))
        for name, kind in kinds.items()
    }


class _Mapping(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: Any = None


_MAPPING = msgspec.json.Decoder(_Mapping)


def decode_mapping(raw: bytes) -> SeenMapping:
    """
    Read one SpecMapping.

    Raises:
        msgspec.DecodeError: *raw* is no object at all.
    """
    read = _MAPPING.decode(raw)
    spec = read.spec if isinstance(read.spec, dict) else {}
    plural = spec.get("resource")
    annotations = read.metadata.annotations or {}
    return SeenMapping(
        read.metadata.name,
        read.metadata.resource_version,
        _kind(spec.get("workloadType")),
        plural if isinstance(plural, str) and _PLURAL.fullmatch(plural) else "",
        annotations.get(RECREATES_PODS) == "true",
    )


def _kind(told: Any) -> GroupVersionKind | None:
    """None where it can't be a kind: what it says becomes a path of the API server."""
    if not isinstance(told, dict):
        return None
    group, version, kind = [told.get(part) for part in ("group", "version", "kind")]
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        return None
    try:
        read_type(f"{kind}.{group}")
    except ValueError:
        return None
    return GroupVersionKind(str(group), version, str(kind))
