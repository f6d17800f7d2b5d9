"""
Our documents, as their authors write them.

Pydantic stands at the border only: a document is parsed once, every problem in it is collected,
and the rest of the package works on the result. Values of enforcements stay as written; the
compiler judges them by the type of their field.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from webhook.errors import SpecError
from webhook.model.kinds import NATIVE_KINDS, POLICY_GROUP, VERSION, GroupVersionKind, type_hint
from webhook.model.names import did_you_mean, is_dns_label, is_dns_name
from webhook.model.scopes import Branch, Scope
from webhook.model.values import FieldType, json_type


class Spec(BaseModel):
    """A part of a document: camelCase names, nothing unknown, no silent conversion."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True, frozen=True
    )


def _read_kind(value: Any) -> Any:
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"group", "version", "kind"})
        if unknown:
            hint = did_you_mean(str(unknown[0]), ("group", "version", "kind"))
            raise ValueError(f"unknown field {unknown[0]!r}{hint}")
        parts = {name: value.get(name) or "" for name in ("group", "version", "kind")}
        if not all(isinstance(part, str) for part in parts.values()):
            raise ValueError("group, version and kind are texts")
        if not parts["version"] or not parts["kind"]:
            raise ValueError("version and kind are needed (group too, but for core kinds)")
        return GroupVersionKind(**parts)
    if isinstance(value, str):
        for name, kind in NATIVE_KINDS.items():
            if name.lower() == value.lower():
                return kind
        raise ValueError(f"{value!r} is no native workload type{_kind_hint(value)}")
    if isinstance(value, GroupVersionKind):
        return value
    raise ValueError("must be a native workload type or {group, version, kind}")


def _kind_hint(text: str) -> str:
    """How the kind that *text* names is written in a policy."""
    if "/" in text:
        try:
            kind = GroupVersionKind.parse(text)
        except ValueError:
            return "; other kinds are written {group, version, kind}"
        group = f"group: {kind.group}, " if kind.group else ""
        return f"; write {{{group}version: {kind.version}, kind: {kind.kind}}}"
    hint = type_hint(text, NATIVE_KINDS.values())
    return f"{hint}; other kinds are written {{group, version, kind}}"


def _read_kinds(value: Any) -> Any:
    if not isinstance(value, list):
        return (_read_kind(value),)
    if not value:
        raise ValueError("names no workload type")
    return tuple([_read_kind(item) for item in value])


def _read_mode(value: Any) -> Any:
    """A key word: matched without regard to case."""
    return value.capitalize() if isinstance(value, str) else value


def _read_scope(value: Any) -> Any:
    for scope in Scope:
        if isinstance(value, str) and value.lower() == scope.value:
            return scope
    raise ValueError(f"must be one of {', '.join(Scope)}")


Kind = Annotated[GroupVersionKind, BeforeValidator(_read_kind)]
Kinds = Annotated[tuple[GroupVersionKind, ...], BeforeValidator(_read_kinds)]
Mode = Annotated[Literal["Enforce", "Warn", "Audit"], BeforeValidator(_read_mode)]
ScopeName = Annotated[Scope, BeforeValidator(_read_scope)]


class ScopedSpec(Spec):
    """What both kinds of policy say about where they hold."""

    scope: ScopeName
    project: str = ""
    department: str = ""
    cluster: str = ""
    # With Warn and Audit the policy changes and refuses nothing: what it would do is recorded, and
    # with Warn the submitter is told.
    mode: Mode = "Enforce"
    description: str = ""

    @model_validator(mode="after")
    def _unit_fits_scope(self) -> ScopedSpec:
        if self.scope in (Scope.PROJECT, Scope.DEPARTMENT) and not self.unit:
            raise ValueError(
                f"scope {self.scope} needs the field {self.scope} (on the command line: --unit)"
            )
        for scope in (Scope.CLUSTER, Scope.DEPARTMENT, Scope.PROJECT):
            # Whoever names a unit means it; a wider scope would reach everybody else too.
            if scope is not self.scope and getattr(self, scope):
                raise ValueError(f"the field {scope} does not go with scope {self.scope}")
        return self

    @property
    def unit(self) -> str:
        """The cluster, department or project; ``""`` for a cluster means this one."""
        return Branch(self.cluster, self.department, self.project).unit(self.scope)


class WorkloadPolicySpec(ScopedSpec):
    """A hierarchical policy. The trees are flattened by the compiler, which knows the fields."""

    workload_type: Kinds
    defaults: dict[str, Any] | None = None
    rules: dict[str, Any] | None = None
    imposed_assets: list[Any] | dict[str, Any] | None = None


class GvkRule(Spec):
    """One flat rule: a field at the places of a selector, and what is enforced there."""

    field: str
    spec_selector: str
    item_selector: str | None = None
    selector_params: dict[str, Any] | None = None
    allow_override: bool = False
    enforcements: list[dict[str, Any]] = Field(min_length=1)


class GvkPolicySpec(ScopedSpec):
    workload_type: Kind
    rules: list[GvkRule] = Field(default_factory=list)


# What the workload types API asks of such a name; `metadata.name` is a DNS name besides.
_NAME = re.compile(r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*")

# Types that an argument of an expression may have.
ArgumentType = Literal["string", "integer", "boolean", "number", "quantity", "ipaddress", "object"]


def _read_name(value: Any) -> Any:
    problem = name_problem(value) if isinstance(value, str) else ""
    if problem:
        raise ValueError(problem)
    return value


def name_problem(name: str) -> str:
    """Why *name* can't be that of a formatter or field group; ``""`` if it can."""
    if not name or _NAME.fullmatch(name):
        return ""
    return f"{name!r} is no name: letters and digits, with hyphens between them"


Name = Annotated[str, BeforeValidator(_read_name)]


# Ours. Each expression is tried before it takes effect, which takes some 10 ms, and whoever writes
# the next document waits for that: with these a write takes about a second. The largest documents
# in the catalog have 29 fields and 27 selectors.
MAX_FORMATTER_FIELDS = 50
MAX_ARGUMENTS = 50
MAX_GROUP_FIELDS = 200
MAX_ITEM_SELECTORS = 50
MAX_SPEC_SELECTORS = 100
MAX_FIELD_GROUPS = 50


class ArrayKey(Spec):
    arg_name: str


class FormatterFieldSpec(Spec):
    """How one field is read and written: jq expressions and their arguments."""

    get_expr: str | None = None
    set_expr: str | None = None
    args_info: dict[str, ArgumentType] = Field(default_factory=dict, max_length=MAX_ARGUMENTS)
    args_enum: dict[str, list[str]] = Field(default_factory=dict, max_length=MAX_ARGUMENTS)
    array_key: ArrayKey | None = None


class FormatterSpec(Spec):
    name: Name = ""
    description: str = ""
    fields: dict[str, FormatterFieldSpec] = Field(
        default_factory=dict, max_length=MAX_FORMATTER_FIELDS
    )


class AttributeHomeSpec(Spec):
    """Where an attribute of an item stands in the item; nowhere if nothing is said."""

    spec_ref: str = ""
    codec: str = ""
    on_mounts: bool = False


class PodHomeSpec(Spec):
    """Where the parts of a pod are; see `mapping.homes.PodHome`."""

    annotations: str
    spec: str
    others: list[str] = Field(default_factory=list)
    main: str = ""
    main_at: list[str] = Field(default_factory=list)
    main_is_last: bool = False
    devices: str = ""


class HomeSpec(Spec):
    """How a native field stands in a pod template; see `mapping.homes.Home`."""

    rules_as: FieldType | None = Field(default=None, strict=False)
    above: int = 0
    main_only: bool = False
    judged: bool = False
    inherits: str = ""
    codec: str = ""
    special: Literal["", "gpuDevices", "gpuRequestType", "gpuShare"] = ""
    pod: PodHomeSpec | None = None
    mirror: str = ""
    items: Literal["", "map", "volumes"] = ""
    volume: str = ""
    keys: Literal["", "extendedResources"] = ""
    attributes: dict[str, AttributeHomeSpec] = Field(default_factory=dict)


class ItemRelation(Spec):
    """*item* of a list, and the other *field*: of a flag the list, of a list the flag."""

    field: str
    item: str


class GroupField(Spec):
    """One field of a group. The keys after *item_selectors* are ours; see the catalogue."""

    formatter: str | None = None
    spec_ref: str | None = None
    description: str = ""
    type: FieldType | None = Field(default=None, strict=False)
    item_selectors: list[str] = Field(default_factory=list)
    sensitive: bool = False
    having: str | None = None
    not_below: str | None = None
    not_above: str | None = None
    not_with: str | None = None
    removes: list[str] = Field(default_factory=list)
    texts: list[str] = Field(default_factory=list)
    not_without: str | None = None
    not_with_item: ItemRelation | None = None
    item_not_without: ItemRelation | None = None
    format: Literal["label", "annotation"] | None = None
    is_list: bool = False
    home: HomeSpec | None = None


class ItemSelectorSpec(Spec):
    description: str = ""
    query: str
    args_info: dict[str, ArgumentType] = Field(default_factory=dict, max_length=MAX_ARGUMENTS)


class FieldGroupSpec(Spec):
    name: Name = ""
    description: str = ""
    # Its fields are named by hierarchical policies, and by nobody else. Built-in groups only.
    native: bool = False
    fields: dict[str, GroupField] = Field(default_factory=dict, max_length=MAX_GROUP_FIELDS)
    item_selectors: dict[str, ItemSelectorSpec] = Field(
        default_factory=dict, max_length=MAX_ITEM_SELECTORS
    )


class Dependency(Spec):
    spec_selector: str | None = None
    path: str | None = None


class SameAs(Spec):
    """
    The places of *spec_selector* count where there are none; with *when*, a key of the object, only
    if that is true.
    """

    spec_selector: str
    when: str = ""


class SpecSelectorSpec(Spec):
    description: str = ""
    query: str
    # Names of the query that are found in any case: some operators take `worker` for `Worker`.
    ignore_case: list[str] = Field(default_factory=list)
    field_groups: list[str] = Field(min_length=1, max_length=MAX_FIELD_GROUPS)
    dependency: Dependency | None = None
    # Values that the API server fills in before it asks us, or leaves out of what it sends, by
    # field. If there is only one, an absent field has it.
    server_defaults: dict[str, list[Any]] = Field(default_factory=dict)
    # Fields that the API server copies from another field of the place, and which.
    server_copies: dict[str, str] = Field(default_factory=dict)
    # Whether the places are the `spec` of pod templates, beside which the pods' metadata stands.
    # By default they are if they are called so.
    pod_template: bool | None = None
    # Another selector whose places stand for the missing ones of this, where the object says so.
    same_as: SameAs | None = None
    # Items of lists that Kubernetes adds before it asks us, by field: what they look like.
    server_items: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)


class ScaleSpec(Spec):
    """The field that the `scale` subresource writes."""

    spec_selector: str
    field: str


def _check_kind_names(kind: GroupVersionKind) -> GroupVersionKind:
    """What no API server serves would, in a registration, stand for other kinds or for none."""
    for part, text, fits in (
        ("group", kind.group, not kind.group or is_dns_name(kind.group)),
        ("version", kind.version, is_dns_label(kind.version)),
        ("kind", kind.kind, is_dns_label(kind.kind.lower())),
    ):
        if not fits:
            raise ValueError(f"{part} {text!r} is no name of Kubernetes")
    return kind


def _check_plural(text: str) -> str:
    if text and not is_dns_label(text):
        raise ValueError(f"must be a plural in lower case, as in `kubectl get`, not {text!r}")
    return text


NamedKind = Annotated[Kind, AfterValidator(_check_kind_names)]
Plural = Annotated[str, AfterValidator(_check_plural)]


class SpecMappingSpec(Spec):
    workload_type: NamedKind
    description: str = ""
    # The plural by which the API server serves the kind; the lower-case kind + s if empty.
    resource: Plural = ""
    spec_selectors: dict[str, SpecSelectorSpec] = Field(min_length=1, max_length=MAX_SPEC_SELECTORS)
    scale: ScaleSpec | None = None


class DataSourceSpec(Spec):
    """One storage item that policies can impose, as in a workload's storage."""

    id: str = ""
    pvc: dict[str, Any] | None = None
    nfs: dict[str, Any] | None = None
    s3: dict[str, Any] | None = None
    git: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    config_map_volume: dict[str, Any] | None = None
    secret_volume: dict[str, Any] | None = None
    data_volume: dict[str, Any] | None = None
    empty_dir_volume: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _has_one_item(self) -> DataSourceSpec:
        if len(self._items) != 1:
            raise ValueError(f"one of {', '.join(self._kinds())} is needed, and only one")
        return self

    @classmethod
    def _kinds(cls) -> list[str]:
        return [name for name in _aliases(cls) if name != "id"]

    @property
    def _items(self) -> dict[str, dict[str, Any]]:
        given = self.model_dump(by_alias=True, exclude_none=True)
        return {kind: given[kind] for kind in self._kinds() if kind in given}

    @property
    def asset(self) -> tuple[str, dict[str, Any]]:
        """The kind (`pvc`, as a storage field is called) and the item."""
        ((kind, item),) = self._items.items()
        return kind, item


_SPECS: dict[str, type[Spec]] = {
    "WorkloadPolicy": WorkloadPolicySpec,
    "GVKPolicy": GvkPolicySpec,
    "Formatter": FormatterSpec,
    "FieldGroup": FieldGroupSpec,
    "SpecMapping": SpecMappingSpec,
    "DataSource": DataSourceSpec,
}
# Kinds of the group that say nothing about policies: what the reconciler keeps, and what
# `gatewright gpu simulate` replays.
UNCOMPILED_KINDS = ("GpuRecommendation", "GpuScenario")
# In the order in which `gatewright crds` prints them.
POLICY_KINDS = (
    *("WorkloadPolicy", "GVKPolicy", "Formatter", "FieldGroup", "SpecMapping", "DataSource"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """
    One document of ours, parsed.

    *source* says where it was read (`baseline.yaml#0`); *created* is its creationTimestamp as
    text, which sorts by age.
    """

    kind: str
    name: str
    spec: Any
    source: str
    created: str = ""
    revision: str = ""
    builtin: bool = field(default=False)

    @property
    def key(self) -> tuple[str, str]:
        """What identifies it: kind and name. Names are unique without regard to case."""
        return self.kind, self.name.lower()


def is_ours(value: dict[str, Any]) -> bool:
    """Whether a manifest is of our policy API group, in any version."""
    return GroupVersionKind.of(value).group == POLICY_GROUP


def revision_of(value: Any) -> str:
    """A short hash of a document's content. Equal content, equal revision."""
    # Not orjson: it stops at integers of 64 bits and at 254 levels, and authors don't.
    encoded = json.dumps(value, sort_keys=True, default=str).encode()
    return hashlib.sha256(encoded).hexdigest()[:12]


def parse_document(value: dict[str, Any], source: str, *, builtin: bool = False) -> Document:
    """
    Read one manifest of our group.

    Raises:
        ExceptionGroup: of SpecError, one for each problem.
    """
    problems: list[SpecError] = []
    gvk = GroupVersionKind.of(value)
    spec_type = _SPECS.get(gvk.kind)
    if spec_type is None:
        hint = did_you_mean(gvk.kind, POLICY_KINDS)
        raise _group([SpecError("kind", f"{gvk.kind!r} is no kind of {POLICY_GROUP}{hint}")])
    if gvk.version != VERSION:
        problems.append(SpecError("apiVersion", f"must be {POLICY_GROUP}/{VERSION}"))
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        problems.append(SpecError("metadata.name", "a name is needed"))
        name = ""
    for key in value:
        if key not in ("apiVersion", "kind", "metadata", "spec", "status"):
            hint = did_you_mean(key, ("metadata", "spec"))
            problems.append(SpecError(key, f"unknown field{hint}"))
    spec = parse_spec(spec_type, value.get("spec"), "spec", problems)
    if problems:
        raise _group(problems)
    created = metadata.get("creationTimestamp")
    return Document(
        kind=gvk.kind,
        name=name,
        spec=spec,
        source=source,
        created=created if isinstance(created, str) else "",
        revision=revision_of(value.get("spec")),
        builtin=builtin,
    )


def _group(problems: list[SpecError]) -> ExceptionGroup[SpecError]:
    return ExceptionGroup("the document is wrong", problems)


_SpecT = TypeVar("_SpecT", bound=Spec)


def spec_keys(kind: str) -> list[str]:
    """What may stand directly below the `spec` of a document of ours."""
    return _aliases(_SPECS[kind])


def parse_spec(
    spec_type: type[_SpecT], value: Any, path: str, problems: list[SpecError]
) -> _SpecT | None:
    """Read one part of a document; what is wrong is added to *problems*, with its path."""
    if not isinstance(value, dict):
        problems.append(SpecError(path, "must be an object"))
        return None
    if issubclass(spec_type, ScopedSpec):
        value = _canonical_keys(value, spec_type)
    if issubclass(spec_type, GvkPolicySpec) and isinstance(value.get("rules"), list):
        rules = [
            _canonical_keys(rule, GvkRule) if isinstance(rule, dict) else rule
            for rule in value["rules"]
        ]
        value = {**value, "rules": rules}
    try:
        return spec_type.model_validate(value)
    except ValidationError as error:
        problems.extend(_spec_problems(error, spec_type, path))
        return None


def _canonical_keys(value: dict[str, Any], spec_type: type[Spec]) -> dict[str, Any]:
    """Key words of policies are matched without regard to case (`Defaults`, `Rules`)."""
    canonical = {name.lower(): name for name in _aliases(spec_type)}
    renamed: dict[str, Any] = {}
    for key, part in value.items():
        name = canonical.get(key.lower(), key)
        renamed[key if name in renamed else name] = part
    return renamed


def _aliases(spec_type: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in spec_type.model_fields.items()]


# What pydantic calls a value of the wrong type, and what we say was expected.
_EXPECTED = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "an object",
    "list_type": "a list",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "string_type": "text",
    "tuple_type": "a list",
}


def _spec_problems(error: ValidationError, spec_type: type[Spec], path: str) -> Iterable[SpecError]:
    for item in error.errors(include_url=False):
        where = path + "".join(
            [f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"]]
        )
        message = item["msg"]
        if item["type"] == "extra_forbidden":
            known = _known_names(spec_type, item["loc"][:-1])
            message = f"unknown field{did_you_mean(str(item['loc'][-1]), known)}"
        elif item["type"] == "missing":
            message = "is needed"
        elif item["type"] == "too_short":
            message = "must not be empty"
        elif item["type"] == "too_long":
            most = item["ctx"]["max_length"]
            message = f"has {len(item['input'])} entries; at most {most} are allowed"
        elif item["type"] == "value_error":
            message = str(item["ctx"]["error"])
        elif item["type"] in _EXPECTED:
            message = f"must be {_EXPECTED[item['type']]}, got {json_type(item['input'])}"
        elif item["type"] in ("literal_error", "enum"):
            given = item["input"] if isinstance(item["input"], str) else json_type(item["input"])
            message = f"must be {item['ctx']['expected'].replace(chr(39), '')}, got {given}"
        else:
            message = message[:1].lower() + message[1:]
        yield SpecError(where, message)


def _known_names(spec_type: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The names that may stand at *location*, for a hint."""
    current: type[BaseModel] = spec_type
    for part in location:
        if isinstance(part, int):
            continue
        for name, info in current.model_fields.items():
            if part in (name, info.alias):
                inner = _inner_model(info.annotation)
                if inner is not None:
                    current = inner
    return _aliases(current)


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _inner_model(argument)
        if found is not None:
            return found
    return None
