"""The command `gatewright`: one module per subcommand, no logic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module, metadata

from webhook.errors import WebhookError

# In the order of `--help`; each has `add_parser` and `run`.
COMMANDS = ("review", "lint", "explain", "serve", "reconcile", "gpu", "crds")


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command line. Returns the exit code: 2 for unusable input, else the subcommand's.

    Raises:
        SystemExit: argparse ends the program by itself, for `--help` and unknown flags.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = _build_parser(arguments).parse_args(arguments)
    try:
        code: int = args.run(args)
        # What is still buffered may meet a pipe that is closed by now.
        sys.stdout.flush()
    except WebhookError as e:
        sys.stderr.write(f"gatewright: {e}\n")
        return 2
    except BrokenPipeError:
        # `gatewright ... | head`. The interpreter would complain once more when it ends.
        sys.stdout = None
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gatewright", description="The admission gate for AI workloads on Kubernetes."
    )
    version = f"gatewright {metadata.version('gatewright')}"
    parser.add_argument("--version", action="version", version=version)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    # Only what is asked for: the server's libraries take longer to load than most commands run.
    named = [name for name in COMMANDS if name in arguments[:1]]
    for name in named or COMMANDS:
        import_module(f"webhook.cli.{name}").add_parser(subparsers)
    return parser
