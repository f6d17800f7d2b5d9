"""
What a native workload itself must satisfy, whatever policies say.

Our CRDs keep unknown fields and carry no types, so that values such as `500m` are taken and a
misspelt name is answered, not swallowed. What a structural schema would refuse is refused here:
unknown fields, wrong types, values outside enums and bounds, two items with one key, and fields
that don't go together (`policy.conditions`).

A problem names its field as policies do: `compute.gpuRequestType`, for items the attribute
behind the itemized field (`storage.pvc.claimInfo.size`); which item it is stands in *item*.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from webhook.model.decision import NOT_SHOWN, without_credentials
from webhook.model.names import did_you_mean, nearest
from webhook.model.pointer import Path
from webhook.model.values import FieldType, ValueTypeError, json_type, read_value, same_value
from webhook.policy.native.conditions import NO_SOURCE, Agreement, Condition, Finding, Reading
from webhook.policy.native.shape import Items, Leaf, Role, Rows, Section, Shape, shape_of
from webhook.policy.rules.judge import expected_type
from webhook.policy.rules.mounts import MOUNTS, mount_path

Kind: TypeAlias = Literal["type", "schema", "unique"]

# A printed value, name or list is cut here: the message has to stay readable.
_SHOWN_CHARS = 120
_SHOWN_ELEMENTS = 20

# Looking for the nearest name takes most of the time that an unknown field costs.
_MAX_SUGGESTED = 20

# Where the roles of a distributed training are described, for who writes them as policies do.
_ROLE_PLACES = {
    "master": 'the master is described by "masterSpec", beside "spec"',
    "masterspec": '"masterSpec" stands beside "spec", not in it',
    "worker": 'the workers are described by "spec" itself',
    "workerspec": 'the workers are described by "spec" itself',
}

# An answer shows the first few and a count; a small object can have millions.
_MAX_PROBLEMS = 1_000


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """
    One thing that is wrong with a native workload.

    *path* leads to the value, or to where it is missing. *selector* is the role. *item* is the
    key of an item, else its index. *value* is as printed, None where there is none or where it
    says nothing. *check* names what was checked. With *is_missing* there is no value and one is
    needed, which somebody may still fill in. *evidence* is what the values that were looked at
    mean: never to be printed.
    """

    path: Path
    field: str
    selector: str
    item: str
    kind: Kind
    problem: str
    value: Any
    accepted: str
    check: str
    badness: Any = 1
    is_missing: bool = False
    evidence: tuple[Any, ...] = dataclasses.field(default=(), repr=False, compare=False)

    @property
    def identity(self) -> tuple[str, ...]:
        """What an update has in common with the object before it."""
        return self.selector, self.field, self.item, self.check


def judge_native(workload_type: str, document: dict[str, Any], rows: Rows) -> list[SchemaProblem]:
    """
    What is wrong with *document*, an object of the native *workload_type*; the first 1,000.

    *rows* are those of the catalogue; what is made of them is kept for as long as the same
    mapping is given, which must not change.
    """
    return _find_problems(shape_of(workload_type, rows), document, _MAX_PROBLEMS)


def judge_native_update(
    workload_type: str, document: dict[str, Any], old: dict[str, Any], rows: Rows
) -> list[SchemaProblem]:
    """
    What an update from *old* to *document* makes wrong.

    A problem that *old* had with the same values, or worse, is not counted: an object from
    before a check must stay editable.
    """
    shape = shape_of(workload_type, rows)
    return _find_problems(shape, document, _MAX_PROBLEMS, _Before(shape, old).had)


class _Before:
    """The problems of the object before an update. It is judged when the first is asked for."""

    def __init__(self, shape: Shape, old: dict[str, Any]) -> None:
        self._shape = shape
        self._old = old
        self._problems: dict[tuple[str, ...], list[SchemaProblem]] | None = None

    def had(self, problem: SchemaProblem) -> bool:
        """Whether *problem* was there, with the same values or worse. Each counts once."""
        if self._problems is None:
            self._problems = defaultdict(list)
            for found in _find_problems(self._shape, self._old):
                self._problems[found.identity].append(found)
        candidates = self._problems.get(problem.identity, [])
        # The same problem before a worse one: that may be the past of another item.
        for excuses in (_is_same, _is_worse):
            # From the end, where one is taken out at no cost.
            for index in range(len(candidates) - 1, -1, -1):
                if excuses(candidates[index], problem):
                    del candidates[index]
                    return True
        return False


def _is_same(before: SchemaProblem, now: SchemaProblem) -> bool:
    return all(map(same_value, now.evidence, before.evidence))


def _is_worse(before: SchemaProblem, now: SchemaProblem) -> bool:
    return bool(now.badness < before.badness)


# -- judging --------------------------------------------------------------------------------


class _EnoughError(Exception):
    """So many problems were found that more say nothing."""


def _find_problems(
    shape: Shape,
    document: dict[str, Any],
    limit: int | None = None,
    excuse: Callable[[SchemaProblem], bool] | None = None,
) -> list[SchemaProblem]:
    judge = _Judge(shape, limit, excuse)
    with suppress(_EnoughError):
        judge.run(document)
    return judge.problems


@dataclass(slots=True)
class _Place:
    """A role or an item of the object, and what was read there. *bad* could not be read."""

    section: Section
    path: Path
    selector: str
    item: str = ""
    given: dict[str, Reading] = dataclasses.field(default_factory=dict)
    bad: set[str] = dataclasses.field(default_factory=set)
    # Of a role: the storage that is mounted, by path.
    mounted: dict[str, str] = dataclasses.field(default_factory=dict)


class _Judge:
    """Goes through one object once."""

    def __init__(
        self, shape: Shape, limit: int | None, excuse: Callable[[SchemaProblem], bool] | None
    ) -> None:
        self.problems: list[SchemaProblem] = []
        self._shape = shape
        self._limit = limit
        self._excuse = excuse
        self._suggestions = _MAX_SUGGESTED

    def run(self, document: dict[str, Any]) -> None:
        self._role(self._shape.root, document, ())

    def _role(self, role: Role, node: dict[str, Any], path: Path) -> None:
        place = _Place(role.section, path, role.selector)
        self._section(place, role.section, node, path)
        for child in role.section.children.values():
            # Without a spec there is still no leader in it.
            if isinstance(child, Role) and child.expected and node.get(child.name) is None:
                self._role(child, {}, (*path, child.name))
        self._check_conditions(place, role.conditions)

    def _section(self, place: _Place, section: Section, node: dict[str, Any], path: Path) -> None:
        for name, value in node.items():
            if value is None:
                continue
            child = section.children.get(name)
            at = (*path, name)
            match child:
                case Leaf():
                    self._leaf(place, child, value, at)
                case Section():
                    if not isinstance(value, dict):
                        self._wrong_type(place, child.field, at, value, "an object")
                        place.bad.update((child.name, *child.names()))
                    else:
                        if value:
                            place.given[child.name] = Reading(value, None)
                        self._section(place, child, value, at)
                case Items():
                    self._items(place, child, value, at)
                case Role():
                    if isinstance(value, dict):
                        place.given[child.name] = Reading(value, None)
                        self._role(child, value, at)
                    else:
                        self._wrong_type(place, child.name, at, value, "an object")
                        place.bad.add(child.name)
                case None:
                    self._unknown(place, section, name, value, at)

    def _leaf(self, place: _Place, leaf: Leaf, value: Any, path: Path) -> None:
        try:
            meaning = read_value(value, leaf.type)
        except ValueTypeError as error:
            shown = _shown(value, leaf)
            got = json_type(value) if shown == NOT_SHOWN else shown
            expected = expected_type(error.expected, got)
            self._wrong_type(place, leaf.field, path, value, expected, got=got)
            place.bad.add(leaf.name)
            return
        if not meaning and isinstance(meaning, (str, tuple, list, dict)):
            return
        place.given[leaf.name] = Reading(value, meaning)
        if not leaf.is_limited:
            return
        found = leaf.judge(meaning)
        if found is not None:
            name, finding = found
            self._add(
                place, leaf.field, path, "schema", name, finding, _shown(value, leaf), (meaning,)
            )

    def _items(self, place: _Place, items: Items, value: Any, path: Path) -> None:
        if not isinstance(value, list):
            expected = f'a list of objects with "{items.key}"'
            self._wrong_type(place, items.field, path, value, expected)
            return
        keys: set[str] = set()
        read: list[_Place] = []
        for index, node in enumerate(value):
            at = (*path, index)
            item = _Place(items.item, at, place.selector, str(index))
            if not isinstance(node, dict):
                expected = f'an object with "{items.key}"'
                self._wrong_type(item, items.field, at, node, expected)
                continue
            key = node.get(items.key)
            if isinstance(key, str) and key:
                item.item = key if len(key) <= _SHOWN_CHARS else f"{key[:_SHOWN_CHARS]}…"
                if key in keys:
                    self._same_key(item, items, at)
                keys.add(key)
            self._section(item, items.item, node, at)
            if node.get("exclude") is not True:
                # An excluded item only names what it leaves out.
                self._check_conditions(item, items.conditions)
                self._check_source(item, items, node)
                read.append(item)
        for agreement in items.agreements:
            self._check_agreement(agreement, items, read)
        if items.field in MOUNTS:
            self._check_mounts(place, items, read)

    def _check_mounts(self, place: _Place, items: Items, read: list[_Place]) -> None:
        """Kubernetes: two mounts of a container are at two paths."""
        attribute = MOUNTS[items.field]
        for item in read:
            reading = item.given.get(attribute)
            path = mount_path(reading.meaning) if reading is not None else ""
            if reading is None or not path:
                continue
            other = place.mounted.setdefault(path, f"{items.field} {item.item}")
            if other == f"{items.field} {item.item}":
                continue
            self._add(
                item,
                f"{items.field}.{attribute}",
                (*item.path, attribute),
                "schema",
                "mount",
                Finding(f"{other} is mounted there", "one item at each path"),
                _cut(reading.value),
                (path,),
            )

    def _same_key(self, item: _Place, items: Items, path: Path) -> None:
        finding = Finding(
            f"an item before it has the same {items.key}", f"one item of each {items.key}"
        )
        self._add(item, items.field, (*path, items.key), "unique", "unique", finding, None, ())

    def _check_source(self, item: _Place, items: Items, node: dict[str, Any]) -> None:
        """An item has one of its sources; an empty text is one too."""
        if not items.sources or any(node.get(name) not in (None, {}) for name in items.sources):
            return
        finding = Finding(NO_SOURCE, f"one of {', '.join(items.sources)}")
        name = f"{items.field}.{items.sources[0]}"
        path = (*item.path, items.sources[0])
        self._add(item, name, path, "schema", "source", finding, None, (), is_missing=True)

    def _check_conditions(self, place: _Place, conditions: Iterable[Condition]) -> None:
        for condition in conditions:
            if place.bad and not place.bad.isdisjoint((condition.field, *condition.reads)):
                continue
            finding = condition.check(place.given)
            if finding is None:
                continue
            name = finding.field or condition.field
            reading = place.given.get(name)
            evidence = tuple(
                _evidence(place.given.get(read)) for read in (condition.field, *condition.reads)
            )
            node = place.section.find(name)
            shown = None
            if isinstance(node, Leaf) and reading is not None:
                shown = _shown(reading.value, node)
            self._add(
                place,
                f"{place.section.field}.{name}" if place.section.field else name,
                (*place.path, *name.split(".")),
                "schema",
                condition.name,
                finding,
                None if shown == NOT_SHOWN else shown,
                evidence,
                is_missing=reading is None,
            )

    def _check_agreement(self, agreement: Agreement, items: Items, read: list[_Place]) -> None:
        first: Any = None
        for item in read:
            reading = item.given.get(agreement.attribute)
            if reading is None:
                continue
            if first is None:
                first = reading.value
            elif not same_value(first, reading.value):
                shown = _cut(first)
                finding = Finding("differs from an item before it", f"{shown} for all items")
                self._add(
                    item,
                    f"{items.field}.{agreement.attribute}",
                    (*item.path, agreement.attribute),
                    "schema",
                    agreement.name,
                    finding,
                    _cut(reading.value),
                    (first, reading.value),
                )

    def _unknown(self, place: _Place, section: Section, name: str, value: Any, path: Path) -> None:
        within = section.field
        shown = _cut(name)
        # The value is not shown: nobody knows what it was meant to be.
        finding = Finding("unknown field", self._suggest(name, section))
        full = f"{within}.{shown}" if within else shown
        self._add(place, full, path, "schema", "unknown", finding, None, (value,))

    def _suggest(self, name: str, section: Section) -> str:
        """What may have been meant: a name of this section, or one that is known elsewhere."""
        if self._suggestions <= 0:
            return ""
        self._suggestions -= 1
        siblings = section.children
        folded = name.casefold()
        root = self._shape.root.section
        if section is not root and "masterSpec" in root.children and folded in _ROLE_PLACES:
            return _ROLE_PLACES[folded]
        if folded not in map(str.casefold, siblings):
            homes = [known for known in section.names() if _last(known) == folded]
            if not homes and nearest(name, siblings) is None:
                homes = list(self._shape.homes.get(folded, ()))
            if homes:
                quoted = [f'"{home}"' for home in homes[:3]]
                return f"did you mean {' or '.join(quoted)}?"
        return did_you_mean(name, siblings).removeprefix("; ")

    def _wrong_type(
        self, place: _Place, name: str, path: Path, value: Any, expected: str, got: Any = None
    ) -> None:
        finding = Finding("has the wrong type", expected)
        got = json_type(value) if got is None else got
        self._add(place, name, path, "type", "type", finding, got, (value,))

    def _add(
        self,
        place: _Place,
        name: str,
        path: Path,
        kind: Kind,
        check: str,
        finding: Finding,
        value: Any,
        evidence: tuple[Any, ...],
        *,
        is_missing: bool = False,
    ) -> None:
        problem = SchemaProblem(
            path=path,
            field=name,
            selector=place.selector,
            item=place.item,
            kind=kind,
            problem=finding.problem,
            value=value,
            accepted=finding.accepted,
            check=check,
            badness=finding.badness,
            is_missing=is_missing,
            evidence=evidence,
        )
        if self._excuse is not None and self._excuse(problem):
            return
        self.problems.append(problem)
        if len(self.problems) == self._limit:
            raise _EnoughError


def _evidence(reading: Reading | None) -> Any:
    """What an update must have left alone: an amount in any spelling; that a section is there."""
    if reading is None:
        return None
    return True if reading.meaning is None else reading.meaning


def _last(name: str) -> str:
    return name.rpartition(".")[2].casefold()


def _shown(value: Any, leaf: Leaf) -> Any:
    """*value* as it may stand in a message."""
    if leaf.sensitive or leaf.type is FieldType.OBJECT:
        return NOT_SHOWN
    match value:
        case list():
            plain = all(isinstance(element, (str, int, float)) for element in value)
            short = len(value) <= _SHOWN_ELEMENTS
            return [_cut(element) for element in value] if plain and short else NOT_SHOWN
        case dict():
            return NOT_SHOWN
        case _:
            return _cut(value)


def _cut(value: Any) -> Any:
    """A plain value, no longer than a message can take."""
    match value:
        case bool():
            return value
        case str():
            value = without_credentials(value[: 4 * _SHOWN_CHARS])
            return value if len(value) <= _SHOWN_CHARS else f"{value[:_SHOWN_CHARS]}…"
        case int() if abs(value) >= 2**63:
            return f"an integer of {value.bit_length()} bits"
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)  # 1e3 was a number like any other to its author.
        case float() if value - value != 0:
            return str(value)  # No JSON has a number for it.
        case _:
            return value
