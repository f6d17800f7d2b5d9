"""
What a GVKPolicy says about an itemized field: of the item with a key, of all its items, or of one
attribute of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from webhook.mapping.fields import Field
from webhook.model.decision import Rule, Source
from webhook.model.names import did_you_mean
from webhook.model.values import FieldType, json_type
from webhook.policy.compile.item_rules import ItemEntry, ItemRules, ReadRule
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.item_names import Report, value_attribute
from webhook.policy.rules.rule_values import (
    LISTS,
    flat_rules_of,
    in_any_case,
    no_such_rule,
    rule_named,
)

_GIVING = (Rule.DEFAULT, Rule.SET)
_ASKING = (Rule.REQUIRED, Rule.BLOCKED)
# Rules that only hierarchical policies have, and what says the same, or who may say it.
_INSTEAD = {
    Rule.LOCKED: "set {key: K, value: …} keeps an item as the policy gives it",
    Rule.CAN_EDIT: "set gives a value that nobody can change",
    Rule.CAN_ADD: "a WorkloadPolicy has it: instances: {canAdd: false}",
    Rule.DEFAULT_FROM: "a WorkloadPolicy has it, for attributes",
}


class _Said(NamedTuple):
    """A body taken apart: the key of the item that it is about, None for all, and the rest."""

    key: str | None
    content: Any
    path: str


class FlatItems:
    """
    Reads the enforcements of one rule on an itemized *field*, or on one *attribute* of its items.

    *read* reads the value of one rule; problems go to *report*, other spellings to *warn*.
    """

    def __init__(
        self,
        field: Field,
        attribute: str | None,
        source: Source,
        report: Report,
        warn: Report,
        read: ReadRule,
    ) -> None:
        self._field = field
        self._attribute = attribute
        self._source = source
        self._report = report
        self._warn = warn
        self._read = read
        self._value = value_attribute(field)

    def entry(self, word: str, body: Any, path: str) -> ItemEntry | None:
        """The enforcement *word* with its *body*; None: a problem was found, or it asks nothing."""
        rule = rule_named(word)
        if rule in _INSTEAD:
            problem = f"a GVKPolicy has no rule {rule} of items; {_INSTEAD[rule]}"
            self._report(f"{path}.{word}", problem)
            return None
        if self._attribute is not None:
            return self._of_attribute(word, body, path, self._attribute)
        if rule in _GIVING:
            return self._given(rule, body, f"{path}.{rule}")
        if rule in _ASKING:
            return self._asked(rule, body, f"{path}.{rule}")
        if self._value is None and rule is not None:
            known = ", ".join(self._field.attributes)
            self._report(
                f"{path}.{word}",
                f"{rule} compares one value, and an item of {self._field.name} has several;"
                f" write it on field {self._field.name}.A, where A is one of {known}",
            )
            return None
        return self._of_value(word, body, path)

    # -- items --------------------------------------------------------------------------------

    def _given(self, rule: Rule, body: Any, path: str) -> ItemEntry | None:
        """`default` and `set`: an item by its key."""
        said = self._split(rule, body, path)
        if said is None:
            return None
        key, content, where = said
        if content is None and self._value is not None:
            self._report(where, "is needed")
            return None
        if content is None:
            content = {}
        elif not isinstance(content, dict):
            if self._value is None:
                names = ", ".join(self._field.attributes)
                found = f"must be an object of attributes ({names}), got {json_type(content)}"
                self._report(where, found)
                return None
            content, where = {self._value: content}, path
        name = self._field.item_key
        if key is not None:
            own = [word for word in content if isinstance(word, str) and word.lower() == name]
            if any(content[word] != key for word in own):
                self._report(f"{where}.{own[0]}", f"is another one than the key {key!r}")
                return None
            content = {name: key, **{w: v for w, v in content.items() if w not in own}}
        elif rule is Rule.SET and not content.get(name):
            self._report(f"{path}.key", "is needed: it tells the item from the others")
            return None

        def report(at: str, problem: str) -> None:
            # The key stands beside the attributes, not among them.
            is_key = key is not None and at == f"{where}.{name}"
            self._report(f"{path}.key" if is_key else at, problem)

        items = ItemRules(self._field, self._source, report, self._warn, self._read)
        item = items.item(content, where)
        if item is None:
            return None
        own_key = str(item[name])
        enforcement = Enforcement(rule, item, own_key, FieldType.ITEMIZED, self._source)
        return ItemEntry(enforcement, path, key=own_key)

    def _asked(self, rule: Rule, body: Any, path: str) -> ItemEntry | None:
        """`required` and `blocked`: of the item with a key, or of the field as a whole."""
        key: str | None = None
        if not isinstance(body, bool):
            said = self._split(rule, body, path)
            if said is None:
                return None
            key, body = said.key, True
        if not body:
            return None  # It asks for nothing.
        return ItemEntry(
            Enforcement(rule, True, True, FieldType.ITEMIZED, self._source), path, key=key
        )

    def _of_value(self, word: str, body: Any, path: str) -> ItemEntry | None:
        """A rule on the value of the item with a key, or of every item."""
        assert self._value is not None, "who calls it has looked"
        attribute = self._field.attributes[self._value]
        said = self._ruled(word, body, path, attribute)
        if said is None:
            return None
        rule, (key, content, where) = said
        enforcement = self._read(rule, content, attribute, where)
        return None if enforcement is None else ItemEntry(enforcement, path, key=key)

    # -- attributes ---------------------------------------------------------------------------

    def _of_attribute(self, word: str, body: Any, path: str, name: str) -> ItemEntry | None:
        attribute = self._field.attributes[name]
        said = self._ruled(word, body, path, attribute)
        if said is None:
            return None
        rule, (key, content, where) = said
        problem = self._misplaced(rule, name, key)
        if problem:
            self._report(f"{path}.{rule}", problem)
            return None
        enforcement = self._read(rule, content, attribute, where)
        if enforcement is None:
            return None
        return ItemEntry(enforcement, path, key=key, attribute=name)

    def _misplaced(self, rule: Rule, name: str, key: str | None) -> str:
        """Why *rule* can't give a value to the attribute *name* of all items; ``""`` if it can."""
        if rule not in _GIVING:
            return ""
        of_item = f"write {rule}: {{key: K, value: {{{name}: V}}}} on field {self._field.name}"
        if name == self._field.item_key:
            return f"{name} tells the items apart; give an item on field {self._field.name}"
        if key is not None:
            return f"is for every item; {of_item}"
        if rule is Rule.SET and name.partition(".")[0] in self._field.exclusive:
            sources = ", ".join(self._field.exclusive)
            return f"would take every item its own source (one of {sources}); {of_item}"
        return ""

    # -- words --------------------------------------------------------------------------------

    def _ruled(
        self, word: str, body: Any, path: str, attribute: Field
    ) -> tuple[Rule, _Said] | None:
        """The rule *word* of *attribute*, and its body taken apart."""
        rule, allowed = rule_named(word), flat_rules_of(attribute)
        if rule is None or rule not in allowed:
            as_written = replace(self._field, type=attribute.type)
            self._report(f"{path}.{word}", no_such_rule(word, allowed, as_written))
            return None
        where = f"{path}.{rule}"
        if not isinstance(body, dict):
            return rule, _Said(None, body, where)
        said = self._split(rule, body, where)
        return None if said is None else (rule, said)

    def _split(self, rule: Rule, body: Any, path: str) -> _Said | None:
        """`{key: K, value: V}` and its like, in any case."""
        content = "" if rule in _ASKING else "values" if rule in LISTS else "value"
        known = tuple(filter(None, ("key", content)))
        shape = "{key: K}" if not content else f"{{key: K, {content}: …}}"
        if not isinstance(body, dict) or not body:
            self._report(path, f"{self._field.name} has items, so {rule} takes {shape}")
            return None
        body = in_any_case(body, known)
        unknown = sorted(map(str, set(body) - set(known)))
        for name in unknown:
            self._report(f"{path}.{name}", self._unknown(rule, name, known, shape))
        if unknown:
            return None
        key = body.get("key")
        if "key" in body and (not isinstance(key, str) or not key):
            found = "is empty" if key == "" else f"must be text, got {json_type(key)}"
            self._report(f"{path}.key", f"{found}; it is the {self._field.item_key} of an item")
            return None
        if not content:
            return _Said(key, True, path)
        return _Said(key, body.get(content), f"{path}.{content}")

    def _unknown(self, rule: Rule, name: str, known: tuple[str, ...], shape: str) -> str:
        if rule in _GIVING and _first_name(name) in map(_first_name, self._field.attributes):
            return f"is an attribute of an item: {rule} takes {shape}, with the attributes in value"
        return f"unknown field{did_you_mean(name, known)}"


def flat_item_rules(field: Field) -> tuple[Rule, ...]:
    """The rules that an enforcement on an itemized *field* may be."""
    name = value_attribute(field)
    if name is None:
        return (*_GIVING, *_ASKING)
    return flat_rules_of(field.attributes[name])


def _first_name(attribute: str) -> str:
    return attribute.partition(".")[0].lower()


def find_attribute(name: str, fields: Mapping[str, Field]) -> tuple[Field, str] | None:
    """The itemized field of *fields*, and the rest, of a *name* such as `storage.pvc.readOnly`."""
    for field in fields.values():
        if field.type is FieldType.ITEMIZED and name.startswith(f"{field.name}."):
            return field, name.removeprefix(f"{field.name}.")
    return None
