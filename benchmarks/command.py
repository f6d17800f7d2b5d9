"""The command line that the parts share: one part by itself."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable

from benchmarks.report import Section, show_section, show_targets, to_json
from benchmarks.table import describe_machine, write_json


def run_alone(module: str, purpose: str, measure: Callable[..., Section], **numbers: int) -> None:
    """
    Measure one part, as `python -m benchmarks.MODULE`.

    *numbers* are what *measure* takes: each becomes an option, with its value as the default.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{module}", description=purpose)
    for name, default in numbers.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, metavar="N", type=int, default=default)
    add_json(parser)
    args = vars(parser.parse_args())
    file = args.pop("json")
    end_on_signals()
    machine = describe_machine()
    section = measure(**args)
    show_section(section)
    show_targets({"": section.targets})
    print(machine)
    if file:
        write_json(file, {"machine": machine, **to_json({module: section})})


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")


def end_on_signals() -> None:
    """End as on Ctrl-C when asked to, so that the servers end too."""
    for asked in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(asked, lambda number, _: sys.exit(128 + number))
