"""
The command line: `python -m tests.controlplane build | playground`.

`build` prints the directories with the binaries (the control plane's, Prometheus', Helm 3's
and Helm 4's) and builds them if need be; `playground` runs a control plane with Gatewright in front of it
until Ctrl-C.
"""

import argparse
import sys

from tests.controlplane.build import provide_binaries
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.playground import play
from tests.controlplane.recipes import every_recipe


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.controlplane",
        description="A real control plane on this machine, built from Go modules.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "build", help="print the directories with the binaries; build them if need be"
    )
    commands.add_parser("playground", help="run a control plane with Gatewright until Ctrl-C")
    arguments = parser.parse_args()
    try:
        if arguments.command == "build":
            for recipe in every_recipe():
                print(provide_binaries(recipe))
        else:
            play()
    except ControlPlaneError as e:
        # One line. What is behind it is in the logs that it names.
        print(f"error: {e.summary}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
