"""`gatewright serve`: the admission server."""

from __future__ import annotations

import argparse

from webhook.settings import add_options, load_settings

NAME = "serve"
HELP = "answer admission reviews over HTTPS"
_DESCRIPTION = """
Answers /mutate and /validate (HTTPS), and /healthz, /readyz and /metrics (HTTP), by the documents
in a directory or in a cluster, which is watched. Without a certificate, one for this machine is
made. Every setting can also be a variable, or stand in a YAML file (--config); a flag counts before
a variable, a variable before the file. SIGTERM: unready, running requests are finished, exit
code 0.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(NAME, help=HELP, description=_DESCRIPTION)
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = load_settings(vars(args))
    # Loads the HTTP server, which `--help` need not wait for.
    from webhook.cli.serving import serve

    return serve(settings)
