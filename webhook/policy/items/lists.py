"""
The items of an itemized field where they stand in an object.

Policies speak of items with a key and attributes. In a native workload they are a list of such
objects; in a pod template they may be a list with other names (`env`), a map (`labels`), a list
without keys (`tolerations`), or volumes with their mounts in the containers: `item_storage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from webhook.mapping.codecs import Unreadable
from webhook.mapping.fields import Field, RefMismatchError, read_ref
from webhook.mapping.locate import is_free
from webhook.model.pointer import Path, lookup
from webhook.patch import Editor
from webhook.policy.items.values import (
    GivenItems,
    content_value,
    decoded,
    encoded_value,
    means_the_same,
)
from webhook.policy.plans import ItemPlan, is_own_item
from webhook.policy.rules.enforcement import Enforcement


class Item(NamedTuple):
    """One item: its key (None if it has none), where it stands, and what stands there."""

    key: str | None
    path: Path
    node: Any

    @property
    def label(self) -> str:
        """What people call it: its key, else its index."""
        return self.key or str(self.path[-1])


# A place of an attribute, and the value there (None if it is absent).
Spot = tuple[Path, Any]


class ItemList:
    """
    A list of objects at *path*, as native workloads have it and containers have `env`.

    Nothing is read before it is asked for. `items` tells what the object is now; what else is in
    it, where that counts, is kept until `forget`, but for what the list itself adds.
    """

    def __init__(self, plan: ItemPlan, document: Any, path: Path) -> None:
        self.plan = plan
        self.field: Field = plan.field
        self._document = document
        self._path = path

    @cached_property
    def _given(self) -> GivenItems:
        return GivenItems(self.plan, self.plan.items)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def is_possible(self) -> bool:
        """Whether such items are there, or may be: what else stands here is of a wrong type."""
        current = lookup(self._document, self._path)
        if current is None:
            return is_free(self._document, self._path)
        return isinstance(current, self._type)

    _type: type = list

    def forget(self) -> None:
        """Something else may have been written to the object."""

    def raw(self) -> Any:
        """All that the field is here, to be compared with what it was."""
        return lookup(self._document, self._path)

    def whole(self, item: Item) -> Any:
        """All that *item* is here, to be compared with what it was."""
        return item.node

    def key_of_given(self, enforcement: Enforcement) -> str:
        """
        The key by which the item of *enforcement* is known where it is there.

        Where items have no name, two that are equal are one.
        """
        if self.field.attributes[self.field.item_key].ref:
            return str(enforcement.meaning)
        node = self._encoded(enforcement.value, self.policy_value)
        return self._given.key_of(node) or str(enforcement.meaning)

    def policy_value(self, content: Mapping[str, Any], attribute: str) -> Any:
        """*attribute* of an item that policies give as *content*, or leave to all items."""
        value = content_value(content, attribute)
        default = self.plan.defaults.get(attribute)
        return default.value if value is None and default is not None else value

    def items(self) -> list[Item]:
        """The items that are not Kubernetes' own."""
        current = lookup(self._document, self._path)
        return [
            Item(self._key_of(node), (*self._path, index), node)
            for index, node in enumerate(current if isinstance(current, list) else [])
            if not is_own_item(node, self.plan.own_items)
        ]

    def spots(self, item: Item, attribute: str) -> list[Spot]:
        """Where *attribute* of *item* stands: once, but for the mounts of a volume."""
        ref = self.field.attributes[attribute].ref
        try:
            value = read_ref(item.node, ref)
        except RefMismatchError as error:
            return [((*item.path, *error.ref), Unreadable(error.value))]
        return [((*item.path, *ref), decoded(self.field.attributes[attribute], value))]

    def add(self, editor: Editor, content: Mapping[str, Any]) -> Path:
        """Append an item. *content* is as policies write it. Returns where it stands."""
        return append(editor, self._path, self._encoded(content))

    def fill(self, editor: Editor, item: Item, attribute: str, value: Any) -> Iterator[Path]:
        """Write *attribute* of *item* wherever it is absent."""
        field = self.field.attributes[attribute]
        for path, current in self.spots(item, attribute):
            if current is None:
                editor.write(path, encoded_value(field, value))
                yield path

    def overwrite(
        self, editor: Editor, item: Item, attribute: str, value: Any
    ) -> Iterator[tuple[Path, Any]]:
        """Write *attribute* of *item* wherever it is another value. Yields what was there."""
        field = self.field.attributes[attribute]
        for path, current in self.spots(item, attribute):
            # What stands on the way to it is of a wrong type, and judged.
            is_reached = path == (*item.path, *field.ref)
            if is_reached and not means_the_same(field, value, current):
                editor.write(path, encoded_value(field, value))
                yield path, current

    def remove(self, editor: Editor, item: Item) -> None:
        editor.remove(item.path)

    def spread(self, editor: Editor, content: Mapping[str, Any]) -> Iterator[Path]:
        """Make the item *content*, which is there, reach every container. Yields what is new."""
        yield from ()

    def obstacle(self, content: Mapping[str, Any]) -> str:
        """Why the item *content*, which is not there, can't be added; ``""`` if it can."""
        return ""

    def crowded(self, content: Mapping[str, Any]) -> list[Spot]:
        """What else stands where the item *content* has to reach."""
        return []

    def _key_of(self, node: Any) -> str | None:
        ref = self.field.attributes[self.field.item_key].ref
        if not ref:
            return self._given.key_of(node)
        key = lookup(node, ref) if isinstance(node, dict) else None
        return key if isinstance(key, str) and key else self._given.key_of(node)

    def _encoded(
        self,
        content: Mapping[str, Any],
        value_of: Callable[[Mapping[str, Any], str], Any] = content_value,
    ) -> dict[str, Any]:
        node: dict[str, Any] = {}
        for name, field in self.field.attributes.items():
            value = value_of(content, name)
            if value is not None and field.ref and not field.home.on_mounts:
                below = node
                for token in field.ref[:-1]:
                    below = below.setdefault(token, {})
                below[field.ref[-1]] = encoded_value(field, value)
        return node


class MappedItems(ItemList):
    """Items that are the entries of a map: labels, annotations, resources."""

    _type = dict

    def items(self) -> list[Item]:
        current = lookup(self._document, self._path)
        return [
            Item(key, (*self._path, key), value)
            for key, value in (current.items() if isinstance(current, dict) else ())
            if value is not None and self.field.home.has_key(key)
        ]

    def raw(self) -> Any:
        return {item.key: item.node for item in self.items()}

    def spots(self, item: Item, attribute: str) -> list[Spot]:
        return [(item.path, item.key if attribute == self.field.item_key else item.node)]

    def add(self, editor: Editor, content: Mapping[str, Any]) -> Path:
        (name,) = [name for name in self.field.attributes if name != self.field.item_key]
        path = (*self._path, str(content[self.field.item_key]))
        editor.write(path, content_value(content, name))
        return path

    def fill(self, editor: Editor, item: Item, attribute: str, value: Any) -> Iterator[Path]:
        yield from ()  # An entry always has its value.


def append(editor: Editor, path: Path, node: Mapping[str, Any]) -> Path:
    """Add *node* to the list at *path*, which may not be there. Returns where it stands."""
    current = lookup(editor.document, path)
    if not isinstance(current, list):
        editor.write(path, [node])
        return (*path, 0)
    editor.write((*path, len(current)), node)
    return (*path, len(current) - 1)
