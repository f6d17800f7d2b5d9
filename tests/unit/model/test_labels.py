from __future__ import annotations

import pytest

from webhook.model.labels import is_label_key, is_label_value


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("app", True),
        ("example.com/cost-centre", True),
        ("a.b.c/D_e.f", True),
        ("", False),
        ("/x", False),
        ("x/", False),
        ("a/b/c", False),
        ("Example.com/x", False),
        ("-x", False),
        ("x\n", False),
        ("x" * 63, True),
        ("x" * 64, False),
        ("a." * 127 + "a/x", False),
    ],
)
def test_a_key_is_a_name_with_an_optional_domain(key: str, valid: bool) -> None:
    assert is_label_key(key) is valid


@pytest.mark.parametrize(
    ("value", "valid"),
    [("", True), ("My_value.1", True), ("12:30", False), ("a b", False), ("x" * 64, False)],
)
def test_a_value_is_a_name_or_empty(value: str, valid: bool) -> None:
    assert is_label_value(value) is valid
