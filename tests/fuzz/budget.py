"""
How much is tried.

In `make test` the numbers that stand at the tests, some 30 s of processor time together. `make
fuzz` runs the profile `long`: other examples each time, and fifty times as many.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

LONG = "long"
_FACTOR = 50


def budget(examples: int) -> settings:
    """Settings of a test that has so many *examples* in `make test`."""
    is_long = settings.get_current_profile_name() == LONG
    return settings(
        max_examples=examples * _FACTOR if is_long else examples,
        derandomize=not is_long,
        # What was found is to become a test of its own, and not a file that nobody else has.
        database=None,
        # Other processes want the same cores; tests of time measure for themselves.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
