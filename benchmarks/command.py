"""The command line that the parts share: one part by itself."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Collection, Mapping

from benchmarks.report import Section, show_section, show_targets, to_json
from benchmarks.table import describe_machine, write_json
from tests.controlplane.build import provide_binaries
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.recipes import control_plane_recipe

# What each part is called, by its module: in tables, in files, and where parts are chosen.
LETTERS: Mapping[str, str] = {
    "engine": "A",
    "mutate": "B",
    "api_server": "C",
    "growth": "D",
    "endurance": "E",
    "gpu_round": "F",
    "cluster_store": "G",
}
ON_CONTROL_PLANE = frozenset((LETTERS["api_server"], LETTERS["cluster_store"]))


def run_alone(
    module: str,
    purpose: str,
    measure: Callable[..., Section],
    **numbers: int | tuple[int, ...],
) -> None:
    """
    Measure one part, as `python -m benchmarks.MODULE`.

    *numbers* are what *measure* takes: each becomes an option, with its value as the default.
    Where that is a tuple, the option takes one or more.
    """
    letter = LETTERS[module]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{module}", description=purpose)
    for name, default in numbers.items():
        option = f"--{name.replace('_', '-')}"
        nargs = "+" if isinstance(default, tuple) else None
        parser.add_argument(option, metavar="N", type=int, nargs=nargs, default=default)
    add_json(parser)
    args = vars(parser.parse_args())
    file = args.pop("json")
    end_on_signals()
    provide_control_plane([letter])
    machine = describe_machine()
    section = measure(**args)
    show_section(section)
    show_targets({letter: section.targets})
    print(machine)
    if file:
        write_json(file, {"machine": machine, **to_json({letter: section})})


def build_control_plane() -> None:
    """Minutes the first time, nothing later."""
    try:
        provide_binaries(control_plane_recipe())
    except ControlPlaneError as error:
        sys.exit(f"error: {error.summary}")


def provide_control_plane(
    letters: Collection[str], build: Callable[[], None] = build_control_plane
) -> None:
    """*build* it if one of the parts needs it: before anything is measured, since it works hard."""
    if not ON_CONTROL_PLANE.isdisjoint(letters):
        build()


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")


def end_on_signals() -> None:
    """End as on Ctrl-C when asked to, so that the servers end too."""
    for asked in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(asked, lambda number, _: sys.exit(128 + number))
