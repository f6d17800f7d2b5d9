"""Results as a table for people and as JSON for comparing; and the machine that they are of."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson


def show(rows: Sequence[Sequence[str]]) -> None:
    """Print *rows*, the first being the head; all columns but the first stand to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells))
    print()


def write_json(path: str, results: dict[str, Any]) -> None:
    """Write *results* as JSON; what is no number is null there."""
    # The reader of the standard library takes `NaN`, others do not.
    Path(path).write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2) + b"\n")


def describe_machine() -> str:
    """What runs here, and how much else it does now: ask before the benchmark."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = names[0] if names else model
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{os.cpu_count()} x {model}, {platform.system()}, Python {platform.python_version()}{load}"
    )
