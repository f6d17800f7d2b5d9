"""
Storage where it stands in an object: items with a mount path in a native workload, volumes and
their mounts in a pod template. And which of all kinds of lists that of a field is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any

from webhook.mapping.homes import NO_HOME
from webhook.model.decision import Rule
from webhook.model.pointer import Path, lookup
from webhook.patch import Editor
from webhook.policy.items.lists import Item, ItemList, MappedItems, Spot, append
from webhook.policy.items.values import GivenItems, decoded, encoded_value
from webhook.policy.plans import ItemPlan
from webhook.policy.rules.mounts import MOUNTS, mount_path


@dataclass(frozen=True, slots=True)
class _Stored:
    """Storage of a native workload: of what kind, of what key (None: not asked), mounted where."""

    kind: str | int
    key: str | None
    spot: Spot


class StoredItems(ItemList):
    """
    Storage of a native workload, with other storage beside it.

    Each is mounted in all containers, so that two can't have one mount path.
    """

    # All that is mounted, by path.
    _mounted: dict[str, list[_Stored]] | None = None

    @cached_property
    def _imposed(self) -> GivenItems:
        return GivenItems(self.plan, [g for g in self.plan.items if g.rule is Rule.IMPOSED])

    @cached_property
    def _keys(self) -> frozenset[Any]:
        return frozenset([given.meaning for given in self.plan.items])

    def _key_of(self, node: Any) -> str | None:
        """One that is an imposed asset in all but its name counts as that one."""
        key = super()._key_of(node)
        is_excluded = isinstance(node, dict) and node.get("exclude") is True
        if is_excluded or key in self._keys:
            return key
        return self._imposed.key_of(node) or key

    def forget(self) -> None:
        self._mounted = None

    def add(self, editor: Editor, content: Mapping[str, Any]) -> Path:
        mounted = self._mounts()
        path = super().add(editor, content)
        attribute = MOUNTS[self.field.name]
        place = self.policy_value(content, attribute)
        key = str(content[self.field.item_key])
        stored = _Stored(self._path[-1], key, ((*path, attribute), place))
        mounted.setdefault(mount_path(place), []).append(stored)
        return path

    def obstacle(self, content: Mapping[str, Any]) -> str:
        for path, place in self.crowded(content):
            key = lookup(self._document, (*path[:-1], self.field.item_key))
            name = f"{key} of " if isinstance(key, str) else "an item of "
            return f"{name}storage.{path[-3]} is mounted at {place} already"
        return ""

    def crowded(self, content: Mapping[str, Any]) -> list[Spot]:
        wanted = mount_path(self.policy_value(content, MOUNTS[self.field.name]))
        if not wanted:
            return []
        own = self._path[-1], content[self.field.item_key]
        others = self._mounts().get(wanted, ())
        return [other.spot for other in others if (other.kind, other.key) != own]

    def _mounts(self) -> dict[str, list[_Stored]]:
        if self._mounted is not None:
            return self._mounted
        self._mounted = {}
        storage, own_kind = self._path[:-1], self._path[-1]
        for name, attribute in MOUNTS.items():
            kind = name.rpartition(".")[2]
            items = lookup(self._document, (*storage, kind))
            for index, node in enumerate(items if isinstance(items, list) else ()):
                if not isinstance(node, dict) or node.get("exclude") is True:
                    continue
                place = node.get(attribute)
                key = self._key_of(node) if kind == own_kind else None
                stored = _Stored(kind, key, ((*storage, kind, index, attribute), place))
                self._mounted.setdefault(mount_path(place), []).append(stored)
        return self._mounted


@dataclass(frozen=True, slots=True)
class _Container:
    """A container that may mount volumes, with its mounts: in order, by volume and by path."""

    path: Path
    mounts: list[Item] = dataclass_field(default_factory=list)
    by_name: dict[str | None, list[Item]] = dataclass_field(default_factory=dict)
    by_path: dict[str, list[Item]] = dataclass_field(default_factory=dict)

    def note(self, mount: Item) -> None:
        self.mounts.append(mount)
        self.by_name.setdefault(mount.key, []).append(mount)
        self.by_path.setdefault(mount_path(mount.node.get("mountPath")), []).append(mount)


class Volumes(ItemList):
    """
    Volumes of one type of a pod spec, with the mounts of them.

    *path* leads to the pod's `volumes`; attributes `on_mounts` stand in each container that
    mounts the volume.
    """

    _LISTS = ("containers", "initContainers")
    _known_containers: list[_Container] | None = None
    # What the volumes of all types are called, with the first of each name.
    _known_names: dict[str | None, Path] | None = None

    def forget(self) -> None:
        self._known_containers = self._known_names = None

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
            [mount.node for mount in container.mounts if mount.key in names]
            for container in self._containers()
        ]
        return [[item.node for item in items], mounts]

    def whole(self, item: Item) -> Any:
        """The volume and its mounts."""
        return [item.node, [mount.node for mount in self._mounts_of(item)]]

    def spots(self, item: Item, attribute: str) -> list[Spot]:
        field = self.field.attributes[attribute]
        if not field.home.on_mounts:
            return super().spots(item, attribute)
        return [
            ((*mount.path, *field.ref), decoded(field, lookup(mount.node, field.ref)))
            for mount in self._mounts_of(item)
        ]

    def add(self, editor: Editor, content: Mapping[str, Any]) -> Path:
        node = self._encoded(content)
        # A volume has one source, and one without a detail is its empty object.
        node.setdefault(self.field.home.volume, {})
        names = self._names()
        path = append(editor, self._path, node)
        names[str(content[self.field.item_key])] = path
        return path

    def fill(self, editor: Editor, item: Item, attribute: str, value: Any) -> Iterator[Path]:
        for path in super().fill(editor, item, attribute, value):
            if attribute == MOUNTS[self.field.name]:
                self.forget()
            yield path

    def spread(self, editor: Editor, content: Mapping[str, Any]) -> Iterator[Path]:
        mount = self._mount_of(content)
        place = mount_path(mount.get("mountPath"))
        if not place:
            return  # Nobody said where: the submitter mounts it himself.
        for container in self._containers():
            if place not in container.by_path and mount["name"] not in container.by_name:
                path = append(editor, (*container.path, "volumeMounts"), mount)
                container.note(Item(mount["name"], path, lookup(editor.document, path)))
                yield path

    def obstacle(self, content: Mapping[str, Any]) -> str:
        """A pod has one volume of a name, of whatever type."""
        name = content[self.field.item_key]
        return f"another volume is called {name}" if name in self._names() else ""

    def crowded(self, content: Mapping[str, Any]) -> list[Spot]:
        mount = self._mount_of(content)
        place = mount_path(mount.get("mountPath"))
        if not place:
            return []
        return [
            ((*other.path, "mountPath"), mount["mountPath"])
            for container in self._containers()
            for other in container.by_path.get(place, ())
            if other.key != mount["name"]
        ]

    def _mount_of(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The mount of an item that policies give as *content*, with what they give to all."""
        mount: dict[str, Any] = {"name": content[self.field.item_key]}
        for attribute, field in self.field.attributes.items():
            value = self.policy_value(content, attribute)
            if field.home.on_mounts and value is not None:
                mount[field.ref[-1]] = encoded_value(field, value)
        return mount

    def _names(self) -> dict[str | None, Path]:
        if self._known_names is None:
            self._known_names = {item.key: item.path for item in reversed(super().items())}
        return self._known_names

    def _mounts_of(self, item: Item) -> Iterator[Item]:
        """Of several volumes with one name, which Kubernetes refuses, the first has the mounts."""
        if self._names().get(item.key) != item.path:
            return
        for container in self._containers():
            yield from container.by_name.get(item.key, ())

    def _containers(self) -> list[_Container]:
        if self._known_containers is None:
            self._known_containers = list(self._read_containers())
        return self._known_containers

    def _read_containers(self) -> Iterator[_Container]:
        pod = self._path[:-1]
        for name in self._LISTS:
            containers = lookup(self._document, (*pod, name))
            for index, node in enumerate(containers if isinstance(containers, list) else ()):
                if not isinstance(node, dict):
                    continue
                container = _Container((*pod, name, index))
                mounts = node.get("volumeMounts")
                for at, mount in enumerate(mounts if isinstance(mounts, list) else ()):
                    if isinstance(mount, dict):
                        volume = mount.get("name")
                        path = (*container.path, "volumeMounts", at)
                        key = volume if isinstance(volume, str) else None
                        container.note(Item(key, path, mount))
                yield container


_LISTS_BY_HOME = {"": ItemList, "map": MappedItems, "volumes": Volumes}


def item_list(plan: ItemPlan, document: Any, path: Path) -> ItemList:
    """The items of the field of *plan*, which stand at *path* of *document*."""
    if plan.field.home is NO_HOME and plan.field.name in MOUNTS:
        return StoredItems(plan, document, path)
    return _LISTS_BY_HOME[plan.field.home.items](plan, document, path)
