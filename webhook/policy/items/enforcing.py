"""
Itemized fields of an object: default items are added, items of the same key completed, excluded
ones taken out and remembered; then the items are judged.

What was excluded is remembered in an annotation, so that a second pass does not add it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from webhook.mapping.homes import NO_HOME
from webhook.model.decision import NOT_SHOWN, NotApplied, Rule
from webhook.model.pointer import Path, lookup
from webhook.model.values import ValueTypeError, read_value, same_value
from webhook.patch import Editor
from webhook.policy.items.exclusions import remember, remembered
from webhook.policy.items.findings import ItemChange, ItemProblem, broken_item, written_item
from webhook.policy.items.lists import Item, Spot
from webhook.policy.items.past import PastItems, PastValues
from webhook.policy.items.sets import ItemSets
from webhook.policy.items.storage import item_list
from webhook.policy.items.values import (
    attributes_of,
    content_value,
    says_the_same,
)
from webhook.policy.native.agreement import broken_rule, refused_attributes
from webhook.policy.plans import ItemPlan
from webhook.policy.rules.enforcement import ASKING, Derivation, Enforcement, derive
from webhook.policy.rules.item_names import EXCLUDED
from webhook.policy.rules.judge import Problem, expected_type, judge, judge_mistyped, show

__all__ = ["EXCLUDED", "ItemChange", "ItemProblem", "ItemizedField"]


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
        # Where items have no name, two that are equal are one: the first.
        self._given: dict[str, Enforcement] = {}
        for item in plan.items:
            self._given.setdefault(self._list.key_of_given(item), item)
        names = {item.meaning: self._list.key_of_given(item) for item in plan.items}
        self._keyed: dict[str | None, dict[str, tuple[Enforcement, ...]]] = {}
        for (key, attribute), rules in plan.keyed.items():
            self._keyed.setdefault(key, {})[attribute] = rules
        self._locked: dict[str, Enforcement] = {}
        for key, rule in plan.locked.items():
            self._locked.setdefault(names.get(key, key), rule)
        self._old = old
        self._past = PastItems(plan, old, old_path)
        self._sets = ItemSets(plan, self._list, self._past, editor)
        self._is_untouched = old_path is not None and same_value(
            self._past.list.raw(), self._list.raw()
        )

    # -- mutation ---------------------------------------------------------------------------

    def mutate(self) -> Iterator[ItemChange]:
        """Exclude, complete and add items. On an update only where the list was changed."""
        if self._is_untouched or not self._list.is_possible:
            return
        self._list.forget()
        excluded = self._exclude()
        if self._is_main:
            yield from self._sets.mutate()
            for item in self._list.items():
                if not self._past.had_whole(item, self._list):
                    yield from self._complete(item)
        # What is written by then tells which items are there, as it does in a second pass.
        there = {item.key for item in self._list.items()}
        self._remember(excluded - there)
        if self._is_main:
            self._list.forget()
            yield from self._add(there)

    def _exclude(self) -> set[str]:
        """Take out what the submitter excludes; the keys of all that are excluded."""
        excluded = self._excluded()
        for item in reversed(self._list.items()):
            if not isinstance(item.node, dict) or item.node.get("exclude") is not True:
                continue
            # One that a policy sets comes back, and one that no default has needs no memory.
            if item.key in self._given and item.key not in self.plan.sets:
                excluded.add(str(item.key))
            self._list.remove(self._editor, item)
        return excluded

    def _remember(self, excluded: set[str]) -> None:
        if excluded != self._excluded():
            remember(self._editor, self._name, excluded)

    def _add(self, there: set[str | None]) -> Iterator[ItemChange]:
        """Add the items that are not *there*, and make each reach every container."""
        excluded = self._excluded()
        for key, enforcement in self._given.items():
            if key in excluded:
                continue
            if key not in there:
                obstacle = self._list.obstacle(enforcement.value)
                if obstacle:
                    self._leave_item_out(self._list.path, enforcement, obstacle)
                    continue
                path = self._list.add(self._editor, enforcement.value)
                yield self._change(path, "", key, NOT_SHOWN, enforcement)
                node = lookup(self._editor.document, path)
                yield from self._complete_added(Item(key, path, node))
            for path in self._list.spread(self._editor, enforcement.value):
                yield self._change(path, "", key, NOT_SHOWN, enforcement)
            # A native item has its mount in itself.
            is_spread = self.plan.field.home is not NO_HOME
            for path, _ in self._list.crowded(enforcement.value) if is_spread else ():
                self._leave_item_out(path, enforcement, f"something else is where {key} has to be")

    def _complete(self, item: Item) -> Iterator[ItemChange]:
        """Fill the attributes that *item* lacks: from the default item of its key, then all."""
        wanted = self._wanted(item)
        refused = self._refused(item, {name: value for name, (value, _) in wanted.items()})
        for attribute, (value, enforcement) in wanted.items():
            if attribute in refused:
                self._leave_out(item, attribute, enforcement, refused[attribute])
            else:
                yield from self._fill(item, attribute, value, enforcement)
        yield from self._derive(item)

    def _complete_added(self, item: Item) -> Iterator[ItemChange]:
        """What a default item leaves to the defaults of all items; told with the item itself."""
        wanted = self._wanted(item)
        refused = self._refused(item, {name: value for name, (value, _) in wanted.items()})
        for attribute, (value, enforcement) in wanted.items():
            filled = () if attribute in refused else self._fill(item, attribute, value, enforcement)
            for change in filled:
                # The submitter may have mounted the volume that nobody had brought along.
                if change.path[: len(item.path)] != item.path:
                    yield change
        yield from self._derive(item)

    def _wanted(self, item: Item) -> dict[str, tuple[Any, Enforcement]]:
        """What *item* has to have in each attribute, and whose word that is."""
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
        return wanted

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
        return written_item(self.plan, path, attribute, key, value, enforcement)

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
        if not self._list.is_possible:
            return
        self._list.forget()
        items = self._list.items()
        if self._is_untouched:
            # What is beside the list may have changed, and hide an item that is in it.
            there = {item.key for item in items}
            for key, rule in self._locked.items() if self._is_main else ():
                if key in there:
                    yield from self._judge_crowded(key, rule)
            return
        if self._is_main:
            yield from self._judge_additions(items)
            yield from self._judge_locked(items)
            yield from self._sets.judge()
        for item in items:
            if isinstance(item.node, dict) or self.plan.field.home.items:
                yield from self._judge_attributes(item)

    def _judge_additions(self, items: list[Item]) -> Iterator[ItemProblem]:
        rule = self.plan.can_add
        if rule is None:
            return
        known = {*self._given, *self.plan.sets}
        keys = ", ".join(sorted(known))
        wrong = "the policy does not allow {} items"
        accepted = f"only {keys}" if keys else "an empty list, or none"
        for item in items:
            if item.key not in known and not self._past.had(item):
                problem = Problem(wrong.format("other" if keys else "any"), accepted)
                yield self._problem(item.path, "", item.label, rule, problem, item.key)

    def _judge_locked(self, items: list[Item]) -> Iterator[ItemProblem]:
        """Each locked default item is there, as the policy gives it."""
        by_key: dict[str | None, list[Item]] = {}
        excluded: set[str | None] = {*self._excluded()}
        for item in items:
            # One that is excluded is to go, though nobody may have taken it out yet.
            if isinstance(item.node, dict) and item.node.get("exclude") is True:
                excluded.add(item.key)
            else:
                by_key.setdefault(item.key, []).append(item)
        missing: list[tuple[str, Enforcement]] = []
        for key, rule in self._locked.items():
            given = self._given.get(key)
            if given is None:
                continue  # It guards default items; without one there is nothing to guard.
            crowded = list(self._judge_crowded(key, rule))
            if key not in by_key and not (crowded and key not in excluded):
                missing.append((key, rule))
            for item in by_key.get(key, ()):
                yield from self._judge_differences(item, given, rule)
            yield from crowded
        if self.plan.kept is not None:
            missing += [
                (key, self.plan.kept)
                for key in self._given
                if key not in by_key and key not in self._locked
            ]
        yield from self._judge_missing(missing, excluded)

    def _judge_crowded(self, key: str, rule: Enforcement) -> Iterator[ItemProblem]:
        """A locked volume is of no use to anybody who hides it behind another one."""
        given = self._given.get(key)
        if given is None or (self._past.is_update and self._past.list.crowded(given.value)):
            return
        for path, place in self._list.crowded(given.value):
            problem = Problem(
                "the policy locks this item, and something else is in its place",
                "another mount path",
            )
            yield self._problem(path, "", key, rule, problem, place)

    def _judge_missing(
        self, missing: list[tuple[str, Enforcement]], excluded: set[str | None]
    ) -> Iterator[ItemProblem]:
        known = remembered(self._old or {}).get(self._name, []) if missing else []
        for key, rule in missing:
            was_missing = self._past.is_update and key not in self._past.by_key
            if was_missing and not (key in excluded and key not in known):
                continue
            if key in excluded:
                mend = "leave its exclude out"
                if self.plan.field.home is not NO_HOME:
                    mend = f"take it out of the annotation {EXCLUDED}"
                problem = Problem("the policy locks this item, and it is excluded", mend)
            else:
                problem = Problem(
                    "the policy locks this item, and it is missing", "leave the list to the policy"
                )
            yield self._problem(self._list.path, "", key, rule, problem, None)

    def _judge_differences(
        self, item: Item, given: Enforcement, rule: Enforcement
    ) -> Iterator[ItemProblem]:
        before = self._past.of(item)
        was_wrong = self._past.is_update and (
            before is None or next(self._differences(given, before, self._past.list), None)
        )
        for attribute, (path, value), wanted in self._differences(given, item, self._list):
            if was_wrong and self._past.values(before, attribute).has_exactly(value):
                continue
            field = self.plan.field.attributes[attribute]
            accepted = f"only {show(wanted)}" if wanted is not None else "no value"
            if field.sensitive:
                accepted = "leave the item out"
            problem = Problem("the policy locks this item", accepted)
            yield self._problem(path, attribute, item.label, rule, problem, value)

    def _differences(
        self, given: Enforcement, item: Item, where: Any
    ) -> Iterator[tuple[str, Spot, Any]]:
        """Attributes in which *item* is not as the policy makes it, where, and what that is."""
        for attribute in attributes_of(self.plan.field):
            wanted = self._list.policy_value(given.value, attribute)
            if wanted is None and attribute in self.plan.derived:
                derived = self._derived(item, attribute)
                wanted = None if derived is None else derived.value
            for path, value in where.spots(item, attribute):
                if attribute == self.plan.field.item_key:
                    continue  # It has the key, or was told by all the rest.
                if not says_the_same(self.plan.field, attribute, wanted, value):
                    yield attribute, (path, value), wanted

    def _judge_attributes(self, item: Item) -> Iterator[ItemProblem]:
        before = self._past.of(item)
        for attribute, rules in self._rules_of(item).items():
            old = self._past.values(before, attribute)
            held = rules if self._is_main else [r for r in rules if r.rule not in ASKING]
            report = partial(self._problem, attribute=attribute, key=item.label)
            for spot in self._list.spots(item, attribute):
                if not old.has(spot[1]):
                    yield from self._judge_value(item, spot, attribute, held, old, report)

    def _rules_of(self, item: Item) -> Mapping[str, tuple[Enforcement, ...]]:
        """The rules of each attribute: those on the item of this key, then those on all."""
        rules = self.plan.judges
        own = self._keyed.get(item.key, {})
        of_both = {name: (*those, *rules.get(name, ())) for name, those in own.items()}
        return {**rules, **of_both} if of_both else rules

    def _judge_value(
        self,
        item: Item,
        spot: Spot,
        attribute: str,
        rules: Any,
        old: PastValues,
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
                for other in rules:
                    standard = self._standard(item, attribute)
                    found = judge_mistyped(other, value, default=standard)
                    if found is not None:
                        yield report(path=path, rule=other, problem=found, value=value)
                return
            standard = self._standard(item, attribute)
            found = judge(rule, meaning, default=standard, minimum=minimum, beside=rules)
            if (
                found is not None
                and not self._is_standard(rule, standard, attribute, value)
                and not old.is_less_bad(rule, found, meaning)
            ):
                yield report(path=path, rule=rule, problem=found, value=value)

    def _is_standard(
        self, rule: Enforcement, standard: Enforcement | None, attribute: str, value: Any
    ) -> bool:
        """Whether *rule* only asks for the default, and *value* is it in another spelling."""
        if rule.rule is not Rule.CAN_EDIT or standard is None:
            return False
        return says_the_same(self.plan.field, attribute, standard.value, value)

    def _standard(self, item: Item, attribute: str) -> Enforcement | None:
        """What canEdit compares an attribute with: the default item's, else that of all items."""
        given = self._given.get(item.key) if item.key is not None else None
        field = self.plan.field.attributes[attribute]
        own = None if given is None else content_value(given.value, attribute)
        if given is None or own is None or field.type is None:
            return self.plan.defaults.get(attribute) or self._derived(item, attribute)
        source = given.source_of(attribute)
        return Enforcement(Rule.DEFAULT, own, read_value(own, field.type), field.type, source)

    # -- reading ----------------------------------------------------------------------------

    def _excluded(self) -> set[str]:
        return set(remembered(self._editor.document).get(self._name, ()))

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
        return broken_item(self.plan, path, attribute, key, rule, problem, value, told)
