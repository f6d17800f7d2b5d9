from __future__ import annotations

from pathlib import Path

import pytest

from tests.changelog import DIRECTORY, KINDS, page


def test_entries_stand_below_their_kind_by_subject(tmp_path: Path) -> None:
    (tmp_path / "b.added.md").write_text("Second.\n")
    (tmp_path / "a.added.md").write_text("First,\nin two lines.\n")
    (tmp_path / "c.fixed.md").write_text("- One.\n- Two.\n")

    assert page(tmp_path) == (
        "# Not released yet\n\n## Added\n\n- First,\n  in two lines.\n- Second.\n"
        "\n## Fixed\n\n- One.\n- Two.\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        pytest.param("a.md", "x", "must be SUBJECT.KIND.md", id="no-kind"),
        pytest.param("a.news.md", "x", "must be SUBJECT.KIND.md", id="another-kind"),
        pytest.param("a.added.txt", "x", "must be SUBJECT.KIND.md", id="no-markdown"),
        pytest.param("a.added.md", "\n", "says nothing", id="empty"),
    ],
)
def test_a_file_that_would_be_lost_is_named(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(ValueError, match=problem):
        page(tmp_path)


def test_all_that_waits_can_be_read() -> None:
    text = page()

    assert [kind for kind in KINDS if f"## {kind.capitalize()}" in text]
    assert all(path.read_text().split("\n")[0].lstrip("- ") in text for path in DIRECTORY.iterdir())
