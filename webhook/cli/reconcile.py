"""`gatewright reconcile`: keeps the GPUs of workloads as their policies want them."""

from __future__ import annotations

import argparse

from webhook.settings import RECONCILE_OPTIONS, add_options, load_reconcile_settings

NAME = "reconcile"
HELP = "keep the GPUs of a cluster's workloads as GPU reactive policies want them"
_DESCRIPTION = """
Looks at the workloads that GPU reactive policies concern, asks Prometheus how much they use, writes
GpuRecommendations, and evicts pods that should have another amount, one of a workload at a time.
Runs beside `serve`, which writes the amounts into the pods that come after. Of several replicas one
leads, by a Lease. Every setting can also be a variable, or stand in a YAML file (--config); a flag
counts before a variable, a variable before the file. SIGTERM: the Lease is given up, exit code 0.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    add_options(parser, RECONCILE_OPTIONS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = load_reconcile_settings(vars(args))
    # Loads the HTTP server, which `--help` need not wait for.
    from webhook.cli.reconciling import reconcile

    return reconcile(settings)
