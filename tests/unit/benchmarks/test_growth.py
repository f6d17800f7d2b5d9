"""Growth is told by what was not disturbed."""

from __future__ import annotations

from collections import deque

import pytest

from benchmarks.growth import take_turns


@pytest.mark.parametrize(
    ("rounds_us", "shortest_us"),
    [
        pytest.param([(900, 600), (300, 610), (310, 620)], [300, 600], id="slow-first"),
        pytest.param([(300, 600), (305, 900), (310, 595)], [300, 595], id="slow-later"),
        pytest.param([(300, 600)], [300, 600], id="one-round"),
    ],
)
def test_the_shortest_of_all_rounds_counts(
    rounds_us: list[tuple[float, float]], shortest_us: list[float]
) -> None:
    """A first measurement that was slow must not hide that the second row takes twice as long."""
    times_us = {row: deque(each) for row, each in enumerate(zip(*rounds_us, strict=True))}

    found_us = take_turns([0, 1], lambda row: times_us[row].popleft(), len(rounds_us))

    assert found_us == shortest_us


def test_rows_take_turns() -> None:
    turns: list[str] = []

    def measure(row: str) -> float:
        turns.append(row)
        return 1.0

    take_turns(["few", "many"], measure, 2)

    assert turns == ["few", "many", "few", "many"]
