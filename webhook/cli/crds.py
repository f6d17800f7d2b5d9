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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    sys.stdout.write(dump_yaml(build_crds()))
    return 0
