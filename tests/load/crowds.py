"""Crowds of connections, in programs of their own (`tests.load.crowd`)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.gate import PROJECT, Gate
from tests.load.crowd import SPARE_FILES, files_at_most

# Each connection costs a file there.
PROGRAMS = 2
OPENED_WITHIN_S = 300.0


def most_connections() -> int:
    """How many this machine allows."""
    return PROGRAMS * (files_at_most() - SPARE_FILES)


@contextmanager
def crowded(gate: Gate, count: int, body_bytes: int = 0) -> Iterator[int]:
    """
    *count* connections over TLS that are idle, or as many as this machine allows.

    With *body_bytes* each has begun a review of that size.
    """
    port, ca = gate.url.rpartition(":")[2], gate.directory / "certificates" / "ca.crt"
    arguments = [port, str(ca), str(count // PROGRAMS), str(body_bytes)]
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.load.crowd", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=PROJECT,
        )
        for _ in range(PROGRAMS)
    ]
    try:
        opened = 0
        for program in programs:
            assert program.stdout is not None
            opened += int(program.stdout.readline())
        yield opened
    finally:
        for program in programs:
            program.communicate(timeout=OPENED_WITHIN_S)
