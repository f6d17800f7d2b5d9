"""
Writes that make places: whether what is written at one selector can be, or hold, a place of
another, said from the mapping alone, before an object is there.

It may say so of writes that never do; the object tells then. Of others it never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from webhook.mapping.compiled import CompiledMapping, CompiledSelector
from webhook.mapping.patterns import (
    EACH,
    Pattern,
    Token,
    outline_before_conditions,
    outline_of,
    outline_without_conditions,
    patterns_of,
    reads_of,
)

# Half a second. All fields of the largest kind of the catalog make some 600,000.
_MAX_COMPARED = 1_000_000


class Uncovering(IntEnum):
    """What writes can have for a consequence: the places of the object are others after them."""

    NOTHING = 0
    # Where an object or a list is new: it may be a place.
    BY_OBJECTS = 1
    # Wherever something is written: a condition of a query may be about it, or it is in the way.
    BY_VALUES = 2


@dataclass(frozen=True, slots=True)
class WrittenPath:
    """
    A path below the places of the *selector* (the object if None), or so many levels *above* them,
    where a value may be written. What *is_open* may hold objects and lists.
    """

    selector: str | None
    ref: tuple[Token, ...]
    above: int = 0
    is_open: bool = False


class _Value(NamedTuple):
    """A value at *path*. What leads there is there already up to the length *sure*."""

    path: Pattern
    sure: int
    is_open: bool


def uncovering(
    mapping: CompiledMapping,
    written: Iterable[WrittenPath],
    counting: Iterable[CompiledSelector],
) -> Uncovering:
    """
    What comes of writing to all of *written* for the places of *counting*, and for those that
    their places depend on.
    """
    concerned = _with_others(mapping, counting)
    values = {value for path in dict.fromkeys(written) for value in _values(mapping, path)}
    places = [(selector, p) for selector in concerned for p in _patterns(selector) or ()]
    is_large = len(places) * len(values) > _MAX_COMPARED
    if is_large or any(_is_read(selector, values) for selector in concerned):
        return Uncovering.BY_VALUES
    parents = {(value.path[:-1], value.sure) for value in values}
    # A value that is no object is in the way of places; one that is may be, or hold, others.
    if any(
        len(pattern) > value.sure
        and len(pattern) >= len(value.path)
        and _meet(pattern, value.path) is not None
        for value in values
        for _, pattern in places
    ):
        return Uncovering.BY_VALUES
    for selector, pattern in places:
        for path, sure in parents:
            is_new = sure < len(pattern) <= len(path)
            at = _meet(pattern, path) if is_new else None
            if at is not None and not _is_shown(mapping, selector, at, sure):
                return Uncovering.BY_OBJECTS
    return Uncovering.NOTHING


def _with_others(
    mapping: CompiledMapping, selectors: Iterable[CompiledSelector]
) -> list[CompiledSelector]:
    """*selectors*, and those by whose places theirs are created or borrowed."""
    found: dict[str, CompiledSelector] = {}
    waiting = list(selectors)
    while waiting:
        selector = waiting.pop()
        if found.setdefault(selector.name, selector) is not selector:
            continue
        others = [
            None if selector.creates is None else selector.parent,
            None if selector.same_as is None else selector.same_as.spec_selector,
        ]
        waiting += [mapping.selectors[name] for name in others if name and name not in found]
    return list(found.values())


def _patterns(selector: CompiledSelector) -> tuple[Pattern, ...] | None:
    """The patterns of its places, and perhaps of more; None where they can't be told."""
    query = selector.query.plain or outline_of(selector.query.source)
    return None if query is None else patterns_of(query)


# -- what is written ------------------------------------------------------------------------------


def _values(mapping: CompiledMapping, written: WrittenPath) -> Iterator[_Value]:
    selector = None if written.selector is None else mapping.selectors[written.selector]
    patterns = ((),) if selector is None else _patterns(selector)
    if patterns is None:
        # Its places may be anywhere.
        yield _Value((), -1, is_open=True)
        return
    for pattern in patterns:
        place = pattern[: len(pattern) - written.above]
        created = 0 if selector is None else _created_levels(mapping, selector, pattern)
        sure = 0 if selector is None else min(len(pattern) - created, len(place))
        yield _Value((*place, *written.ref), sure, written.is_open)


def _created_levels(mapping: CompiledMapping, selector: CompiledSelector, place: Pattern) -> int:
    """How many levels of a *place* of *selector* may be created by its chain of dependencies."""
    created = selector.creates
    if created is None or not _has_end(place, created):
        return 0
    above = place[: len(place) - len(created)]
    if selector.parent is None:
        return 0 if above else len(created)
    parent = mapping.selectors[selector.parent]
    patterns = _patterns(parent)
    if patterns is None:
        return len(place)
    levels = [
        _created_levels(mapping, parent, above)
        for pattern in patterns
        if len(pattern) == len(above) and _meet(pattern, above) is not None
    ]
    return len(created) + max(levels) if levels else 0


def _has_end(place: Pattern, names: tuple[str, ...]) -> bool:
    end = place[len(place) - len(names) :]
    return len(place) >= len(names) and _meet(end, names) is not None


# -- what is found then ---------------------------------------------------------------------------


def _is_read(selector: CompiledSelector, values: Set[_Value]) -> bool:
    """Whether a condition of *selector*, in its query or not, may be about one of *values*."""
    same = selector.same_as
    if same is not None and same.when:
        condition = (same.when,)
        if any(_meet(condition, value.path) is not None for value in values):
            return True
    source = selector.query.source
    if selector.query.plain is not None or not values:
        return False
    names = reads_of(source)
    if names is None or outline_of(source) is None:
        return True
    begin = outline_before_conditions(source)
    begins = ((),) if begin is None else patterns_of(begin)
    return bool(names) and any(
        (value.is_open or not names.isdisjoint({*value.path[value.sure :], *value.path[-1:]}))
        and any(_meet(pattern, value.path) is not None for pattern in begins)
        for value in values
    )


def _meet(one: Pattern, other: Pattern) -> Pattern | None:
    """What *one* and *other* have in common as far as the shorter goes; None if they part."""
    common: list[Token] = []
    for left, right in zip(one, other, strict=False):
        if left is EACH:
            common.append(right)
        elif right is EACH or _folded(left) == _folded(right):
            common.append(left)
        else:
            return None
    return tuple(common)


def _folded(token: Token) -> Token:
    # A selector may find a name in any case.
    return token.casefold() if isinstance(token, str) else token


def _is_shown(mapping: CompiledMapping, selector: CompiledSelector, at: Pattern, sure: int) -> bool:
    """
    Whether *selector* has its place *at* before it is written to: it may be created there.

    What is no longer than *sure* is there by then.
    """
    created, plain = selector.creates, selector.query.plain
    if created is None or at[len(at) - len(created) :] != created:
        return False
    any_case = frozenset() if plain is None else frozenset(plain.any_case)
    if any_case.intersection(created):
        return False  # Where the name stands in another case, none is created.
    above = at[: len(at) - len(created)]
    if selector.parent is None:
        # It is looked for where there is no other place: all stand below it.
        return not above and all(
            pattern[: len(at)] == at for pattern in _patterns(selector) or ((),)
        )
    parent = mapping.selectors[selector.parent]
    if len(above) > sure:
        return _is_shown(mapping, parent, above, sure)
    query = parent.query.plain or outline_without_conditions(parent.query.source)
    return query is not None and any(
        _covers(pattern, above) and any_case.intersection(pattern) <= {*query.any_case}
        for pattern in patterns_of(query)
    )


def _covers(pattern: Pattern, place: Pattern) -> bool:
    """Whether every place that *place* stands for is one of *pattern*."""
    return len(pattern) == len(place) and all(
        own is EACH or own == token for own, token in zip(pattern, place, strict=True)
    )
