"""Globs: what they match, and that no text can make them slow."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.model.globs import MAX_CHARS, Glob


@pytest.mark.parametrize(
    ("pattern", "text", "want"),
    [
        pytest.param("registry.example/*", "registry.example/a/b:1", True, id="star-crosses-slash"),
        pytest.param("registry.example/*", "registry.example/", True, id="star-of-nothing"),
        pytest.param("registry.example/*", "registry.example.evil/a", False, id="other-host"),
        pytest.param("registry.example/*", "x/registry.example/a", False, id="from-the-start"),
        pytest.param("*:latest", "nginx:latest", True, id="tail"),
        pytest.param("*:latest", "nginx:latest-1", False, id="to-the-end"),
        pytest.param("v?", "v1", True, id="one-character"),
        pytest.param("v?", "v", False, id="not-none"),
        pytest.param("v?", "v12", False, id="not-two"),
        pytest.param("a*b*c", "aXbYc", True, id="two-stars"),
        pytest.param("a*b*c", "acb", False, id="order-counts"),
        pytest.param("ab*ba", "aba", False, id="head-and-tail-do-not-overlap"),
        pytest.param("ab*ba", "abba", True, id="head-and-tail-may-touch"),
        pytest.param("*a?c*", "xabc", True, id="question-mark-between-stars"),
        pytest.param("**", "", True, id="two-stars-of-nothing"),
        pytest.param("*", "a\nb", True, id="star-crosses-lines"),
        pytest.param("?", "\n", True, id="question-mark-is-a-line-end"),
        pytest.param("a", "a\n", False, id="whole-text"),
        pytest.param("", "", True, id="empty"),
        pytest.param("", "a", False, id="empty-is-nothing-else"),
        pytest.param("a.c", "abc", False, id="point-is-a-point"),
        pytest.param("[ab]", "a", False, id="no-classes"),
        pytest.param("[ab]", "[ab]", True, id="brackets-are-brackets"),
        pytest.param("{a,b}", "a", False, id="no-braces"),
        pytest.param(r"\*", r"\anything", True, id="no-escapes"),
        pytest.param("A", "a", False, id="case-counts"),
        pytest.param("?", "é", True, id="character-not-byte"),
    ],
)
def test_a_glob_matches_the_whole_text(pattern: str, text: str, want: bool) -> None:
    assert Glob.compile(pattern).match(text) is want


def fits(pattern: str, text: str) -> bool:
    """The definition, one character at a time."""
    reachable = {0}
    for c in pattern:
        if c == "*":
            reachable = set(range(min(reachable, default=len(text) + 1), len(text) + 1))
        else:
            reachable = {i + 1 for i in reachable if i < len(text) and c in ("?", text[i])}
    return len(text) in reachable


@settings(deadline=None)
@given(st.text("ab*?\n", max_size=12), st.text("ab\n", max_size=14))
def test_a_glob_agrees_with_the_definition(pattern: str, text: str) -> None:
    assert Glob.compile(pattern).match(text) == fits(pattern, text)


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_text_between_stars_is_found_wherever_it_is(needle: str, around: str) -> None:
    literal = needle.replace("*", "").replace("?", "")

    assert Glob.compile(f"*{literal}*").match(around + literal + around)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("*a" * 120 + "*b", id="many-stars"),
        pytest.param("*" + "a" * 250 + "b", id="long-stretch"),
        pytest.param("*" + "?a" * 120 + "b*", id="many-question-marks"),
        pytest.param("*" * 255 + "b", id="stars-only"),
    ],
)
def test_a_hostile_pattern_takes_no_time_that_counts(pattern: str) -> None:
    glob = Glob.compile(pattern)
    started = time.perf_counter()

    assert not glob.match("a" * 100_000)

    # With backtracking, this would not end; it takes less than 0.1 s.
    assert time.perf_counter() - started < 5


def test_a_pattern_that_is_too_long_is_refused() -> None:
    assert Glob.compile("*" * MAX_CHARS).match("a")

    with pytest.raises(ValueError, match="longer than 256 characters"):
        Glob.compile("*" * (MAX_CHARS + 1))
