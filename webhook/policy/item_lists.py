"""
The items of an itemized field where they stand in an object.

Policies speak of items with a key and attributes. In a native workload they are a list of such
objects; in a pod template they may be a list with other names (`env`), a map (`labels`), a list
without keys (`tolerations`), or volumes with their mounts in the containers.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.mapping.codecs import CODECS, Unreadable
from webhook.mapping.fields import Field, RefMismatchError, read_ref
from webhook.mapping.locate import is_free
from webhook.model.pointer import Path, lookup
from webhook.model.values import ValueTypeError, read_value
from webhook.patch import Editor
from webhook.policy.effective import ItemPlan, is_own_item


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

    Nothing is read before it is asked for, so it always tells what the object is now.
    """

    def __init__(self, plan: ItemPlan, document: Any, path: Path) -> None:
        self.plan = plan
        self.field: Field = plan.field
        self._document = document
        self._path = path

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

    def raw(self) -> Any:
        """All that the field is here, to be compared with what it was."""
        return lookup(self._document, self._path)

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
        return [((*item.path, *ref), _decoded(self.field.attributes[attribute], value))]

    def add(self, editor: Editor, content: Mapping[str, Any]) -> Path:
        """Append an item. *content* is as policies write it. Returns where it stands."""
        return _append(editor, self._path, self._encoded(content))

    def fill(self, editor: Editor, item: Item, attribute: str, value: Any) -> Iterator[Path]:
        """Write *attribute* of *item* wherever it is absent."""
        field = self.field.attributes[attribute]
        for path, current in self.spots(item, attribute):
            if current is None:
                editor.write(path, _encoded_value(field, value))
                yield path

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
            return self._key_of_equal(node)
        key = lookup(node, ref) if isinstance(node, dict) else None
        return key if isinstance(key, str) and key else self._key_of_equal(node)

    def _key_of_equal(self, node: Any) -> str | None:
        """One without a key that is otherwise as a policy gives it counts as that one."""
        for enforcement in self.plan.items:
            if isinstance(node, dict) and all(
                means_the_same(
                    field,
                    content_value(enforcement.value, name),
                    _decoded(field, lookup(node, field.ref)),
                )
                for name, field in self.field.attributes.items()
                if field.ref and name != self.field.item_key
            ):
                return str(enforcement.meaning)
        return None

    def _encoded(self, content: Mapping[str, Any]) -> dict[str, Any]:
        node: dict[str, Any] = {}
        for name, field in self.field.attributes.items():
            value = content_value(content, name)
            if value is not None and field.ref and not field.home.on_mounts:
                below = node
                for token in field.ref[:-1]:
                    below = below.setdefault(token, {})
                below[field.ref[-1]] = _encoded_value(field, value)
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


class Volumes(ItemList):
    """
    Volumes of one type of a pod spec, with the mounts of them.

    *path* leads to the pod's `volumes`; attributes `on_mounts` stand in each container that
    mounts the volume.
    """

    _LISTS = ("containers", "initContainers")

    def items(self) -> list[Item]:
        return [
            item
            for item in super().items()
            if isinstance(item.node, dict) and item.node.get(self.field.home.volume) is not None
        ]

    def raw(self) -> Any:
        items = self.items()
        names = {item.key for item in items}
        mounts = [
            [mount.node for mount in self._mounts(path) if mount.key in names]
            for path in self._containers()
        ]
        return [[item.node for item in items], mounts]

    def spots(self, item: Item, attribute: str) -> list[Spot]:
        field = self.field.attributes[attribute]
        if not field.home.on_mounts:
            return super().spots(item, attribute)
        return [
            ((*mount.path, *field.ref), _decoded(field, lookup(mount.node, field.ref)))
            for path in self._containers()
            for mount in self._mounts(path)
            if mount.key == item.key
        ]

    def add(self, editor: Editor, content: Mapping[str, Any]) -> Path:
        node = self._encoded(content)
        # A volume has one source, and one without a detail is its empty object.
        node.setdefault(self.field.home.volume, {})
        return _append(editor, self._path, node)

    def spread(self, editor: Editor, content: Mapping[str, Any]) -> Iterator[Path]:
        mount = self._mount_of(content)
        if "mountPath" not in mount:
            return  # Nobody said where: the submitter mounts it himself.
        for path in self._containers():
            mounts = self._mounts(path)
            taken = any(_is_at(m, mount["mountPath"]) for m in mounts)
            if not taken and all(m.key != mount["name"] for m in mounts):
                yield _append(editor, (*path, "volumeMounts"), mount)

    def obstacle(self, content: Mapping[str, Any]) -> str:
        """A pod has one volume of a name, of whatever type."""
        name = content[self.field.item_key]
        is_taken = any(item.key == name for item in super().items())
        return f"another volume is called {name}" if is_taken else ""

    def crowded(self, content: Mapping[str, Any]) -> list[Spot]:
        mount = self._mount_of(content)
        return [
            ((*other.path, "mountPath"), mount.get("mountPath"))
            for path in self._containers()
            for other in self._mounts(path)
            if other.key != mount["name"] and _is_at(other, mount.get("mountPath"))
        ]

    def _mount_of(self, content: Mapping[str, Any]) -> dict[str, Any]:
        mount: dict[str, Any] = {"name": content[self.field.item_key]}
        for attribute, field in self.field.attributes.items():
            value = content_value(content, attribute)
            if field.home.on_mounts and value is not None:
                mount[field.ref[-1]] = _encoded_value(field, value)
        return mount

    def _containers(self) -> Iterator[Path]:
        pod = self._path[:-1]
        for name in self._LISTS:
            containers = lookup(self._document, (*pod, name))
            for index, node in enumerate(containers if isinstance(containers, list) else ()):
                if isinstance(node, dict):
                    yield (*pod, name, index)

    def _mounts(self, container: Path) -> list[Item]:
        mounts = lookup(self._document, (*container, "volumeMounts"))
        return [
            Item(node.get("name"), (*container, "volumeMounts", index), node)
            for index, node in enumerate(mounts if isinstance(mounts, list) else ())
            if isinstance(node, dict)
        ]


def _append(editor: Editor, path: Path, node: Mapping[str, Any]) -> Path:
    """Add *node* to the list at *path*, which may not be there. Returns where it stands."""
    current = lookup(editor.document, path)
    if not isinstance(current, list):
        editor.write(path, [node])
        return (*path, 0)
    editor.write((*path, len(current)), node)
    return (*path, len(current) - 1)


def _is_at(mount: Item, path: Any) -> bool:
    """Whether *mount* is at *path*, however that is spelt."""
    own = lookup(mount.node, ("mountPath",))
    if not isinstance(own, str) or not isinstance(path, str):
        return False
    return posixpath.normpath(own) == posixpath.normpath(path)


_LISTS_BY_HOME = {"": ItemList, "map": MappedItems, "volumes": Volumes}


def item_list(plan: ItemPlan, document: Any, path: Path) -> ItemList:
    """The items of the field of *plan*, which stand at *path* of *document*."""
    return _LISTS_BY_HOME[plan.field.home.items](plan, document, path)


def content_value(content: Mapping[str, Any], attribute: str) -> Any:
    """The value of *attribute* in an item as policies write it; None if it is absent."""
    return read_ref(content, tuple(attribute.split(".")))


def attributes_of(field: Field) -> list[str]:
    """The attributes of *field* that have a home where it stands."""
    return [name for name, attribute in field.attributes.items() if attribute.ref]


def _decoded(field: Field, value: Any) -> Any:
    if value is None or not field.home.codec:
        return value
    return CODECS[field.home.codec].from_home(value)


def _encoded_value(field: Field, value: Any) -> Any:
    return CODECS[field.home.codec].to_home(value) if field.home.codec else value


def means_the_same(field: Field, one: Any, other: Any) -> bool:
    if one is None or other is None or field.type is None:
        return one is None and other is None
    try:
        return bool(read_value(one, field.type) == read_value(other, field.type))
    except ValueTypeError:
        return False
