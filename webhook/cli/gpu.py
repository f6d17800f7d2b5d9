"""`gatewright gpu`: what GPU reactive policies do."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import groupby
from pathlib import Path

from webhook.admission.texts import clean
from webhook.cli import gpu_cluster, printing
from webhook.cli.printing import add_output_flag, complain, write_line
from webhook.errors import ManifestError
from webhook.model.manifests import load_file
from webhook.model.rightsizing.amounts import format_amount
from webhook.model.rightsizing.recommendations import Change
from webhook.model.rightsizing.times import format_time
from webhook.reactive.scenarios.plot import draw
from webhook.reactive.scenarios.replay import Step, replay, to_json
from webhook.reactive.scenarios.scenario import Scenario, enforced, read_scenario
from webhook.store.directory import find_files

NAME = "gpu"
HELP = "what GPU reactive policies do: in a cluster, and tried on a scenario"
_DESCRIPTION = """
Shows what GPU reactive policies recommend and why: for a workload of a cluster, or tried on a
scenario, which can be recorded from one. Nothing is changed in the cluster. COMMAND --help says
more of each.
"""
_SIMULATE = """
Replays a scenario without a cluster and without Prometheus: policies, strategies and settings, and
one GpuScenario with workloads, pods and samples, in one file or in several. Shows at each step what
would be recommended, and why. Amounts are in whole GPUs, before they are rounded for writing. Exit
code: 0, or 2 on unusable input.
"""
# Reasons may name pods and containers; a terminal line of them is still readable.
_MAX_REASON_CHARS = 400
# What differs from step to step in a reason that says the same: names of pods, and amounts.
_VARYING = re.compile(
    r"(?<=\bpod )\S+(?: \([^)]*\)(?:, \S+ \([^)]*\))*)?(?: and [0-9]+ more)?"
    r"|(?<=\bpods )\S+ and \S+|\bGPUs?\b|[0-9.]+"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    simulate = commands.add_parser("simulate", help="replay a scenario", description=_SIMULATE)
    simulate.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="policies and one GpuScenario; a directory stands for its files",
    )
    simulate.add_argument(
        "--enforce", action="store_true", help="as if every policy acted, in whatever mode it is"
    )
    add_output_flag(simulate, "text", "json")
    simulate.add_argument(
        "--plot", metavar="FILE.svg", type=Path, help="also draw it: usage, thresholds, amounts"
    )
    simulate.set_defaults(run=run_simulate)
    gpu_cluster.add_parsers(commands)


def run_simulate(args: argparse.Namespace) -> int:
    scenario = _read(args.files)
    if scenario is None:
        return 2
    if args.enforce:
        scenario = enforced(scenario)
    for warning in scenario.warnings:
        complain(f"warning: {clean(warning, _MAX_REASON_CHARS)}")
    steps = list(replay(scenario))
    if args.plot is not None:
        try:
            args.plot.write_text(draw(steps), encoding="utf-8")
        except OSError as error:
            complain(f"{args.plot}: {error.strerror or 'cannot be written'}")
            return 2
    if args.output == "json":
        reports = [to_json(step) for step in steps]
        write_line(printing.to_json(reports, indent=2))
    else:
        for line in _text(steps):
            write_line(line)
    return 0


def _read(paths: Sequence[Path]) -> Scenario | None:
    """The scenario in the files at *paths*; None if it is unusable, which is said."""
    try:
        manifests = [
            manifest for path in paths for file in find_files(path) for manifest in load_file(file)
        ]
        return read_scenario(manifests)
    except OSError as error:
        complain(f"{error.filename}: cannot be read: {error.strerror or error}")
    except ManifestError as error:
        complain(str(error))
    except ExceptionGroup as group:
        for problem in group.exceptions:
            complain(clean(str(problem), _MAX_REASON_CHARS))
    return None


def _text(steps: Sequence[Step]) -> Iterator[str]:
    """One block for each workload; in it, one line for each run of steps with the same outcome."""
    by_workload: dict[str, list[Step]] = {}
    for step in steps:
        by_workload.setdefault(str(step.workload), []).append(step)
    for workload, own in by_workload.items():
        policy = own[0].policy
        yield clean(f"{workload} ({policy.key if policy else 'no policy concerns it'})")
        for _, run in groupby(own, key=_outcome):
            yield from _run_lines(list(run))


def _outcome(step: Step) -> tuple[object, ...]:
    amounts = tuple((step.recommended or {}).items())
    return (step.evaluation.change, amounts, step.driver, step.policy and step.policy.key)


def _run_lines(run: Sequence[Step]) -> Iterator[str]:
    first, last = run[0], run[-1]
    times = format_time(first.time)
    if len(run) > 1:
        times += f" to {format_time(last.time)} ({len(run)} steps)"
    yield f"  {times}"
    yield f"    {_change(first)}"
    for reason in first.reasons:
        yield f"      {clean(reason, _MAX_REASON_CHARS)}"
    # What a reason counts may change at each step. One that says something else is shown once.
    shown = {_kind_of(reason) for reason in first.reasons}
    for step in run[1:]:
        for reason in step.reasons:
            if _kind_of(reason) not in shown:
                shown.add(_kind_of(reason))
                since = f"from {format_time(step.time)}: "
                yield f"      {since}{clean(reason, _MAX_REASON_CHARS)}"


def _kind_of(reason: str) -> str:
    return _VARYING.sub("", reason)


def _change(step: Step) -> str:
    if step.recommended is None:
        return "nothing is recommended"
    amounts = ", ".join(
        f"{clean(name)} {format_amount(amount)}" for name, amount in step.recommended.items()
    )
    word = {
        Change.UPSIZE: "upsize to",
        Change.SCALE_BACK: "scale back to",
        Change.KEPT: "kept at",
    }.get(step.evaluation.change, "")
    owner = f", owed to {step.driver}" if step.driver else ""
    total = format_amount(step.total or Decimal(0))
    return f"{word} {total} ({amounts}){owner}"
