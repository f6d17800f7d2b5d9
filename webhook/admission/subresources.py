"""
Subresources that change what a policy governs, and by what they are judged.

`scale` changes the replicas of its parent, `ephemeralcontainers` adds containers to a Pod, `resize`
changes the resources of its containers. None of them is ever mutated. The other subresources
(`status`, `binding`, `log`, ...) change nothing that a policy can name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.programs import Selector, compile_selector
from webhook.model.decision import Rule, Violation
from webhook.model.kinds import GroupVersionKind
from webhook.model.request import AdmissionRequest
from webhook.policy.plans import FieldPlan, Plan, SelectorPlan

SCALE = "scale"
RESIZE = "resize"
EPHEMERAL_CONTAINERS = "ephemeralcontainers"

_POD = GroupVersionKind("", "v1", "Pod")
# Where a Pod's mapping finds its containers; rules there hold for ephemeral ones too.
_CONTAINERS = "allContainers"
_SCALE_SPEC = compile_selector(".spec", path="scale")
_EPHEMERAL = compile_selector(".spec.ephemeralContainers[]?", path="ephemeral containers")
_REPLICAS = ("replicas",)


def find_governing(
    request: AdmissionRequest, mappings: Mapping[GroupVersionKind, CompiledMapping]
) -> CompiledMapping | None:
    """
    The mapping of the kind whose policies judge this request to a subresource.

    None: it is not judged, or no mapping covers that kind.
    """
    if request.sub_resource in (RESIZE, EPHEMERAL_CONTAINERS):
        return mappings.get(_POD) if request.kind == _POD else None
    return _parent(request.resource, mappings) if request.sub_resource == SCALE else None


def _parent(
    resource: tuple[str, str, str], mappings: Mapping[GroupVersionKind, CompiledMapping]
) -> CompiledMapping | None:
    """
    What is scaled. A Scale does not name its parent's kind; the request names its resource.

    A Scale is the same in every version of its parent, so where that version has no mapping
    another one's will do: else nobody who asks for the other version would be judged.
    """
    group, version, plural = resource
    found = [
        mapping
        for kind, mapping in sorted(mappings.items())
        if kind.group == group and mapping.plural == plural
    ]
    exact = [mapping for mapping in found if mapping.kind.version == version]
    return next(iter([*exact, *found]), None)


def narrow_plan(plan: Plan, sub_resource: str) -> Plan | None:
    """What of the governing kind's *plan* concerns the subresource; None if nothing does."""
    if sub_resource == RESIZE:
        return plan
    part_of = _scale_part if sub_resource == SCALE else _ephemeral_part
    parts = [part_of(part, plan.mapping) for part in plan.selectors]
    selectors = tuple([part for part in parts if part is not None])
    previews = []
    for preview in plan.previews:
        narrowed = narrow_plan(preview.plan, sub_resource)
        if narrowed is not None:
            previews.append(replace(preview, plan=narrowed))
    if not selectors and not previews:
        return None
    return Plan(plan.mapping, selectors, plan.consulted, previews=tuple(previews))


def _scale_part(part: SelectorPlan, mapping: CompiledMapping) -> SelectorPlan | None:
    """What is enforced on the replicas of the parent, as rules on those of the Scale."""
    fields = [
        replace(field, ref=_REPLICAS, own_items=(), copy_of=None)
        for field in part.fields
        if field.slot.key is None and (field.slot.selector, field.slot.field) in mapping.scale
    ]
    return _moved(part, _SCALE_SPEC, ("spec",), fields)


def _ephemeral_part(part: SelectorPlan, _: CompiledMapping) -> SelectorPlan | None:
    """
    What is enforced on the image and the security of containers, for ephemeral ones.

    What is not there is not asked for: nothing fills it in, and who debugs has no say in what
    the tool writes.
    """
    if part.selector.name != _CONTAINERS:
        return None
    fields = [
        replace(field, judges=tuple([e for e in field.judges if e.rule is not Rule.REQUIRED]))
        for field in part.fields
        if field.ref == ("image",) or field.ref[0] == "securityContext"
    ]
    return _moved(part, _EPHEMERAL, ("spec", "ephemeralContainers"), fields)


def _moved(
    part: SelectorPlan, query: Selector, literals: Iterable[str], fields: list[FieldPlan]
) -> SelectorPlan | None:
    """*fields* at the places of another *query*, under the selector's own name."""
    if not fields:
        return None
    selector = replace(
        part.selector, query=query, parent=None, creates=None, literals=frozenset(literals)
    )
    return SelectorPlan(selector, tuple(fields))


def judged_object(document: dict[str, Any], sub_resource: str) -> dict[str, Any]:
    """*document* as it is judged: a Scale leaves its replicas out where they are 0."""
    if sub_resource != SCALE:
        return document
    spec = document.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    return {"spec": {"replicas": 0 if replicas is None else replicas}}


def is_counted(violation: Violation, sub_resource: str) -> bool:
    """Whether *violation* is one here: an ephemeral container need not say what a `set` says."""
    absent = violation.rule is Rule.SET and violation.value is None
    return not (absent and sub_resource == EPHEMERAL_CONTAINERS)
