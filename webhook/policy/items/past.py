"""An itemized field before an update."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from webhook.mapping.fields import Field
from webhook.model.pointer import Path
from webhook.model.values import ValueTypeError, read_value, same_value
from webhook.policy.items.lists import Item, ItemList
from webhook.policy.items.storage import item_list
from webhook.policy.items.values import means_the_same
from webhook.policy.plans import ItemPlan
from webhook.policy.rules.enforcement import Enforcement
from webhook.policy.rules.judge import Problem, judge


class PastItems:
    """
    The items that the object *old* had at *path*; none on a create.

    Without a *path*, the object is updated and the place in it is new.
    """

    def __init__(self, plan: ItemPlan, old: dict[str, Any] | None, path: Path | None) -> None:
        self.is_update = old is not None
        self._is_new_place = path is None
        # Without an old place nothing was there before.
        self.list = item_list(plan, old if path is not None else {}, path or ())
        self.items = self.list.items() if path is not None else []
        self.by_key = {item.key: item for item in reversed(self.items) if item.key}
        self._values: dict[tuple[Path | None, str], PastValues] = {}
        self._nameless = {item.path[-1]: item for item in self.items if item.key is None}

    def of(self, item: Item) -> Item | None:
        """The item of the same key; without a key, the one at its position."""
        if item.key is not None:
            return self.by_key.get(item.key)
        return self._nameless.get(item.path[-1])

    def had(self, item: Item) -> bool:
        """Whether *item* is as it was."""
        before = self.of(item)
        return before is not None and same_value(before.node, item.node)

    def had_whole(self, item: Item, now: ItemList) -> bool:
        """Whether *item* of *now* is as it was, with all that belongs to it."""
        before = self.of(item)
        return before is not None and same_value(self.list.whole(before), now.whole(item))

    def values(self, before: Item | None, attribute: str) -> PastValues:
        """Those of *attribute* of the item *before*, which may not have been there."""
        at = None if before is None else before.path, attribute
        if at not in self._values:
            spots = () if before is None else self.list.spots(before, attribute)
            field = self.list.field.attributes[attribute]
            self._values[at] = PastValues(field, [value for _, value in spots])
        return self._values[at]

    def lacked(self, key: str | None) -> bool:
        """Whether the place was there without an item of *key*; without any, if that is None."""
        if not self.is_update or self._is_new_place:
            return False
        return not self.items if key is None else key not in self.by_key


class PastValues:
    """
    The values that one attribute of an item had: as many as a volume has mounts.

    A question costs the same however many there are.
    """

    def __init__(self, field: Field, values: list[Any]) -> None:
        self._field = field
        self._values = values
        # By rule, the first value that broke it, and how.
        self._broken: dict[int, tuple[Any, Problem] | None] = {}

    def has(self, value: Any) -> bool:
        """Whether *value* was there, in this or another spelling (`10` and `"10"`)."""
        if self.has_exactly(value):
            return True
        if value is None or self._field.type is None:
            return False
        try:
            meaning = read_value(value, self._field.type)
        except ValueTypeError:
            return False
        if isinstance(meaning, (dict, list)):
            return any(means_the_same(self._field, old, value) for old in self._values)
        return meaning in self._meanings

    def has_exactly(self, value: Any) -> bool:
        """Whether *value* was there as it is."""
        if value is None or isinstance(value, str):
            return value in self._texts
        return any(same_value(old, value) for old in self._others)

    def is_less_bad(self, rule: Enforcement, found: Problem, meaning: Any) -> bool:
        """Whether *rule* was broken before, and *meaning* is now nearer to keeping it."""
        if id(rule) not in self._broken:
            self._broken[id(rule)] = self._first_broken(rule)
        broken = self._broken[id(rule)]
        if broken is None:
            return False
        before, was = broken
        if isinstance(before, tuple) and isinstance(meaning, tuple):
            # The bad elements of a list may stay where they are; new ones may not come.
            added = tuple([element for element in meaning if element not in before])
            return judge(rule, added) is None
        return bool(found.badness < was.badness)

    def _first_broken(self, rule: Enforcement) -> tuple[Any, Problem] | None:
        for value in self._values:
            try:
                before = None if value is None else read_value(value, rule.type)
            except ValueTypeError:
                continue
            was = None if before is None else judge(rule, before)
            if was is not None:
                return before, was
        return None

    @cached_property
    def _texts(self) -> frozenset[str | None]:
        return frozenset([v for v in self._values if v is None or isinstance(v, str)])

    @cached_property
    def _others(self) -> list[Any]:
        """Each of the rest once; there are two flags, however many mounts have one."""
        others: list[Any] = []
        for value in self._values:
            is_text = value is None or isinstance(value, str)
            if not is_text and not any(same_value(value, other) for other in others):
                others.append(value)
        return others

    @cached_property
    def _meanings(self) -> frozenset[Any]:
        found = []
        for value in [*self._texts, *self._others]:
            try:
                if value is not None and self._field.type is not None:
                    found.append(read_value(value, self._field.type))
            except ValueTypeError:
                continue
        return frozenset(found)
