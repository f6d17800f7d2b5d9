"""What a mapping exposes, without its expressions: fields, and what rules they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from webhook.catalog import builtin_documents
from webhook.errors import NotFoundError
from webhook.mapping.fields import Field
from webhook.model.documents import (
    Document,
    FieldGroupSpec,
    GroupField,
    ItemSelectorSpec,
    SpecMappingSpec,
)
from webhook.model.kinds import GroupVersionKind
from webhook.model.names import did_you_mean
from webhook.model.values import FieldType
from webhook.policy.compile.flat_items import flat_item_rules
from webhook.policy.rules.rule_values import flat_rules_of
from webhook.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Exposed:
    """One field at one selector. *told* is what its group says of it, None for native ones."""

    kind: GroupVersionKind
    selector: str
    field: Field
    told: GroupField | None
    item_selectors: Mapping[str, ItemSelectorSpec]


def require_mapping(snapshot: Snapshot, kind: GroupVersionKind) -> None:
    """
    Raises:
        NotFoundError: no mapping for *kind* is in force.
    """
    if kind not in snapshot.mappings:
        hint = did_you_mean(str(kind), [str(other) for other in snapshot.mappings])
        raise NotFoundError(f"there is no mapping for {kind}{hint}")


def minimal(snapshot: Snapshot, kind: GroupVersionKind) -> dict[str, Any]:
    """`fields` (field, selector, item selector: description) and `specSelectors`."""
    fields: dict[str, dict[str, dict[str, str]]] = {}
    for exposed in exposed_fields(snapshot, kind):
        fields.setdefault(exposed.field.name, {})[exposed.selector] = {
            name: selector.description for name, selector in exposed.item_selectors.items()
        }
    described = _descriptions(snapshot, kind)
    selectors = {name: described.get(name, "") for name in snapshot.mappings[kind].selectors}
    return {"fields": dict(sorted(fields.items())), "specSelectors": selectors}


def field_info(
    snapshot: Snapshot,
    kinds: Sequence[GroupVersionKind],
    wanted: Mapping[str, frozenset[str]] | None,
) -> dict[str, list[dict[str, Any]]]:
    """
    Each field, by name, in its variations: fields of one name may differ from kind to kind.

    *wanted* are the selectors that count for each field, an empty set meaning all; None: all
    fields.
    """
    breakdown: dict[str, list[dict[str, Any]]] = {}
    for kind in kinds:
        described = _descriptions(snapshot, kind)
        for exposed in exposed_fields(snapshot, kind):
            name = exposed.field.name
            if wanted is not None:
                selectors = wanted.get(name)
                if selectors is None or (selectors and exposed.selector not in selectors):
                    continue
            variation = _variation(exposed)
            variations = breakdown.setdefault(name, [])
            same = [one for one in variations if variation.items() <= one.items()]
            if not same:
                same = [{**variation, "specSelectors": []}]
                variations += same
            same[0]["specSelectors"].append(
                {
                    "workloadType": {
                        "group": kind.group,
                        "version": kind.version,
                        "kind": kind.kind,
                    },
                    "specSelector": exposed.selector,
                    "description": described.get(exposed.selector, ""),
                }
            )
    return dict(sorted(breakdown.items()))


def exposed_fields(snapshot: Snapshot, kind: GroupVersionKind) -> Iterator[Exposed]:
    """Every field that policies can name for *kind*, selector by selector."""
    spec = _mapping_spec(snapshot, kind)
    groups = _groups(snapshot)
    for selector in snapshot.mappings[kind].selectors.values():
        named = spec.spec_selectors[selector.name].field_groups if spec is not None else ()
        told: dict[str, GroupField] = {}
        queries: dict[str, ItemSelectorSpec] = {}
        for name in named:
            for group in groups.get(name.lower(), ()):
                told.update(group.fields)
                queries.update(group.item_selectors)
        for field in selector.fields.values():
            row = told.get(field.name)
            allowed = row.item_selectors if row is not None else ()
            chosen = {name: queries[name] for name in allowed if name in queries}
            yield Exposed(kind, selector.name, field, row, chosen)


def _variation(exposed: Exposed) -> dict[str, Any]:
    field, told = exposed.field, exposed.told
    variation: dict[str, Any] = {
        "type": field.type.value if field.type is not None else "",
        "isMap": field.is_map,
        "formatter": (told.formatter if told is not None else None) or "",
        "description": told.description if told is not None else "",
        "enforcements": _flat_rules(field),
        "itemSelectors": {
            name: {"description": selector.description, "argsInfo": dict(selector.args_info)}
            for name, selector in exposed.item_selectors.items()
        },
    }
    return variation


def _flat_rules(field: Field) -> list[str]:
    """The rules that flat policies may have."""
    is_itemized = field.type is FieldType.ITEMIZED
    rules = flat_item_rules(field) if is_itemized else flat_rules_of(field)
    return [rule.value for rule in rules]


def _descriptions(snapshot: Snapshot, kind: GroupVersionKind) -> dict[str, str]:
    spec = _mapping_spec(snapshot, kind)
    selectors = spec.spec_selectors if spec is not None else {}
    return {name: selector.description for name, selector in selectors.items()}


def _mapping_spec(snapshot: Snapshot, kind: GroupVersionKind) -> SpecMappingSpec | None:
    for document in (*builtin_documents(), *snapshot.documents):
        if document.kind == "SpecMapping" and document.spec.workload_type == kind:
            spec: SpecMappingSpec = document.spec
            return spec
    return None


def _groups(snapshot: Snapshot) -> dict[str, list[FieldGroupSpec]]:
    """The field groups in force, by name in lower case; a group may have several documents."""
    groups = {name: list(specs) for name, specs in _builtin_groups().items()}
    for name, spec in _group_specs(snapshot.documents):
        groups.setdefault(name, []).append(spec)
    return groups


@cache
def _builtin_groups() -> Mapping[str, Sequence[FieldGroupSpec]]:
    groups: dict[str, list[FieldGroupSpec]] = {}
    for name, spec in _group_specs(builtin_documents()):
        groups.setdefault(name, []).append(spec)
    return groups


def _group_specs(documents: Sequence[Document]) -> Iterator[tuple[str, FieldGroupSpec]]:
    for document in documents:
        if document.kind == "FieldGroup":
            yield (document.spec.name or document.name).lower(), document.spec
