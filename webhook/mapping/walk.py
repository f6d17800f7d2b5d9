"""
Steps through a decoded object, as plain selectors take them.

A step is made into a visitor: a function that goes on from one value and hands what it finds to
the visitor behind it. The last one takes down the path. So the order is jq's, in which each output
of a step runs through the rest of the pipe before the next output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from webhook.errors import EvaluationError
from webhook.model.pointer import Path
from webhook.model.values import json_type

# The most values that a walk meets in lists, objects and unions. It bounds the time that a list
# of a million numbers can cost: 50,000 take some 50 ms.
_MAX_VALUES = 50_000


@dataclass(frozen=True, slots=True)
class Mismatch:
    """At *path* the selector needs an object or a list; the type there is *got* (`json_type`)."""

    path: Path
    expected: Literal["object", "list"]
    got: str


class Located(NamedTuple):
    """
    What a selector found in one object.

    *paths* are in jq's order, spots that are absent or null included (`select(.)` drops those).
    A tuple, because each selector of each review makes one, and this is made in half the time.
    """

    paths: tuple[Path, ...]
    mismatches: tuple[Mismatch, ...] = ()


class Found:
    """What one walk has found so far: *paths*, what stands at each of them, and mismatches."""

    __slots__ = ("_values", "mismatches", "nodes", "paths")

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.nodes: list[Any] = []
        self.mismatches: list[Mismatch] = []
        self._values = 0

    def count(self, values: int) -> None:
        """
        Note that the walk goes on with so many more *values*.

        Raises:
            EvaluationError: they are too many.
        """
        self._values += values
        if self._values > _MAX_VALUES:
            raise EvaluationError(f"a selector met more than {_MAX_VALUES} values in one object")


# Goes on from a path and the value there.
Visitor = Callable[[Path, Any, Found], None]


class Step(Protocol):
    @property
    def is_single(self) -> bool:
        """Whether it leads from one value to one at most."""

    @property
    def visits(self) -> int:
        """How often it can come to one value of the object."""

    @property
    def depth(self) -> int:
        """How many visitors deep it calls."""

    def visitor(self, then: Visitor) -> Visitor:
        """What takes this step and goes on with *then*."""


@dataclass(frozen=True, slots=True)
class Names:
    """`.a.b."c"`: keys, one below the other."""

    names: tuple[str, ...]
    is_single: ClassVar[bool] = True
    visits: ClassVar[int] = 1
    depth: ClassVar[int] = 1

    def visitor(self, then: Visitor) -> Visitor:
        names = self.names

        def visit(path: Path, value: Any, found: Found) -> None:
            node = value
            for name in names:
                if isinstance(node, dict):
                    node = node.get(name)
                elif node is not None:  # below null everything is null
                    found.mismatches.append(_wrong_object(path, value, names))
                    return
            then(path + names, node, found)

        return visit


@dataclass(frozen=True, slots=True)
class AnyCase:
    """A key in any case, where an operator takes it so; every one that is there."""

    name: str
    is_single: ClassVar[bool] = False
    visits: ClassVar[int] = 1
    depth: ClassVar[int] = 1

    def visitor(self, then: Visitor) -> Visitor:
        name = self.name
        # Go's EqualFold takes the Kelvin sign for a k as well, and so does this.
        folded = name.casefold()

        def visit(path: Path, value: Any, found: Found) -> None:
            if value is not None and not isinstance(value, dict):
                found.mismatches.append(Mismatch(path, "object", json_type(value)))
                return
            keys = [key for key in value or () if key.casefold() == folded]
            found.count(len(value or ()))
            for key in keys or [name]:
                then((*path, key), (value or {}).get(key), found)

        return visit


@dataclass(frozen=True, slots=True)
class OptionalName:
    """`.a?`: what is no object is passed over; a name needs `?` for nothing else."""

    name: str
    is_single: ClassVar[bool] = True
    visits: ClassVar[int] = 1
    depth: ClassVar[int] = 1

    def visitor(self, then: Visitor) -> Visitor:
        name = self.name

        def visit(path: Path, value: Any, found: Found) -> None:
            if value is None:
                then((*path, name), None, found)
            elif isinstance(value, dict):
                then((*path, name), value.get(name), found)

        return visit


@dataclass(frozen=True, slots=True)
class Index:
    """`[0]`: one element of a list."""

    index: int
    optional: bool
    is_single: ClassVar[bool] = True
    visits: ClassVar[int] = 1
    depth: ClassVar[int] = 1

    def visitor(self, then: Visitor) -> Visitor:
        index, optional = self.index, self.optional

        def visit(path: Path, value: Any, found: Found) -> None:
            if isinstance(value, list):
                then((*path, index), value[index] if index < len(value) else None, found)
            elif value is None:
                then((*path, index), None, found)
            elif not optional:
                found.mismatches.append(Mismatch(path, "list", json_type(value)))

        return visit


@dataclass(frozen=True, slots=True)
class Each:
    """`[]` and `[]?`: every element of a list, every value of an object."""

    is_single: ClassVar[bool] = False
    visits: ClassVar[int] = 1
    depth: ClassVar[int] = 1

    def visitor(self, then: Visitor) -> Visitor:
        def visit(path: Path, value: Any, found: Found) -> None:
            items: Iterable[tuple[str | int, Any]]
            if isinstance(value, list):
                items = enumerate(value)
            elif isinstance(value, dict):
                items = value.items()
            else:
                if value is not None:
                    found.mismatches.append(Mismatch(path, "list", json_type(value)))
                return
            found.count(len(value))
            for key, item in items:
                then((*path, key), item, found)

        return visit


@dataclass(frozen=True, slots=True)
class Truthy:
    """`select(.)`: drops null and false, and nothing else: 0 and "" are true in jq."""

    is_single: ClassVar[bool] = True
    visits: ClassVar[int] = 1
    depth: ClassVar[int] = 1

    def visitor(self, then: Visitor) -> Visitor:
        def visit(path: Path, value: Any, found: Found) -> None:
            if value is not None and value is not False:
                then(path, value, found)

        return visit


@dataclass(frozen=True, slots=True)
class Union:
    """`(.a, .b)`: what each alternative finds from there."""

    alternatives: tuple[tuple[Step, ...], ...]
    is_single: ClassVar[bool] = False

    @property
    def visits(self) -> int:
        return sum(visits_of(steps) for steps in self.alternatives)

    @property
    def depth(self) -> int:
        return 1 + max(depth_of(steps) for steps in self.alternatives)

    def visitor(self, then: Visitor) -> Visitor:
        visitors = [visitor_of(steps, then) for steps in self.alternatives]

        def visit(path: Path, value: Any, found: Found) -> None:
            found.count(len(visitors))
            for visitor in visitors:
                visitor(path, value, found)

        return visit


def visits_of(steps: Iterable[Step]) -> int:
    """How often a walk can come to one value of the object."""
    return math.prod(step.visits for step in steps)


def depth_of(steps: Iterable[Step]) -> int:
    """How many visitors deep a walk calls."""
    return sum(step.depth for step in steps)


def _take_down(path: Path, value: Any, found: Found) -> None:
    found.paths.append(path)
    found.nodes.append(value)


def visitor_of(steps: Sequence[Step], then: Visitor = _take_down) -> Visitor:
    """What takes all *steps* and goes on with *then*."""
    for step in reversed(steps):
        then = step.visitor(then)
    return then


def _wrong_object(path: Path, value: Any, names: tuple[str, ...]) -> Mismatch:
    """The first spot along *names*, from *value* at *path*, that is neither object nor null."""
    for depth, name in enumerate(names):
        if not isinstance(value, dict):
            return Mismatch(path + names[:depth], "object", json_type(value))

        value = value.get(name)
    raise AssertionError("every spot along the names is an object")
