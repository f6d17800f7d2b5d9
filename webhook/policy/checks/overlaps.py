"""
Which selectors of a mapping lead to one place.

Said from the queries alone, before an object is there: each plain query is a set of patterns, and
two patterns have places in common if no token of one excludes that of the other. A query that
only jq can answer has no patterns, and nothing is said about it.
"""

from __future__ import annotations

from collections.abc import Iterable

from webhook.mapping import patterns
from webhook.mapping.compiled import CompiledSelector
from webhook.mapping.fields import Field
from webhook.mapping.patterns import EACH, Pattern, Token


def patterns_of(selector: CompiledSelector) -> tuple[Pattern, ...]:
    """The patterns of the places of *selector*; none where they can't be told."""
    plain = selector.query.plain
    return () if plain is None else patterns.patterns_of(plain)


def place_patterns(
    selector: CompiledSelector, field: Field, key: str | None
) -> tuple[Pattern, ...]:
    """The patterns of the values of *field* at *selector*; none where they can't be told."""
    if not is_at_its_ref(field):
        return ()
    ref = field.ref if key is None else (*field.ref, key)
    return tuple([(*pattern, *ref) for pattern in patterns_of(selector)])


def is_at_its_ref(field: Field) -> bool:
    """Whether the value of *field* is simply what stands at its path."""
    home = field.home
    return not (field.formatter or home.above or home.codec or home.special)


def meet(one: Pattern, other: Pattern) -> Pattern | None:
    """The pattern of the places that both have; None if there are none."""
    if len(one) != len(other):
        return None
    common: list[Token] = []
    for left, right in zip(one, other, strict=True):
        if right is EACH or left == right:
            common.append(left)
        elif left is EACH:
            common.append(right)
        else:
            return None
    return tuple(common)


def covers(known: Iterable[Pattern], place: Pattern) -> bool:
    """Whether every place of the pattern *place* is one of *known*."""
    return any(meet(pattern, place) == place for pattern in known)
