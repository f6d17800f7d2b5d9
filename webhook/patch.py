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
        # Objects that an operation above already carries; writes inside need no own operation.
        self._added: dict[int, Any] = {}
        # Operations that put a value, by their path, as long as it leads there.
        self._puts: dict[str, Operation] = {}

    def write(self, path: Path, value: Any, *, below: tuple[int, Any] | None = None) -> None:
        """
        Make *value* stand at *path*; parents that are missing or null become objects.

        A list is edited element by element, an object key by key. *below* saves a walk: how many
        tokens of the path are known, and the node that they lead to.

        Raises:
            TypeError: something on the way is neither an object nor a list.
        """
        known, node = below or (0, self.document)
        for depth in range(known, len(path) - 1):
            child = _child(node, path[depth])
            if child is None:
                built: Any = copy.deepcopy(value)
                for parent in reversed(path[depth + 1 :]):
                    built = {parent: built}
                self._put(node, path[: depth + 1], built)
                return
            node = child
        self._replace(node, path, value)

    def remove(self, path: Path) -> None:
        """Take away what stands at *path*, which exists."""
        node: Any = self.document
        for token in path[:-1]:
            node = _child(node, token)
        del node[path[-1]]
        # What stood behind it in a list has moved.
        self._puts.clear()
        if id(node) not in self._added:
            self.operations.append({"op": "remove", "path": to_pointer(path)})

    def _replace(self, node: Any, path: Path, value: Any) -> None:
        old = _child(node, path[-1])
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
        elif not (_exists(node, path[-1]) and same_value(old, value)):
            self._put(node, path, copy.deepcopy(value))

    def _put(self, node: Any, path: Path, value: Any) -> None:
        token = path[-1]
        exists = _exists(node, token)
        if isinstance(node, list) and not exists:
            node.append(value)
        else:
            node[token] = value
        if id(node) not in self._added:
            pointer = to_pointer(path)
            if exists and pointer in self._puts:
                # Once is enough: nobody sees what stood there in between.
                self._puts[pointer]["value"] = value
            else:
                operation = "replace" if exists else "add"
                self._puts[pointer] = {"op": operation, "path": pointer, "value": value}
                self.operations.append(self._puts[pointer])
        self._note_added(value)

    def _note_added(self, value: Any) -> None:
        if isinstance(value, (dict, list)):
            # Keeping the object keeps its id from being used again.
            self._added[id(value)] = value
            for part in value.values() if isinstance(value, dict) else value:
                self._note_added(part)


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
