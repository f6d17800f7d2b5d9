from __future__ import annotations

import re
import subprocess
import sys

import pytest

from webhook.cli import COMMANDS, main


def modules_after(*arguments: str) -> set[str]:
    """What a process has loaded once it has run the command line *arguments*."""
    program = (
        "import contextlib, sys; from webhook.cli import main\n"
        "with contextlib.suppress(SystemExit): main(sys.argv[1:])\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("command", ["lint", "review", "serve"])
def test_help_does_not_wait_for_the_http_server_to_load(command: str) -> None:
    assert "aiohttp" not in modules_after(command, "--help")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    assert ended.value.code == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^    {command}\s", text, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    assert f"usage: gatewright {command}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["unheard-of"], ["serve", "--unheard-of"]])
def test_an_unknown_command_line_ends_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert "usage: gatewright" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])

    assert re.fullmatch(r"gatewright \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.slow
def test_a_reader_who_leaves_early_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m webhook crds | head -1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
