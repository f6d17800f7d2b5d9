"""Windows over samples, as Prometheus looks through them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

import pytest

from tests.gpu_rounds import NOW, SCALE_BACK, UPSIZE
from webhook.model.rightsizing.policies import Direction
from webhook.reactive.decisions.windows import (
    Series,
    avg_over_time,
    max_over_time,
    parse_sample,
    read_window,
)

KEY = ("llm-0", "main", "gpu-a")
TEN_MINUTES = timedelta(minutes=10)


def decimals(*texts: str) -> list[Decimal]:
    return [parse_sample(text) for text in texts]


def make_series(*values: str, last: timedelta = timedelta()) -> Series:
    """One value a minute, the last one so long before NOW."""
    times = [NOW - last - timedelta(minutes=back) for back in range(len(values))][::-1]
    return Series(KEY, times, decimals(*values))


def answer(
    direction: Direction, *copies: Series, window: timedelta = TEN_MINUTES
) -> Decimal | None:
    return read_window(direction, copies, NOW, window).get(KEY)


def test_the_left_end_is_outside_and_the_right_end_inside() -> None:
    series = make_series("1000", *["10"] * 9, "20")

    assert series.within(NOW, TEN_MINUTES) == decimals(*["10"] * 9, "20")
    assert series.within(NOW - timedelta(seconds=1), TEN_MINUTES) == decimals("1000", *["10"] * 9)


def test_upsize_looks_at_the_mean_and_scale_back_at_the_maximum() -> None:
    series = make_series("10", "20", "90")

    assert (answer(UPSIZE, series), answer(SCALE_BACK, series)) == (Decimal(40), Decimal(90))


def test_the_function_comes_first_and_then_the_largest_of_the_copies() -> None:
    """The largest at each time, and then the mean, would be 90."""
    first, second = make_series("90", "10"), make_series("10", "90")

    assert answer(UPSIZE, first, second) == 50


def test_copies_need_not_have_samples_at_the_same_times() -> None:
    assert answer(UPSIZE, make_series("40"), make_series("80", last=timedelta(minutes=9))) == 80


def test_devices_and_containers_stay_apart() -> None:
    other = Series(("llm-0", "main", "gpu-b"), [NOW], decimals("5"))

    assert read_window(UPSIZE, [make_series("7"), other], NOW, TEN_MINUTES) == {
        KEY: Decimal(7),
        ("llm-0", "main", "gpu-b"): Decimal(5),
    }


@pytest.mark.parametrize("direction", list(Direction))
def test_without_a_sample_in_the_window_there_is_no_answer(direction: Direction) -> None:
    assert answer(direction, make_series("50", last=TEN_MINUTES)) is None
    assert answer(direction) is None
    assert answer(direction, make_series("50", last=-timedelta(minutes=1))) is None


@pytest.mark.parametrize(
    ("values", "mean", "largest"),
    [
        pytest.param(["NaN", "40"], None, "40", id="nan-spoils-a-mean-only"),
        pytest.param(["NaN", "NaN"], None, None, id="nothing-but-nan"),
        pytest.param(["+Inf", "40"], None, None, id="infinite"),
        pytest.param(["-Inf", "40"], None, "40", id="minus-infinite"),
        pytest.param(["+Inf", "-Inf"], None, None, id="both"),
        pytest.param(["-5", "-5"], None, None, id="negative"),
        pytest.param(["-5", "25"], "10", "25", id="a-negative-part"),
        pytest.param(["0"], "0", "0", id="zero-is-a-sample"),
        pytest.param(["1e400"], None, None, id="beyond-a-float"),
    ],
)
def test_answers_that_are_no_percentage_are_none(
    values: Sequence[str], mean: str | None, largest: str | None
) -> None:
    series = make_series(*values)

    assert answer(UPSIZE, series) == (None if mean is None else Decimal(mean))
    assert answer(SCALE_BACK, series) == (None if largest is None else Decimal(largest))


def test_a_copy_of_nan_gives_way_to_another() -> None:
    assert answer(UPSIZE, make_series("NaN"), make_series("40")) == 40


def test_means_are_exact_in_more_digits_than_anybody_needs() -> None:
    assert avg_over_time(decimals("0.1", "0.2", "0.3")) == Decimal("0.2")
    third = avg_over_time(decimals("1", "0", "0"))
    assert third is not None
    assert abs(third * 3 - 1) < Decimal("1e-50")


def test_functions_of_nothing_are_nothing() -> None:
    assert avg_over_time([]) is None
    assert max_over_time([]) is None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("80.5", Decimal("80.5")),
        ("1e-05", Decimal("0.00001")),
        ("+Inf", Decimal("Infinity")),
        ("-Inf", Decimal("-Infinity")),
        ("1e400", Decimal("Infinity")),
        ("-1e400", Decimal("-Infinity")),
    ],
)
def test_values_are_read_as_prometheus_prints_them(text: str, want: Decimal) -> None:
    assert parse_sample(text) == want


@pytest.mark.parametrize("text", ["nan", "NaN", "sNaN"])
def test_every_nan_is_a_quiet_one(text: str) -> None:
    assert parse_sample(text).is_qnan()


@pytest.mark.parametrize("text", ["", "eighty", "80 %", "0x10"])
def test_a_text_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no number"):
        parse_sample(text)
