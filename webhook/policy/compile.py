"""
Policy documents to enforcements.

Both kinds of policy end in the same list: entries, each an enforcement at a slot of a mapping.
Everything that can be wrong in a policy is found here, before a workload meets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.catalog import native_spellings
from webhook.errors import MissingReferenceError, SpecError
from webhook.mapping.compiled import CompiledMapping, CompiledSelector
from webhook.mapping.fields import Field
from webhook.model.decision import Rule, Source
from webhook.model.documents import Document, GvkPolicySpec, GvkRule, WorkloadPolicySpec
from webhook.model.globs import Glob
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.labels import is_label_key, is_label_value
from webhook.model.names import did_you_mean
from webhook.model.quantity import canonical
from webhook.model.values import FieldType, ValueTypeError, json_type, read_value
from webhook.policy.enforcement import (
    MUTATING,
    CompiledPolicy,
    Enforcement,
    Entry,
    Slot,
)

_BOUNDS = (Rule.MIN, Rule.MAX)
_LISTS = (Rule.OPTIONS, Rule.PATTERN)
_FLAGS = (Rule.REQUIRED, Rule.BLOCKED, Rule.CAN_EDIT)

_TEXT = (Rule.OPTIONS, Rule.PATTERN)
_ALWAYS = (Rule.REQUIRED, Rule.BLOCKED)

# Rules that a native field of each type has (rule table of the policy reference; `pattern` is
# ours). A rule that is not here is an error, never ignored.
_NATIVE_RULES: dict[FieldType, tuple[Rule, ...]] = {
    FieldType.BOOLEAN: (Rule.CAN_EDIT, *_ALWAYS),
    FieldType.STRING: (Rule.CAN_EDIT, *_ALWAYS, *_TEXT),
    FieldType.IPADDRESS: (Rule.CAN_EDIT, *_ALWAYS, *_TEXT),
    FieldType.INTEGER: (Rule.CAN_EDIT, *_ALWAYS, *_BOUNDS, Rule.STEP),
    FieldType.NUMBER: (Rule.CAN_EDIT, *_ALWAYS, *_BOUNDS, Rule.STEP),
    FieldType.QUANTITY: (Rule.CAN_EDIT, *_ALWAYS, *_BOUNDS),
    FieldType.STRINGS: (Rule.CAN_EDIT, *_ALWAYS, *_TEXT),
    FieldType.INTEGERS: (Rule.CAN_EDIT, *_ALWAYS, Rule.OPTIONS),
    FieldType.NUMBERS: (Rule.CAN_EDIT, *_ALWAYS, Rule.OPTIONS),
    FieldType.NAMES_ARRAY: (Rule.CAN_EDIT, *_ALWAYS, *_TEXT),
    FieldType.OBJECT: (Rule.CAN_EDIT, *_ALWAYS),
}

_FLAT_NUMERIC = (Rule.OPTIONS, *_BOUNDS, Rule.STEP)
_FLAT_RULES: dict[FieldType, tuple[Rule, ...]] = {
    FieldType.BOOLEAN: (Rule.OPTIONS,),
    FieldType.STRING: _TEXT,
    FieldType.IPADDRESS: _TEXT,
    FieldType.INTEGER: _FLAT_NUMERIC,
    FieldType.NUMBER: _FLAT_NUMERIC,
    FieldType.QUANTITY: _FLAT_NUMERIC,
    FieldType.STRINGS: _TEXT,
    FieldType.INTEGERS: (Rule.OPTIONS,),
    FieldType.NUMBERS: (Rule.OPTIONS,),
    FieldType.NAMES_ARRAY: _TEXT,
    FieldType.OBJECT: (),
}

# Known words of the language whose meaning comes with a later version; said so, not ignored.
_LATER = ("defaultFrom", "canAdd", "locked")


def compile_policy(
    document: Document, mappings: Mapping[GroupVersionKind, CompiledMapping]
) -> list[CompiledPolicy]:
    """
    Compile one policy document, once for each kind that it names.

    Raises:
        ExceptionGroup: of SpecError, one for each problem; MissingReferenceError where a kind
            has no mapping (yet).
    """
    spec: WorkloadPolicySpec | GvkPolicySpec = document.spec
    problems: list[SpecError] = []
    if spec.mode != "Enforce":
        problems.append(SpecError("spec.mode", f"{spec.mode} is not available yet; use Enforce"))
    kinds = spec.workload_type if isinstance(spec, WorkloadPolicySpec) else (spec.workload_type,)
    policies: list[CompiledPolicy] = []
    for kind in kinds:
        mapping = mappings.get(kind)
        if mapping is None:
            known = [NATIVE_TYPE_OF.get(other, str(other)) for other in mappings]
            hint = did_you_mean(NATIVE_TYPE_OF.get(kind, str(kind)), known)
            problems.append(
                MissingReferenceError("spec.workloadType", f"no mapping for {kind}{hint}")
            )
            continue
        compiler = _Compiler(document, mapping, problems, named=len(kinds) > 1)
        if isinstance(spec, WorkloadPolicySpec):
            entries = tuple(compiler.hierarchical(spec))
        else:
            entries = tuple(compiler.flat(spec))
        policies.append(
            CompiledPolicy(
                document=document,
                kind=kind,
                scope=spec.scope,
                unit=spec.unit,
                entries=entries,
                warnings=tuple(compiler.warnings),
            )
        )
    if problems:
        raise ExceptionGroup("the policy is wrong", problems)
    return policies


class _Compiler:
    """Compiles one document for one kind; collects problems."""

    def __init__(
        self,
        document: Document,
        mapping: CompiledMapping,
        problems: list[SpecError],
        *,
        named: bool,
    ) -> None:
        spec = document.spec
        self._mapping = mapping
        self._problems = problems
        # With several kinds in one document each problem names the kind.
        self._for_kind = f" (for {mapping.kind})" if named else ""
        self._source = Source(
            document.name, spec.scope, spec.unit, document.kind, document.revision
        )
        self.warnings: list[str] = []

    def _problem(self, path: str, problem: str) -> None:
        self._problems.append(SpecError(path, problem + self._for_kind))

    # -- GVKPolicy --------------------------------------------------------------------------

    def flat(self, spec: GvkPolicySpec) -> Iterator[Entry]:
        seen: dict[tuple[Slot, Rule], str] = {}
        for index, rule in enumerate(spec.rules):
            path = f"spec.rules[{index}]"
            field = self._flat_field(rule, path)
            if field is None:
                continue
            for number, single in enumerate(rule.enforcements):
                where = f"{path}.enforcements[{number}]"
                entry = self._flat_entry(rule, field, single, where)
                if entry is None:
                    continue
                twice = seen.setdefault((entry.slot, entry.enforcement.rule), where)
                if twice != where:
                    self._problem(where, f"the same enforcement stands at {twice}")
                else:
                    yield entry

    def _flat_field(self, rule: GvkRule, path: str) -> Field | None:
        if rule.item_selector is not None or rule.selector_params is not None:
            self._problem(f"{path}.itemSelector", "item selectors are not available yet")
            return None
        selector = self._mapping.selectors.get(rule.spec_selector)
        if selector is None:
            hint = did_you_mean(rule.spec_selector, self._mapping.selectors)
            self._problem(
                f"{path}.specSelector",
                f"{self._mapping.kind.kind} has no selector {rule.spec_selector!r}{hint}",
            )
            return None
        field = selector.fields.get(rule.field)
        if field is None:
            elsewhere = self._mapping.selectors_with(rule.field)
            hint = (
                f"; it is exposed at {', '.join(elsewhere)}"
                if elsewhere
                else did_you_mean(rule.field, selector.fields)
            )
            self._problem(
                f"{path}.field", f"no field {rule.field!r} at selector {selector.name}{hint}"
            )
        return field

    def _flat_entry(
        self, rule: GvkRule, field: Field, single: dict[str, Any], path: str
    ) -> Entry | None:
        if len(single) != 1:
            self._problem(path, f"must have one key, the enforcement, not {len(single)}")
            return None
        ((word, body),) = single.items()
        name = _rule_named(word)
        if field.type is FieldType.ITEMIZED:
            self._problem(path, f"itemized field {field.name!r} is not available yet")
            return None
        allowed = _flat_rules_of(field)
        if name is None or name not in allowed:
            self._problem(f"{path}.{word}", _no_such_rule(word, allowed, field))
            return None
        where = f"{path}.{name}"
        key: str | None = None
        if field.is_map:
            read = self._split_key(field, name, body, where)
            if read is None:
                return None
            key, body = read
            if name not in _FLAGS:
                where = f"{where}.{'values' if name in _LISTS else 'value'}"
        elif name in _LISTS:
            if isinstance(body, dict) and set(body) == {"values"}:
                body, where = body["values"], f"{where}.values"
        elif isinstance(body, dict) and set(body) == {"value"}:
            body, where = body["value"], f"{where}.value"
        elif isinstance(body, dict) and "key" in body and field.type is not FieldType.OBJECT:
            self._problem(f"{where}.key", f"{field.name} is no map; it takes a value without key")
            return None
        slot = Slot(rule.spec_selector, field.name, key)
        selector = self._mapping.selectors[rule.spec_selector]
        if name in (Rule.DEFAULT, Rule.REQUIRED) and selector.is_filled(field.name):
            self.warnings.append(
                f"{path}: {name} never acts on {field.name}: the API server fills it in before"
                " it asks; use set"
            )
        enforcement = self._enforcement(name, body, field, where)
        if enforcement is None or not self._is_well_formed(field, key, enforcement, path):
            return None
        return Entry(slot, field, enforcement, path, allow_override=rule.allow_override)

    def _is_well_formed(
        self, field: Field, key: str | None, enforcement: Enforcement, path: str
    ) -> bool:
        """Whether the API server would accept what is written: labels have a syntax."""
        if field.format is None or key is None or enforcement.rule not in MUTATING:
            return True
        kind = "a label" if field.format == "label" else "an annotation"
        if not is_label_key(key):
            self._problem(f"{path}.{enforcement.rule}.key", f"{key!r} is no name of {kind}")
            return False
        if field.format == "label" and not is_label_value(enforcement.value):
            self._problem(f"{path}.{enforcement.rule}.value", "can't be the value of a label")
            return False
        return True

    def _split_key(self, field: Field, name: Rule, body: Any, path: str) -> tuple[str, Any] | None:
        """Key and value of an enforcement on a map field."""
        content = "values" if name in _LISTS else "value"
        flag = name in (Rule.REQUIRED, Rule.BLOCKED)
        shape = f"{{key: K{'' if flag else f', {content}: …'}}}"
        if not isinstance(body, dict) or not isinstance(body.get("key"), str) or not body["key"]:
            self._problem(path, f"{field.name} is a map, so {name} takes {shape}")
            return None
        known = {"key"} if flag else {"key", content}
        for unknown in sorted(set(body) - known):
            self._problem(f"{path}.{unknown}", f"unknown field{did_you_mean(unknown, known)}")
            return None
        if flag:
            return body["key"], True
        if body.get(content) is None:
            self._problem(f"{path}.{content}", "is needed")
            return None
        return body["key"], body[content]

    # -- WorkloadPolicy ---------------------------------------------------------------------

    def hierarchical(self, spec: WorkloadPolicySpec) -> Iterator[Entry]:
        if spec.imposed_assets:
            self._problem("spec.imposedAssets", "imposed assets are not available yet")
        tree = _NativeFields(self._mapping)
        for path, selector, field, value in self._leaves(
            tree, spec.defaults or {}, "spec.defaults"
        ):
            enforcement = self._enforcement(Rule.DEFAULT, value, field, path)
            if enforcement is not None:
                yield Entry(Slot(selector.name, field.name), field, enforcement, path)
        for path, selector, field, value in self._leaves(tree, spec.rules or {}, "spec.rules"):
            if value is None:
                continue
            if not isinstance(value, dict):
                self._problem(path, f"must be an object of rules, got {json_type(value)}")
                continue
            allowed = _native_rules_of(field)
            for word, body in value.items():
                name = _rule_named(word)
                if name is None or name not in allowed:
                    self._problem(f"{path}.{word}", _no_such_rule(word, allowed, field))
                    continue
                where = f"{path}.{name}"
                enforcement = self._enforcement(name, body, field, where)
                if enforcement is not None:
                    yield Entry(Slot(selector.name, field.name), field, enforcement, where)

    def _leaves(
        self, tree: _NativeFields, node: dict[str, Any], path: str, prefix: str = ""
    ) -> Iterator[tuple[str, CompiledSelector, Field, Any]]:
        """Each field below *node*, with its path in the document, selector and value."""
        for key, value in node.items():
            where = f"{path}.{key}"
            name = tree.canonical(f"{prefix}{key}")
            if name is None:
                known = tree.names_below(prefix)
                self._problem(where, f"unknown field{did_you_mean(key, known)}")
            elif (found := tree.field(name)) is not None:
                selector, field = found
                if field.type is FieldType.ITEMIZED:
                    self._problem(where, f"itemized field {name!r} is not available yet")
                    continue
                if name.lower() != f"{prefix}{key}".lower():
                    self.warnings.append(f"{where}: {key} is read as {name}")
                yield where, selector, field, value
            elif value is None:
                continue
            elif isinstance(value, dict):
                yield from self._leaves(tree, value, where, f"{name}.")
            else:
                self._problem(where, f"must be an object, got {json_type(value)}")

    # -- values -----------------------------------------------------------------------------

    def _enforcement(self, rule: Rule, body: Any, field: Field, path: str) -> Enforcement | None:
        """Read the value of one rule. None: a problem was found, or the rule asks for nothing."""
        value_type = field.type or _guess_type(rule, body)
        try:
            value, meaning = _read_rule(rule, body, value_type)
        except SpecError as error:
            self._problem(f"{path}{error.path}", error.problem)
            return None
        if meaning is None:
            return None
        return Enforcement(rule, value, meaning, value_type, self._source)


class _NativeFields:
    """The fields that a hierarchical policy can name for one kind, by path in any case."""

    def __init__(self, mapping: CompiledMapping) -> None:
        self._found: dict[str, tuple[CompiledSelector, Field]] = {}
        self._canonical: dict[str, str] = {}
        for selector in mapping.selectors.values():
            for name, field in selector.fields.items():
                if not field.native:
                    continue
                self._found[name] = (selector, field)
                parts = name.split(".")
                for depth in range(1, len(parts) + 1):
                    prefix = ".".join(parts[:depth])
                    self._canonical.setdefault(prefix.lower(), prefix)
        for spelling, name in native_spellings().items():
            if name in self._found:
                self._canonical.setdefault(spelling.lower(), name)

    def canonical(self, path: str) -> str | None:
        """The name of the field or section that *path* means."""
        return self._canonical.get(path.lower())

    def field(self, name: str) -> tuple[CompiledSelector, Field] | None:
        return self._found.get(name)

    def names_below(self, prefix: str) -> list[str]:
        """The names that may stand in the section *prefix*, for a hint."""
        depth = prefix.count(".")
        return sorted({name.split(".")[depth] for name in self._found if name.startswith(prefix)})


def _rule_named(word: str) -> Rule | None:
    for rule in Rule:
        if rule.lower() == word.lower() and rule is not Rule.TYPE:
            return rule
    return None


def _native_rules_of(field: Field) -> tuple[Rule, ...]:
    return _NATIVE_RULES[field.type or FieldType.STRING]


def _flat_rules_of(field: Field) -> tuple[Rule, ...]:
    if field.having is not None:
        return (Rule.REQUIRED, Rule.BLOCKED)
    common = (Rule.DEFAULT, Rule.SET, *_ALWAYS)
    if field.type is None:
        return (*common, *_TEXT, *_BOUNDS, Rule.STEP)
    return (*common, *_FLAT_RULES[field.type])


def _no_such_rule(word: str, allowed: tuple[Rule, ...], field: Field) -> str:
    if word.lower() in [later.lower() for later in _LATER]:
        return f"{word} is not available yet"
    known = _rule_named(word)
    kind = field.type.value if field.type else "untyped"
    article = "an" if kind[0] in "aeiou" else "a"
    if known is not None:
        return f"{article} {kind} field has no rule {known}; it has {', '.join(allowed)}"
    return f"unknown rule{did_you_mean(word, [*allowed])}"


def _guess_type(rule: Rule, body: Any) -> FieldType:
    """The type of a field whose group's author gave none: that of the enforcement's value."""
    if rule in (Rule.MIN, Rule.MAX, Rule.STEP):
        return FieldType.QUANTITY
    sample = body[0] if rule in _LISTS and isinstance(body, list) and body else body
    sample = sample["value"] if isinstance(sample, dict) and "value" in sample else sample
    match sample:
        case bool():
            return FieldType.STRING if rule in _FLAGS else FieldType.BOOLEAN
        case int() | float():
            return FieldType.NUMBER
        case list():
            return FieldType.STRINGS
        case dict():
            return FieldType.OBJECT
        case _:
            return FieldType.STRING


def _read_rule(rule: Rule, body: Any, value_type: FieldType) -> tuple[Any, Any]:
    """
    Value and meaning of *rule*; the meaning is None where it asks for nothing.

    Raises:
        SpecError: with a path relative to the rule.
    """
    if rule in _FLAGS:
        if not isinstance(body, bool):
            raise SpecError("", f"must be true or false, got {json_type(body)}")
        # `required: false`, `blocked: false` and `canEdit: true` are what holds without them.
        asks = body is not (rule is Rule.CAN_EDIT)
        return body, True if asks else None
    if rule is Rule.OPTIONS:
        values = [_read_one(item, value_type.element, f"[{i}]") for i, item in _items(body)]
        return [value for value, _ in values], tuple([meaning for _, meaning in values])
    if rule is Rule.PATTERN:
        return _read_patterns(body)
    if body is None:
        raise SpecError("", "a value is needed")
    if rule in (Rule.MIN, Rule.MAX, Rule.STEP):
        value, meaning = _read_one(body, value_type, "")
        if rule is Rule.STEP and meaning <= 0:
            raise SpecError("", "a step is greater than 0")
        return value, meaning
    return _read_one(body, value_type, "", written=True)


def _items(body: Any) -> list[tuple[int, Any]]:
    if not isinstance(body, list) or not body:
        raise SpecError("", "must be a list with at least one value")
    items = []
    for index, item in enumerate(body):
        if isinstance(item, dict):
            unknown = sorted(set(item) - {"value", "displayed"})
            if unknown or "value" not in item:
                raise SpecError(f"[{index}]", "must be a value or {value, displayed}")
        items.append((index, item["value"] if isinstance(item, dict) else item))
    return items


def _read_patterns(body: Any) -> tuple[Any, Any]:
    patterns = []
    globs = []
    for index, item in _items(body):
        if not isinstance(item, str):
            raise SpecError(f"[{index}]", f"must be text, got {json_type(item)}")
        try:
            globs.append(Glob.compile(item))
        except ValueError as error:
            raise SpecError(f"[{index}]", str(error)) from error
        patterns.append(item)
    return patterns, tuple(globs)


def _read_one(
    value: Any, value_type: FieldType, path: str, *, written: bool = False
) -> tuple[Any, Any]:
    """*value* in the spelling that we write, and its meaning."""
    if value is None:
        raise SpecError(path, "a value is needed")
    try:
        meaning = read_value(value, value_type)
    except ValueTypeError as error:
        quote = (
            "; put it in quotes"
            if value_type is FieldType.STRING and isinstance(value, (bool, int, float))
            else ""
        )
        raise SpecError(path, f"must be {error.expected}, got {json_type(value)}{quote}") from error
    return _canonical_value(value, meaning, value_type, written=written), meaning


def _canonical_value(value: Any, meaning: Any, value_type: FieldType, *, written: bool) -> Any:
    match value_type:
        case FieldType.QUANTITY:
            return canonical(value)
        case FieldType.INTEGER:
            return meaning
        case FieldType.NUMBER if isinstance(value, str):
            whole = meaning == int(meaning)
            return int(meaning) if whole else float(meaning)
        case FieldType.NAMES_ARRAY if written:
            return [{"name": name} for name in meaning]
        case _:
            return value
