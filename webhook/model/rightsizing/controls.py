"""
Two annotations by which people hold rightsizing off: `pause-until` and `skip-containers`.

They stand on a pod or on what made it; `pause-until` on a namespace too. The value nearest to the
pod counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from webhook.model.rightsizing.policies import GROUP
from webhook.model.rightsizing.times import read_time

PAUSE_UNTIL = f"{GROUP}/pause-until"
SKIP_CONTAINERS = f"{GROUP}/skip-containers"
FOREVER = "infinite"


@dataclass(frozen=True, slots=True)
class Controls:
    """The two annotations of one object, as written; None where it has none."""

    pause_until: str | None = None
    skip_containers: str | None = None

    @classmethod
    def of(cls, annotations: Mapping[str, Any] | None) -> Self:
        """Those among *annotations*. What is no text is not there."""
        found = annotations or {}
        values = [found.get(name) for name in (PAUSE_UNTIL, SKIP_CONTAINERS)]
        return cls(*[value if isinstance(value, str) else None for value in values])


NO_CONTROLS = Controls()


def pause_of(controls: Iterable[Controls], now: datetime) -> str:
    """
    Why a pod is paused at *now*; ``""`` if it isn't. *controls* are its own, then its owners'.

    The first value counts, be it that it is over. One that can't be read pauses: whoever wrote
    it wanted a pause.
    """
    for given in controls:
        if given.pause_until is not None:
            text = given.pause_until.strip()
            if text == FOREVER:
                return "it is paused"
            try:
                end = read_time(text)
            except ValueError:
                return 'it is paused: pause-until is neither "infinite" nor a time of RFC 3339'
            return f"it is paused until {text}" if now < end else ""
    return ""


def skipped_containers(controls: Iterable[Controls]) -> frozenset[str]:
    """
    The containers that are to be left alone. *controls* are those of the pod, then its owners'.

    Names are separated by commas. An empty value on the pod skips none, whatever its owners say;
    on an owner it says nothing.
    """
    for position, given in enumerate(controls):
        if given.skip_containers is None:
            continue
        names = [name.strip() for name in given.skip_containers.split(",")]
        found = frozenset(filter(None, names))
        if found or position == 0:
            return found
    return frozenset()
