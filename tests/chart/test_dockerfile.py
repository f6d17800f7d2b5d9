"""What stands in for a container engine refuses what it doesn't understand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.dockerfile import DockerfileError, build, parse_dockerfile, read_ignored


def make_no_python(root: Path) -> None:
    (root / "usr").mkdir(parents=True)


@pytest.mark.parametrize(
    ("path", "is_left_out"),
    [
        pytest.param("webhook/cli/serve.py", False, id="below-a-directory-that-is-taken"),
        pytest.param("webhook/cli/__pycache__/serve.pyc", True, id="the-last-rule-counts"),
        pytest.param("README.md", False, id="a-file"),
        pytest.param("docs/README.md", True, id="that-name-elsewhere"),
        pytest.param(".ci/constraints.txt", True, id="not-named"),
        pytest.param(".ci/sbom.py", False, id="in-a-directory-that-is-left-out"),
    ],
)
def test_a_dockerignore_leaves_out(path: str, is_left_out: bool) -> None:
    text = "# Comment\n*\n!webhook\n!README.md\n!.ci/sbom.py\n**/__pycache__\n"

    assert read_ignored(text)(path) is is_left_out


def test_an_instruction_may_have_several_lines_with_comments_between() -> None:
    text = "# first\nRUN one \\\n    # why\n    && two\n\nuser 1:1\n"

    assert parse_dockerfile(text) == [("RUN", "one && two"), ("USER", "1:1")]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        pytest.param("RUN true", "no FROM", id="no-stage"),
        pytest.param('SHELL ["sh"]', "not understood", id="instruction"),
        pytest.param("FROM a\nCOPY nothing x", "not in the context", id="no-such-file"),
        pytest.param("FROM a\nCMD serve", "needs a shell", id="shell-form"),
        pytest.param("FROM a\nRUN touch /", "not below the root", id="the-root-itself"),
        pytest.param("FROM a\nRUN touch ../../x", "not below the root", id="upwards"),
        pytest.param("FROM a\nRUN touch ~/x", "not below the root", id="home"),
        pytest.param("FROM a\nRUN exit 3", "exit code 3", id="fails"),
    ],
)
def test_it_refuses(lines: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(lines)
    (tmp_path / ".dockerignore").write_text("")

    with pytest.raises(DockerfileError, match=problem):
        build(tmp_path, tmp_path / "out", make_base=make_no_python)


def test_it_builds_stages_and_stays_below_their_root(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("")
    (tmp_path / "out").mkdir()
    (tmp_path / "Dockerfile").write_text(
        "ARG BASE=some:1\nFROM ${BASE} AS first\nARG WORD=one\nWORKDIR /src\n"
        'RUN mkdir -p /made && echo "$WORD" > /made/file && pwd > /made/where\n'
        'FROM $BASE\nENV A=/made/file B=$A:/c\nCOPY --from=first /made /made\nCMD ["x"]\n'
    )
    image = build(tmp_path, tmp_path / "out", {"WORD": "two"}, make_no_python)
    root = tmp_path / "out" / "root"

    assert (image.base, image.root, image.cmd) == ("some:1", root, ["x"])
    assert (root / "made" / "file").read_text() == "two\n"
    assert (root / "made" / "where").read_text() == f"{root}/src\n"
    assert image.env["B"] == f"{root}/made/file:{root}/c"
    assert not (root / "src").exists()
