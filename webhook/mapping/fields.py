"""Fields: named values at a place, and how they are found there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from pydantic.alias_generators import to_camel

from webhook.catalog import native_rows
from webhook.errors import MissingReferenceError, SpecError
from webhook.mapping.formatters import (
    CompiledFormatter,
    FormatterField,
    ItemSelector,
    compile_item_selector,
)
from webhook.mapping.homes import NO_HOME, POD_TEMPLATE, Home, PodHome
from webhook.mapping.plain import parse_ref
from webhook.model.documents import (
    AttributeHomeSpec,
    Document,
    FieldGroupSpec,
    GroupField,
    HomeSpec,
    ItemRelation,
    PodHomeSpec,
)
from webhook.model.names import did_you_mean
from webhook.model.values import FieldType

KEY_VALUE = "KeyValue"
KEY_VALUE_MAP = "KeyValueMap"

# Types of fields whose value may be a list, and whose items can be selected then.
_LISTS = frozenset(
    {
        FieldType.STRINGS,
        FieldType.INTEGERS,
        FieldType.NUMBERS,
        FieldType.NAMES_ARRAY,
        FieldType.OBJECT,
    }
)
# Types that say that the value is a list.
_ARRAYS = _LISTS - {FieldType.OBJECT}
# Their fields stand in pod templates, where nativePod and nativeContainer name them as well.
_SYSTEM_GROUPS = frozenset({"podSpec", "podSpecContainer", "podSpecAndContainer", "metadata"})
# What of a group's field only goes with a value that stands at a path.
_OF_PATHS = (
    "having",
    "not_below",
    "not_above",
    "not_with",
    "not_without",
    "not_with_item",
    "item_not_without",
    "removes",
    "texts",
)
# Keys of a row of the catalogue that name another field of the place.
_RELATIONS = ("notBelow", "notAbove", "notWith", "notWithout")
_ITEM_RELATIONS = ("notWithItem", "itemNotWithout")

# Words in the path of a value that make it a secret to us, whatever its author says.
_SECRET_WORDS = ("secret", "password", "passwd", "token", "credential", "apikey", "privatekey")
# Names up to this length are looked at once and then known.
_KEPT_CHARS = 64
# Keys of a row of the catalogue that bound what a value may be.
LIMITS = ("enum", "min", "max", "maxLength", "pattern")

_SECRET_NAMES = frozenset(
    {"env", "envfrom", "args", "command", "annotations", "data", "stringdata"}
)


@dataclass(frozen=True, slots=True)
class Field:
    """
    One field of a group, compiled.

    *ref* leads from the place to the value. With *is_map*, the value is an object and an
    enforcement names one of its keys; *type* is then that of the entries. *type* is None where
    the group's author gave none. Hierarchical policies name the *native* ones. The other parts
    are as in catalog/field_groups.yaml.
    """

    name: str
    type: FieldType | None
    ref: tuple[str, ...]
    is_map: bool = False
    native: bool = False
    sensitive: bool = False
    having: str | None = None
    not_below: str | None = None
    not_above: str | None = None
    not_with: str | None = None
    not_without: str | None = None
    not_with_item: ItemRelation | None = None
    item_not_without: ItemRelation | None = None
    removes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    # Of an itemized field: the attribute that identifies an item; its attributes by path, those
    # of them that policies may rule, and names of which an item has only one.
    item_key: str = ""
    attributes: Mapping[str, Field] = field(default_factory=dict)
    ruled: frozenset[str] = frozenset()
    exclusive: tuple[str, ...] = ()
    format: str | None = None
    # Of an attribute: it may be said here, and means nothing.
    is_ignored: bool = False
    # Of a native field in a pod template: what there is to its place beside *ref*.
    home: Home = NO_HOME
    # What a native value must satisfy whatever policies say: `enum`, `min`, … of its row.
    limits: Mapping[str, Any] = field(default_factory=dict)
    # Reads and writes the value in the place of *ref*, which is empty then.
    formatter: FormatterField | None = None
    # Of a list: what can choose some of its items.
    item_selectors: Mapping[str, ItemSelector] = field(default_factory=dict)
    # The value is a list by what its author says of it; of a field of type object it may be one.
    is_declared_list: bool = False

    @property
    def is_list(self) -> bool:
        """Whether its value may be a list whose items can be selected."""
        if self.formatter is not None:
            return self.formatter.array_key is not None
        return not self.is_map and not self.native and (self.type is None or self.type in _LISTS)


class RefMismatchError(Exception):
    """On the way to a field stands something that is no object. *ref* leads to it."""

    def __init__(self, ref: tuple[str, ...], value: Any) -> None:
        super().__init__()
        self.ref = ref
        self.value = value


def read_ref(node: Any, ref: tuple[str, ...]) -> Any:
    """
    The value at *ref* below *node*; None where it is absent.

    Raises:
        RefMismatchError: something on the way is neither absent nor an object.
    """
    at = node
    for token in ref:
        if isinstance(at, dict):
            at = at.get(token)
        elif at is None:
            return None
        else:
            raise _mismatch(node, ref)
    return at


def _mismatch(node: Any, ref: tuple[str, ...]) -> RefMismatchError:
    """What stands in the way to *ref* below *node*. Only looked for where something does."""
    for depth, token in enumerate(ref):
        if not isinstance(node, dict):
            return RefMismatchError(ref[:depth], node)
        node = node.get(token)
    raise AssertionError("every spot on the way is an object")


@dataclass(frozen=True, slots=True)
class CompiledGroup:
    """
    A field group: its name as its author spells it, its fields and item selectors by name.

    The fields of a *native* group are for hierarchical policies only. *source* is the document
    that a user's group comes from, empty for a built-in one.
    """

    name: str
    fields: Mapping[str, Field]
    native: bool = False
    item_selectors: Mapping[str, ItemSelector] = field(default_factory=dict)
    source: str = ""


def compile_group(
    document: Document,
    formatters: Mapping[str, CompiledFormatter] | None = None,
    base: CompiledGroup | None = None,
) -> CompiledGroup:
    """
    Compile one FieldGroup against the *formatters* in force, by name in lower case.

    *base* is the group of its name that is there already; its item selectors can be named.

    Raises:
        ExceptionGroup: of SpecError, one for each problem; MissingReferenceError for a formatter
            that is not there (yet).
    """
    spec: FieldGroupSpec = document.spec
    problems: list[SpecError] = []
    selectors: dict[str, ItemSelector] = {}
    for name, selector in spec.item_selectors.items():
        path = f"spec.itemSelectors.{name}"
        compiled = compile_item_selector(name, selector, path, problems)
        if compiled is not None:
            selectors[name] = compiled
    known = {**(base.item_selectors if base is not None else {}), **selectors}
    fields: dict[str, Field] = {}
    for name, group_field in spec.fields.items():
        path = f"spec.fields.{name}"
        try:
            compiled_field = _compile_field(
                name, group_field, path, formatters or {}, builtin=document.builtin
            )
            fields[name] = _as_native(
                _with_selectors(compiled_field, group_field, known, spec.item_selectors, path),
                group_field,
                spec,
                document,
            )
        except SpecError as error:
            problems.append(error)
    beside = {**(base.fields if base is not None else {}), **fields}
    problems += [
        SpecError(f"spec.fields.{name}.specRef", problem)
        for name, problem in paths_into_lists(beside)
        if name in fields
    ]
    if spec.native and not document.builtin:
        problems.append(SpecError("spec.native", "is for built-in groups only"))
    if problems:
        raise ExceptionGroup("the field group is wrong", problems)
    return CompiledGroup(
        spec.name or document.name,
        fields,
        spec.native,
        selectors,
        "" if document.builtin else document.source,
    )


def _as_native(
    compiled: Field, group_field: GroupField, spec: FieldGroupSpec, document: Document
) -> Field:
    """
    *compiled* as a field that hierarchical policies may name, if it is one.

    A field of any group but the system's, which have twins in the native groups, is one if it
    has the name and type of a field of the workload API.
    """
    row = native_rows().get(compiled.name)
    if spec.native and row is not None:
        return _with_home(compiled, group_field.home, row)
    is_twin = document.builtin and (spec.name or document.name) in _SYSTEM_GROUPS
    if row is None or is_twin or compiled.is_map or compiled.formatter is not None:
        return compiled
    return replace(compiled, native=compiled.type == row["type"])


def extend_group(base: CompiledGroup | None, added: CompiledGroup) -> CompiledGroup:
    """
    *base* with the fields and item selectors of *added*.

    A selector that is added to a built-in group can be used with all lists of that group, which
    nobody can edit to say so.

    Raises:
        ExceptionGroup: of SpecError, for each that is there already; or because the group is
            somebody else's.
    """
    if base is None:
        return added
    if base.source:
        problem = f"a field group is called {base.name} already: {base.source}"
        raise ExceptionGroup("the field group is wrong", [SpecError("spec.name", problem)])
    twice = [
        SpecError(f"spec.{part}.{name}", f"the group has this {what} already")
        for part, what, old, new in (
            ("fields", "field", base.fields, added.fields),
            ("itemSelectors", "item selector", base.item_selectors, added.item_selectors),
        )
        for name in sorted(old.keys() & new.keys())
    ]
    if twice:
        raise ExceptionGroup("the field group is wrong", twice)
    extended = {
        name: replace(field, item_selectors={**field.item_selectors, **added.item_selectors})
        if field.is_list and added.item_selectors
        else field
        for name, field in base.fields.items()
    }
    return replace(
        base,
        fields={**extended, **added.fields},
        item_selectors={**base.item_selectors, **added.item_selectors},
    )


def _compile_field(
    name: str,
    group_field: GroupField,
    path: str,
    formatters: Mapping[str, CompiledFormatter],
    *,
    builtin: bool,
) -> Field:
    if group_field.type is FieldType.ITEMIZED and not builtin:
        raise SpecError(f"{path}.type", "itemized is a type of native fields only")
    if group_field.home is not None and not builtin:
        raise SpecError(f"{path}.home", "is for built-in groups only")
    formatter = group_field.formatter
    kind = formatter.lower() if formatter is not None else ""
    is_map = kind == KEY_VALUE_MAP.lower()
    if formatter is not None and group_field.spec_ref is not None and not is_map:
        # Of a map, specRef says where it is.
        raise SpecError(f"{path}.specRef", "formatter or specRef, not both")
    if formatter is not None and kind not in (KEY_VALUE.lower(), KEY_VALUE_MAP.lower()):
        return _formatted(
            name, group_field, path, _find_formatter(name, formatter, path, formatters)
        )
    ref: tuple[str, ...] = (name,)
    if group_field.spec_ref is not None:
        try:
            ref = parse_ref(group_field.spec_ref)
        except ValueError as error:
            raise SpecError(f"{path}.specRef", str(error)) from error
    return Field(
        name=name,
        type=group_field.type or (FieldType.STRING if is_map else None),
        ref=ref,
        is_map=is_map,
        sensitive=group_field.sensitive or (not builtin and is_secret(ref, group_field.type)),
        having=group_field.having,
        not_below=group_field.not_below,
        not_above=group_field.not_above,
        not_with=group_field.not_with,
        not_without=group_field.not_without,
        not_with_item=group_field.not_with_item,
        item_not_without=group_field.item_not_without,
        removes=tuple(group_field.removes),
        texts=tuple(group_field.texts),
        format=group_field.format,
        home=NO_HOME if group_field.home is None else _plain_home(group_field.home),
        is_declared_list=not is_map and _says_list(group_field),
    )


def _says_list(group_field: GroupField) -> bool:
    """Whether the author of a field says that its value is a list."""
    of_items = group_field.having or group_field.texts or group_field.is_list
    return group_field.type in _ARRAYS or bool(of_items)


def _plain_home(spec: HomeSpec) -> Home:
    """What there is to a field that GVKPolicies name: that it stands for a value elsewhere."""
    return Home(inherits=_inherited(spec), inherits_from_object=spec.inherits.startswith("."))


def _find_formatter(
    name: str, formatter: str, path: str, formatters: Mapping[str, CompiledFormatter]
) -> FormatterField:
    """The field *name* of a formatter: the two go together by name."""
    found = formatters.get(formatter.lower())
    if found is None:
        known = [KEY_VALUE, KEY_VALUE_MAP, *[other.name for other in formatters.values()]]
        hint = did_you_mean(formatter, known)
        raise MissingReferenceError(f"{path}.formatter", f"no formatter {formatter!r}{hint}")
    if name not in found.fields:
        hint = did_you_mean(name, found.fields)
        raise SpecError(f"{path}.formatter", f"{found.name} has no field {name!r}{hint}")
    return found.fields[name]


def _formatted(name: str, group_field: GroupField, path: str, formatter: FormatterField) -> Field:
    for key in _OF_PATHS:
        if getattr(group_field, key):
            raise SpecError(path, f"{to_camel(key)} does not go with a formatter of your own")
    value_type = group_field.type
    if formatter.array_key is not None:
        value_type = FieldType.OBJECT
    elif formatter.has_arguments:
        if value_type not in (None, FieldType.OBJECT):
            problem = f"is object: {formatter} has {len(formatter.args)} arguments"
            raise SpecError(f"{path}.type", problem)
        value_type = FieldType.OBJECT
    elif value_type is None:
        value_type = formatter.args.get(formatter.argument)
    return Field(
        name=name,
        type=value_type,
        ref=(),
        is_map=formatter.is_map,
        sensitive=group_field.sensitive
        or is_secret(formatter.names, value_type)
        # What it doesn't name may be a secret.
        or (formatter.reads_anything and value_type is not FieldType.BOOLEAN),
        format=group_field.format,
        formatter=formatter,
    )


def _with_selectors(
    compiled: Field,
    group_field: GroupField,
    known: Mapping[str, ItemSelector],
    defined: Collection[str],
    path: str,
) -> Field:
    """*compiled* with the item selectors that its group's author names for it."""
    if not group_field.item_selectors:
        return compiled
    if not compiled.is_list:
        kind = "map" if compiled.is_map else compiled.type or "formatter without arrayKey"
        raise SpecError(f"{path}.itemSelectors", f"are for lists; the field is a {kind}")
    for index, name in enumerate(group_field.item_selectors):
        if name not in known and name not in defined:
            hint = did_you_mean(name, known)
            raise SpecError(
                f"{path}.itemSelectors[{index}]", f"the group has no item selector {name!r}{hint}"
            )
    # One that is wrong itself is told by itself.
    return replace(
        compiled,
        item_selectors={name: known[name] for name in group_field.item_selectors if name in known},
        is_declared_list=True,
    )


def paths_into_lists(beside: Mapping[str, Field]) -> Iterator[tuple[str, str]]:
    """
    The fields whose path leads into a list, where no value can ever stand, and what to say of each:
    *beside* are the fields of one place, which tell what is a list.
    """
    lists: dict[tuple[str, ...], str] = {}
    for other in beside.values():
        if other.is_declared_list and other.formatter is None:
            lists.setdefault(other.ref, other.name)
    for reached in beside.values() if lists else ():
        # Of a map the path leads to the object that has its keys.
        for depth in range(1, len(reached.ref) + reached.is_map):
            if reached.ref[:depth] in lists:
                name = lists[reached.ref[:depth]]
                yield (
                    reached.name,
                    f"leads into the list {name!r}; rule that field with an itemSelector",
                )
                break


def is_secret(names: Iterable[str], field_type: FieldType | None = None) -> bool:
    """Whether a value at a path of *names* must not be printed. Booleans tell nothing."""
    if field_type is FieldType.BOOLEAN:
        return False
    return any(map(_names_secret, names))


def _names_secret(name: str) -> bool:
    # Keys of objects are of any length, and few that are long come twice.
    return _says_secret(name) if len(name) <= _KEPT_CHARS else _says_secret.__wrapped__(name)


@lru_cache(maxsize=1024)
def _says_secret(name: str) -> bool:
    plain = name.lower().replace("-", "").replace("_", "")
    return plain in _SECRET_NAMES or any(word in plain for word in _SECRET_WORDS)


def native_groups(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, CompiledGroup]:
    """
    The field groups of the native workload types, by name in lower case, from the rows of the
    catalogue.

    Each type has one for its `spec`, named like the type, and one for each other selector:
    `distributed-master`.
    """
    paths: dict[str, list[str]] = {}
    for path, row in rows.items():
        for workload_type, selectors in row["workloads"].items():
            for selector in selectors:
                name = workload_type if selector == "spec" else f"{workload_type}-{selector}"
                paths.setdefault(name, []).append(path)
    return {
        name.lower(): CompiledGroup(
            name,
            {
                path: _native_field(path, _row_for(rows[path], name.partition("-")[0]), beside)
                for path in beside
            },
        )
        for name, beside in paths.items()
    }


def _row_for(row: Mapping[str, Any], workload_type: str) -> Mapping[str, Any]:
    """*row* as it is for one type."""
    return {**row, **row.get("differs", {}).get(workload_type, {})}


def _native_field(path: str, row: Mapping[str, Any], beside: Collection[str]) -> Field:
    """One field of a group with the fields *beside*; what it says of others is left out."""
    related = {key: row[key] for key in _RELATIONS if row.get(key) in beside}
    of_items = {
        key: ItemRelation(**row[key])
        for key in _ITEM_RELATIONS
        if key in row and row[key]["field"] in beside
    }
    return Field(
        name=path,
        type=FieldType(row["type"]),
        ref=tuple(path.split(".")),
        native=True,
        sensitive=row.get("sensitive", False),
        item_key=row.get("key", ""),
        attributes={
            name: _attribute(name, attribute, sensitive=row.get("sensitive", False))
            for name, attribute in row.get("attributes", {}).items()
        },
        ruled=frozenset(row.get("ruledAttributes", ())),
        exclusive=tuple(row.get("exclusive", ())),
        not_below=related.get("notBelow"),
        not_above=related.get("notAbove"),
        not_with=related.get("notWith"),
        not_without=related.get("notWithout"),
        not_with_item=of_items.get("notWithItem"),
        item_not_without=of_items.get("itemNotWithout"),
        limits=_limits(row),
    )


def _with_home(field: Field, spec: HomeSpec | None, row: Mapping[str, Any]) -> Field:
    """*field* as hierarchical policies name it, by its *row* of the catalogue."""
    sensitive = row.get("sensitive", False)
    spec = spec or HomeSpec()
    attributes: dict[str, Field] = {}
    for name, details in row.get("attributes", {}).items():
        attribute = _attribute(name, details, sensitive=sensitive)
        at = spec.attributes.get(name, AttributeHomeSpec())
        ref = parse_ref(at.spec_ref) if at.spec_ref else ()
        home = Home(codec=at.codec, on_mounts=at.on_mounts)
        ignored = name in spec.attributes and not ref
        attributes[name] = replace(attribute, ref=ref, home=home, is_ignored=ignored)
    return replace(
        field,
        native=True,
        sensitive=sensitive,
        item_key=row.get("key", ""),
        attributes=attributes,
        ruled=frozenset([name for name in row.get("ruledAttributes", ()) if attributes[name].ref]),
        exclusive=tuple(row.get("exclusive", ())),
        limits=_limits(row),
        home=Home(
            rules_as=spec.rules_as,
            above=spec.above,
            main_only=spec.main_only,
            judged=spec.judged,
            inherits=_inherited(spec),
            inherits_from_object=spec.inherits.startswith("."),
            codec=spec.codec,
            special=spec.special,
            pod=POD_TEMPLATE if spec.pod is None else _pod_home(spec.pod),
            mirror=parse_ref(spec.mirror) if spec.mirror else (),
            items=spec.items,
            volume=spec.volume,
            keys=spec.keys,
        ),
    )


def _pod_home(spec: PodHomeSpec) -> PodHome:
    """An empty path is that of the place itself."""

    def path(text: str) -> tuple[str, ...]:
        return parse_ref(text) if text else ()

    return PodHome(
        annotations=path(spec.annotations),
        spec=path(spec.spec),
        others=tuple([path(other) for other in spec.others]),
        main=spec.main,
        main_at=tuple([path(at) for at in spec.main_at]),
        main_is_last=spec.main_is_last,
        devices=path(spec.devices),
    )


def _inherited(spec: HomeSpec) -> tuple[str, ...]:
    """The path of what counts where there is no value; one of the object begins with a dot."""
    return parse_ref(spec.inherits.removeprefix(".")) if spec.inherits else ()


def _limits(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: row[name] for name in LIMITS if name in row}


def _attribute(name: str, row: Mapping[str, Any], *, sensitive: bool) -> Field:
    """One attribute of the items of a native field, read from the item."""
    return Field(
        name=name,
        type=FieldType(row["type"]),
        ref=tuple(name.split(".")),
        native=True,
        sensitive=row.get("sensitive", sensitive),
        limits=_limits(row),
    )
