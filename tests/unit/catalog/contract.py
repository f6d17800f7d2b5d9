"""
Contracts of the built-in mappings: an object of the kind, and what has to be found in it.

There is a file for each kind in `contracts/`, called `<plural>.<group or core>.yaml`, with the
version before `.yaml` where the kind has several. Each of its YAML documents has

    manifest: an object of the kind
    places: {selector: [pointer, ...]}     # every selector of the mapping, in order
    enforced:                              # rows; one policy of one rule each
      - {selector: S, field: F, key: K, default: V, changes: [pointer, ...]}
      - {selector: S, field: F, max: V, violations: [pointer, ...]}

A row names one enforcement by its word in policies. *key* is for fields that are maps. What the
policy writes into the object is compared with *changes*, what it then refuses with *violations*;
either is empty unless given.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch
import orjson

from tests.builders import JsonObject, make_gvk_policy, make_request, make_rule
from tests.unit.catalog.policies import builtin
from webhook.admission.review import review
from webhook.mapping.compiled import CompiledMapping
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.fields import read_ref
from webhook.mapping.locate import Locator, answer_by_jq, locate_by_jq
from webhook.model.decision import Decision
from webhook.model.documents import parse_document
from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import load_file
from webhook.model.pointer import Path as JsonPath
from webhook.model.pointer import lookup, to_pointer
from webhook.model.request import Phase
from webhook.model.settings import EngineSettings
from webhook.policy.compile.compiler import compile_policy
from webhook.policy.planning import PolicySet
from webhook.store.snapshot import Snapshot

DIRECTORY = Path(__file__).with_name("contracts")

_OUTCOMES = frozenset({"changes", "violations"})
_LISTED = frozenset({"options", "pattern"})
_BARE = frozenset({"required", "blocked"})


@dataclass(frozen=True)
class Row:
    """One enforcement on one field, and where it acts."""

    selector: str
    field: str
    key: str | None
    rule: str
    value: Any
    changes: Sequence[str]
    violations: Sequence[str]

    @property
    def enforcement(self) -> JsonObject:
        """As a GVKPolicy writes it."""
        if self.key is None:
            return {self.rule: self.value}
        if self.rule in _BARE:
            return {self.rule: {"key": self.key}}
        word = "values" if self.rule in _LISTED else "value"
        return {self.rule: {"key": self.key, word: self.value}}

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.selector, self.field, self.key, self.rule)))


@dataclass(frozen=True)
class Contract:
    """One document of a file: *name* says which."""

    file: str
    name: str
    manifest: JsonObject
    places: Mapping[str, Sequence[str]]
    rows: tuple[Row, ...]

    @property
    def kind(self) -> GroupVersionKind:
        return GroupVersionKind.of(self.manifest)

    @property
    def mapping(self) -> CompiledMapping:
        return builtin().mappings[self.kind]


@cache
def contracts() -> tuple[Contract, ...]:
    """Every contract, by file and the order in it."""
    return tuple(
        [
            _read_contract(path.stem, index, manifest.value)
            for path in sorted(DIRECTORY.glob("*.yaml"))
            for index, manifest in enumerate(load_file(path))
        ]
    )


def _read_contract(file: str, index: int, value: JsonObject) -> Contract:
    name = f"{file}#{index}"
    assert set(value) == {"manifest", "places", "enforced"}, name
    return Contract(
        file=file,
        name=name,
        manifest=value["manifest"],
        places=value["places"],
        rows=tuple([_read_row(name, row) for row in value["enforced"]]),
    )


def _read_row(name: str, row: JsonObject) -> Row:
    words = set(row) - {"selector", "field", "key"} - _OUTCOMES
    assert len(words) == 1, f"{name}: {row} names {sorted(words)}; one enforcement is needed"
    assert set(row) & _OUTCOMES, f"{name}: {row} says neither changes nor violations"
    (rule,) = words
    return Row(
        selector=row["selector"],
        field=row["field"],
        key=row.get("key"),
        rule=rule,
        value=row[rule],
        changes=row.get("changes", ()),
        violations=row.get("violations", ()),
    )


# --- asking the engine ---


def locate_all(
    mapping: CompiledMapping, document: JsonObject, worker: JqWorker
) -> dict[str, list[JsonPath]]:
    """What each selector of *mapping* finds in *document*."""
    queries = [selector.query for selector in mapping.selectors.values()]
    sources = tuple(dict.fromkeys([query.source for query in queries if query.plain is None]))
    locator = Locator(mapping, document, locate_by_jq(worker, sources, document))
    return {
        name: list(locator.places(selector).paths) for name, selector in mapping.selectors.items()
    }


def under(kind: GroupVersionKind, *rules: JsonObject) -> Snapshot:
    """What is in force where one GVKPolicy for *kind* has these *rules* and nobody else any."""
    target = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    document = parse_document(make_gvk_policy(*rules, kind=target), "contract")
    mappings = builtin().mappings
    return replace(
        builtin(),
        # What is refused at the first door is not changed there.
        settings=EngineSettings(refuse_early=False),
        policies=PolicySet(mappings, compile_policy(document, mappings)),
    )


@dataclass(frozen=True)
class Reviewed:
    """What became of an object at both doors: *document* is what it was made to be."""

    changes: list[str]
    judged: Decision
    document: JsonObject

    @property
    def violations(self) -> list[str]:
        return [to_pointer(item.path) for item in self.judged.violations]


def submit(snapshot: Snapshot, document: JsonObject, worker: JqWorker) -> Reviewed:
    """Like `tests.builders.submit`, for mappings that take jq as well."""
    decision, edited = _ask(snapshot, document, Phase.MUTATE, worker)
    patch = orjson.loads(orjson.dumps(decision.patch))
    patched = jsonpatch.apply_patch(copy.deepcopy(document), patch)
    assert patched == edited
    again, _ = _ask(snapshot, patched, Phase.MUTATE, worker)
    assert again.patch == []
    judged, _ = _ask(snapshot, patched, Phase.VALIDATE, worker)
    return Reviewed([to_pointer(change.path) for change in decision.changes], judged, patched)


def deviations(contract: Contract, worker: JqWorker) -> list[str]:
    """What each row that does not hold has done instead, under a policy of that row alone."""
    found: list[str] = []
    for row in contract.rows:
        name = f"{contract.name} {row.name}"
        try:
            reviewed = submit(under(contract.kind, rule_of(row)), contract.manifest, worker)
        except Exception as error:  # noqa: BLE001  A row that fails is told and hides no other.
            found.append(f"{name}: {error!r}")
            continue
        found += [
            f"{name}: {what} {got}, not {[*wanted]}"
            for what, got, wanted in (
                ("changes", reviewed.changes, row.changes),
                ("violations", reviewed.violations, row.violations),
            )
            if got != [*wanted]
        ]
    return found


def _ask(
    snapshot: Snapshot, document: JsonObject, phase: Phase, worker: JqWorker
) -> tuple[Decision, JsonObject]:
    request = make_request(copy.deepcopy(document))
    assert request.object is not None
    decision = answer_by_jq(
        worker, request.object, lambda answers: review(request, phase, snapshot, answers)
    )
    return decision, request.object


# --- policies about everything ---


def rule_of(row: Row) -> JsonObject:
    return make_rule(row.field, row.selector, row.enforcement)


def rules_on_everything(contract: Contract, worker: JqWorker) -> list[JsonObject]:
    """`blocked` on each field of each selector, and on each key that the manifest has in maps."""
    found = locate_all(contract.mapping, contract.manifest, worker)
    return [
        make_rule(field.name, name, {"blocked": {"key": key} if field.is_map else True})
        for name, selector in contract.mapping.selectors.items()
        for field in selector.fields.values()
        for key in (_keys_at(contract.manifest, found[name], field.ref) if field.is_map else [None])
    ]


def _keys_at(document: JsonObject, places: Sequence[JsonPath], ref: tuple[str, ...]) -> list[str]:
    keys: dict[str, None] = {}
    for path in places:
        value = read_ref(lookup(document, path), ref)
        keys |= dict.fromkeys(value if isinstance(value, dict) else ())
    return list(keys)


def rules_of_rows(contract: Contract) -> list[JsonObject]:
    """The rows as the rules of one policy; of those about one value, the last that writes."""
    rows = sorted(contract.rows, key=lambda row: bool(row.changes))
    by_value = {(row.selector, row.field, row.key): row for row in rows}
    return [rule_of(row) for row in by_value.values()]


def absences(
    value: JsonObject | list[Any], path: JsonPath = ()
) -> Iterator[tuple[str, JsonPath, Any]]:
    """
    What to put in place of each object and list below *value*: name, path, new value.

    It is null, and for lists and whole sections (`spec`) the empty one as well.
    """
    items: Iterable[tuple[str | int, Any]]
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, item in items:
        if isinstance(item, dict | list):
            where = (*path, key)
            yield f"{to_pointer(where)} null", where, None
            if isinstance(item, list) or not path:
                yield f"{to_pointer(where)} empty", where, type(item)()
            yield from absences(item, where)


def with_value(document: JsonObject, path: JsonPath, value: Any) -> JsonObject:
    """A copy of *document* with *value* at *path*."""
    changed = copy.deepcopy(document)
    node: Any = changed
    for token in path[:-1]:
        node = node[token]
    node[path[-1]] = value
    return changed
