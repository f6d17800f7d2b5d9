"""Values that a kind writes otherwise than the workload API."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.mapping.codecs import CODECS, Unreadable


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("512m", "512Mi"),
        ("2g", "2Gi"),
        ("2G", "2Gi"),
        ("2gb", "2Gi"),
        ("2Gi", "2Gi"),
        ("1024k", "1024Ki"),
        ("1t", "1Ti"),
        ("512", "512Mi"),
        ("512b", "512"),
    ],
)
def test_an_amount_of_memory_is_read_as_the_jvm_does(written: str, read: str) -> None:
    assert CODECS["jvm"].from_home(written) == read


@pytest.mark.parametrize("written", ["", "g", "1.5g", "-1m", "1x", 512, None, ["1g"]])
def test_no_amount_of_the_jvm(written: Any) -> None:
    assert CODECS["jvm"].from_home(written) == Unreadable(written)


@pytest.mark.parametrize(("amount", "written"), [("1Gi", "1024m"), ("1G", "954m"), (1, "1m")])
def test_an_amount_is_written_for_the_jvm_in_mib_and_not_less(amount: Any, written: str) -> None:
    assert CODECS["jvm"].to_home(amount) == written
