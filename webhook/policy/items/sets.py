"""What GVKPolicies ask of the items of a native workload: set, required and blocked ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.model.decision import NOT_SHOWN, Rule
from webhook.model.values import same_value
from webhook.patch import Editor
from webhook.policy.items.findings import ItemChange, ItemProblem, broken_item, written_item
from webhook.policy.items.lists import Item, ItemList
from webhook.policy.items.past import PastItems
from webhook.policy.items.values import attributes_of, content_value, means_the_same
from webhook.policy.plans import ItemPlan
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.judge import Problem, show


class ItemSets:
    """Those of one itemized field at one place. What was so before an update is left alone."""

    def __init__(self, plan: ItemPlan, items: ItemList, past: PastItems, editor: Editor) -> None:
        self._plan = plan
        self._list = items
        self._past = past
        self._editor = editor

    # -- mutation ---------------------------------------------------------------------------

    def mutate(self) -> Iterator[ItemChange]:
        there = self._by_key()
        for key, enforcement in self._plan.sets.items():
            items = there.get(key, ())
            if not items:
                path = self._list.add(self._editor, enforcement.value)
                yield written_item(self._plan, path, "", key, NOT_SHOWN, enforcement)
            for item in items:
                if not self._past.had(item):
                    yield from self._set(item, enforcement)
        for attribute, enforcement in self._plan.set_attributes.items():
            for item in self._there():
                if not self._past.had(item):
                    yield from self._write(item, attribute, enforcement.value, enforcement)

    def _set(self, item: Item, enforcement: Enforcement) -> Iterator[ItemChange]:
        for attribute, wanted in self._given(enforcement):
            yield from self._write(item, attribute, wanted, enforcement)
        for attribute, value in self._other_sources(item, enforcement):
            name = attribute.partition(".")[0]
            path = (*item.path, name)
            if name in item.node:
                self._editor.remove(path)
                plan, key = self._plan, item.label
                yield written_item(plan, path, attribute, key, None, enforcement, value)

    def _write(
        self, item: Item, attribute: str, value: Any, enforcement: Enforcement
    ) -> Iterator[ItemChange]:
        for path, old in self._list.overwrite(self._editor, item, attribute, value):
            plan, key = self._plan, item.label
            yield written_item(plan, path, attribute, key, value, enforcement, old)

    # -- judging ----------------------------------------------------------------------------

    def judge(self) -> Iterator[ItemProblem]:
        there, by_key = self._there(), self._by_key()
        for key, enforcement in self._plan.sets.items():
            items = by_key.get(key, ())
            if not items and not self._past.lacked(key):
                problem = Problem(
                    "the policy sets this item, and it is missing", "that it is there"
                )
                yield self._broken(None, key, enforcement, problem)
            for item in items:
                yield from self._judge_set(item, enforcement)
        for wanted, enforcement in self._plan.presence:
            items = there if wanted is None else by_key.get(wanted, ())
            if enforcement.rule is Rule.REQUIRED:
                if not items and not self._past.lacked(wanted):
                    problem = Problem("a value is required", "")
                    yield self._broken(None, wanted or "", enforcement, problem)
                continue
            for item in items:
                if not self._past.had(item):
                    problem = Problem("blocked by the policy", "no such item")
                    yield self._broken(item, item.label, enforcement, problem)

    def _judge_set(self, item: Item, enforcement: Enforcement) -> Iterator[ItemProblem]:
        if self._past.had(item):
            return
        before = self._past.of(item)
        for attribute, wanted in self._given(enforcement):
            field = self._plan.field.attributes[attribute]
            old = () if before is None else self._past.list.spots(before, attribute)
            for path, value in self._list.spots(item, attribute):
                if means_the_same(field, wanted, value) or any(
                    same_value(past, value) for _, past in old
                ):
                    continue
                problem = Problem("the policy sets this value", f"exactly {show(wanted)}")
                key = item.label
                yield broken_item(self._plan, path, attribute, key, enforcement, problem, value)
        for attribute, value in self._other_sources(item, enforcement):
            path = (*item.path, *self._plan.field.attributes[attribute].ref)
            problem = Problem("the policy sets another source of this item", "no value")
            key = item.label
            yield broken_item(self._plan, path, attribute, key, enforcement, problem, value)

    def _broken(
        self, item: Item | None, key: str, enforcement: Enforcement, problem: Problem
    ) -> ItemProblem:
        path = self._list.path if item is None else item.path
        value = None if item is None else item.key
        return broken_item(self._plan, path, "", key, enforcement, problem, value)

    # -- reading ----------------------------------------------------------------------------

    def _there(self) -> list[Item]:
        """The items, but for those that are excluded: they are to go."""
        return [
            item
            for item in self._list.items()
            if isinstance(item.node, dict) and item.node.get("exclude") is not True
        ]

    def _by_key(self) -> dict[str | None, list[Item]]:
        found: dict[str | None, list[Item]] = {}
        for item in self._there():
            found.setdefault(item.key, []).append(item)
        return found

    def _given(self, enforcement: Enforcement) -> Iterator[tuple[str, Any]]:
        """The attributes that *enforcement* sets, but for the key, and their values."""
        for attribute in attributes_of(self._plan.field):
            value = content_value(enforcement.value, attribute)
            if value is not None and attribute != self._plan.field.item_key:
                yield attribute, value

    def _other_sources(self, item: Item, enforcement: Enforcement) -> list[tuple[str, Any]]:
        """What *item* has of a source beside the one that *enforcement* sets."""
        exclusive = set(self._plan.field.exclusive)
        if exclusive.isdisjoint(enforcement.value):
            return []
        return [
            (attribute, value)
            for attribute in attributes_of(self._plan.field)
            if (name := attribute.partition(".")[0]) in exclusive and name not in enforcement.value
            for _, value in self._list.spots(item, attribute)
            if value is not None
        ]
