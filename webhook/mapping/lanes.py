"""Children for one call at a time, and what is remembered of what they said."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Generic, TypeVar

from webhook.errors import JqBusyError, JqUnavailableError
from webhook.mapping.jq_child import Answer, Child
from webhook.mapping.limits import WorkerLimits


class Lane:
    """One child at a time, for one call at a time."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._closed = False

    def run(self, task: bytes, program: str, document: bytes, begin_until: float) -> Answer:
        """
        Ask the child, unless it is busy until *begin_until* (monotonic).

        Raises:
            DiedError: the child died of the program.
            JqBusyError: the child is busy.
            JqUnavailableError: it can't be started.
        """
        left_s = begin_until - time.monotonic()
        if left_s <= 0 or not self._lock.acquire(timeout=left_s):
            raise JqBusyError("jq was busy with other objects for too long")

        try:
            if self._closed:
                raise JqUnavailableError("the jq worker is closed")

            if self._child is None or not self._child.is_alive():
                self._end_child()
                self._child = Child(self._limits)
            return self._child.ask(task, program.encode(errors="replace"), document)
        except BaseException:
            # Whatever it was, the child may be in the middle of an answer.
            self._end_child()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end_child()

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


_V = TypeVar("_V")


class Recent(Generic[_V]):
    """A bounded map for several threads; what was written longest ago makes room."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._values: OrderedDict[str, _V] = OrderedDict()

    def get(self, key: str) -> _V | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: str, value: _V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._size:
                self._values.popitem(last=False)
