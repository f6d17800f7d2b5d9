"""
All benchmarks as one table and one file.

    python -m benchmarks [PART...] [--quick] [--json FILE]

    A  the engine alone, for one review
    B  the server over loopback TLS at 1, 8 and 32 connections, beside its floor
    C  creates through a real API server: no policy, the gate, the API server's own policies
    D  how the cost grows
    E  start, and memory: idle, and over 100,000 reviews
    F  one round of the GPU reconciler over 100, 1,000 and 10,000 pods

Each is a module of its own as well. Between runs compare ratios: times are of one machine, and of
what else it did. What is promised and not kept is told, and is no failure: on a machine that is
busy it says little.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from benchmarks import api_server, endurance, engine, gpu_round, growth, mutate
from benchmarks.command import add_json, end_on_signals
from benchmarks.report import Section, Target, show_section, show_targets, to_json
from benchmarks.table import describe_machine, write_json

PODS = (100, 1_000, 10_000)


@dataclass(frozen=True, slots=True)
class Part:
    """A part in full, and so small that it shows no more than that it works."""

    title: str
    full: Callable[[], Section]
    quick: Callable[[], Section]


PARTS: Mapping[str, Part] = {
    "A": Part(
        "The engine alone",
        lambda: engine.section(engine.REVIEWS),
        lambda: engine.section(200),
    ),
    "B": Part(
        "The server over loopback TLS",
        lambda: mutate.section(mutate.REQUESTS, mutate.ROUNDS, mutate.RATE_SECONDS),
        lambda: mutate.section(200, mutate.ROUNDS, 2),
    ),
    "C": Part(
        "Creates through a real API server",
        lambda: api_server.section(api_server.ROUNDS),
        lambda: api_server.section(20),
    ),
    "D": Part(
        "How the cost grows",
        lambda: growth.section(growth.REVIEWS),
        lambda: growth.section(20),
    ),
    "E": Part(
        "Start and memory",
        lambda: endurance.section(endurance.REVIEWS),
        lambda: endurance.section(2_000),
    ),
    "F": Part(
        "A round of the GPU reconciler",
        lambda: gpu_section(PODS),
        lambda: gpu_section(PODS[:1]),
    ),
}


def gpu_section(pods: tuple[int, ...]) -> Section:
    results = [gpu_round.measure(count) for count in pods]
    return Section(
        [gpu_rows(results)],
        {"gpu_round": [asdict(result) for result in results]},
        gpu_promises(results[-1]),
    )


def gpu_rows(results: list[gpu_round.Result]) -> list[tuple[str, ...]]:
    """The table, its head first."""
    return [
        ("round", "pods", "CPU s", "time s", "queries", "peak MiB"),
        *[
            (
                each.what,
                f"{result.pods}",
                f"{each.cpu_s:.2f}",
                f"{each.wall_s:.2f}",
                f"{each.queries}",
                f"{result.peak_mib:.0f}",
            )
            for result in results
            for each in result.rounds
        ],
    ]


def gpu_promises(result: gpu_round.Result) -> list[Target]:
    """What the worst round of *result* is to keep."""
    cpu_s = max(each.cpu_s for each in result.rounds)
    queries = max(each.queries for each in result.rounds)
    pods = f"{result.pods} pods"
    return [
        Target(f"a round over {pods}, processor time", cpu_s, gpu_round.CPU_LIMIT_S, "s"),
        Target(f"{pods}, memory at most", result.peak_mib, gpu_round.MEMORY_LIMIT_MIB, "MiB"),
        Target(f"{pods}, queries a namespace", queries, gpu_round.QUERIES_LIMIT),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").strip().partition("\n\n")[0]
    )
    titles = ", ".join(f"{letter}: {part.title}" for letter, part in PARTS.items())
    parser.add_argument(
        "parts", metavar="PART", nargs="*", type=str.upper, help=f"default: all ({titles})"
    )
    parser.add_argument("--quick", action="store_true", help="all of it small")
    add_json(parser)
    args = parser.parse_args()
    unknown = [letter for letter in args.parts if letter not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    end_on_signals()
    machine = describe_machine()
    sections = measure(args.parts or list(PARTS), quick=args.quick)
    show_targets({letter: section.targets for letter, section in sections.items()})
    print(machine)
    if args.json:
        write_json(args.json, {"machine": machine, "quick": args.quick, **to_json(sections)})


def measure(letters: list[str], *, quick: bool) -> dict[str, Section]:
    """Measure the parts, and show each as soon as it is there."""
    sections = {}
    for letter in letters:
        part = PARTS[letter]
        print(f"{letter}. {part.title}\n", flush=True)
        sections[letter] = part.quick() if quick else part.full()
        show_section(sections[letter])
        sys.stdout.flush()
    return sections


if __name__ == "__main__":
    main()
