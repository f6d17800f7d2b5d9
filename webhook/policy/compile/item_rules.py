"""
Itemized fields of hierarchical policies: default items, defaults and rules of attributes, and
rules of items as a whole.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.mapping.fields import Field, read_ref
from webhook.model.decision import Rule, Source
from webhook.model.labels import is_label_key, is_label_value
from webhook.model.names import did_you_mean
from webhook.model.values import FieldType, json_type
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.item_names import EXCLUDE, ItemNames, Presence, Report
from webhook.policy.rules.rule_values import rule_named

# What an item that has no key is identified by instead, where it has it.
_KEY_FALLBACKS = {"storage.pvc": "claimName"}

_EXCLUDE = Field(EXCLUDE, FieldType.BOOLEAN, (EXCLUDE,), native=True)

# Reads the value of one rule of a field; None: it was a problem, or the rule asks for nothing.
ReadRule = Callable[[Rule, Any, Field, str], Enforcement | None]


@dataclass(frozen=True, slots=True)
class ItemEntry:
    """One enforcement of an itemized field: on an item (*key*), an *attribute*, or all items."""

    enforcement: Enforcement
    path: str
    key: str | None = None
    attribute: str | None = None


class ItemRules:
    """Reads what a policy says about one itemized field."""

    def __init__(
        self, field: Field, source: Source, report: Report, warn: Report, read: ReadRule
    ) -> None:
        self._field = field
        self._source = source
        self._report = report
        self._read = read
        self._names = ItemNames(field, report, warn)

    def defaults(self, value: Any, path: str) -> Iterator[ItemEntry]:
        """The section below `defaults`: `{instances: [...], attributes: {...}}`."""
        sections = self._sections(value, path)
        yield from self._default_items(sections.get("instances"), f"{path}.instances")
        where = f"{path}.attributes"
        for name, part, at in self._attributes(sections.get("attributes"), where):
            if name == self._field.item_key:
                self._report(at, f"{name} tells the items apart, so it can have no default")
                continue
            if name in self._names.presences:
                self._report(at, f"{name} can have rules, but no default")
                continue
            enforcement = self._read(Rule.DEFAULT, part, self._field.attributes[name], at)
            if enforcement is not None:
                yield ItemEntry(enforcement, at, attribute=name)

    def rules(
        self,
        value: Any,
        path: str,
        read_rules: Callable[[Field, Any, str, Mapping[str, Field]], Iterator[Enforcement]],
    ) -> Iterator[ItemEntry]:
        """The section below `rules`; *read_rules* reads the rules of one attribute."""
        sections = self._sections(value, path)
        yield from self._item_rules(sections.get("instances"), f"{path}.instances")
        where = f"{path}.attributes"
        for name, part, at in self._attributes(sections.get("attributes"), where):
            attributes = self._field.attributes
            presence = self._names.presences.get(name)
            meant, given = name, part
            if presence is not None:
                meant, given = presence.attribute, self._sound_rules(name, presence, part, at)
            for enforcement in read_rules(attributes.get(meant, _EXCLUDE), given, at, attributes):
                yield ItemEntry(enforcement, f"{at}.{enforcement.rule}", attribute=meant)

    def _sound_rules(self, name: str, presence: Presence, value: Any, path: str) -> Any:
        """The rules on whether something is there, without those that this does not have."""
        if not isinstance(value, dict):
            return value
        known = presence.rules
        sound = {}
        for word, body in value.items():
            if rule_named(word) in known:
                sound[word] = body
            else:
                self._report(
                    f"{path}.{word}", f"{name} has no such rule; it has {', '.join(known)}"
                )
        return sound

    def _sections(self, value: Any, path: str) -> Mapping[str, Any]:
        known = ("instances", "attributes") if self._field.ruled else ("instances",)
        return self._names.sections(value, path, known)

    # -- items ------------------------------------------------------------------------------

    def _default_items(self, value: Any, path: str) -> Iterator[ItemEntry]:
        if value is None:
            return
        if not isinstance(value, list):
            self._report(path, f"must be a list of items, got {json_type(value)}")
            return
        seen: dict[str, str] = {}
        for index, item in enumerate(value):
            where = f"{path}[{index}]"
            read = self.item(item, where)
            if read is None:
                continue
            key = read_ref(read, (self._field.item_key,))
            twice = seen.setdefault(key, where)
            if twice != where:
                self._report(where, f"{self._field.item_key} {key!r} stands at {twice} already")
                continue
            enforcement = Enforcement(Rule.DEFAULT, read, key, FieldType.ITEMIZED, self._source)
            yield ItemEntry(enforcement, where, key=key)

    def item(self, item: Any, path: str) -> dict[str, Any] | None:
        """A default item in canonical names and values, with a key; None if it is wrong."""
        if not isinstance(item, dict):
            self._report(path, f"must be an object, got {json_type(item)}")
            return None
        read: dict[str, Any] = {}
        sound = True
        for name, value, at in self._names.attributes(item, path):
            if name is None:
                sound = False
                continue
            if value is None:
                continue  # Null is absent.
            enforcement = self._read(Rule.DEFAULT, value, self._field.attributes[name], at)
            if enforcement is None:
                sound = False
                continue
            attribute = self._field.attributes[name]
            if not attribute.ref and name != self._field.item_key:
                # What says nothing here may be said all the same, and so may a plain "no".
                if not attribute.is_ignored and enforcement.meaning is not False:
                    self._report(at, "has no home in a pod template")
                    sound = False
                continue
            node = read
            *sections, leaf = name.split(".")
            for section in sections:
                node = node.setdefault(section, {})
            node[leaf] = enforcement.value
        if not sound:
            return None
        sources = [name for name in self._field.exclusive if name in read]
        if len(sources) > 1:
            self._report(path, f"an item has only one of {', '.join(sources)}")
            return None
        key = self._field.item_key
        if not read.get(key):
            read.pop(key, None)
            named = read.get(_KEY_FALLBACKS.get(self._field.name, ""))
            read = {key: named or generated_key(read), **read}
        return read if self._is_well_named(read, path) else None

    def _is_well_named(self, item: Mapping[str, Any], path: str) -> bool:
        """Whether Kubernetes would take a default label or annotation."""
        if self._field.name not in ("labels", "annotations"):
            return True
        kind = self._field.name.removesuffix("s")
        if not is_label_key(item["name"]):
            self._report(f"{path}.name", f"the key {item['name']!r} is no name of a {kind}")
            return False
        if kind == "label" and not is_label_value(item.get("value", "")):
            self._report(f"{path}.value", "can't be the value of a label")
            return False
        return True

    def _item_rules(self, value: Any, path: str) -> Iterator[ItemEntry]:
        if value is None:
            return
        if not isinstance(value, dict):
            self._report(path, f"must be {{canAdd, locked}}, got {json_type(value)}")
            return
        for word, body in value.items():
            where = f"{path}.{word}"
            for name in ("canAdd", "locked"):
                if word.lower() == name.lower():
                    self._names.note(where, word, name)
            match word.lower():
                case "canadd" if isinstance(body, bool):
                    if not body:
                        yield ItemEntry(self._whole(Rule.CAN_ADD, body, True), where)
                case "canadd":
                    self._report(where, f"must be true or false, got {json_type(body)}")
                case "locked" if isinstance(body, list) and all(isinstance(k, str) for k in body):
                    yield ItemEntry(self._whole(Rule.LOCKED, body, tuple(body)), where)
                case "locked":
                    key = self._field.item_key
                    self._report(where, f"must be a list of keys ({key} of each item)")
                case _:
                    hint = did_you_mean(word, ("canAdd", "locked"))
                    self._report(where, f"an itemized field has no rule {word!r}{hint}")

    def _whole(self, rule: Rule, value: Any, meaning: Any) -> Enforcement:
        return Enforcement(rule, value, meaning, FieldType.ITEMIZED, self._source)

    # -- attributes -------------------------------------------------------------------------

    def _attributes(self, value: Any, path: str) -> Iterator[tuple[str, Any, str]]:
        """Each attribute below *value* that a policy may rule, with its part and path."""
        if isinstance(value, list):
            # As one sample of the reference writes it: a list of maps with one key each.
            pairs = [pair for part in value if isinstance(part, dict) for pair in part.items()]
            if len(pairs) != len(value):
                self._report(path, "must be an object of attributes")
                return
            names = [name for name, _ in pairs]
            for name in sorted({name for name in names if names.count(name) > 1}):
                self._report(path, f"attribute {name!r} is there twice")
                return
            value = dict(pairs)
        if value is None:
            return
        if not isinstance(value, dict):
            self._report(path, f"must be an object of attributes, got {json_type(value)}")
            return
        for name, part, at in self._names.ruled(value, path):
            if name is None:
                continue
            if name in self._field.ruled or name in self._names.presences:
                yield name, part, at
            else:
                self._report(at, f"no default or rule can be given for {self._unruled(name)}")

    def _unruled(self, name: str) -> str:
        """The end of a message about an attribute that policies can't rule."""
        if name == self._field.item_key:
            return f"{name}: it tells the items apart; name them in instances.locked"
        known = ", ".join(self._field.ruled)
        return f"attribute {name!r}" + (f"; there are rules for {known}" if known else "")


def generated_key(item: Mapping[str, Any]) -> str:
    """The key of a default item that has none: equal items have equal keys."""
    content = json.dumps(copy.deepcopy(dict(item)), sort_keys=True, default=str)
    return f"policy-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
