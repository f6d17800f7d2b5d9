"""
Changes to an object, and the JSON Patch that says them (RFC 6902).

An `Editor` edits the decoded object in place and notes each operation as it goes, so there is no
copy of the object and no comparison of two. What it did not write it cannot have touched: large
integers, unknown fields and the order of keys stay as they were sent.
"""

from __future__ import annotations

import copy
from typing import Any

from webhook.model.pointer import Path, to_pointer
from webhook.model.values import same_value

Operation = dict[str, Any]
# What saves a walk: how many tokens of a path are known, and the node that they lead to.
Below = tuple[int, Any]


class Editor:
    """
    Edits one object.

    *operations* is the patch so far. A missing parent is added once, with all that later goes
    into it: its operation holds the very object that later writes fill. A value that is written
    twice is one operation.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.operations: list[Operation] = []
        # How often an object or a list was put in, or something was taken out by `remove`. As long
        # as it is the same number, no object or list is new. A text or a number that takes the
        # place of one is not counted: who asks has to know whether such are written
        # (`Uncovering.BY_VALUES`).
        self.reshapes = 0
        # Objects that an operation above already carries; writes inside need no own operation.
        self._added: dict[int, Any] = {}
        # Operations that put a value, by their path, as long as it leads there.
        self._puts: dict[str, Operation] = {}

    def write(
        self, path: Path, value: Any, *, below: Below | None = None, pointer: str = ""
    ) -> None:
        """
        Make *value* stand at *path*; parents that are missing or null become objects.

        A list is edited element by element, an object key by key. *below* saves a walk, and
        *pointer*, which is that of *path*, to make it anew.

        Raises:
            TypeError: something on the way is neither an object nor a list.
        """
        node: Any
        known, node = below or (0, self.document)
        for depth in range(known, len(path) - 1):
            token = path[depth]
            child = node.get(token) if isinstance(node, dict) else _child(node, token)
            if child is None:
                built = _copied(value)
                for parent in reversed(path[depth + 1 :]):
                    built = {parent: built}
                parents = len(path) - depth - 1
                pointer = (pointer or to_pointer(path)).rsplit("/", parents)[0]
                self._put(node, token, built, pointer, exists=_exists(node, token))
                return
            node = child
        token = path[-1]
        if isinstance(node, dict) and token not in node:
            self._put(node, token, _copied(value), pointer or to_pointer(path), exists=False)
        else:
            self._replace(node, path, value)

    def put(self, node: dict[str, Any], key: str, value: object, pointer: str) -> None:
        """
        As `write` does, make *value*, a text, number or flag, stand at *key* of *node*.

        *pointer* leads there. This is what most writes are.
        """
        exists = key in node
        node[key] = value
        self._note_put(node, value, pointer, exists=exists)

    def remove(self, path: Path) -> None:
        """Take away what stands at *path*, which exists."""
        node: Any = self.document
        for token in path[:-1]:
            node = _child(node, token)
        del node[path[-1]]
        # What stood behind it in a list has moved.
        self._puts.clear()
        self.reshapes += 1
        if id(node) not in self._added:
            self.operations.append({"op": "remove", "path": to_pointer(path)})

    def _replace(self, node: Any, path: Path, value: Any) -> None:
        token = path[-1]
        old = _child(node, token)
        if isinstance(old, dict) and isinstance(value, dict):
            for key in [key for key in old if key not in value]:
                self.remove((*path, key))
            for key, part in value.items():
                self._replace(old, (*path, key), part)
        elif isinstance(old, list) and isinstance(value, list):
            for index in range(len(old) - 1, len(value) - 1, -1):
                self.remove((*path, index))
            for index, part in enumerate(value):
                self._replace(old, (*path, index), part)
        else:
            exists = old is not None or _exists(node, token)
            if not (exists and same_value(old, value)):
                self._put(node, token, _copied(value), to_pointer(path), exists=exists)

    def _put(self, node: Any, token: str | int, value: Any, pointer: str, *, exists: bool) -> None:
        if exists or isinstance(node, dict):
            node[token] = value
        else:
            node.append(value)
        self._note_put(node, value, pointer, exists=exists)
        if isinstance(value, (dict, list)):
            self.reshapes += 1
            self._note_added(value)

    def _note_put(self, node: Any, value: object, pointer: str, *, exists: bool) -> None:
        if id(node) in self._added:
            return
        if exists and pointer in self._puts:
            # Once is enough: nobody sees what stood there in between.
            self._puts[pointer]["value"] = value
            return
        operation: Operation = {
            "op": "replace" if exists else "add",
            "path": pointer,
            "value": value,
        }
        self._puts[pointer] = operation
        self.operations.append(operation)

    def _note_added(self, value: dict[str, Any] | list[Any]) -> None:
        # Keeping the object keeps its id from being used again.
        self._added[id(value)] = value
        for part in value.values() if isinstance(value, dict) else value:
            if isinstance(part, (dict, list)):
                self._note_added(part)


def _copied(value: Any) -> Any:
    # Most of what is written is a text or a number.
    return copy.deepcopy(value) if isinstance(value, (dict, list)) else value


def _child(node: Any, token: str | int) -> Any:
    if isinstance(node, dict):
        return node.get(token)
    if isinstance(node, list) and isinstance(token, int):
        return node[token] if token < len(node) else None
    raise TypeError("not an object or a list")


def _exists(node: Any, token: str | int) -> bool:
    if isinstance(node, list):
        return isinstance(token, int) and token < len(node)
    return token in node
