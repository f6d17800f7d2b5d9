"""Wait for something that another process does."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.controlplane.errors import WaitTimeoutError

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T], timeout_s: float, what: str, *, interval_s: float = 0.1
) -> T:
    """
    Call *predicate* until its result is true, and return that result.

    It is called at least once, also with a time-out of 0. Its errors are not caught: a
    predicate that may fail for a while says so itself by returning something false.

    Raises:
        WaitTimeoutError: nothing true within *timeout_s*; *what* completes the sentence
            "waited for …".
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = predicate()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(
                f"waited {timeout_s:g} s for {what}: not seen (the last answer was {result!r})"
            )
        time.sleep(interval_s)
