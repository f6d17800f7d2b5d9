"""The commands of `gatewright gpu` that speak to a cluster: their flags."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from webhook.cli.cluster import add_access_flags
from webhook.cli.printing import add_output_flag
from webhook.errors import SettingsError
from webhook.reactive.decisions.queries import DEVICE_LABEL

_EXPLAIN = """
Shows the GpuRecommendation of a workload in a cluster: what is recommended and by whom, what was
measured, what comes next, and what is in the way. Exit code: 0; 1 where there is no recommendation;
2 on unusable input.
"""
_RECORD = """
Writes what runs and what was measured of it as a scenario that `gpu simulate` replays: the policy
of the workload with its strategy and the settings, the pods that run now, and a sample a minute.
With --policies the policy need not be in the cluster yet. Exit code: 0, or 2 where something can't
be read.
"""


class WorkloadName(NamedTuple):
    """As people name a workload: *kind* is empty where it is not said."""

    namespace: str
    kind: str
    name: str

    def may_be(self, kind: str, group: str) -> bool:
        """Whether *kind* is the one that is meant: by itself, or with its group (`Kind.group`)."""
        names = ("", kind.lower(), f"{kind}.{group}".lower())
        return self.kind.lower() in names

    def __str__(self) -> str:
        return "/".join(filter(None, self))


def parse_workload(text: str) -> WorkloadName:
    """
    Read `NAMESPACE/NAME` or `NAMESPACE/KIND/NAME`.

    Raises:
        SettingsError: *text* is neither.
    """
    parts = text.split("/")
    if not all(parts) or len(parts) not in (2, 3):
        raise SettingsError(f"{text!r} is not NAMESPACE/WORKLOAD or NAMESPACE/KIND/WORKLOAD")
    return WorkloadName(parts[0], parts[1] if len(parts) == 3 else "", parts[-1])


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `explain` and `record`."""
    _add_explain(commands)
    _add_record(commands)


def _add_workload(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "workload",
        metavar="NAMESPACE/[KIND/]WORKLOAD",
        help="the owner of the pods; its KIND where several have the name, as Kind or Kind.group",
    )


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "explain",
        help="what is recommended for a workload, why, and what is in the way",
        description=_EXPLAIN,
    )
    _add_workload(parser)
    add_access_flags(parser)
    add_output_flag(parser, "text", "json")
    parser.set_defaults(run=_run_explain)


def _add_record(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "record",
        help="write a scenario from a cluster and its Prometheus, to try a policy on",
        description=_RECORD,
    )
    _add_workload(parser)
    add_access_flags(parser)
    parser.add_argument(
        "--policies",
        metavar="FILE",
        type=Path,
        help="documents to record for, in place of those of the cluster",
    )
    parser.add_argument(
        "--prometheus-url", metavar="URL", help="default: that of the GlobalConfiguration"
    )
    parser.add_argument(
        "--prometheus-token-file",
        metavar="FILE",
        type=Path,
        help="a bearer token for --prometheus-url",
    )
    parser.add_argument("--prometheus-ca", metavar="FILE", type=Path, help="its authorities")
    parser.add_argument(
        "--device-label",
        metavar="LABEL",
        default=DEVICE_LABEL,
        help="the label of series that names the GPU (default: %(default)s)",
    )
    parser.add_argument(
        "--from", dest="start", metavar="TIME", help="where it begins (default: --duration ago)"
    )
    parser.add_argument("--duration", metavar="D", default="1h", help="how long (default: 1h)")
    parser.add_argument(
        "--step", metavar="D", help="between two evaluations (default: gpuReactiveCheckInterval)"
    )
    parser.set_defaults(run=_run_record)


def _run_explain(args: argparse.Namespace) -> int:
    # Loads what speaks HTTP, which `gpu simulate` need not wait for.
    from webhook.cli.gpu_explain import run

    return run(args)


def _run_record(args: argparse.Namespace) -> int:
    from webhook.cli.gpu_record import run

    return run(args)
