"""
Itemized fields of an object: default items are added, items of the same key completed, excluded
ones taken out and remembered; then the items are judged.

What was excluded is remembered in an annotation, so that a second pass does not add it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from webhook.mapping.codecs import Unreadable
from webhook.mapping.fields import Field
from webhook.mapping.homes import NO_HOME
from webhook.model.decision import NOT_SHOWN, NotApplied, Rule, Source
from webhook.model.pointer import Path, lookup
from webhook.model.values import ValueTypeError, read_value, same_value
from webhook.patch import Editor
from webhook.policy.agreement import broken_rule, refused_attributes
from webhook.policy.effective import ItemPlan
from webhook.policy.enforcement import ASKING, Derivation, Enforcement, derive
from webhook.policy.item_lists import (
    Item,
    Spot,
    attributes_of,
    content_value,
    item_list,
    means_the_same,
)
from webhook.policy.judge import Problem, expected_type, judge, show

EXCLUDED = "policy.gatewright.io/excluded"
_ANNOTATIONS: Path = ("metadata", "annotations")


@dataclass(frozen=True, slots=True)
class ItemChange:
    """A value that was written: where, of which item, by which enforcement, from which policy."""

    path: Path
    attribute: str
    item: str
    value: Any
    field: Field
    enforcement: Enforcement
    source: Source


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

    *name* is what the annotation calls it: its policy path. *path* leads to the items. *old* is
    the object before an update. Where not *is_main*, policies add nothing and ask for nothing:
    the place is a container beside the one that they mean.
    """

    def __init__(
        self,
        plan: ItemPlan,
        name: str,
        path: Path,
        editor: Editor,
        old: dict[str, Any] | None,
        old_path: Path | None,
        *,
        is_main: bool = True,
    ) -> None:
        self.plan = plan
        self._name = name
        self._editor = editor
        self._list = item_list(plan, editor.document, path)
        self._is_main = is_main
        self.not_applied: list[NotApplied] = []
        self._given = {item.meaning: item for item in plan.items}
        self._old = old
        self._is_update = old is not None
        # Without an old place nothing was there before.
        self._old_list = item_list(plan, old if old_path is not None else {}, old_path or ())
        self._before = self._old_list.items() if old_path is not None else []
        self._before_by_key = {item.key: item for item in reversed(self._before) if item.key}
        self._is_untouched = old_path is not None and same_value(
            self._old_list.raw(), self._list.raw()
        )

    # -- mutation ---------------------------------------------------------------------------

    def mutate(self) -> Iterator[ItemChange]:
        """Exclude, complete and add items. On an update only where the list was changed."""
        if self._is_untouched or not self._list.is_possible:
            return
        self._exclude()
        if not self._is_main:
            return
        for item in self._list.items():
            before = self._item_before(item)
            if before is None or not same_value(before.node, item.node):
                yield from self._complete(item)
        excluded = self._excluded()
        for key, enforcement in self._given.items():
            if key in excluded:
                continue
            if all(item.key != key for item in self._list.items()):
                obstacle = self._list.obstacle(enforcement.value)
                if obstacle:
                    self._leave_item_out(self._list.path, enforcement, obstacle)
                    continue
                path = self._list.add(self._editor, enforcement.value)
                yield self._change(path, "", key, NOT_SHOWN, enforcement)
                for item in self._list.items():
                    if item.key == key:
                        yield from self._complete_added(item)
            for path in self._list.spread(self._editor, enforcement.value):
                yield self._change(path, "", key, NOT_SHOWN, enforcement)
            for path, _ in self._list.crowded(enforcement.value):
                self._leave_item_out(path, enforcement, f"something else is where {key} has to be")

    def _exclude(self) -> None:
        """Take out what the submitter excludes. A key that no default has needs no memory."""
        excluded = self._excluded()
        kept = set()
        for item in reversed(self._list.items()):
            if not isinstance(item.node, dict) or item.node.get("exclude") is not True:
                kept.add(item.key)
                continue
            if item.key is not None and item.key in self._given:
                excluded.add(item.key)
            self._list.remove(self._editor, item)
        # One of the same key is there as well: two items with one key, which is judged.
        excluded -= kept
        if excluded != self._excluded():
            _remember(self._editor, self._name, excluded)

    def _complete(self, item: Item) -> Iterator[ItemChange]:
        """Fill the attributes that *item* lacks: from the default item of its key, then all."""
        given = self._given.get(item.key) if item.key is not None else None
        wanted: dict[str, tuple[Any, Enforcement]] = {}
        for attribute in attributes_of(self.plan.field):
            enforcement = self.plan.defaults.get(attribute)
            value = None if enforcement is None else enforcement.value
            own = None if given is None else content_value(given.value, attribute)
            if given is not None and own is not None:
                enforcement, value = given, own
            if enforcement is not None and not self._has_another_source(item, attribute):
                wanted[attribute] = value, enforcement
        refused = self._refused(item, {name: value for name, (value, _) in wanted.items()})
        for attribute, (value, enforcement) in wanted.items():
            if attribute in refused:
                self._leave_out(item, attribute, enforcement, refused[attribute])
            else:
                yield from self._fill(item, attribute, value, enforcement)
        yield from self._derive(item)

    def _complete_added(self, item: Item) -> Iterator[ItemChange]:
        """What a default item leaves to the defaults of all items; told with the item itself."""
        wanted = {name: default.value for name, default in self.plan.defaults.items()}
        refused = self._refused(item, wanted)
        for attribute, enforcement in self.plan.defaults.items():
            if attribute not in refused and not self._has_another_source(item, attribute):
                for _ in self._fill(item, attribute, enforcement.value, enforcement):
                    pass
        yield from self._derive(item)

    def _derive(self, item: Item) -> Iterator[ItemChange]:
        for attribute, enforcement in self.plan.derived.items():
            spots = self._list.spots(item, attribute)
            given = self._derived(item, attribute)
            if given is None or all(found is not None for _, found in spots):
                continue
            field = self.plan.field.attributes[attribute]
            reason = broken_rule(self.plan.judges.get(attribute, ()), field, given)
            reason = reason or self._refused(item, {attribute: given.value}).get(attribute, "")
            if reason:
                self._leave_out(item, attribute, enforcement, reason)
            else:
                yield from self._fill(item, attribute, given.value, enforcement)

    def _refused(self, item: Item, wanted: Mapping[str, Any]) -> Mapping[str, str]:
        """Which of the values *wanted* for attributes don't go with what *item* has, and why."""
        if self.plan.field.home is not NO_HOME or not wanted:
            return {}
        given: dict[str, Any] = {}
        for attribute in attributes_of(self.plan.field):
            for _, value in self._list.spots(item, attribute):
                if value is not None:
                    given[attribute] = value
        absent = {name: value for name, value in wanted.items() if name not in given}
        return refused_attributes(self.plan.field, given, absent)

    def _leave_item_out(self, path: Path, enforcement: Enforcement, reason: str) -> None:
        field, source = self.plan.field.name, enforcement.source
        self.not_applied.append(NotApplied(path, field, enforcement.rule, reason, source))

    def _leave_out(self, item: Item, attribute: str, enforcement: Enforcement, reason: str) -> None:
        path = (*item.path, *self.plan.field.attributes[attribute].ref)
        source = enforcement.source_of(attribute)
        field = f"{self.plan.field.name}.{attribute}"
        self.not_applied.append(NotApplied(path, field, enforcement.rule, reason, source))

    def _derived(self, item: Item, attribute: str) -> Enforcement | None:
        """What a `defaultFrom` gives for *attribute* of *item*; None if it gives nothing."""
        enforcement = self.plan.derived.get(attribute)
        if enforcement is None:
            return None
        derivation: Derivation = enforcement.meaning
        for _, source in self._list.spots(item, derivation.field):
            if source is None:
                continue
            try:
                given = derive(enforcement, source)
            except ValueTypeError:
                return None
            return None if given.value is None else given
        return None

    def _fill(
        self, item: Item, attribute: str, value: Any, enforcement: Enforcement
    ) -> Iterator[ItemChange]:
        for path in self._list.fill(self._editor, item, attribute, value):
            yield self._change(path, attribute, item.label, value, enforcement)

    def _change(
        self, path: Path, attribute: str, key: str, value: Any, enforcement: Enforcement
    ) -> ItemChange:
        field = self.plan.field.attributes[attribute] if attribute else self.plan.field
        source = enforcement.source_of(attribute)
        return ItemChange(path, attribute, key, value, field, enforcement, source)

    def _has_another_source(self, item: Item, attribute: str) -> bool:
        """Whether *item* has a name that excludes that of *attribute*: a variable has one."""
        exclusive = self.plan.field.exclusive
        name = attribute.partition(".")[0]
        if name not in exclusive:
            return False
        return any(
            value is not None
            for other in attributes_of(self.plan.field)
            if (first := other.partition(".")[0]) in exclusive and first != name
            for _, value in self._list.spots(item, other)
        )

    # -- judging ----------------------------------------------------------------------------

    def judge(self) -> Iterator[ItemProblem]:
        """Judge the items as they now are."""
        if self._is_untouched or not self._list.is_possible:
            return
        if self._is_main:
            yield from self._judge_additions()
            yield from self._judge_locked()
        for item in self._list.items():
            if isinstance(item.node, dict) or self.plan.field.home.items:
                yield from self._judge_attributes(item)

    def _judge_additions(self) -> Iterator[ItemProblem]:
        rule = self.plan.can_add
        if rule is None:
            return
        keys = ", ".join(sorted(self._given))
        wrong = "the policy does not allow {} items"
        accepted = f"only {keys}" if keys else "an empty list, or none"
        for item in self._list.items():
            before = self._item_before(item)
            if item.key not in self._given and (
                before is None or not same_value(before.node, item.node)
            ):
                problem = Problem(wrong.format("other" if keys else "any"), accepted)
                yield self._problem(item.path, "", item.label, rule, problem, item.key)

    def _judge_locked(self) -> Iterator[ItemProblem]:
        """Each locked default item is there, as the policy gives it."""
        items: dict[str | None, list[Item]] = {}
        for item in self._list.items():
            # One that is excluded is to go, though nobody may have taken it out yet.
            if not (isinstance(item.node, dict) and item.node.get("exclude") is True):
                items.setdefault(item.key, []).append(item)
        for key, rule in self.plan.locked.items():
            given = self._given.get(key)
            if given is None:
                continue  # It guards default items; without one there is nothing to guard.
            if key not in items:
                yield from self._judge_missing(key, rule)
            for item in items.get(key, ()):
                yield from self._judge_differences(item, given, rule)
            yield from self._judge_crowded(key, given, rule)
        if self.plan.kept is not None:
            for key in self._given:
                if key not in items and key not in self.plan.locked:
                    yield from self._judge_missing(key, self.plan.kept)

    def _judge_crowded(
        self, key: str, given: Enforcement, rule: Enforcement
    ) -> Iterator[ItemProblem]:
        """A locked volume is of no use to anybody who hides it behind another one."""
        if self._is_update and self._old_list.crowded(given.value):
            return
        for path, place in self._list.crowded(given.value):
            problem = Problem("the policy locks this item, and something else is in its place", "")
            yield self._problem(path, "", key, rule, problem, place)

    def _judge_missing(self, key: str, rule: Enforcement) -> Iterator[ItemProblem]:
        remembered = _remembered(self._old or {}).get(self._name, [])
        is_excluded = key in self._excluded() or self._is_excluded_here(key)
        was_missing = self._is_update and key not in self._before_by_key
        if was_missing and not (is_excluded and key not in remembered):
            return
        if is_excluded:
            mend = "leave its exclude out"
            if self.plan.field.home is not NO_HOME:
                mend = f"take it out of the annotation {EXCLUDED}"
            problem = Problem("the policy locks this item, and it is excluded", mend)
        else:
            problem = Problem(
                "the policy locks this item, and it is missing", "leave the list to the policy"
            )
        yield self._problem(self._list.path, "", key, rule, problem, None)

    def _is_excluded_here(self, key: str) -> bool:
        return any(
            item.key == key and isinstance(item.node, dict) and item.node.get("exclude") is True
            for item in self._list.items()
        )

    def _judge_differences(
        self, item: Item, given: Enforcement, rule: Enforcement
    ) -> Iterator[ItemProblem]:
        before = self._before_by_key.get(item.key)
        was_wrong = self._is_update and (
            before is None or next(self._differences(given, before, self._old_list), None)
        )
        for attribute, path, value in self._differences(given, item, self._list):
            if was_wrong and before is not None and self._had(before, attribute, value):
                continue
            field = self.plan.field.attributes[attribute]
            wanted = content_value(given.value, attribute)
            accepted = f"only {show(wanted)}" if wanted is not None else "no value"
            if field.sensitive:
                accepted = "leave the item out"
            problem = Problem("the policy locks this item", accepted)
            yield self._problem(path, attribute, item.label, rule, problem, value)

    def _differences(
        self, given: Enforcement, item: Item, where: Any
    ) -> Iterator[tuple[str, Path, Any]]:
        """Attributes in which *item* is not as the policy makes it, and where."""
        for attribute in attributes_of(self.plan.field):
            field = self.plan.field.attributes[attribute]
            wanted = content_value(given.value, attribute)
            if wanted is None and attribute in self.plan.defaults:
                wanted = self.plan.defaults[attribute].value
            if wanted is None and attribute in self.plan.derived:
                derived = self._derived(item, attribute)
                wanted = None if derived is None else derived.value
            for path, value in where.spots(item, attribute):
                if attribute == self.plan.field.item_key and value is None:
                    continue  # It was told by all the rest.
                if not means_the_same(field, wanted, value):
                    yield attribute, path, value

    def _had(self, before: Item, attribute: str, value: Any) -> bool:
        return any(same_value(old, value) for _, old in self._old_list.spots(before, attribute))

    def _judge_attributes(self, item: Item) -> Iterator[ItemProblem]:
        before = self._item_before(item)
        for attribute, rules in self.plan.judges.items():
            field = self.plan.field.attributes[attribute]
            old = () if before is None else self._old_list.spots(before, attribute)
            held = rules if self._is_main else [r for r in rules if r.rule not in ASKING]
            report = partial(self._problem, attribute=attribute, key=item.label)
            for spot in self._list.spots(item, attribute):
                if not any(_is_same(field, past, spot) for past in old):
                    yield from self._judge_value(item, spot, attribute, held, old, report)

    def _judge_value(
        self,
        item: Item,
        spot: Spot,
        attribute: str,
        rules: Any,
        old: Any,
        report: Any,
    ) -> Iterator[ItemProblem]:
        path, value = spot
        minimum = next((rule for rule in rules if rule.rule is Rule.MIN), None)
        for rule in rules:
            try:
                meaning = None if value is None else read_value(value, rule.type)
            except ValueTypeError as error:
                problem = Problem("has the wrong type", expected_type(error.expected, value))
                yield report(path=path, rule=rule, problem=problem, value=value, told=Rule.TYPE)
                return
            standard = self._standard(item, attribute)
            found = judge(rule, meaning, default=standard, minimum=minimum, beside=rules)
            if found is not None and not self._is_less_bad(rule, found, meaning, old):
                yield report(path=path, rule=rule, problem=found, value=value)

    def _standard(self, item: Item, attribute: str) -> Enforcement | None:
        """What canEdit compares an attribute with: the default item's, else that of all items."""
        given = self._given.get(item.key) if item.key is not None else None
        field = self.plan.field.attributes[attribute]
        own = None if given is None else content_value(given.value, attribute)
        if given is None or own is None or field.type is None:
            return self.plan.defaults.get(attribute) or self._derived(item, attribute)
        source = given.source_of(attribute)
        return Enforcement(Rule.DEFAULT, own, read_value(own, field.type), field.type, source)

    def _is_less_bad(
        self, rule: Enforcement, found: Problem, meaning: Any, old: list[Spot]
    ) -> bool:
        """Whether an update broke *rule* here before, and is now nearer to keeping it."""
        for _, value in old:
            try:
                before = None if value is None else read_value(value, rule.type)
            except ValueTypeError:
                continue
            was = None if before is None else judge(rule, before)
            if was is None:
                continue
            if isinstance(before, tuple) and isinstance(meaning, tuple):
                # The bad elements of a list may stay where they are; new ones may not come.
                added = tuple([element for element in meaning if element not in before])
                return judge(rule, added) is None
            return bool(found.badness < was.badness)
        return False

    # -- reading ----------------------------------------------------------------------------

    def _item_before(self, item: Item) -> Item | None:
        """The item of the same key before an update; without a key, the one at its position."""
        if item.key is not None:
            return self._before_by_key.get(item.key)
        index = item.path[-1]
        for before in self._before:
            if before.key is None and before.path[-1] == index:
                return before
        return None

    def _excluded(self) -> set[str]:
        return set(_remembered(self._editor.document).get(self._name, ()))

    def _problem(
        self,
        path: Path,
        attribute: str,
        key: str,
        rule: Enforcement,
        problem: Problem,
        value: Any,
        told: Rule | None = None,
    ) -> ItemProblem:
        field = self.plan.field.attributes.get(attribute, self.plan.field)
        if not attribute:
            # The key of an item tells no secret, whatever its values are.
            field = self.plan.field.attributes.get(self.plan.field.item_key, field)
        if told is None:
            told = Rule.LOCKED if rule.rule is Rule.IMPOSED else rule.rule
        if isinstance(value, Unreadable):
            value = value.raw
        return ItemProblem(path, attribute, key, told, problem, value, field, rule.source)


def _is_same(field: Field, before: Spot, now: Spot) -> bool:
    """Whether a value was there before, in this or another spelling (`10` and `"10"`)."""
    if same_value(before[1], now[1]):
        return True
    return now[1] is not None and means_the_same(field, before[1], now[1])


def _remembered(document: dict[str, Any]) -> dict[str, list[str]]:
    """What the annotation says; nothing where it is no such thing (anybody can write it)."""
    text = lookup(document, (*_ANNOTATIONS, EXCLUDED))
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


def _remember(editor: Editor, name: str, keys: set[str]) -> None:
    """Write into the annotation that *keys* of the field *name* are excluded."""
    for depth in range(1, len(_ANNOTATIONS) + 1):
        node = lookup(editor.document, _ANNOTATIONS[:depth])
        if node is not None and not isinstance(node, dict):
            return  # Kubernetes refuses such an object.
    remembered: Mapping[str, list[str]] = {
        **_remembered(editor.document),
        name: sorted(keys),
    }
    kept = {field: items for field, items in remembered.items() if items}
    if not kept:
        editor.remove((*_ANNOTATIONS, EXCLUDED))
        return
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    editor.write((*_ANNOTATIONS, EXCLUDED), text)
