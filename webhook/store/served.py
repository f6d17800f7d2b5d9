"""What the API server serves of the groups that somebody wants to know about."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Generic, NoReturn, TypeVar

from webhook.errors import WebhookError

log = logging.getLogger("gatewright.store")

# The versions in which each kind of a group is served.
KindVersions = Mapping[str, Sequence[str]]

_Told = TypeVar("_Told")

# A CRD that comes is seen so soon. A look takes a call or two for each group of our users' own.
LOOK_PERIOD_S = 10.0
# An API server that takes longer (for another, behind it) is asked again later.
_LOOK_S = 1.0


class ServedGroups(Generic[_Told]):
    """
    Keeps *known* at what *fetch* tells of the groups (or group versions) that *wanted* names.

    Of a group that can't be looked at nothing is known, or what was. *known* is replaced, never
    edited, and *on_change* is told.
    """

    def __init__(
        self,
        fetch: Callable[[str], Awaitable[_Told]],
        wanted: Callable[[], Collection[str]],
        on_change: Callable[[], None],
        *,
        period_s: float = LOOK_PERIOD_S,
    ) -> None:
        self.known: Mapping[str, _Told] = {}
        self._fetch = fetch
        self._wanted = wanted
        self._on_change = on_change
        self._period_s = period_s
        self._tried: set[str] = set()

    async def run(self) -> NoReturn:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._period_s)
            wanted = frozenset(self._wanted())
            for group in sorted(wanted):
                await self.look(group)
            self._tried &= wanted
            self._replace({group: kinds for group, kinds in self.known.items() if group in wanted})

    async def complete(self) -> None:
        """Look at what is wanted and was not looked at yet."""
        for group in sorted(frozenset(self._wanted()) - self._tried):
            await self.look(group)

    async def look(self, group: str) -> None:
        """Look at one group now."""
        self._tried.add(group)
        try:
            async with asyncio.timeout(_LOOK_S):
                kinds = await self._fetch(group)
        except (WebhookError, TimeoutError) as error:
            extra = {"group": group, "reason": str(error)[:300] or "no answer in time"}
            log.debug("what is served can't be looked at", extra=extra)
            return
        self._replace({**self.known, group: kinds})

    def _replace(self, known: Mapping[str, _Told]) -> None:
        if known != self.known:
            self.known = known
            self._on_change()
