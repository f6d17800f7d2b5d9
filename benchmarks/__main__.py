"""
All benchmarks as one table and one file.

    python -m benchmarks [PART...] [--quick] [--json FILE]

    A  the engine alone, for one review
    B  the server over loopback TLS at 1, 8 and 32 connections, beside its floor
    C  creates through a real API server: no policy, the gate, the API server's own policies
    D  how the cost grows
    E  start, and memory: idle, and over 100,000 reviews
    F  one round of the GPU reconciler over 100, 1,000 and 10,000 pods
    G  a server on a large cluster: 500 policies, 40 mappings, 5,000 namespaces

Each is a module of its own as well. Between runs compare ratios: times are of one machine, and of
what else it did. What is promised and not kept is told, and is no failure: on a machine that is
busy it says little. With `--quick` it would say nothing, and is left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from benchmarks import api_server, cluster_store, endurance, engine, gpu_round, growth, mutate
from benchmarks.command import (
    LETTERS,
    ON_CONTROL_PLANE,
    add_json,
    end_on_signals,
    provide_control_plane,
)
from benchmarks.report import Section, show_section, show_targets, to_json
from benchmarks.table import describe_machine, write_json


@dataclass(frozen=True, slots=True)
class Part:
    """A part in full, and so small that it shows no more than that it works."""

    title: str
    full: Callable[[], Section]
    quick: Callable[[], Section]


PARTS: Mapping[str, Part] = {
    LETTERS["engine"]: Part(
        "The engine alone",
        lambda: engine.section(engine.REVIEWS),
        lambda: engine.section(200),
    ),
    LETTERS["mutate"]: Part(
        "The server over loopback TLS",
        lambda: mutate.section(mutate.REQUESTS, mutate.ROUNDS, mutate.RATE_SECONDS),
        lambda: mutate.section(200, mutate.ROUNDS, 2),
    ),
    LETTERS["api_server"]: Part(
        "Creates through a real API server",
        lambda: api_server.section(api_server.ROUNDS),
        lambda: api_server.section(20),
    ),
    LETTERS["growth"]: Part(
        "How the cost grows",
        lambda: growth.section(growth.REVIEWS),
        lambda: growth.section(20),
    ),
    LETTERS["endurance"]: Part(
        "Start and memory",
        lambda: endurance.section(endurance.REVIEWS),
        lambda: endurance.section(2_000),
    ),
    LETTERS["gpu_round"]: Part(
        "A round of the GPU reconciler",
        lambda: gpu_round.section(gpu_round.PODS),
        lambda: gpu_round.section(gpu_round.PODS[:1]),
    ),
    LETTERS["cluster_store"]: Part(
        "A server on a large cluster",
        lambda: cluster_store.section(
            cluster_store.POLICIES, cluster_store.MAPPINGS, cluster_store.NAMESPACES
        ),
        lambda: cluster_store.section(20, 4, 100),
    ),
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=(__doc__ or "").strip().partition("\n\n")[0],
        epilog=(
            f"{' and '.join(sorted(ON_CONTROL_PLANE))} need a control plane, which is built once,"
            " in 5 to 10 minutes, before anything is measured; without:"
            f" {' '.join(letter for letter in PARTS if letter not in ON_CONTROL_PLANE)}."
            " The exit code is 0 whether promises hold or not: see docs/sizing.md."
        ),
    )
    titles = ", ".join(f"{letter}: {part.title}" for letter, part in PARTS.items())
    parser.add_argument(
        "parts", metavar="PART", nargs="*", type=str.upper, help=f"default: all ({titles})"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="all of it so small that it shows no more than that it works, and without promises",
    )
    add_json(parser)
    return parser


def main() -> None:
    parser = build_parser()
    args = parser.parse_args()
    unknown = [letter for letter in args.parts if letter not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    end_on_signals()
    letters = args.parts or list(PARTS)
    provide_control_plane(letters)
    machine = describe_machine()
    sections = measure(letters, quick=args.quick)
    show_targets({letter: section.targets for letter, section in sections.items()})
    print(machine)
    if args.json:
        write_json(args.json, {"machine": machine, "quick": args.quick, **to_json(sections)})


def measure(
    letters: list[str], *, quick: bool, parts: Mapping[str, Part] = PARTS
) -> dict[str, Section]:
    """Measure the parts, and show each as soon as it is there. *quick* ones promise nothing."""
    sections = {}
    for letter in letters:
        part = parts[letter]
        print(f"{letter}. {part.title}\n", flush=True)
        # The limits are of what is measured in full.
        sections[letter] = replace(part.quick(), targets=()) if quick else part.full()
        show_section(sections[letter])
        sys.stdout.flush()
    return sections


if __name__ == "__main__":
    main()
