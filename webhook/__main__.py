"""`python -m webhook` is `gatewright`."""

from __future__ import annotations

import sys

from webhook.cli import main

if __name__ == "__main__":
    sys.exit(main())
