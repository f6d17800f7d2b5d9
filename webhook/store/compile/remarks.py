"""What the authors of documents should know that are all right by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from webhook.mapping.compiled import CompiledMapping
from webhook.model.documents import Document
from webhook.model.kinds import GroupVersionKind, why_never_registered
from webhook.model.names import did_you_mean
from webhook.model.rightsizing.documents import KINDS as RIGHTSIZING_KINDS
from webhook.model.rightsizing.policies import GROUP as RIGHTSIZING_GROUP
from webhook.store.compile.problems import Problems
from webhook.store.compile.reading import KAI_QUEUE_GROUP
from webhook.store.served import KindVersions
from webhook.store.snapshot import DocumentProblem, ProblemReason

_UNSERVED = "; nothing is judged by this mapping until it is"
# Of a group of many kinds so many are named: warnings are short.
_MAX_KINDS = 4

_Mappings = Mapping[GroupVersionKind, CompiledMapping]
# By group: the kinds that are served, with their versions.
_Served = Mapping[str, KindVersions]


def on_others(
    problems: Problems, others: Iterable[tuple[str, GroupVersionKind]], mappings: _Mappings
) -> None:
    """
    Say of documents that have no effect that they have none.

    Workloads may stand beside policies, to try these on them.
    """
    for source, kind in others:
        if kind in mappings:
            continue
        hint = f"; KAI's are of {KAI_QUEUE_GROUP}" if kind.kind == "Queue" else ""
        if kind.group == RIGHTSIZING_GROUP:
            hint = did_you_mean(kind.kind, RIGHTSIZING_KINDS)
        problems.advise(source, "", f"{kind} is no document of ours, and is ignored{hint}")


def on_served(problems: Problems, in_force: Iterable[Document], served: _Served) -> None:
    """Say of mappings in force that there are no objects of their kind (yet)."""
    for document in in_force:
        if document.kind != "SpecMapping":
            continue
        kind = document.spec.workload_type
        kinds = served.get(kind.group)
        if kinds is None or kind.version in kinds.get(kind.kind, ()):
            continue
        problem = f"{kind.api_version} {kind.kind} is not served here ({_told(kind, kinds)})"
        problems.note(
            DocumentProblem(
                document.source,
                "spec.workloadType",
                problem + _UNSERVED,
                warning=True,
                reason=ProblemReason.KIND_NOT_SERVED,
                cost=_UNSERVED,
            )
        )


def on_case(problems: Problems, mappings: _Mappings, served: _Served) -> None:
    """Say of mappings that others differ from them in case only, unless both are served."""
    first: dict[tuple[str, str, str], CompiledMapping] = {}
    for kind, mapping in mappings.items():
        twin = first.setdefault((kind.group, kind.version, kind.kind.lower()), mapping)
        # Of what is served, `on_served` says how it is spelt.
        known = [name.lower() for name in served.get(kind.group, ())]
        if twin is not mapping and kind.kind.lower() not in known:
            problems.advise(
                mapping.source,
                "spec.workloadType",
                f"{kind} differs from {twin.kind}, which {twin.source} is for, in case only;"
                " kinds are told apart by case, and hardly a cluster has both",
            )


def on_registering(problems: Problems, mappings: _Mappings) -> None:
    """Say of mappings in force that the API server asks nobody about their kind."""
    for kind, mapping in mappings.items():
        if not mapping.builtin and (why := why_never_registered(kind)):
            problem = f"{kind} is never registered with the API server, because {why}"
            problems.advise(mapping.source, "spec.workloadType", problem)


def _told(kind: GroupVersionKind, kinds: KindVersions) -> str:
    """What is served in place of *kind*: *kinds* are those of its group."""
    versions = kinds.get(kind.kind)
    if versions:
        return f"served: {', '.join(versions)}"
    if not kinds:
        return f"nothing of {kind.group or 'the core group'} is"
    alike = {name: kinds[name] for name in kinds if name.lower() == kind.kind.lower()}
    if alike:
        named = [f"{name} {', '.join(versions)}" for name, versions in sorted(alike.items())]
        return f"served: {'; '.join(named)}; kinds are told apart by case"
    named = [f"{name} {', '.join(versions)}" for name, versions in sorted(kinds.items())]
    more = [f"and {len(named) - _MAX_KINDS} more"] if len(named) > _MAX_KINDS else []
    return f"served of {kind.group or 'the core group'}: {'; '.join(named[:_MAX_KINDS] + more)}"
