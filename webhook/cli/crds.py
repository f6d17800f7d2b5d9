"""`gatewright crds`: print our CustomResourceDefinitions."""

from __future__ import annotations

import argparse
import sys

from webhook.catalog.crds import build_crds
from webhook.model.manifests import dump_yaml

NAME = "crds"
HELP = "print our CustomResourceDefinitions, ready for kubectl apply -f -"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=HELP)
    parser.add_argument(
        "--no-rightsizing",
        action="store_true",
        help="leave out the kinds of rightsizing.kubex.ai, where the cluster has them already",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    sys.stdout.write(dump_yaml(build_crds(rightsizing=not args.no_rightsizing)))
    return 0
