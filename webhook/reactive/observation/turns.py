"""
Who is asked about first, and which questions are asked apart, by what came of the last round.

Nobody may keep others from their turn for ever: neither with a question that is too much for
Prometheus, nor with one that it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from webhook.reactive.decisions.queries import NamespaceQuery

_T = TypeVar("_T")


@dataclass(slots=True)
class _Round:
    """
    Queries in the order of the round. *failed* had no answer when they were sent, *troubled* when
    they were sent the last time.
    """

    sent: dict[NamespaceQuery, None] = field(default_factory=dict)
    unsent: dict[NamespaceQuery, None] = field(default_factory=dict)
    failed: set[NamespaceQuery] = field(default_factory=set)
    troubled: set[NamespaceQuery] = field(default_factory=set)


class Turns:
    """What is remembered from one round to the next."""

    def __init__(self) -> None:
        self._last, self._now = _Round(), _Round()

    def begin(self) -> None:
        """A round begins. What is known of one that was given up is forgotten."""
        self._now = _Round()

    def note(self, query: NamespaceQuery, *, sent: bool, failed: bool) -> None:
        """What became of *query* in this round."""
        (self._now.sent if sent else self._now.unsent)[query] = None
        if sent and failed:
            self._now.failed.add(query)
        if failed if sent else query in self._last.troubled:
            self._now.troubled.add(query)

    def end(self) -> None:
        """All that was wanted in the round has been looked at."""
        self._last = self._now

    def are_troubled(self, queries: Iterable[NamespaceQuery]) -> bool:
        """Whether one of a policy's *queries* had no answer when it was sent for the last time."""
        return not self._last.troubled.isdisjoint(queries)

    def in_order(self, wanted: Iterable[_T], namespace: Callable[[_T], str]) -> list[_T]:
        """
        *wanted* by *namespace*: first those that had no turn for something, as they stood in line.

        One with a question that had no answer comes after the others, unless it had no turn at
        all; of these those come last of which one was just sent in vain.
        """
        asked = {query.namespace for query in self._last.sent}
        failed = {query.namespace for query in self._last.failed}
        troubled = {query.namespace for query in self._last.troubled} & asked
        names = dict.fromkeys([query.namespace for query in self._last.unsent])
        line = {name: place for place, name in enumerate(names)}

        def place(each: _T) -> tuple[bool, bool, int, str]:
            name = namespace(each)
            return name in troubled, name in failed, line.get(name, len(line)), name

        return sorted(wanted, key=place)

    def queries_in_order(
        self, policies: Iterable[Collection[NamespaceQuery]]
    ) -> Sequence[NamespaceQuery]:
        """
        The queries of *policies*, each once: first those that had no turn, as they stood in line.

        A policy of which one was just sent in vain comes last with all of its own.
        """
        line = {query: place for place, query in enumerate(self._last.unsent)}
        places: dict[NamespaceQuery, tuple[bool, int]] = {}
        for queries in policies:
            is_last = not self._last.failed.isdisjoint(queries)
            for query in queries:
                place = (is_last, line.get(query, len(line)))
                places[query] = min(place, places.get(query, place))
        return sorted(places, key=places.__getitem__)
