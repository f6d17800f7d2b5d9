"""
What the command writes for people: nothing that it was given can move their cursor.

Names of files, texts of an API server and words in a policy are written by others.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from webhook.model.printable import printable, printable_lines

RED, GREEN, YELLOW, RESET = "\033[31m", "\033[32m", "\033[33m", "\033[0m"
_COLOURS = re.compile("(" + "|".join(map(re.escape, (RED, GREEN, YELLOW, RESET))) + ")")


def complain(message: str) -> None:
    """Something about unusable input, or a warning."""
    sys.stderr.write(f"gatewright: {printable_lines(message)}\n")


def write_line(line: str) -> None:
    """One line of an answer, without colours."""
    sys.stdout.write(f"{printable(line)}\n")


def write_lines(lines: Iterable[str]) -> None:
    """*lines*, with their colours only on a terminal."""
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in lines:
        # Texts and colours by turns.
        parts = _COLOURS.split(line)
        parts[::2] = [printable_lines(part) for part in parts[::2]]
        sys.stdout.write("".join(parts if is_coloured else parts[::2]) + "\n")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON by the standard library: a manifest may hold what orjson stops at (64 bits, depth)."""
    return printable(json.dumps(value, indent=indent, ensure_ascii=False))


def add_output_flag(parser: argparse.ArgumentParser, *formats: str) -> None:
    """`-o`; the first of *formats* is what comes without it."""
    parser.add_argument(
        "-o",
        dest="output",
        choices=formats,
        default=formats[0],
        help="how the answer is written (default: %(default)s)",
    )


class Parser(argparse.ArgumentParser):
    """Complains about flags: a name of a file that begins with `-` is taken for one."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))
