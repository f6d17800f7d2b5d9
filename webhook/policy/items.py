"""
Itemized fields of an object: default items are added, items of the same key completed, excluded
ones taken out and remembered; then the items are judged.

What was excluded is remembered in an annotation, so that a second pass does not add it again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from webhook.mapping.fields import Field, RefMismatchError, read_ref
from webhook.mapping.locate import is_free
from webhook.model.decision import NOT_SHOWN, Rule, Source
from webhook.model.pointer import Path, lookup
from webhook.model.values import ValueTypeError, read_value, same_value
from webhook.patch import Editor
from webhook.policy.effective import ItemPlan
from webhook.policy.enforcement import Enforcement
from webhook.policy.judge import Problem, judge, show

EXCLUDED = "policy.gatewright.io/excluded"
_ANNOTATION: Path = ("metadata", "annotations", EXCLUDED)


@dataclass(frozen=True, slots=True)
class ItemChange:
    """A value that was written: where, of which item, by which enforcement."""

    path: Path
    attribute: str
    item: str
    value: Any
    field: Field
    enforcement: Enforcement


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """A rule that an item, or the list as a whole, breaks."""

    path: Path
    attribute: str
    item: str
    rule: Rule
    problem: Problem
    value: Any
    field: Field
    source: Source


class ItemizedField:
    """
    One itemized field at one place.

    *name* is what the annotation calls it: its policy path. *path* leads to the list. *old* is
    the object before an update.
    """

    def __init__(
        self,
        plan: ItemPlan,
        name: str,
        path: Path,
        editor: Editor,
        old: dict[str, Any] | None,
        old_path: Path | None,
    ) -> None:
        self.plan = plan
        self._name = name
        self._path = path
        self._editor = editor
        self._key = plan.field.item_key
        self._default_items = {item.meaning: item for item in plan.items}
        self._old = old
        self._is_update = old is not None
        before = lookup(old, old_path) if old_path is not None else None
        self._before = before if isinstance(before, list) else []
        self._before_by_key = {self._key_of(item): item for item in reversed(self._before)}
        self._is_untouched = old_path is not None and same_value(before, self._current())

    # -- mutation ---------------------------------------------------------------------------

    def mutate(self) -> Iterator[ItemChange]:
        """Exclude, complete and add items. On an update only where the list was changed."""
        if self._is_untouched or not self._is_list():
            return
        self._exclude()
        for index, item in enumerate(self._items()):
            if isinstance(item, dict) and not same_value(self._item_before(item, index), item):
                yield from self._complete((*self._path, index), item)
        present = {self._key_of(item) for item in self._items()}
        excluded = self._excluded()
        for key, enforcement in self._default_items.items():
            if key in present or key in excluded:
                continue
            item = copy.deepcopy(enforcement.value)
            for attribute, default in self.plan.defaults.items():
                _fill(item, self.plan.field.attributes[attribute].ref, default.value)
            if isinstance(self._current(), list):
                path: Path = (*self._path, len(self._items()))
                self._editor.write(path, item)
            else:
                path = (*self._path, 0)
                self._editor.write(self._path, [item])
            yield ItemChange(path, "", key, NOT_SHOWN, self.plan.field, enforcement)

    def _exclude(self) -> None:
        """Take out what the submitter excludes. A key that no default has needs no memory."""
        excluded = self._excluded()
        for index in range(len(self._items()) - 1, -1, -1):
            item = self._items()[index]
            if isinstance(item, dict) and item.get("exclude") is True:
                key = self._key_of(item)
                if key is not None and key in self._default_items:
                    excluded.add(key)
                self._editor.remove((*self._path, index))
        if excluded != self._excluded() and is_free(self._editor.document, _ANNOTATION):
            remembered = _remembered(self._editor.document)
            remembered[self._name] = sorted(excluded)
            text = json.dumps(remembered, sort_keys=True, separators=(",", ":"))
            self._editor.write(_ANNOTATION, text)

    def _complete(self, path: Path, item: dict[str, Any]) -> Iterator[ItemChange]:
        """Fill the attributes that *item* lacks: from the default item of its key, then all."""
        key = self._key_of(item) or ""
        default = self._default_items.get(key)
        for attribute, field in self.plan.field.attributes.items():
            enforcement = self.plan.defaults.get(attribute)
            value = None if enforcement is None else enforcement.value
            if default is not None:
                own = read_ref(default.value, field.ref)
                if own is not None:
                    enforcement, value = default, own
            if enforcement is None or self._has_another_source(item, field.ref[0]):
                continue
            try:
                if read_ref(item, field.ref) is not None:
                    continue
            except RefMismatchError:
                continue
            self._editor.write((*path, *field.ref), value)
            yield ItemChange((*path, *field.ref), attribute, key, value, field, enforcement)

    def _has_another_source(self, item: dict[str, Any], name: str) -> bool:
        """Whether *item* has one of the names that exclude *name*: a variable has one source."""
        exclusive = self.plan.field.exclusive
        return name in exclusive and any(
            item.get(other) is not None for other in exclusive if other != name
        )

    # -- judging ----------------------------------------------------------------------------

    def judge(self) -> Iterator[ItemProblem]:
        """Judge the items as they now are."""
        if self._is_untouched or not self._is_list():
            return
        yield from self._judge_additions()
        yield from self._judge_locked()
        for index, item in enumerate(self._items()):
            if isinstance(item, dict):
                yield from self._judge_attributes((*self._path, index), item)

    def _judge_additions(self) -> Iterator[ItemProblem]:
        rule = self.plan.can_add
        if rule is None:
            return
        keys = ", ".join(sorted(self._default_items))
        accepted = f"only {keys}" if keys else "no items"
        for index, item in enumerate(self._items()):
            key = self._key_of(item)
            if key not in self._default_items and self._item_before(item, index) is None:
                problem = Problem("the policy does not allow other items", accepted)
                path = (*self._path, index)
                yield self._problem(path, "", key or str(index), rule, problem, key)

    def _judge_locked(self) -> Iterator[ItemProblem]:
        """Each locked default item is there, as the policy gives it."""
        items = {self._key_of(item): (index, item) for index, item in enumerate(self._items())}
        before = self._before_by_key
        for key, rule in self.plan.locked.items():
            default = self._default_items.get(key)
            if default is None:
                continue  # It guards default items; without one there is nothing to guard.
            found = items.get(key)
            if found is not None and found[1].get("exclude") is True:
                found = None  # It is to go, though nobody has taken it out yet.
            was_wrong = self._is_update and (
                key not in before or next(self._differences(default, before[key]), None) is not None
            )
            if found is None:
                remembered = _remembered(self._old or {}).get(self._name, [])
                newly = key in self._excluded() and key not in remembered
                if newly or not (was_wrong and key not in before):
                    problem = Problem(
                        "the policy locks this item, and it is missing", "as the policy gives it"
                    )
                    yield self._problem(self._path, "", key, rule, problem, None)
                continue
            index, item = found
            for attribute in self._differences(default, item):
                if was_wrong and _same_attribute(self.plan.field, attribute, before.get(key), item):
                    continue
                field = self.plan.field.attributes[attribute]
                wanted = read_ref(default.value, field.ref)
                accepted = NOT_SHOWN if field.sensitive else show(wanted)
                problem = Problem(
                    "the policy locks this item",
                    f"only {accepted}" if wanted is not None else "no value",
                )
                path = (*self._path, index, *field.ref)
                value = lookup(item, field.ref)
                yield self._problem(path, attribute, key, rule, problem, value)

    def _differences(self, default: Enforcement, item: Any) -> Iterator[str]:
        """Attributes in which *item* is not as the policy makes it."""
        for attribute, field in self.plan.field.attributes.items():
            wanted = read_ref(default.value, field.ref)
            if wanted is None and attribute in self.plan.defaults:
                wanted = self.plan.defaults[attribute].value
            if not _means_the_same(field, wanted, lookup(item, field.ref)):
                yield attribute

    def _judge_attributes(self, path: Path, item: dict[str, Any]) -> Iterator[ItemProblem]:
        key = self._key_of(item) or str(path[-1])
        before = self._item_before(item, path[-1])
        for attribute, rules in self.plan.judges.items():
            field = self.plan.field.attributes[attribute]
            value = lookup(item, field.ref)
            if before is not None and same_value(lookup(before, field.ref), value):
                continue
            minimum = next((rule for rule in rules if rule.rule is Rule.MIN), None)
            for rule in rules:
                try:
                    meaning = None if value is None else read_value(value, rule.type)
                except ValueTypeError as error:
                    problem = Problem("has the wrong type", error.expected)
                    at = (*path, *field.ref)
                    yield ItemProblem(
                        at, attribute, key, Rule.TYPE, problem, value, field, rule.source
                    )
                    break
                standard = self._standard(key, attribute)
                found = judge(rule, meaning, default=standard, minimum=minimum)
                if found is not None and not self._is_less_bad(rule, found, before, field):
                    yield self._problem((*path, *field.ref), attribute, key, rule, found, value)

    def _standard(self, key: str, attribute: str) -> Enforcement | None:
        """What canEdit compares an attribute with: the default item's, else that of all items."""
        default = self._default_items.get(key)
        common = self.plan.defaults.get(attribute)
        if default is None:
            return common
        field = self.plan.field.attributes[attribute]
        own = read_ref(default.value, field.ref)
        if own is None or field.type is None:
            return common
        return Enforcement(
            Rule.DEFAULT, own, read_value(own, field.type), field.type, default.source
        )

    def _is_less_bad(
        self, rule: Enforcement, found: Problem, before: dict[str, Any] | None, field: Field
    ) -> bool:
        old = None if before is None else lookup(before, field.ref)
        try:
            was = None if old is None else judge(rule, read_value(old, rule.type))
        except ValueTypeError:
            return False
        return was is not None and bool(found.badness < was.badness)

    # -- reading ----------------------------------------------------------------------------

    def _is_list(self) -> bool:
        """Whether a list is there, or may be. What else stands here is of a wrong type."""
        current = self._current()
        if current is None:
            return is_free(self._editor.document, self._path)
        return isinstance(current, list)

    def _current(self) -> Any:
        return lookup(self._editor.document, self._path)

    def _items(self) -> list[Any]:
        current = self._current()
        return current if isinstance(current, list) else []

    def _key_of(self, item: Any) -> str | None:
        key = item.get(self._key) if isinstance(item, dict) else None
        return key if isinstance(key, str) and key else None

    def _item_before(self, item: dict[str, Any], index: Any) -> dict[str, Any] | None:
        """The item of the same key before an update, else the one at the same position."""
        key = self._key_of(item)
        if key is not None:
            candidate = self._before_by_key.get(key)
            return candidate if isinstance(candidate, dict) else None
        if isinstance(index, int) and index < len(self._before):
            candidate = self._before[index]
            return candidate if isinstance(candidate, dict) else None
        return None

    def _excluded(self) -> set[str]:
        return set(_remembered(self._editor.document).get(self._name, ()))

    def _problem(
        self, path: Path, attribute: str, key: str, rule: Enforcement, problem: Problem, value: Any
    ) -> ItemProblem:
        field = self.plan.field.attributes.get(attribute, self.plan.field)
        if not attribute:
            # The key of an item tells no secret, whatever its values are.
            field = self.plan.field.attributes.get(self._key, field)
        told = Rule.LOCKED if rule.rule is Rule.IMPOSED else rule.rule
        return ItemProblem(path, attribute, key, told, problem, value, field, rule.source)


def _remembered(document: dict[str, Any]) -> dict[str, list[str]]:
    """What the annotation says; nothing where it is no such thing (anybody can write it)."""
    text = lookup(document, _ANNOTATION)
    try:
        read = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(read, dict):
        return {}
    return {
        name: keys
        for name, keys in read.items()
        if isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    }


def _fill(item: dict[str, Any], ref: tuple[str, ...], value: Any) -> None:
    if read_ref(item, ref) is None:
        node = item
        for name in ref[:-1]:
            node = node.setdefault(name, {})
        node[ref[-1]] = copy.deepcopy(value)


def _means_the_same(field: Field, one: Any, other: Any) -> bool:
    if one is None or other is None or field.type is None:
        return one is None and other is None
    try:
        return bool(read_value(one, field.type) == read_value(other, field.type))
    except ValueTypeError:
        return False


def _same_attribute(field: Field, attribute: str, before: Any, item: Any) -> bool:
    ref = field.attributes[attribute].ref
    return same_value(lookup(before, ref), lookup(item, ref))
