"""Paths at which storage is mounted: which spellings lead to one place."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.policy.rules.mounts import is_same_mount, mount_path


@pytest.mark.parametrize(
    ("value", "path"),
    [
        pytest.param("/d", "/d", id="as-it-is"),
        pytest.param("/d/", "/d", id="slash-behind"),
        pytest.param("//d", "/d", id="two-slashes-before"),
        pytest.param("///d", "/d", id="three-slashes-before"),
        pytest.param("//d//e", "/d/e", id="two-slashes-between"),
        pytest.param("d", "/d", id="relative"),
        pytest.param("./d", "/d", id="relative-from-here"),
        pytest.param("../d", "/d", id="above-the-root"),
        pytest.param("/q/../d", "/d", id="up-and-down"),
        pytest.param("//", "/", id="the-root"),
        pytest.param(" /d", "/ /d", id="a-blank-is-a-name"),
        pytest.param("", "", id="empty"),
        pytest.param(None, "", id="absent"),
        pytest.param(5, "", id="no-text"),
    ],
)
def test_a_path_is_known_in_all_spellings(value: Any, path: str) -> None:
    assert mount_path(value) == path


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("/d", "//d/", True),
        ("/d", "d", True),
        ("/d", "/e", False),
        ("/q/../d", "/q/../d", True),
        # /q may be a link in the image.
        ("/d", "/q/../d", False),
    ],
)
def test_two_paths_are_one_only_if_they_surely_lead_to_one_place(
    one: str, other: str, same: bool
) -> None:
    assert is_same_mount(one, other) is same
    assert is_same_mount(other, one) is same
