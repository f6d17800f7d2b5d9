from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from webhook.cli import COMMANDS, PLUGIN_COMMANDS, _build_parser, main

Words = tuple[str, ...]


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


def commands_below(
    parser: argparse.ArgumentParser, words: Words = (), help_text: str | None = None
) -> Iterator[tuple[Words, str | None, argparse.ArgumentParser]]:
    """
    *parser* and every command below it: by what words it is called, and what is said of it in the
    list of the commands beside it.
    """
    yield words, help_text, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            listed = {choice.dest: choice.help for choice in action._choices_actions}
            for name, below in action.choices.items():
                yield from commands_below(below, (*words, name), listed.get(name))


@pytest.mark.parametrize(("is_plugin", "names"), [(False, COMMANDS), (True, PLUGIN_COMMANDS)])
def test_every_command_and_every_option_says_what_it_is(
    is_plugin: bool, names: tuple[str, ...]
) -> None:
    found = list(commands_below(_build_parser([], is_plugin=is_plugin)))

    assert {words[0] for words, _, _ in found if len(words) == 1} == set(names)
    assert ("gpu", "record") in [words for words, _, _ in found]
    assert [words for words, text, _ in found if words and not (text or "").strip()] == []
    assert [words for words, _, each in found if not (each.description or "").strip()] == []
    assert [
        (*words, *(action.option_strings or [action.dest]))
        for words, _, each in found
        for action in each._actions
        if not isinstance(action, argparse._SubParsersAction) and not (action.help or "").strip()
    ] == []


@pytest.mark.parametrize(
    "words",
    [words for words, _, _ in commands_below(_build_parser([], is_plugin=False)) if len(words) > 1],
    ids=" ".join,
)
def test_every_command_of_a_group_has_help(
    words: Words, capsys: pytest.CaptureFixture[str]
) -> None:
    """Printed, so that a `%` in a text is found."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])

    assert ended.value.code == 0
    assert f"usage: gatewright {' '.join(words)}" in capsys.readouterr().out


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
