"""Items of a list that stands at a path, chosen by an item selector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from webhook.mapping.fields import Field, RefMismatchError, read_ref
from webhook.model.pointer import Path
from webhook.model.values import FieldType
from webhook.policy.computed.computed import Broken, Inquiry, LeftOut, Spot, Unknown, Written
from webhook.policy.computed.selected import Item, Listed, ListedItems, name_of
from webhook.policy.plans import is_own_item
from webhook.policy.rules.arguments import item_type, written_item
from webhook.policy.rules.enforcement import Enforcement


class PlainItems(ListedItems):
    """Here an item is what stands in the list."""

    def __init__(self, spot: Spot) -> None:
        super().__init__(spot)
        self.item_field = replace(spot.plan.field, type=item_type(spot.plan.field))

    def find(self, inquiry: Inquiry, node: Any, path: Path) -> Listed | Unknown:
        ref = self.spot.plan.ref
        try:
            listed = read_ref(node, ref)
        except RefMismatchError as error:
            return Listed(wrong=error.value, wrong_at=(*path, *error.ref))
        if listed is None:
            return Listed()
        if not isinstance(listed, list):
            return Listed(wrong=listed, wrong_at=(*path, *ref))
        return self.select(
            inquiry,
            [
                Item((*path, *ref, index), value, name_of(value) or str(index))
                for index, value in enumerate(listed)
                if self._is_meant(value)
            ],
        )

    def _is_meant(self, value: Any) -> bool:
        """Whether *value* is one of the items that the field is about, and not Kubernetes' own."""
        having = self.spot.plan.field.having
        return not is_own_item(value, self.spot.plan.own_items) and (
            having is None or (isinstance(value, dict) and value.get(having) is not None)
        )

    def match(self, now: Listed, before: Listed) -> Iterator[tuple[Any, Item]]:
        by_path = {item.path: item for item in before.items}
        for item in now.items:
            old_path = self.spot.old_of(item.path)
            if old_path is not None and old_path in by_path:
                yield item.path, by_path[old_path]

    def identity(self, item: Item) -> Any:
        return item.path

    def judged(self, item: Item) -> Any:
        if self.spot.plan.field.type is FieldType.NAMES_ARRAY and isinstance(item.value, dict):
            return item.value.get("name")
        return item.value

    def item_of(self, enforcement: Enforcement) -> Any:
        return written_item(self.spot.plan.field, enforcement.value)

    def ask_for_writes(self, inquiry: Inquiry, now: Listed) -> None:
        """Nothing: what is written is in the policy."""

    def set(self) -> Iterator[Written]:
        for enforcement in self.spot.plan.sets[:1]:
            for item in self.known.now.selected:
                if self.is_untouched(item) or self.problem(enforcement, item) is None:
                    continue
                old = self.judged(item)
                self.spot.editor.write(item.path, self.item_of(enforcement))
                new = enforcement.value
                name = self.shown_name(item, self.item_field)
                yield Written(item.path, name, old, new, self.item_field, enforcement)

    def is_there(self, listed: Listed, enforcement: Enforcement) -> bool:
        return bool(listed.items)

    def add(self, enforcement: Enforcement) -> Iterator[Written | LeftOut]:
        spot = self.spot
        value = self.item_of(enforcement)
        listed = read_ref(spot.node, spot.plan.ref)
        at = (*spot.path, *spot.plan.ref)
        if isinstance(listed, list):
            path: Path = (*at, len(listed))
            spot.editor.write(path, value)
        else:
            path = (*at, 0)
            spot.editor.write(at, [value])
        name = self.shown_name(Item(path, value, name_of(value) or str(path[-1])), self.item_field)
        yield Written(path, name, None, enforcement.value, self.item_field, enforcement)

    def unread(self, *, is_touched: bool) -> Enforcement | None:
        return None  # What is written at a path is there.

    def shown_name(self, item: Item, field: Field) -> str:
        # A text is its own name.
        is_text = isinstance(item.value, str)
        return str(item.path[-1]) if field.sensitive and is_text else item.name

    def judge_set(self, enforcement: Enforcement) -> Iterator[Broken]:
        return self.judge_values(enforcement)
