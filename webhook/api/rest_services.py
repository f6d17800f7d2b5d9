"""What the handlers of the REST API share beside the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from webhook.api.auth import Authenticator, Authorizer
from webhook.api.limits.bodies import MAX_PLAIN_BYTES, BodyRoom, Turns
from webhook.api.recent_decisions import RecentDecisions
from webhook.store.compile.inputs import QueryCheck
from webhook.store.source import DocumentStore

_P = ParamSpec("_P")
_T = TypeVar("_T")


class ServedKinds(Protocol):
    """Tells what the API server serves."""

    async def kinds_of(self, group: str) -> Mapping[str, Sequence[str]]:
        """The kinds of *group* that it serves, and the versions of each."""


@dataclass(frozen=True, slots=True)
class RestServices:
    """
    Where the API reads and writes, and whom it asks.

    *replica* names this process in answers that are about it alone. *served* is there with a
    cluster only.
    """

    store: DocumentStore
    authenticator: Authenticator
    authorizer: Authorizer
    replica: str
    check_query: QueryCheck | None = None
    served: ServedKinds | None = None
    decisions: RecentDecisions = field(default_factory=RecentDecisions)
    # One change is checked and written before the next one is looked at.
    writes: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Of its own: many bodies that are here and wait for their turn must not take the room of
    # reviews. The largest without what is written as several bytes, or many of a usual size; and
    # one more.
    bodies: BodyRoom = field(default_factory=lambda: BodyRoom(MAX_PLAIN_BYTES))
    # Large bodies come one by one, so that of the turns that admission has for such as well
    # (`Services.big_turns`) one is left to it, whatever is done here and for however long.
    big_turns: Turns = field(default_factory=lambda: Turns(1))
    # Where changes are compiled, submissions tried and lists made, so that reviews are answered
    # meanwhile.
    # One thread, as there is one interpreter lock.
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "rest"))

    @property
    def has_cluster(self) -> bool:
        return self.served is not None

    async def run(self, work: Callable[_P, _T], *args: _P.args, **kw: _P.kwargs) -> _T:
        """What *work* returns. Done in the thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, partial(work, *args, **kw))

    def close(self) -> None:
        """End the thread. What is at work ends after it."""
        self.thread.shutdown(wait=False, cancel_futures=True)
