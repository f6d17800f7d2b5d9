"""
Policy documents to enforcements.

Both kinds of policy end in the same list: entries, each an enforcement at a slot of a mapping.
Everything that can be wrong in a policy is found here, before a workload meets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from webhook.catalog import native_spellings
from webhook.errors import MissingReferenceError, QuantityError, SpecError
from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.fields import Field, is_secret
from webhook.model.decision import Rule, Source
from webhook.model.documents import Document, GvkPolicySpec, GvkRule, WorkloadPolicySpec
from webhook.model.kinds import NATIVE_TYPE_OF, GroupVersionKind
from webhook.model.labels import is_label_key, is_label_value
from webhook.model.names import did_you_mean
from webhook.model.quantity import parse_quantity
from webhook.model.values import FieldType, json_type
from webhook.policy.assets import Asset
from webhook.policy.enforcement import (
    IMPOSED,
    MUTATING,
    CompiledPolicy,
    Derivation,
    Enforcement,
    Entry,
    Slot,
)
from webhook.policy.item_rules import ItemEntry, ItemRules
from webhook.policy.native_fields import Home, NativeFields
from webhook.policy.rule_values import (
    FLAGS,
    LISTS,
    flat_rules_of,
    guess_type,
    native_rules_of,
    no_such_rule,
    read_rule,
    rule_named,
)

_BODY_WORDS = frozenset({"key", "value", "values"})


def compile_policy(
    document: Document,
    mappings: Mapping[GroupVersionKind, CompiledMapping],
    assets: Mapping[str, Asset] | None = None,
) -> list[CompiledPolicy]:
    """
    Compile one policy document, once for each kind that it names.

    Raises:
        ExceptionGroup: of SpecError, one for each problem; MissingReferenceError where a kind
            has no mapping (yet). With several kinds, those that have one are compiled.
    """
    spec: WorkloadPolicySpec | GvkPolicySpec = document.spec
    problems: list[SpecError] = []
    if spec.mode != "Enforce":
        problems.append(SpecError("spec.mode", f"{spec.mode} is not available yet; use Enforce"))
    kinds = spec.workload_type if isinstance(spec, WorkloadPolicySpec) else (spec.workload_type,)
    policies: list[CompiledPolicy] = []
    missing: list[MissingReferenceError] = []
    for kind in kinds:
        mapping = mappings.get(kind)
        if mapping is None:
            known = [NATIVE_TYPE_OF.get(other, str(other)) for other in mappings]
            hint = did_you_mean(NATIVE_TYPE_OF.get(kind, str(kind)), known)
            missing.append(
                MissingReferenceError("spec.workloadType", f"no mapping for {kind}{hint}")
            )
            continue
        compiler = _Compiler(document, mapping, problems, assets or {}, named=len(kinds) > 1)
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
    if problems or not policies:
        raise ExceptionGroup("the policy is wrong", [*problems, *missing])
    if missing:
        # The others hold meanwhile; this one is compiled when its mapping arrives.
        waiting = tuple([str(error) for error in missing])
        policies[0] = replace(policies[0], warnings=(*policies[0].warnings, *waiting))
    return policies


class _Compiler:
    """Compiles one document for one kind; collects problems."""

    def __init__(
        self,
        document: Document,
        mapping: CompiledMapping,
        problems: list[SpecError],
        assets: Mapping[str, Asset],
        *,
        named: bool,
    ) -> None:
        spec = document.spec
        self._mapping = mapping
        self._assets = assets
        self._problems = problems
        # With several kinds in one document each problem names the kind.
        self._for_kind = f" (for {mapping.kind})" if named else ""
        self._source = Source(
            document.name, spec.scope, spec.unit, document.kind, document.revision
        )
        self.warnings: list[str] = []
        # Where a hierarchical policy speaks about a slot, by rule.
        self._claimed: dict[tuple[Slot, Rule], str] = {}
        self._imposed_once: dict[tuple[str, str], str] = {}

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
        name = rule_named(word)
        if field.type is FieldType.ITEMIZED:
            self._problem(path, f"itemized field {field.name!r} is not available yet")
            return None
        allowed = flat_rules_of(field)
        if name is None or name not in allowed:
            self._problem(f"{path}.{word}", no_such_rule(word, allowed, field))
            return None
        where = f"{path}.{name}"
        key: str | None = None
        if isinstance(body, dict) and {word.lower() for word in body} <= _BODY_WORDS:
            body = {word.lower(): value for word, value in body.items()}
        if field.is_map:
            read = self._split_key(field, name, body, where)
            if read is None:
                return None
            key, body = read
            if is_secret([key], field.type) and not field.sensitive:
                field = replace(field, sensitive=True)
            if name not in FLAGS:
                where = f"{where}.{'values' if name in LISTS else 'value'}"
        elif name in LISTS:
            if isinstance(body, dict) and set(body) == {"values"}:
                body, where = body["values"], f"{where}.values"
        elif isinstance(body, dict) and set(body) == {"value"}:
            body, where = body["value"], f"{where}.value"
        elif isinstance(body, dict) and "key" in body and field.type is not FieldType.OBJECT:
            self._problem(f"{where}.key", f"{field.name} is no map; it takes a value without key")
            return None
        slot = Slot(rule.spec_selector, field.name, key)
        selector = self._mapping.selectors[rule.spec_selector]
        if name in (Rule.DEFAULT, Rule.REQUIRED) and field.name in selector.server_defaults:
            self.warnings.append(
                f"{path}: {name} never acts on {field.name}: the API server fills it in before"
                " it asks; use set"
            )
        enforcement = self._enforcement(name, body, field, where)
        if enforcement is None or not self._is_well_formed(field, key, enforcement, where):
            return None
        return Entry(slot, field, enforcement, path, allow_override=rule.allow_override)

    def _is_well_formed(
        self, field: Field, key: str | None, enforcement: Enforcement, path: str
    ) -> bool:
        """Whether the API server would accept what is written."""
        if enforcement.rule not in MUTATING:
            return True
        for index, item in enumerate(enforcement.value if field.texts else ()):
            for name in field.texts:
                value = item.get(name) if isinstance(item, dict) else None
                if value is not None and not isinstance(value, str):
                    found = f"must be text, got {json_type(value)}; put it in quotes"
                    self._problem(f"{path}[{index}].{name}", found)
                    return False
        if field.format is None or key is None:
            return True
        if not isinstance(enforcement.value, str):
            self._problem(path, f"must be text, got {json_type(enforcement.value)}")
            return False
        kind = "a label" if field.format == "label" else "an annotation"
        if not is_label_key(key):
            self._problem(path, f"the key {key!r} is no name of {kind}")
            return False
        if field.format == "label" and not is_label_value(enforcement.value):
            self._problem(path, "can't be the value of a label")
            return False
        return True

    def _split_key(self, field: Field, name: Rule, body: Any, path: str) -> tuple[str, Any] | None:
        """Key and value of an enforcement on a map field."""
        content = "values" if name in LISTS else "value"
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
        tree = NativeFields(self._mapping)
        yield from self._imposed(tree, spec.imposed_assets)
        for path, homes, value in self._leaves(tree, spec.defaults or {}, "spec.defaults"):
            field = homes[0].field
            if field.type is FieldType.ITEMIZED:
                for item in self._items_of(field).defaults(value, path):
                    yield from self._entries(homes, item.enforcement, item.path, item)
                continue
            enforcement = self._enforcement(Rule.DEFAULT, value, field, path)
            if enforcement is not None:
                yield from self._entries(homes, enforcement, path)
        for path, homes, value in self._leaves(tree, spec.rules or {}, "spec.rules"):
            field = homes[0].field
            if field.type is FieldType.ITEMIZED:
                for item in self._items_of(field).rules(value, path, self._rules_of):
                    yield from self._entries(homes, item.enforcement, item.path, item)
                continue
            beside = homes[0].selector.fields
            for enforcement in self._rules_of(field, value, path, beside):
                yield from self._entries(homes, enforcement, f"{path}.{enforcement.rule}")

    def _imposed(self, tree: NativeFields, imposed: Any) -> Iterator[Entry]:
        """`imposedAssets`: a list of names or ids, or such a list for each role."""
        sections = imposed if isinstance(imposed, dict) else {"": imposed}
        for role, references in sections.items():
            path = f"spec.imposedAssets.{role}" if role else "spec.imposedAssets"
            if references is None:
                continue
            if not isinstance(references, list):
                self._problem(path, f"must be a list of names or ids, got {json_type(references)}")
                continue
            for index, reference in enumerate(references):
                yield from self._impose(tree, role, reference, f"{path}[{index}]")

    def _impose(self, tree: NativeFields, role: str, reference: Any, path: str) -> Iterator[Entry]:
        asset = self._assets.get(reference.lower()) if isinstance(reference, str) else None
        if asset is None:
            self._problems.append(
                MissingReferenceError(path, f"no DataSource {str(reference)!r}{self._for_kind}")
            )
            return
        if self._imposed_once.setdefault((role, asset.name), path) != path:
            return  # By name and by id, say: once is enough.
        if asset.credential:
            problem = f"{asset.name} references a credential ({asset.credential})"
            self._problem(path, f"{problem}, so it can't be imposed")
            return
        name = tree.canonical(f"{role}.{asset.field}" if role else asset.field)
        homes = tree.homes(name) if name is not None else ()
        if not homes:
            self._problem(path, f"{self._mapping.kind.kind} has no field {asset.field}")
            return
        item = self._items_of(homes[0].field).item(dict(asset.item), path)
        if item is None:
            return
        key = item[homes[0].field.item_key]
        enforcement = Enforcement(Rule.IMPOSED, item, key, FieldType.ITEMIZED, self._source)
        yield from self._entries(
            homes, enforcement, path, ItemEntry(enforcement, path, key=key, attribute=IMPOSED)
        )

    def _items_of(self, field: Field) -> ItemRules:
        return ItemRules(field, self._source, self._problem, self._enforcement)

    def _rules_of(
        self, field: Field, value: Any, path: str, beside: Mapping[str, Field] | None = None
    ) -> Iterator[Enforcement]:
        """The rules of one field *beside* others, or of one attribute of the items of a field."""
        if value is None:
            return
        if not isinstance(value, dict):
            self._problem(path, f"must be an object of rules, got {json_type(value)}")
            return
        allowed = native_rules_of(field)
        given: dict[Rule, str] = {}
        for word, body in value.items():
            name = rule_named(word)
            if name is not None and given.setdefault(name, word) != word:
                self._problem(f"{path}.{word}", f"the same rule stands at {given[name]}")
                continue
            if name is Rule.DEFAULT_FROM and beside is None:
                self._problem(f"{path}.{word}", "defaultFrom of an attribute is not available yet")
                continue
            if name is None or name not in allowed:
                self._problem(f"{path}.{word}", no_such_rule(word, allowed, field))
                continue
            if name is Rule.DEFAULT_FROM:
                enforcement = self._default_from(field, body, beside or {}, f"{path}.{name}")
            else:
                enforcement = self._enforcement(name, body, field, f"{path}.{name}")
            if enforcement is not None:
                yield enforcement

    def _default_from(
        self, field: Field, body: Any, beside: Mapping[str, Field], path: str
    ) -> Enforcement | None:
        """`{field, factor}`: the field with or without its section, which is that of *field*."""
        if not isinstance(body, dict) or not isinstance(body.get("field"), str):
            self._problem(path, "must be {field: F, factor: N}; factor is 1 if left out")
            return None
        for word in sorted(set(body) - {"field", "factor"}):
            hint = did_you_mean(word, ("field", "factor"))
            self._problem(f"{path}.{word}", f"unknown field{hint}")
            return None
        section = field.name.rpartition(".")[0]
        known = {
            name: other
            for name, other in beside.items()
            if name.rpartition(".")[0] == section
            and other.type is not None
            and other.type.is_numeric
        }
        named = native_spellings().get(body["field"].lower(), body["field"])
        wanted = (named.lower(), f"{section}.{named}".lower())
        found = [other for name, other in known.items() if name.lower() in wanted]
        if not found or found[0] is field or found[0].type is None or field.type is None:
            others = [name for name in known if name != field.name]
            hint = did_you_mean(body["field"], others)
            self._problem(f"{path}.field", f"no numeric field {body['field']!r} beside it{hint}")
            return None
        try:
            factor = parse_quantity(body.get("factor", 1))
        except QuantityError:
            factor = Fraction(0)
        if factor <= 0:
            self._problem(f"{path}.factor", "must be a number above 0")
            return None
        source = found[0]
        derivation = Derivation(source.name, source.ref, source.type or FieldType.NUMBER, factor)
        value = f"{body.get('factor', 1)} × {source.name}"
        return Enforcement(Rule.DEFAULT_FROM, value, derivation, field.type, self._source)

    def _entries(
        self,
        homes: Sequence[Home],
        enforcement: Enforcement,
        path: str,
        item: ItemEntry | None = None,
    ) -> Iterator[Entry]:
        """One enforcement at every home of its field. `image` and `master.image` may clash."""
        key, attribute = (None, None) if item is None else (item.key, item.attribute)
        for home in homes:
            slot = Slot(home.selector.name, home.field.name, key, attribute)
            twice = self._claimed.setdefault((slot, enforcement.rule), path)
            if twice == path:
                yield Entry(slot, home.field, enforcement, path)
            else:
                what = "default" if enforcement.rule is Rule.DEFAULT else "rule"
                self._problem(path, f"the same {what} of {home.name} stands at {twice}")

    def _leaves(
        self, tree: NativeFields, node: dict[str, Any], path: str, prefix: str = ""
    ) -> Iterator[tuple[str, Sequence[Home], Any]]:
        """Each field below *node*: its path in the document, where it is at home, its value."""
        given: dict[str, str] = {}
        for key, value in node.items():
            where = f"{path}.{key}"
            name = tree.canonical(f"{prefix}{key}")
            if name is not None and given.setdefault(name, key) != key:
                self._problem(where, f"the same field stands at {path}.{given[name]}")
            elif name is None:
                self._problem(where, f"unknown field{tree.hint(prefix, key)}")
            elif homes := tree.homes(name):
                if name.lower() != f"{prefix}{key}".lower():
                    self.warnings.append(f"{where}: {key} is read as {name}")
                yield where, homes, value
            elif value is None:
                continue
            elif isinstance(value, dict):
                yield from self._leaves(tree, value, where, f"{name}.")
            else:
                self._problem(where, f"must be an object, got {json_type(value)}")

    # -- values -----------------------------------------------------------------------------

    def _enforcement(self, rule: Rule, body: Any, field: Field, path: str) -> Enforcement | None:
        """Read the value of one rule. None: a problem was found, or the rule asks for nothing."""
        value_type = field.type or guess_type(rule, body)
        try:
            value, meaning = read_rule(rule, body, value_type)
        except SpecError as error:
            self._problem(f"{path}{error.path}", error.problem)
            return None
        if meaning is None:
            return None
        return Enforcement(rule, value, meaning, value_type, self._source)
