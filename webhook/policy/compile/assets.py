"""Data sources: storage items that policies impose on every workload of their scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.errors import SpecError
from webhook.mapping.fields import Field, read_ref
from webhook.model.decision import Rule, Source, without_credentials
from webhook.model.documents import DataSourceSpec, Document
from webhook.model.scopes import Scope
from webhook.model.values import FieldType
from webhook.policy.compile.item_rules import ItemRules
from webhook.policy.native.agreement import conditions_of_items, read_attributes, with_sections
from webhook.policy.native.shape import limits_of
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.rule_values import read_rule

# Storage that is sound without an attribute of its own.
_NEEDS_NOTHING = frozenset({"emptyDirVolume"})


@dataclass(frozen=True, slots=True)
class Asset:
    """
    One DataSource: an item of the itemized field `storage.<kind>`, in canonical names and values.

    *credential* names the attribute that references one, ``""`` if none does.
    """

    name: str
    field: str
    item: Mapping[str, Any]
    credential: str = ""


def compile_asset(document: Document, fields: Mapping[str, Field]) -> Asset:
    """
    Read one DataSource. *fields* are those of a native type that has all kinds of storage.

    Raises:
        ExceptionGroup: of SpecError, one for each problem, or where there is no such storage.
    """
    spec: DataSourceSpec = document.spec
    kind, given = spec.asset
    name = f"storage.{kind}"
    field = fields.get(name)
    if field is None:
        raise ExceptionGroup(
            "the data source is wrong", [SpecError(f"spec.{kind}", "is no storage")]
        )
    reader = _Reader(document, field)
    item = reader.read(kind, given)
    if item is None or reader.problems:
        raise ExceptionGroup("the data source is wrong", reader.problems)
    return Asset(document.name, name, item, _credential(field, item))


class _Reader:
    """Reads an item as those of policies are read; collects problems."""

    def __init__(self, document: Document, field: Field) -> None:
        self.problems: list[SpecError] = []
        self._name = document.name
        self._field = field
        # Nothing of it is in force by itself, so that it has no scope of its own.
        self._source = Source(document.name, Scope.SYSTEM, kind=document.kind)

    def read(self, kind: str, given: Mapping[str, Any]) -> dict[str, Any] | None:
        path, key = f"spec.{kind}", self._field.item_key
        # Key words are read in any case, so the key is looked for in any case.
        is_named = any(value and word.lower() == key.lower() for word, value in given.items())
        rules = ItemRules(self._field, self._source, self._report, _ignore, self._read_value)
        item = rules.item(dict(given) if is_named else {key: self._name, **given}, path)
        if item is not None and set(item) == {key} and kind not in _NEEDS_NOTHING:
            self._report(path, "is empty: it says of no storage where it is")
        elif item is not None:
            self._judge(item, path)
        return item

    def _judge(self, item: Mapping[str, Any], path: str) -> None:
        """Nobody can complete an imposed item, so that it has to be whole."""
        given = {
            name: value
            for name in self._field.attributes
            if (value := read_ref(item, tuple(name.split(".")))) is not None
        }
        readings, _ = read_attributes(self._field, given)
        for condition in conditions_of_items(self._field):
            found = condition.check(with_sections(readings))
            if found is not None:
                at = f"{path}.{found.field or condition.field}"
                self._report(at, f"{found.problem}; {found.accepted}")

    def _report(self, path: str, problem: str) -> None:
        self.problems.append(SpecError(path, problem))

    def _read_value(self, rule: Rule, body: Any, field: Field, path: str) -> Enforcement | None:
        value_type = field.type or FieldType.STRING
        try:
            value, meaning = read_rule(rule, body, value_type)
        except SpecError as error:
            self._report(f"{path}{error.path}", error.problem)
            return None
        wrong = limits_of(field).judge(meaning)
        if wrong is not None:
            self._report(path, f"{wrong[1].problem}; {wrong[1].accepted}")
            return None
        return Enforcement(rule, value, meaning, value_type, self._source)


def _ignore(path: str, problem: str) -> None:
    """Another spelling of a name is told where policies are read, not here."""


def _credential(field: Field, item: Mapping[str, Any]) -> str:
    """
    The attribute of *item* that references a credential, which everybody in the scope would get.

    One that the catalogue never prints is one, whatever stands beside it in a section of its own
    belongs to it, and so does a user or token in a URL.
    """
    secret = {name for name, attribute in field.attributes.items() if attribute.sensitive}
    sections = {name.rpartition(".")[0] for name in secret} - {""}
    for name in field.attributes:
        value = read_ref(item, tuple(name.split(".")))
        if value is None or value == "":
            continue
        in_url = isinstance(value, str) and without_credentials(value) != value
        if in_url or name in secret or name.rpartition(".")[0] in sections:
            return name
    return ""


def by_reference(
    assets: list[tuple[Document, Asset]],
) -> dict[str, Asset]:
    """The assets by what `imposedAssets` may call them: name or id, in lower case."""
    found: dict[str, Asset] = {}
    for document, asset in assets:
        for reference in (document.name, document.spec.id):
            if reference:
                found.setdefault(reference.lower(), asset)
    return found
