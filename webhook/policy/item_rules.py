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

from webhook.catalog import native_spellings
from webhook.mapping.fields import Field, read_ref
from webhook.model.decision import Rule, Source
from webhook.model.names import did_you_mean
from webhook.model.values import FieldType, json_type
from webhook.policy.enforcement import Enforcement

# What an item that has no key is identified by instead, where it has it.
_KEY_FALLBACKS = {"storage.pvc": "claimName"}

# Adds a problem at a path.
Report = Callable[[str, str], None]
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

    def __init__(self, field: Field, source: Source, report: Report, read: ReadRule) -> None:
        self._field = field
        self._source = source
        self._report = report
        self._read = read

    def defaults(self, value: Any, path: str) -> Iterator[ItemEntry]:
        """The section below `defaults`: `{instances: [...], attributes: {...}}`."""
        sections = self._sections(value, path)
        yield from self._default_items(sections.get("instances"), f"{path}.instances")
        where = f"{path}.attributes"
        for name, part, at in self._attributes(sections.get("attributes"), where):
            if name == self._field.item_key:
                self._report(at, f"{name} tells the items apart, so it can have no default")
                continue
            enforcement = self._read(Rule.DEFAULT, part, self._field.attributes[name], at)
            if enforcement is not None:
                yield ItemEntry(enforcement, at, attribute=name)

    def rules(
        self, value: Any, path: str, read_rules: Callable[[Field, Any, str], Iterator[Enforcement]]
    ) -> Iterator[ItemEntry]:
        """The section below `rules`; *read_rules* reads the rules of one attribute."""
        sections = self._sections(value, path)
        yield from self._item_rules(sections.get("instances"), f"{path}.instances")
        where = f"{path}.attributes"
        for name, part, at in self._attributes(sections.get("attributes"), where):
            for enforcement in read_rules(self._field.attributes[name], part, at):
                yield ItemEntry(enforcement, f"{at}.{enforcement.rule}", attribute=name)

    def _sections(self, value: Any, path: str) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._report(path, f"must be {{instances, attributes}}, got {json_type(value)}")
            return {}
        known = ("instances", "attributes") if self._field.ruled else ("instances",)
        sections: dict[str, Any] = {}
        for word, part in value.items():
            if word.lower() in known and word.lower() not in sections:
                sections[word.lower()] = part
            else:
                self._report(f"{path}.{word}", f"unknown field{did_you_mean(word, known)}")
        return sections

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
        for name, value, at in self._leaves(item, path):
            if name is None:
                sound = False
                continue
            if value is None:
                continue  # Null is absent.
            enforcement = self._read(Rule.DEFAULT, value, self._field.attributes[name], at)
            if enforcement is None:
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
        return read

    def _item_rules(self, value: Any, path: str) -> Iterator[ItemEntry]:
        if value is None:
            return
        if not isinstance(value, dict):
            self._report(path, f"must be {{canAdd, locked}}, got {json_type(value)}")
            return
        for word, body in value.items():
            where = f"{path}.{word}"
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
            if len(pairs) != len(value) or len(dict(pairs)) != len(pairs):
                self._report(path, "must be an object of attributes")
                return
            value = dict(pairs)
        if value is None:
            return
        if not isinstance(value, dict):
            self._report(path, f"must be an object of attributes, got {json_type(value)}")
            return
        for name, part, at in self._leaves(value, path):
            if name is None:
                continue
            if name in self._field.ruled:
                yield name, part, at
            else:
                hint = did_you_mean(name, self._field.ruled)
                self._report(at, f"no default or rule can be given for attribute {name!r}{hint}")

    def _leaves(
        self, node: dict[str, Any], path: str, prefix: str = ""
    ) -> Iterator[tuple[str | None, Any, str]]:
        """Each attribute below *node*; None for one that is unknown, which is reported."""
        for key, value in node.items():
            where = f"{path}.{key}"
            name = self._canonical(f"{prefix}{key}")
            if name in self._field.attributes:
                yield name, value, where
            elif name is None:
                known = sorted(self._field.attributes)
                self._report(where, f"unknown attribute{did_you_mean(f'{prefix}{key}', known)}")
                yield None, value, where
            elif isinstance(value, dict):
                yield from self._leaves(value, where, f"{name}.")
            elif value is not None:
                self._report(where, f"must be an object, got {json_type(value)}")
                yield None, value, where

    def _canonical(self, path: str) -> str | None:
        """The attribute, or the section of attributes, that *path* means, in any case."""
        spelt = native_spellings().get(f"{self._field.name}.{path}".lower())
        if spelt is not None and spelt.startswith(f"{self._field.name}."):
            return spelt.removeprefix(f"{self._field.name}.")
        for name in self._field.attributes:
            parts = name.split(".")
            for depth in range(1, len(parts) + 1):
                prefix = ".".join(parts[:depth])
                if prefix.lower() == path.lower():
                    return prefix
        return None


def generated_key(item: Mapping[str, Any]) -> str:
    """The key of a default item that has none: equal items have equal keys."""
    content = json.dumps(copy.deepcopy(dict(item)), sort_keys=True, default=str)
    return f"policy-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
