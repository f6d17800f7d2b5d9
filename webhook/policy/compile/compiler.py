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

from webhook.catalog import native_spellings, native_value_spellings
from webhook.errors import MissingReferenceError, QuantityError, SpecError
from webhook.mapping.codecs import CODECS
from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.fields import Field, is_secret
from webhook.model.decision import Rule, Source
from webhook.model.documents import Document, GvkPolicySpec, GvkRule, WorkloadPolicySpec
from webhook.model.kinds import GroupVersionKind, unmapped_hint
from webhook.model.labels import is_label_key, is_label_value
from webhook.model.names import did_you_mean
from webhook.model.quantity import parse_quantity
from webhook.model.values import FieldType, json_type
from webhook.policy.compile.assets import Asset
from webhook.policy.compile.flat_items import FlatItems, find_attribute
from webhook.policy.compile.item_rules import ItemEntry, ItemRules
from webhook.policy.native.conditions import Finding
from webhook.policy.native.native_fields import Home, NativeFields
from webhook.policy.native.shape import limits_of
from webhook.policy.rules.arguments import (
    check_key,
    check_plain,
    contradicting_items,
    item_type,
    judged_argument,
    missing_expression,
    read_arguments,
    read_choice,
)
from webhook.policy.rules.enforcement import (
    IMPOSED,
    MUTATING,
    CompiledPolicy,
    Derivation,
    Enforcement,
    Entry,
    ItemChoice,
    Slot,
)
from webhook.policy.rules.rule_values import (
    FLAGS,
    LISTS,
    flat_rules_of,
    guess_type,
    in_any_case,
    native_rules_of,
    no_such_rule,
    read_rule,
    rule_named,
)

# Rules whose value is compared with what stands at a home, rounded as that is.
_ROUNDED = frozenset({Rule.DEFAULT, Rule.MIN, Rule.MAX})

# Rules that are about a value that is missing.
_FILLING = frozenset({Rule.DEFAULT, Rule.DEFAULT_FROM, Rule.REQUIRED})

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
    kinds = spec.workload_type if isinstance(spec, WorkloadPolicySpec) else (spec.workload_type,)
    policies: list[CompiledPolicy] = []
    missing: list[MissingReferenceError] = []
    for kind in kinds:
        mapping = mappings.get(kind)
        if mapping is None:
            hint = unmapped_hint(kind, mappings)
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
                mapping=mapping,
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

    def _warn(self, path: str, warning: str) -> None:
        self.warnings.append(f"{path}: {warning}")

    # -- GVKPolicy --------------------------------------------------------------------------

    def flat(self, spec: GvkPolicySpec) -> Iterator[Entry]:
        seen: dict[tuple[Slot, Rule], str] = {}
        # Which rule is about each slot, the identity of its enforcements; pairs that were told.
        blocks: dict[Slot, str] = {}
        told: set[tuple[str, str]] = set()
        given: list[Entry] = []
        for index, rule in enumerate(spec.rules):
            path = f"spec.rules[{index}]"
            found = self._flat_field(rule, path)
            if found is None:
                continue
            field, attribute = found
            try:
                choice = read_choice(rule, field)
            except SpecError as error:
                self._problem(f"{path}.{error.path}", error.problem)
                continue
            for number, single in enumerate(rule.enforcements):
                where = f"{path}.enforcements[{number}]"
                entry = self._flat_entry(rule, field, attribute, choice, single, where)
                if entry is None:
                    continue
                first = blocks.setdefault(entry.slot, path)
                if first != path and (first, path) not in told:
                    told.add((first, path))
                    self._problem(path, f"{first} is about {entry.slot} as well; join the two")
                if first != path:
                    continue
                twice = seen.setdefault((entry.slot, entry.enforcement.rule), where)
                if twice != where:
                    self._problem(where, f"the same enforcement stands at {twice}")
                else:
                    given.append(entry)
                    yield entry
        for contradiction in contradicting_items(given):
            self._problem(contradiction.path, contradiction.problem)

    def _flat_field(self, rule: GvkRule, path: str) -> tuple[Field, str | None] | None:
        """The field that *rule* names, and which attribute of its items if it names one."""
        selector = self._mapping.selectors.get(rule.spec_selector)
        if selector is None:
            hint = did_you_mean(rule.spec_selector, self._mapping.selectors)
            self._problem(
                f"{path}.specSelector",
                f"{self._mapping.kind.kind} has no selector {rule.spec_selector!r}{hint}",
            )
            return None
        field = selector.fields.get(rule.field)
        below = find_attribute(rule.field, selector.fields) if field is None else None
        if below is not None:
            itemized, name = below
            if name in itemized.attributes:
                return below
            hint = did_you_mean(name, itemized.attributes)
            self._problem(f"{path}.field", f"{itemized.name} has no attribute {name!r}{hint}")
            return None
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
            return None
        return field, None

    def _flat_entry(
        self,
        rule: GvkRule,
        field: Field,
        attribute: str | None,
        choice: ItemChoice | None,
        single: dict[str, Any],
        path: str,
    ) -> Entry | None:
        if len(single) != 1:
            self._problem(path, f"must have one key, the enforcement, not {len(single)}")
            return None
        ((word, body),) = single.items()
        name = rule_named(word)
        if field.type is FieldType.ITEMIZED:
            items = FlatItems(
                *(field, attribute, self._source, self._problem, self._warn, self._enforcement)
            )
            item = items.entry(word, body, path)
            if item is None:
                return None
            slot = Slot(rule.spec_selector, field.name, item.key, item.attribute)
            return Entry(slot, field, item.enforcement, path, allow_override=rule.allow_override)
        whole = field
        if choice is not None:
            # The rules are those of one item.
            field = replace(field, type=item_type(field))
        judged = None if field.formatter is None else judged_argument(field.formatter)
        allowed = flat_rules_of(field if judged is None else replace(field, type=judged))
        if name is None or name not in allowed:
            self._problem(f"{path}.{word}", no_such_rule(word, allowed, field))
            return None
        where = f"{path}.{name}"
        if field.formatter is not None:
            missing = missing_expression(field.formatter, name)
            if missing:
                self._problem(path, missing)
                return None
            if field.formatter.has_arguments:
                return self._argument_entry(rule, field, choice, name, body, path)
        key: str | None = None
        if isinstance(body, dict) and {word.lower() for word in body} <= _BODY_WORDS:
            body = {word.lower(): value for word, value in body.items()}
        if field.is_map:
            read = self._split_key(field, name, body, where)
            if read is None:
                return None
            key, body = read
            if is_secret([key], field.type) and not field.sensitive:
                field = whole = replace(field, sensitive=True)
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
        slot = Slot(rule.spec_selector, field.name, key, items=choice)
        selector = self._mapping.selectors[rule.spec_selector]
        is_filled = choice is None and field.name in selector.server_defaults
        if name in (Rule.DEFAULT, Rule.REQUIRED) and is_filled:
            self.warnings.append(
                f"{path}: {name} never acts on {field.name}: the API server fills it in before"
                " it asks; use set"
            )
        enforcement = self._enforcement(name, body, field, where)
        if enforcement is None or not self._is_well_formed(field, slot, enforcement, where):
            return None
        return Entry(slot, whole, enforcement, path, allow_override=rule.allow_override)

    def _argument_entry(
        self,
        rule: GvkRule,
        field: Field,
        choice: ItemChoice | None,
        name: Rule,
        body: Any,
        path: str,
    ) -> Entry | None:
        """An enforcement on a field whose value is an object of arguments, or a list of them."""
        formatter = field.formatter
        assert formatter is not None, "who calls it has looked"
        where, key = f"{path}.{name}", None
        enforcement: Enforcement | None
        if name in (Rule.SET, Rule.DEFAULT):
            if isinstance(body, dict) and {word.lower() for word in body} == {"value"}:
                (content,) = body.values()
                if isinstance(content, dict) or "value" not in formatter.args:
                    body, where = content, f"{where}.value"
            try:
                # What a selected item lacks of its own key it has already.
                needs_key = choice is None or name is Rule.DEFAULT
                value = read_arguments(formatter, body, needs_key=needs_key)
            except SpecError as error:
                self._problem(f"{where}{error.path}", error.problem)
                return None
            enforcement = Enforcement(name, value, value, FieldType.OBJECT, self._source)
            if formatter.array_key in value:
                key = str(value[formatter.array_key])
        elif name in FLAGS:
            if isinstance(body, dict) and set(body) == {"key"} and formatter.array_key:
                key, body = str(body["key"]), True
            enforcement = self._enforcement(name, body, field, where)
        else:
            content_word = "values" if name in LISTS else "value"
            if isinstance(body, dict) and set(body) == {content_word}:
                body, where = body[content_word], f"{where}.{content_word}"
            judged = replace(field, type=judged_argument(formatter))
            enforcement = self._enforcement(name, body, judged, where)
        if enforcement is None:
            return None
        slot = Slot(rule.spec_selector, field.name, key, items=choice)
        return Entry(slot, field, enforcement, path, allow_override=rule.allow_override)

    def _is_well_formed(
        self, field: Field, slot: Slot, enforcement: Enforcement, path: str
    ) -> bool:
        """Whether the API server, or the formatter, would accept what is written."""
        if enforcement.rule not in MUTATING:
            return True
        key = slot.key
        if field.formatter is not None:
            try:
                check_plain(field.formatter, enforcement.value)
                if key is not None:
                    check_key(field.formatter, key)
            except SpecError as error:
                self._problem(path, error.problem)
                return False
        items = [enforcement.value] if slot.items is not None else enforcement.value
        for index, item in enumerate(items if field.texts else ()):
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
            if value is None:
                continue  # Null is absent.
            enforcement = self._enforcement(Rule.DEFAULT, value, field, path)
            if enforcement is not None:
                yield from self._entries(homes, enforcement, path)
        for path, homes, value in self._leaves(tree, spec.rules or {}, "spec.rules"):
            field = homes[0].field
            if field.type is FieldType.ITEMIZED:
                for item in self._items_of(field).rules(value, path, self._rules_of):
                    yield from self._entries(homes, item.enforcement, item.path, item)
                continue
            beside = homes[0].beside
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
        return ItemRules(field, self._source, self._problem, self._warn, self._enforcement)

    def _rules_of(
        self, field: Field, value: Any, path: str, beside: Mapping[str, Field]
    ) -> Iterator[Enforcement]:
        """The rules of one field *beside* others, or of one attribute of an item."""
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
            if name is None or name not in allowed:
                self._problem(f"{path}.{word}", no_such_rule(word, allowed, field))
                continue
            if word != name:
                self._warn(f"{path}.{word}", f"{word} is read as {name}")
            if name is Rule.DEFAULT_FROM:
                enforcement = self._default_from(field, body, beside, f"{path}.{name}")
            else:
                enforcement = self._enforcement(name, body, field, f"{path}.{name}")
                if enforcement is None and name is Rule.CAN_EDIT and body is True:
                    # It asks for nothing, but takes the place of what is shipped.
                    enforcement = Enforcement(name, body, None, FieldType.BOOLEAN, self._source)
            if enforcement is not None:
                yield enforcement

    def _default_from(
        self, field: Field, body: Any, beside: Mapping[str, Field], path: str
    ) -> Enforcement | None:
        """`{field, factor}`: the field with or without its section, which is that of *field*."""
        if isinstance(body, dict):
            body = in_any_case(body, ("field", "factor"))
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
        written = body["field"].lower()
        wanted = {written, f"{section}.{written}".lower()}
        wanted |= {native_spellings().get(name, name).lower() for name in wanted}
        found = [other for name, other in known.items() if name.lower() in wanted]
        if found and found[0] is field:
            self._problem(f"{path}.field", "is the field itself; name another one of its section")
            return None
        if not found or found[0].type is None or field.type is None:
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
        if body["field"] not in (source.name, source.name.rpartition(".")[2]):
            self._warn(f"{path}.field", f"{body['field']} is read as {source.name}")
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
        self._warn_of_judged(homes, enforcement.rule, path)
        for home in homes:
            if enforcement.rule is Rule.DEFAULT_FROM and home.field.formatter is not None:
                if home.field.home.judged:
                    continue
                self._problem(path, f"can't be derived in a {self._mapping.kind.kind}")
            native = home.field.name in home.selector.native
            slot = Slot(home.selector.name, home.field.name, key, attribute, native=native)
            self._warn_of_server(home, enforcement.rule, path)
            twice = self._claimed.setdefault((slot, enforcement.rule), path)
            if twice == path:
                yield Entry(slot, home.field, enforcement, path)
            else:
                what = "default" if enforcement.rule is Rule.DEFAULT else "rule"
                instead = "; write it for each role" if home.role else ""
                self._problem(path, f"the same {what} of {home.name} stands at {twice}{instead}")

    def _warn_of_judged(self, homes: Sequence[Home], rule: Rule, path: str) -> None:
        """Say that there is no place for a default in this kind, and none to ask for a value."""
        if rule in _FILLING and all(home.field.home.judged for home in homes):
            self._warn(
                path,
                f"{rule} never acts on {homes[0].name} of a {self._mapping.kind.kind}, which is"
                " only judged there",
            )

    def _warn_of_server(self, home: Home, rule: Rule, path: str) -> None:
        """Say that a default or `required` has nothing to do where there always is a value."""
        server = home.selector.server_name(home.field)
        if rule in (Rule.DEFAULT, Rule.REQUIRED) and server in home.selector.server_defaults:
            self.warnings.append(
                f"{path}: {rule} never acts on {home.name} of a {self._mapping.kind.kind}:"
                " the API server fills it in before it asks"
            )

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
                self._problem(where, tree.problem(prefix, key))
            elif homes := tree.homes(name):
                self._note(where, key, prefix, name)
                yield where, homes, value
            elif value is None:
                continue
            elif isinstance(value, dict):
                self._note(where, key, prefix, name)
                yield from self._leaves(tree, value, where, f"{name}.")
            else:
                self._problem(where, f"must be an object, got {json_type(value)}")

    def _note(self, path: str, key: str, prefix: str, name: str) -> None:
        """Say how *key* is read, if it is not as the catalogue spells it."""
        if f"{prefix}{key}" != name:
            self._warn(path, f"{key} is read as {name}")

    # -- values -----------------------------------------------------------------------------

    def _enforcement(self, rule: Rule, body: Any, field: Field, path: str) -> Enforcement | None:
        """Read the value of one rule. None: a problem was found, or the rule asks for nothing."""
        value_type = field.type or guess_type(rule, body)
        body = self._respelt(rule, body, field, path)
        try:
            value, meaning = read_rule(rule, body, value_type)
            if meaning is not None and field.home.codec and rule in _ROUNDED:
                value, meaning = _rounded(rule, value, field, value_type)
        except SpecError as error:
            self._problem(f"{path}{error.path}", error.problem)
            return None
        if meaning is None:
            return None
        impossible = _beyond_limits(rule, meaning, field) if field.limits else ""
        if impossible:
            self._problem(path, impossible)
            return None
        return Enforcement(rule, value, meaning, value_type, self._source)

    def _respelt(self, rule: Rule, body: Any, field: Field, path: str) -> Any:
        """*body* with values as the catalogue spells them; each other spelling is a warning."""
        known = native_value_spellings().get(field.name) if field.native else None
        if known is None:
            return body
        if rule is Rule.OPTIONS and isinstance(body, list):
            return [
                self._respelt(Rule.DEFAULT, value, field, f"{path}[{index}]")
                for index, value in enumerate(body)
            ]
        if isinstance(body, dict) and "value" in body:
            return {**body, "value": self._respelt(rule, body["value"], field, path)}
        meant = known.get(body.lower()) if isinstance(body, str) else None
        if meant is None or rule not in (Rule.DEFAULT, Rule.SET):
            return body
        self._warn(path, f"{body} is read as {meant}")
        return meant


def _rounded(rule: Rule, value: Any, field: Field, value_type: FieldType) -> tuple[Any, Any]:
    """*value* as its home can hold it, so that it is compared with what stands there."""
    codec = CODECS[field.home.codec]
    try:
        rounded = codec.rounded(value)
    except ValueError as error:
        raise SpecError("", f"must be {codec.expected}") from error
    return read_rule(rule, rounded, value_type)


def _beyond_limits(rule: Rule, meaning: Any, field: Field) -> str:
    """Why no value that *rule* asks for is one that *field* can have; else ``""``."""
    limits = limits_of(field)
    if rule is Rule.OPTIONS:
        found = [limits.judge(option) for option in meaning]
        return _told(found[0]) if all(found) else ""
    if rule in (Rule.DEFAULT, Rule.SET):
        return _told(limits.judge(meaning))
    bounds = {Rule.MIN: limits.most, Rule.MAX: limits.least}
    bound = bounds.get(rule)
    if bound is None or (
        meaning <= bound.meaning if rule is Rule.MIN else meaning >= bound.meaning
    ):
        return ""
    return _told(limits.judge(meaning))


def _told(found: tuple[str, Finding] | None) -> str:
    return "" if found is None else f"{found[1].problem}; {found[1].accepted}"
