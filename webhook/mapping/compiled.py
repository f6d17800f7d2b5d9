"""A mapping, compiled: the selectors of one kind and the fields at each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from webhook.errors import MissingReferenceError, SpecError
from webhook.mapping.creating import why_nothing_is_created
from webhook.mapping.fields import CompiledGroup, Field, is_secret, paths_into_lists
from webhook.mapping.patterns import keeps_absent, outline_of, patterns_of, show_pattern
from webhook.mapping.plain import parse_plain, parse_ref
from webhook.mapping.programs import Selector, compile_selector
from webhook.mapping.server_items import ItemPattern, compile_item
from webhook.model.documents import (
    Document,
    SameAs,
    ScaleSpec,
    SpecMappingSpec,
    SpecSelectorSpec,
)
from webhook.model.kinds import GroupVersionKind
from webhook.model.names import did_you_mean
from webhook.model.values import FieldType

_SECRET = GroupVersionKind("", "v1", "Secret")

# Ours, of all selectors of a mapping together. The largest one in the catalog has some 700.
MAX_EXPOSED_FIELDS = 10_000

_WORD = re.compile(r'"([^"\\]*)"|([A-Za-z_]\w*)')
# What the part of a pod template is called beside which there is metadata.
_TEMPLATE_SPEC = "spec"
_SELECT = re.compile(r"\|\s*select\(\s*\.\s*\)\s*$")


@dataclass(frozen=True, slots=True)
class CompiledSelector:
    """
    One selector.

    *native* are fields that hierarchical policies name and GVKPolicies don't.

    Where *creates* is not None, a place that is absent may be created: below each place of
    *parent* (the whole object if None) at that path. *server_defaults* and *server_items* are
    what the API server puts into a field before it asks us; see `is_filled`. *literals* are the
    names that the query spells out; the other keys of a place's path tell its places apart for
    people. Where *same_as* applies, places of another selector are judged as this one's. With
    *is_pod_template*, its places are the `spec` of pod templates, which have metadata beside it.
    """

    name: str
    query: Selector
    fields: Mapping[str, Field]
    native: Mapping[str, Field] = field(default_factory=dict)
    parent: str | None = None
    creates: tuple[str, ...] | None = None
    server_defaults: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    server_items: Mapping[str, tuple[ItemPattern, ...]] = field(default_factory=dict)
    server_copies: Mapping[str, str] = field(default_factory=dict)
    literals: frozenset[str] = frozenset()
    same_as: SameAs | None = None
    is_pod_template: bool = False

    def is_filled(self, field_name: str) -> bool:
        """Whether *field_name* has a value here whatever the submitter wrote."""
        return field_name in self.server_defaults or field_name in self.server_items

    def server_name(self, field: Field) -> str:
        """The name by which this selector speaks of what the API server does to *field*."""
        if not field.native or field.home.above:
            return field.name
        twins = [name for name, other in self.fields.items() if other.ref == field.ref]
        return twins[0] if twins else field.name


@dataclass(frozen=True, slots=True)
class CompiledMapping:
    """
    Where the parts of one kind are.

    *scale* names, as (selector, field), every way to the value that the `scale` subresource
    writes; it is empty where the kind has none. *builtin* ones say themselves what is secret.
    Of the selectors that are *complete* no place is created that their own walk does not show.
    """

    kind: GroupVersionKind
    selectors: Mapping[str, CompiledSelector]
    source: str
    resource: str = ""
    scale: frozenset[tuple[str, str]] = frozenset()
    builtin: bool = False
    complete: frozenset[str] = frozenset()

    @property
    def plural(self) -> str:
        """The resource that the API server serves the kind as."""
        return self.resource or f"{self.kind.kind.lower()}s"

    def selectors_with(self, field_name: str) -> list[str]:
        """The selectors that expose *field_name*, in the mapping's order."""
        return [name for name, sel in self.selectors.items() if field_name in sel.fields]


def compile_mapping(document: Document, groups: Mapping[str, CompiledGroup]) -> CompiledMapping:
    """
    Compile one SpecMapping against the field *groups* in force, by name in lower case.

    Raises:
        ExceptionGroup: of SpecError, one for each problem; MissingReferenceError for a group
            that is not there.
    """
    spec: SpecMappingSpec = document.spec
    if not document.builtin:
        _check_size(spec, groups)
    problems: list[SpecError] = []
    selectors: dict[str, CompiledSelector] = {}
    for name, selector in spec.spec_selectors.items():
        path = f"spec.specSelectors.{name}"
        try:
            selectors[name] = _compile_selector(
                name,
                selector,
                path,
                groups,
                problems,
                builtin=document.builtin,
                kind=spec.workload_type,
            )
        except SpecError as error:
            problems.append(error)
        parent = selector.dependency.spec_selector if selector.dependency else None
        if parent is not None and parent not in spec.spec_selectors:
            hint = did_you_mean(parent, spec.spec_selectors)
            problems.append(
                SpecError(f"{path}.dependency.specSelector", f"no selector {parent!r}{hint}")
            )
    problems += _cycles(spec)
    if not problems:
        problems += _vain_creations(selectors)
    scale: frozenset[tuple[str, str]] = frozenset()
    if spec.scale is not None and not problems:
        try:
            scale = _compile_scale(spec.scale, selectors)
        except SpecError as error:
            problems.append(error)
    if problems:
        raise ExceptionGroup("the mapping is wrong", problems)
    return CompiledMapping(
        kind=spec.workload_type,
        selectors=selectors,
        source=document.source,
        resource=spec.resource,
        scale=scale,
        builtin=document.builtin,
        complete=frozenset(
            [name for name, selector in selectors.items() if _shows_absent(selector, selectors)]
        ),
    )


def _shows_absent(selector: CompiledSelector, selectors: Mapping[str, CompiledSelector]) -> bool:
    """
    Whether the walk of *selector* comes to each of its absent places that may be created.

    So it is where it goes through the places of its parent and then along the very names that
    are created, and drops nothing on the way.
    """
    plain = selector.query.plain
    parent = selectors.get(selector.parent or "")
    if plain is None or parent is None or parent.query.plain is None or selector.creates is None:
        return False
    if not keeps_absent(plain):
        return False
    created = {pattern + selector.creates for pattern in patterns_of(parent.query.plain)}
    return created == set(patterns_of(plain))


def _check_size(spec: SpecMappingSpec, groups: Mapping[str, CompiledGroup]) -> None:
    """
    Raises:
        ExceptionGroup: the mapping exposes more fields than can be compiled in a second.
    """
    named = [name.lower() for s in spec.spec_selectors.values() for name in s.field_groups]
    exposed = sum(len(groups[name].fields) for name in named if name in groups)
    if exposed > MAX_EXPOSED_FIELDS:
        problem = f"expose {exposed} fields in all; at most {MAX_EXPOSED_FIELDS} are allowed"
        raise ExceptionGroup("the mapping is wrong", [SpecError("spec.specSelectors", problem)])


def _compile_scale(
    scale: ScaleSpec, selectors: Mapping[str, CompiledSelector]
) -> frozenset[tuple[str, str]]:
    """
    Every selector and field that lead to the value which *scale* names.

    Several may: `worker` and `replicaSpecs` find one and the same role. Selectors that take jq
    are not among them.

    Raises:
        SpecError: it names no value that a `scale` subresource could write.
    """
    selector = selectors.get(scale.spec_selector)
    if selector is None:
        hint = did_you_mean(scale.spec_selector, selectors)
        raise SpecError("spec.scale.specSelector", f"no selector {scale.spec_selector!r}{hint}")
    field = selector.fields.get(scale.field)
    if field is None:
        hint = did_you_mean(scale.field, selector.fields)
        raise SpecError(
            "spec.scale.field", f"no field {scale.field!r} at selector {selector.name}{hint}"
        )
    if field.is_map or field.type not in (FieldType.INTEGER, None):
        raise SpecError("spec.scale.field", f"{field.name} is no whole number")
    if field.formatter is not None:
        raise SpecError("spec.scale.field", f"{field.name} stands at no path: it has a formatter")
    # Nothing is dropped from an empty object but by `select(.)`.
    source = _SELECT.sub("", selector.query.source)
    plain = parse_plain(source)
    paths = plain.locate({}).paths if plain is not None and plain.is_single else ()
    names = [token for path in paths for token in path if isinstance(token, str)]
    if len(paths) != 1 or len(names) != len(paths[0]):
        raise SpecError(
            "spec.scale.specSelector",
            "the replicas of a scale stand at a path of names, as in .spec.worker",
        )
    target = (*names, *field.ref)
    node: Any = {}
    for name in reversed(target):
        node = {name: node}
    return frozenset(
        [
            (other.name, name)
            for other in selectors.values()
            if other.query.plain is not None
            for path in other.query.plain.locate(node).paths
            for name, found in (*other.fields.items(), *other.native.items())
            if not found.is_map
            and found.formatter is None
            and not found.home.above
            and path + found.ref == target
        ]
    )


def _compile_selector(
    name: str,
    selector: SpecSelectorSpec,
    path: str,
    groups: Mapping[str, CompiledGroup],
    problems: list[SpecError],
    *,
    builtin: bool,
    kind: GroupVersionKind,
) -> CompiledSelector:
    fields: dict[str, Field] = {}
    native: dict[str, Field] = {}
    for index, group_name in enumerate(selector.field_groups):
        where = f"{path}.fieldGroups[{index}]"
        group = groups.get(group_name.lower())
        if group is None:
            hint = did_you_mean(group_name, [group.name for group in groups.values()])
            problems.append(MissingReferenceError(where, f"no field group {group_name!r}{hint}"))
            continue
        if group.native:
            native.update(group.fields)
            continue
        for twice in sorted(fields.keys() & group.fields.keys()):
            problems.append(SpecError(where, f"field {twice!r} is in another of its groups too"))
        fields.update(group.fields)
    literals = frozenset(
        [quoted or word for quoted, word in _WORD.findall(selector.query) if quoted or word]
    )
    if not builtin:
        fields = {field.name: _hidden_if_secret(field, literals, kind) for field in fields.values()}
    for key, named in (
        ("serverDefaults", selector.server_defaults),
        ("serverItems", selector.server_items),
        ("serverCopies", selector.server_copies),
    ):
        for field_name in named:
            if field_name not in fields and not problems:
                hint = did_you_mean(field_name, fields)
                problems.append(SpecError(f"{path}.{key}", f"no field {field_name!r} here{hint}"))
    if not problems:
        problems += _loose_relations(fields, path)
        problems += [
            SpecError(f"{path}.fieldGroups", f"specRef of field {field_name!r} {problem}")
            for field_name, problem in paths_into_lists(fields)
        ]
    creates: tuple[str, ...] | None = None
    dependency = selector.dependency
    if dependency is not None and dependency.path is None and dependency.spec_selector is None:
        problems.append(
            SpecError(
                f"{path}.dependency", "path is needed: it leads to the place that may be created"
            )
        )
    if dependency is not None and dependency.path is not None:
        try:
            creates = parse_ref(dependency.path)
        except ValueError as error:
            problems.append(SpecError(f"{path}.dependency.path", str(error)))
    query = compile_selector(selector.query, path=f"{path}.query", any_case=selector.ignore_case)
    return CompiledSelector(
        name=name,
        query=query,
        fields=fields,
        native=native,
        parent=dependency.spec_selector if dependency else None,
        creates=creates,
        server_defaults={key: tuple(values) for key, values in selector.server_defaults.items()},
        server_items={
            key: tuple([compile_item(item, f"{path}.serverItems.{key}") for item in items])
            for key, items in selector.server_items.items()
        },
        server_copies=dict(selector.server_copies),
        literals=literals,
        same_as=selector.same_as,
        is_pod_template=_is_pod_template(query, selector.pod_template, f"{path}.podTemplate"),
    )


def _is_pod_template(query: Selector, said: bool | None, path: str) -> bool:
    """
    Whether the places of *query* are pod templates' `spec`: as its author *said*, else if they all
    are called so, however the way to them is spelt.

    Raises:
        SpecError: it is said of places that are called otherwise.
    """
    outline = query.plain or outline_of(query.source)
    patterns = () if outline is None else patterns_of(outline)
    endings = {pattern[-1:] == (_TEMPLATE_SPEC,) for pattern in patterns}
    if said and endings == {False}:
        shown = show_pattern(patterns[0])
        raise SpecError(path, f"is for the spec of a pod template, and the query selects {shown}")
    return endings == {True} if said is None else said


def _vain_creations(selectors: Mapping[str, CompiledSelector]) -> Iterator[SpecError]:
    """Selectors whose dependency leads to places that they never find."""
    for selector in selectors.values():
        if selector.creates is None:
            continue
        parent = None if selector.parent is None else selectors[selector.parent]
        why = why_nothing_is_created(
            selector.query, selector.creates, None if parent is None else parent.query
        )
        if why:
            below = "" if parent is None else f", below selector {parent.name},"
            problem = f"{show_pattern(selector.creates)[1:]}{below} {why}"
            yield SpecError(f"spec.specSelectors.{selector.name}.dependency.path", problem)


def _loose_relations(fields: Mapping[str, Field], path: str) -> list[SpecError]:
    """Fields that are to be compared with one that is not there, or of another type."""
    problems = []
    for compared in fields.values():
        for key, other in (
            ("notBelow", compared.not_below),
            ("notAbove", compared.not_above),
            ("notWith", compared.not_with),
            ("notWithout", compared.not_without),
        ):
            if other is None:
                continue
            what = f"{key} of field {compared.name!r}"
            if other not in fields:
                problem = f"{what}: no field {other!r} here{did_you_mean(other, fields)}"
            elif fields[other].type is not compared.type or fields[other].is_map != compared.is_map:
                problem = f"{what}: field {other!r} has another type"
            else:
                continue
            problems.append(SpecError(f"{path}.fieldGroups", problem))
        problems += [
            SpecError(f"{path}.fieldGroups", f"{key} of field {compared.name!r}: {problem}")
            for key, problem in _loose_item_relations(compared, fields)
        ]
    return problems


def _loose_item_relations(
    compared: Field, fields: Mapping[str, Field]
) -> Iterator[tuple[str, str]]:
    """What is wrong with the relation of a flag to an item of a list, by the key that says so."""
    flag, texts = FieldType.BOOLEAN, FieldType.STRINGS
    for key, relation, own, other in (
        ("notWithItem", compared.not_with_item, flag, texts),
        ("itemNotWithout", compared.item_not_without, texts, flag),
    ):
        if relation is None:
            continue
        if relation.field not in fields:
            yield key, f"no field {relation.field!r} here{did_you_mean(relation.field, fields)}"
        elif (compared.type, fields[relation.field].type) != (own, other):
            yield key, f"is for {own}, and {relation.field!r} has to be {other}"


def _hidden_if_secret(field: Field, literals: frozenset[str], kind: GroupVersionKind) -> Field:
    """*field* as it is at this selector: a value below `env` is a secret by any name."""
    if is_secret(literals, field.type) or kind == _SECRET:
        return replace(field, sensitive=True)
    return field


def _cycles(spec: SpecMappingSpec) -> list[SpecError]:
    """One problem for each circle of selectors that depend on one another."""
    problems = []
    for name in spec.spec_selectors:
        chain: list[str] = []
        current: str | None = name
        while current is not None and current in spec.spec_selectors and current not in chain:
            chain.append(current)
            dependency = spec.spec_selectors[current].dependency
            current = dependency.spec_selector if dependency else None
        # Each cycle once, from its first selector in the order of names.
        if current == name and name == min(chain):
            problems.append(
                SpecError(
                    f"spec.specSelectors.{name}.dependency",
                    f"depends on itself: {' -> '.join([*chain, name])}",
                )
            )
    return problems
