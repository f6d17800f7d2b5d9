"""Names below an itemized field as policies spell them, and the attributes that they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.catalog import native_presences, native_spellings
from webhook.mapping.fields import Field
from webhook.model.decision import Rule
from webhook.model.names import did_you_mean
from webhook.model.values import json_type
from webhook.policy.rules.rule_values import rule_named

# Every item may have it; of some fields policies may rule it.
EXCLUDE = "exclude"
# Where it is remembered what a submitter excludes.
EXCLUDED = "policy.gatewright.io/excluded"
EXCLUDED_AT = ("metadata", "annotations", EXCLUDED)

# The attribute that is the value of an item, beside its key, where there is one.
_VALUES = ("value", "quantity")

# Adds a problem, or a warning, at a path.
Report = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Presence:
    """A name by which rules ask whether *attribute* is there."""

    attribute: str
    rules: tuple[Rule, ...]


def value_attribute(field: Field) -> str | None:
    """
    The attribute of an itemized *field* that is the value behind a key, as in a map.

    Labels, annotations and amounts of resources have nothing else; of a variable it is the source
    that needs no name. None where an item has several values: of a toleration, `value` is one.
    """
    others = [name for name in field.attributes if name != field.item_key]
    for name in _VALUES:
        if others == [name] or (name in others and name in field.exclusive):
            return name
    return None


class ItemNames:
    """Reads names of one itemized field in any case; what is not canonical is a warning."""

    def __init__(self, field: Field, report: Report, warn: Report) -> None:
        self._field = field
        self._report = report
        self._warn = warn
        prefix = f"{field.name}.".lower()
        self._spellings = {
            spelling.removeprefix(prefix): name[len(prefix) :]
            for spelling, name in native_spellings().items()
            if spelling.startswith(prefix) and name.lower().startswith(prefix)
        }
        # The names that only rules may use: the attribute that each is about, and its rules.
        self.presences = {
            name[len(prefix) :]: Presence(row["of"][len(prefix) :], tuple(map(Rule, row["rules"])))
            for name, row in native_presences().items()
            if name.lower().startswith(prefix)
        }

    def sections(self, value: Any, path: str, known: Sequence[str]) -> Mapping[str, Any]:
        """The parts of *value* by their names in *known*."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._report(path, f"must be {{{', '.join(known)}}}, got {json_type(value)}")
            return {}
        parts: dict[str, Any] = {}
        given: dict[str, str] = {}
        for word, part in value.items():
            name = next((name for name in known if name.lower() == word.lower()), None)
            where = f"{path}.{word}"
            if name is None:
                self._report(where, self._no_section(word, known))
            elif given.setdefault(name, word) != word:
                self._report(where, f"the same section stands at {path}.{given[name]}")
            else:
                self.note(where, word, name)
                parts[name] = part
        return parts

    def _no_section(self, word: str, known: Sequence[str]) -> str:
        """What is wrong with *word* where a section of an itemized field is wanted."""
        field, of_items = self._field.name, ("canAdd", "locked")
        for name in of_items:
            if word.lower() == name.lower():
                return f"is a rule of items: write instances: {{{name}: …}}"
        rule = rule_named(word)
        if rule is not None:
            attributes = "; its attributes have rules of their own" if len(known) > 1 else ""
            return (
                f"{field} is itemized and has no rule {rule}; write"
                f" instances: {{canAdd, locked}}{attributes}"
            )
        if word.lower() == "attributes":
            return f"no default or rule can be given for attributes of {field}; write instances"
        return f"unknown field{did_you_mean(word, known)}"

    def attributes(self, node: dict[str, Any], path: str) -> Iterator[tuple[str | None, Any, str]]:
        """
        Each attribute below *node*, its value, and where it stands.

        One that is unknown, or there twice, is reported and has the name None.
        """
        yield from self._leaves(node, path, "", {}, ())

    def ruled(self, node: dict[str, Any], path: str) -> Iterator[tuple[str | None, Any, str]]:
        """The same for what a policy rules, where `presences` are names as well."""
        yield from self._leaves(node, path, "", {}, tuple(self.presences))

    def note(self, path: str, spelt: str, name: str) -> None:
        """Say how *spelt* is read, if it is not as the catalogue spells it."""
        if spelt != name:
            self._warn(path, f"{spelt.rpartition('.')[2]} is read as {name}")

    def _leaves(
        self,
        node: dict[str, Any],
        path: str,
        prefix: str,
        given: dict[str, str],
        presences: Sequence[str],
    ) -> Iterator[tuple[str | None, Any, str]]:
        for key, value in node.items():
            where = f"{path}.{key}"
            spelt = f"{prefix}{key}"
            name = self._canonical(spelt, presences)
            if name is None:
                known = sorted({*self._field.attributes, *presences})
                self._report(where, f"unknown attribute{did_you_mean(spelt, known)}")
                yield None, value, where
                continue
            if given.setdefault(name, where) != where:
                self._report(where, f"the same attribute stands at {given[name]}")
                yield None, value, where
                continue
            self.note(where, spelt, name)
            if name in self._field.attributes or name in presences:
                yield name, value, where
            elif isinstance(value, dict):
                yield from self._leaves(value, where, f"{name}.", given, presences)
            elif value is not None:
                self._report(where, f"must be an object, got {json_type(value)}")
                yield None, value, where

    def _canonical(self, path: str, presences: Sequence[str]) -> str | None:
        """The attribute, or the section of attributes, that *path* means, in any case."""
        lower = path.lower()
        if lower in self._spellings:
            return self._spellings[lower]
        for name in (*self._field.attributes, *presences):
            parts = name.split(".")
            for depth in range(1, len(parts) + 1):
                prefix = ".".join(parts[:depth])
                if prefix.lower() == lower:
                    return prefix
        return None
