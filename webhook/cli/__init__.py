"""The command `gatewright`: one module per subcommand, no logic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module, metadata

from webhook.cli.printing import Parser, complain
from webhook.errors import WebhookError

# In the order of `--help`; each has `add_parser` and `run`.
COMMANDS = (
    "review",
    "diff",
    "lint",
    "explain",
    "serve",
    "reconcile",
    "gpu",
    "certs",
    "crds",
    "selftest",
)
# Those that speak to a cluster as its users do.
PLUGIN_COMMANDS = ("review", "diff", "explain", "gpu")


def main(argv: Sequence[str] | None = None, *, is_plugin: bool = False) -> int:
    """
    Run the command line. Returns the exit code: 2 for unusable input, else the subcommand's.

    As a plugin of kubectl (*is_plugin*), `review` and `explain` ask the cluster without being told
    to.

    Raises:
        SystemExit: argparse ends the program by itself, for `--help` and unknown flags.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = _parse(_build_parser(arguments, is_plugin=is_plugin), arguments)
    try:
        code: int = args.run(args)
        # What is still buffered may meet a pipe that is closed by now.
        sys.stdout.flush()
    except WebhookError as e:
        complain(str(e))
        return 2
    except BrokenPipeError:
        # `gatewright ... | head`. The interpreter would complain once more when it ends.
        sys.stdout = None
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def plugin() -> int:
    """`kubectl gatewright`: kubectl starts it as the executable `kubectl-gatewright`."""
    return main(is_plugin=True)


def _parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """As argparse does, but FILEs may stand on both sides of flags."""
    args, rest = parser.parse_known_args(arguments)
    files = [word for word in rest if word == "-" or not word.startswith("-")]
    if rest and (files != rest or not hasattr(args, "files")):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.files = [*args.files, *files]
    return args


def _build_parser(arguments: Sequence[str], *, is_plugin: bool) -> argparse.ArgumentParser:
    # The parsers of commands are of the same class.
    parser = Parser(
        prog="kubectl gatewright" if is_plugin else "gatewright",
        description="The admission gate for AI workloads on Kubernetes.",
    )
    parser.set_defaults(is_plugin=is_plugin)
    version = f"gatewright {metadata.version('gatewright')}"
    parser.add_argument("--version", action="version", version=version)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    # Only what is asked for: the server's libraries take longer to load than most commands run.
    commands = PLUGIN_COMMANDS if is_plugin else COMMANDS
    named = [name for name in commands if name in arguments[:1]]
    for name in named or commands:
        import_module(f"webhook.cli.{name}").add_parser(subparsers)
    return parser
