"""What a server with too much to do consists of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from webhook.api.limits.bodies import BodyRoom, BusyError
from webhook.api.limits.line import Line


class FullLine(Line):
    """One in which nobody gets a turn in time."""

    async def wait_turn(
        self, *, wait_until: float, is_gone: Callable[[], bool], peer: Callable[[], str]
    ) -> None:
        raise BusyError("reviews")


class FullRoom(BodyRoom):
    """One that has no room for anybody."""

    def read(self, *_args: Any, **_more: Any) -> NoReturn:
        raise BusyError
