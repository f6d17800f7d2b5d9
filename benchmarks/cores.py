"""
Which core does what.

Apart from `benchmarks.server`: whoever measures his own memory imports as little as he can.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def choose_cores() -> tuple[int | None, int | None]:
    """One for the server, one for the client; the same if there is no other; None: not pinned."""
    if not hasattr(os, "sched_setaffinity"):
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


def pin(core: int | None) -> None:
    """Keep the calling process on *core*."""
    if core is not None:
        os.sched_setaffinity(0, {core})


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Keep the calling thread, and what it starts, on *core* for the time of the block."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    pin(core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
