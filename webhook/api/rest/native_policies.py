"""Hierarchical policies as JSON: canonical names, fields that are reset, and what is in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webhook.api.problems import BadRequestError
from webhook.api.rest.effective import source_of_rule
from webhook.catalog import native_spellings
from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.fields import Field
from webhook.model.decision import Rule
from webhook.model.values import FieldType
from webhook.policy.explain import explain
from webhook.policy.native.native_fields import ROLES, NativeFields
from webhook.policy.rules.enforcement import CompiledPolicy
from webhook.policy.rules.rule_values import rule_named

SECTIONS = ("defaults", "rules", "imposedAssets")
_PARTS = ("instances", "attributes")
_ITEM_RULES = (Rule.CAN_ADD, Rule.LOCKED)

Json = dict[str, Any]


def canonical_policy(mapping: CompiledMapping, policy: Mapping[str, Any]) -> Json:
    """
    *policy* (defaults, rules, imposedAssets) under the names of the catalogue.

    What has no meaning stays as it is, for the compiler to say so.
    """
    fields = NativeFields(mapping)
    named = {section.lower(): section for section in SECTIONS}
    canonical: Json = {}
    for key, value in policy.items():
        section = named.get(key.lower(), key)
        section = key if section in canonical else section
        if section in ("defaults", "rules") and isinstance(value, dict):
            tree: Json = {}
            _rename(fields, value, (), tree, is_rules=section == "rules")
            canonical[section] = tree
        else:
            canonical[section] = value
    return canonical


def _rename(
    fields: NativeFields, node: Json, prefix: tuple[str, ...], tree: Json, *, is_rules: bool
) -> None:
    """Put what is below *node*, which stands at *prefix*, into *tree* under canonical names."""
    for key, value in node.items():
        name = fields.canonical(".".join([*prefix, key]))
        path = (*prefix, key) if name is None else tuple(name.split("."))
        homes = fields.homes(name) if name is not None else ()
        if homes:
            renamed = _rename_leaf(homes[0].field, value, is_rules=is_rules)
        elif name is not None and isinstance(value, dict):
            _rename(fields, value, path, tree, is_rules=is_rules)
            if not value:
                _put(tree, path, {})
            continue
        else:
            renamed = value
        if not _put(tree, path, renamed):
            # Twice under two spellings: the compiler says it.
            _put(tree, (*prefix, key), renamed)


def _rename_leaf(field: Field, value: Any, *, is_rules: bool) -> Any:
    if not isinstance(value, dict):
        return value
    if field.type is FieldType.ITEMIZED:
        parts = {part.lower(): part for part in _PARTS}
        return {
            parts.get(key.lower(), key): _rename_part(field, part, is_rules=is_rules)
            if parts.get(key.lower()) == "attributes"
            else _rename_rules(part)
            if is_rules and isinstance(part, dict)
            else part
            for key, part in value.items()
        }
    return _rename_rules(value) if is_rules else value


def _rename_part(field: Field, value: Any, *, is_rules: bool) -> Any:
    """The attributes of an itemized field."""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        # As one sample of the reference writes it: a list of maps with one key each.
        pairs = [pair for part in value for pair in part.items()]
        if len(dict(pairs)) == len(pairs):
            value = dict(pairs)
    if not isinstance(value, dict):
        return value
    known = {name.lower(): name for name in field.attributes}
    renamed: Json = {}
    for key, part in value.items():
        spelt = native_spellings().get(f"{field.name}.{key}".lower(), "")
        name = spelt.removeprefix(f"{field.name}.") or known.get(key.lower())
        if name is None or name not in field.attributes or name in renamed:
            name = key
        renamed[name] = _rename_rules(part) if is_rules and isinstance(part, dict) else part
    return renamed


def _rename_rules(rules: Json) -> Json:
    renamed: Json = {}
    for word, body in rules.items():
        rule = rule_named(word)
        name = rule.value if rule is not None and rule.value not in renamed else word
        renamed[name] = body
    return renamed


def _put(tree: Json, path: Sequence[str], value: Any) -> bool:
    """Whether *value* could be put at *path*: nothing stands there or in the way."""
    node: Any = tree
    for part in path[:-1]:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            return False
    if path[-1] in node:
        return False
    node[path[-1]] = value
    return True


def reset_fields(mapping: CompiledMapping, policy: Json, paths: Any) -> Json:
    """
    *policy* without the defaults and rules of the fields or sections at *paths*.

    Raises:
        BadRequestError: a path is none of a field or section.
    """
    if paths is None:
        return policy
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise BadRequestError("reset", "must be a list of paths")
    fields = NativeFields(mapping)
    left = dict(policy)
    for index, path in enumerate(paths):
        plain = path.removeprefix("$").removeprefix(".")
        name = fields.canonical(plain)
        if name is None:
            prefix, _, last = plain.rpartition(".")
            known = fields.canonical(prefix) if prefix else ""
            hint = "" if known is None else fields.hint(f"{known}." if known else "", last)
            raise BadRequestError(f"reset[{index}]", f"{path!r} is no field{hint}")
        for section in ("defaults", "rules"):
            if isinstance(left.get(section), dict):
                left[section] = _without(left[section], name.split("."))
    return left


def _without(tree: Json, path: Sequence[str]) -> Json:
    """*tree* without what stands at *path*, and without sections that are left empty."""
    head, *rest = path
    if head not in tree:
        return tree
    left = {key: value for key, value in tree.items() if key != head}
    if rest and isinstance(tree[head], dict):
        below = _without(tree[head], rest)
        return {**left, head: below} if below else left
    return tree if rest else left


def effective_policy(policies: Sequence[CompiledPolicy]) -> dict[str, Any]:
    """
    What hierarchical *policies* say where all of them hold.

    As a policy has it, with `sourceOfRule` beside the rules of each field; hidden values stay
    hidden.
    """
    defaults: Json = {}
    rules: Json = {}
    items: dict[tuple[tuple[str, ...], str], Json] = {}
    for explained in explain([policy for policy in policies if not policy.is_flat]):
        slot = explained.slot
        role = (slot.selector,) if slot.selector in ROLES else ()
        path = (*role, *slot.field.split("."))
        # What several policies gave of one item together is told attribute by attribute.
        part = explained.field.removeprefix(str(slot)).strip(".")
        if explained.rule is Rule.IMPOSED:
            continue
        if explained.rule is Rule.DEFAULT:
            if slot.key is None:
                attribute = ("attributes", *slot.attribute.split(".")) if slot.attribute else ()
                _put(defaults, (*path, *attribute), explained.value)
            elif not part:
                _section(defaults, path).setdefault("instances", []).append(explained.value)
            else:
                item = items.get((path, slot.key))
                if item is None:
                    item = items[path, slot.key] = {}
                    _section(defaults, path).setdefault("instances", []).append(item)
                _put(item, part.split("."), explained.value)
            continue
        if explained.rule in _ITEM_RULES:
            path = (*path, "instances")
        elif slot.attribute:
            path = (*path, "attributes", slot.attribute)
        _section(rules, path)[explained.rule.value] = explained.value
        _section(rules, path)["sourceOfRule"] = source_of_rule(explained.source)
    return {"defaults": defaults, "rules": rules, "imposedAssets": _imposed(policies)}


def _section(tree: Json, path: Iterable[str]) -> Json:
    node = tree
    for part in path:
        node = node.setdefault(part, {})
    return node


def _imposed(policies: Sequence[CompiledPolicy]) -> list[Any] | dict[str, list[Any]]:
    """The assets that any of *policies* imposes, for each role where they say so."""
    flat: list[Any] = []
    by_role: dict[str, list[Any]] = {}
    for policy in policies:
        if policy.is_flat:
            continue
        given = policy.document.spec.imposed_assets
        if isinstance(given, dict):
            for role, assets in given.items():
                by_role.setdefault(role, []).extend(assets or ())
        else:
            flat += given or ()
    if by_role:
        return {role: list(dict.fromkeys(assets)) for role, assets in by_role.items()}
    return list(dict.fromkeys(flat))
