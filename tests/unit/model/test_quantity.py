"""Quantities: grammar, amounts and canonical text as Kubernetes has them."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.errors import QuantityError
from webhook.model.quantity import (
    MIB,
    canonical,
    format_quantity,
    parse_integer,
    parse_quantity,
)

LIMIT_123_MI = 128_974_848
CAP = 2**63 - 1
NANO = Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        pytest.param("128974848", LIMIT_123_MI, id="bare"),
        pytest.param("123Mi", LIMIT_123_MI, id="binary"),
        pytest.param("128974848000m", LIMIT_123_MI, id="milli"),
        pytest.param("0.123Gi", Fraction(132070244352, 1000), id="binary-with-a-fraction"),
        pytest.param("129M", 129_000_000, id="mega"),
        pytest.param("129e6", 129_000_000, id="exponent"),
        pytest.param("129E6", 129_000_000, id="capital-exponent"),
        pytest.param("1.29e8", 129_000_000, id="exponent-after-a-point"),
        pytest.param("1e+3", 1000, id="signed-exponent"),
        pytest.param("15e-1", Fraction(3, 2), id="negative-exponent"),
        pytest.param("1E", 10**18, id="exa"),
        pytest.param("1E3", 1000, id="not-exa-but-an-exponent"),
        pytest.param("1e3", 1000, id="small-e"),
        pytest.param("1k", 1000, id="kilo"),
        pytest.param("1.", 1, id="nothing-after-the-point"),
        pytest.param(".5Gi", 2**29, id="nothing-before-the-point"),
        pytest.param("+5Mi", 5 * MIB, id="plus"),
        pytest.param("-1", -1, id="minus"),
        pytest.param("-1.5Gi", -1536 * MIB, id="minus-binary"),
        pytest.param("007", 7, id="leading-zeros-are-no-octal"),
        pytest.param("500m", Fraction(1, 2), id="half-a-core"),
        pytest.param("0.0005k", Fraction(1, 2), id="half-a-core-in-kilo"),
        pytest.param("499m", Fraction(499, 1000), id="just-below"),
        pytest.param("2001m", Fraction(2001, 1000), id="just-above"),
        pytest.param("1u", Fraction(1, 10**6), id="micro"),
        pytest.param("1n", NANO, id="nano"),
        pytest.param("1T", 10**12, id="tera"),
        pytest.param("1P", 10**15, id="peta"),
        pytest.param("1Ki", 2**10, id="kibi"),
        pytest.param("1Ti", 2**40, id="tebi"),
        pytest.param("1Pi", 2**50, id="pebi"),
        pytest.param("1Ei", 2**60, id="exbi"),
        pytest.param(1, 1, id="int"),
        pytest.param(0.5, Fraction(1, 2), id="float"),
        pytest.param(0.1, Fraction(1, 10), id="float-by-its-shortest-form"),
        pytest.param(2.0, 2, id="float-without-a-fraction"),
        pytest.param(1e22, 10**22, id="float-with-an-exponent"),
        pytest.param(1.7976931348623157e308, 17976931348623157 * 10**292, id="largest-double"),
        pytest.param(Decimal("0.5"), Fraction(1, 2), id="decimal"),
        pytest.param(Decimal("1E+5"), 100_000, id="decimal-with-an-exponent"),
        pytest.param(2**64 + 1, 2**64 + 1, id="int-beyond-64-bits"),
    ],
)
def test_a_quantity_is_read_exactly(value: object, amount: Fraction | int) -> None:
    assert parse_quantity(value) == amount


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        pytest.param("0.9n", NANO, id="below-nano"),
        pytest.param("1.1n", 2 * NANO, id="between-nanos"),
        pytest.param("-1.1n", -2 * NANO, id="away-from-zero"),
        pytest.param("1e-999999999", NANO, id="as-good-as-nothing"),
        pytest.param("0.0000000001Ki", 103 * NANO, id="after-the-binary-factor"),
        pytest.param("0e-999999999", 0, id="nothing-stays-nothing"),
        pytest.param("8Ei", CAP, id="cap"),
        pytest.param("-8Ei", -CAP, id="cap-below-zero"),
        pytest.param("9" * 500 + "Ki", CAP, id="cap-of-a-long-text"),
        pytest.param("9223372036854775808", 2**63, id="decimals-have-no-cap"),
        pytest.param("10E", 10**19, id="suffixed-decimals-have-no-cap"),
    ],
)
def test_rounding_and_caps_are_those_of_kubernetes(value: str, amount: Fraction | int) -> None:
    assert parse_quantity(value) == amount


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("", "''", id="empty"),
        pytest.param("1K", "'1K'", id="capital-kilo"),
        pytest.param("1ki", "'1ki'", id="small-kibi"),
        pytest.param("1mi", "'1mi'", id="small-mebi"),
        pytest.param("1GB", "'1GB'", id="bytes"),
        pytest.param("1 Gi", "'1 Gi'", id="space-inside"),
        pytest.param(" 1", "' 1'", id="space-before"),
        pytest.param("1\n", r"'1\n'", id="line-end"),
        pytest.param("1_000", "'1_000'", id="underscore"),
        pytest.param("1,5", "'1,5'", id="comma"),
        pytest.param("０", "'０'", id="wide-digit"),
        pytest.param("١", "'١'", id="arabic-digit"),
        pytest.param("0x10", "'0x10'", id="hexadecimal"),
        pytest.param("NaN", "'NaN'", id="nan-text"),
        pytest.param("inf", "'inf'", id="infinity-text"),
        pytest.param(math.nan, "'nan'", id="nan"),
        pytest.param(math.inf, "'inf'", id="infinity"),
        pytest.param(-math.inf, "'-inf'", id="minus-infinity"),
        pytest.param(Decimal("NaN"), "'NaN'", id="decimal-nan"),
        pytest.param("1e", "'1e'", id="exponent-without-digits"),
        pytest.param("1e+", "'1e+'", id="exponent-with-a-sign-only"),
        pytest.param("1e1.5", "'1e1.5'", id="exponent-with-a-fraction"),
        pytest.param("1kk", "'1kk'", id="two-suffixes"),
        pytest.param("1.2.3", "'1.2.3'", id="two-points"),
        pytest.param("+-1", "'+-1'", id="two-signs"),
        pytest.param(".", "'.'", id="point-only"),
        pytest.param("-", "'-'", id="sign-only"),
        pytest.param("Gi", "'Gi'", id="suffix-only"),
        pytest.param(True, "true", id="true"),
        pytest.param(False, "false", id="false"),
        pytest.param(None, "null", id="null"),
        pytest.param([], "a list", id="list"),
        pytest.param({}, "an object", id="object"),
        pytest.param(b"1", "a bytes", id="bytes-value"),
    ],
)
def test_what_is_no_quantity_is_refused_and_shown(value: object, shown: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(value)

    assert str(caught.value).startswith(f"{shown} ")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("9" * 2_000_000, id="two-million-digits"),
        pytest.param("0." + "0" * 2_000_000 + "1", id="two-million-zeros"),
        pytest.param("1" * 5000 + "Gi", id="beyond-the-limit-of-python"),
        pytest.param("1e400", id="just-too-large"),
        pytest.param("1e999999999", id="huge-exponent"),
        pytest.param("1e99999999999999999999", id="exponent-beyond-64-bits"),
        pytest.param("1e4294967296", id="exponent-that-wraps-to-0-in-go"),
        pytest.param(10**5000, id="huge-int"),
        pytest.param(-(10**5000), id="huge-negative-int"),
        pytest.param(Decimal("1E+999999"), id="huge-decimal"),
    ],
)
def test_a_hostile_number_is_refused_at_once(value: object) -> None:
    started = time.perf_counter()

    with pytest.raises(QuantityError) as caught:
        parse_quantity(value)

    # Computing any of these takes minutes or all memory.
    assert time.perf_counter() - started < 1
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("1024Mi", "1Gi", id="binary-stays-binary"),
        pytest.param("1000Mi", "1000Mi", id="binary-that-is-no-power"),
        pytest.param("1.5Gi", "1536Mi", id="binary-without-its-fraction"),
        pytest.param("0.5Ki", "512", id="binary-below-1024"),
        pytest.param("0.1Mi", "104857600m", id="binary-that-leaves-a-fraction"),
        pytest.param("8Ei", "9223372036854775807", id="binary-cap"),
        pytest.param("-2048Ki", "-2Mi", id="binary-below-zero"),
        pytest.param("0.5", "500m", id="fraction"),
        pytest.param("1.500", "1500m", id="trailing-zeros"),
        pytest.param("1000m", "1", id="whole"),
        pytest.param("0.0000001", "100n", id="nano"),
        pytest.param("1000k", "1M", id="larger-suffix"),
        pytest.param("1000E", "1e21", id="beyond-exa"),
        pytest.param("129e6", "129e6", id="exponent-stays-exponent"),
        pytest.param("129E6", "129e6", id="capital-exponent"),
        pytest.param("1.29e8", "129e6", id="exponent-in-steps-of-three"),
        pytest.param("1e4", "10e3", id="exponent-rounded-down"),
        pytest.param("1e0", "1", id="no-exponent-needed"),
        pytest.param("1e-3", "1e-3", id="negative-exponent"),
        pytest.param("+5Mi", "5Mi", id="plus-is-left-out"),
        pytest.param("1.", "1", id="point-is-left-out"),
        pytest.param("-0", "0", id="no-negative-zero"),
        pytest.param("0Gi", "0", id="zero-has-no-suffix"),
        pytest.param(1024, "1024", id="int"),
        pytest.param(1e6, "1M", id="float"),
        pytest.param(0.5, "500m", id="float-fraction"),
    ],
)
def test_the_canonical_text_keeps_the_family(value: object, text: str) -> None:
    assert canonical(value) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        pytest.param(Fraction(1000, 1000), "1", id="one"),
        pytest.param(Fraction(1, 2), "500m", id="half"),
        pytest.param(1500, "1500", id="no-fraction-is-written"),
        pytest.param(10**6, "1M", id="mega"),
        pytest.param(-(10**3), "-1k", id="below-zero"),
        pytest.param(0, "0", id="zero"),
        pytest.param(MIB, "1048576", id="decimal-family-only"),
        pytest.param(10**21, "1e21", id="beyond-exa"),
        pytest.param(Fraction(1, 3), "333333334n", id="rounded-up-to-nano"),
        pytest.param(Fraction(-1, 3), "-333333334n", id="rounded-away-from-zero"),
    ],
)
def test_an_amount_is_written_with_a_decimal_suffix(amount: Fraction | int, text: str) -> None:
    assert format_quantity(amount) == text


@pytest.mark.parametrize(
    ("value", "number"),
    [
        pytest.param(8, 8, id="int"),
        pytest.param(1.0, 1, id="integral-float"),
        pytest.param("8", 8, id="text"),
        pytest.param("+8", 8, id="plus"),
        pytest.param("-1", -1, id="minus"),
        pytest.param("010", 10, id="leading-zero-is-no-octal"),
        pytest.param(2**70, 2**70, id="beyond-64-bits"),
        pytest.param("8.0", 8, id="text-with-a-fraction-of-nothing"),
        pytest.param("1e3", 1000, id="text-with-an-exponent"),
    ],
)
def test_a_whole_number_is_read(value: object, number: int) -> None:
    assert parse_integer(value) == number


@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        1.5,
        math.nan,
        math.inf,
        "",
        "1.5",
        "1e-1",
        "8x",
        "1k",
        " 8",
        "8\n",
        "1_000",
        "٨",
        "9" * 5000,
        pytest.param(10**5000, id="huge-int"),
        [8],
    ],
)
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(QuantityError, match="is not a whole number"):
        parse_integer(value)


def test_division_into_mib_does_not_round() -> None:
    """Rounding is for the caller: one byte too many must show."""
    assert math.ceil(parse_quantity("1Gi") / MIB) == 1024
    assert math.ceil((parse_quantity("4Ei") + 1) / MIB) == 2**42 + 1


spellings = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "+", "-"]),
        st.from_regex(r"[0-9]{1,20}", fullmatch=True),
        st.from_regex(r"(\.[0-9]{0,12})?", fullmatch=True),
        st.sampled_from(
            [*"numkMGTPE", "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-7", "e+12"]
        ),
    ),
)


@pytest.mark.slow
@settings(deadline=None)
@given(spellings)
def test_the_canonical_text_stands_for_the_same_amount(spelling: str) -> None:
    text = canonical(spelling)

    assert parse_quantity(text) == parse_quantity(spelling)
    assert canonical(text) == text


@settings(deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(0, 9))
def test_a_written_amount_reads_back(numerator: int, decimals: int) -> None:
    amount = Fraction(numerator, 10**decimals)

    assert parse_quantity(format_quantity(amount)) == amount


@settings(deadline=None)
@given(st.floats(-1e15, 1e15))
def test_a_float_is_read_as_it_is_printed(value: float) -> None:
    exact = Fraction(repr(value))

    assert abs(parse_quantity(value) - exact) < NANO


@pytest.mark.slow
@settings(deadline=None)
@given(st.text() | st.from_regex(r"[-+.0-9eEinumkKMGTP]{0,12}", fullmatch=True))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    try:
        amount = parse_quantity(text)
    except QuantityError:
        return

    assert (amount / NANO).denominator == 1
