"""
What has changed since the last release, from the files of changelog.d.

`python -m tests.changelog` prints it as one page. A file is `SUBJECT.KIND.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

DIRECTORY = Path(__file__).parents[1] / "changelog.d"

KINDS = ("added", "changed", "fixed", "removed")

_NAME = re.compile(r"(?P<subject>[a-z0-9-]+)\.(?P<kind>[a-z]+)\.md")


def page(directory: Path = DIRECTORY) -> str:
    """
    All of *directory* by kind, each file as one entry of a list, or several if it is a list.

    Raises:
        ValueError: a file has no name of that form, or says nothing.
    """
    return "\n".join(_lines(directory)) + "\n"


def _lines(directory: Path) -> Iterator[str]:
    entries: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for path in sorted(directory.iterdir()):
        found = _NAME.fullmatch(path.name)
        if found is None or found["kind"] not in KINDS:
            raise ValueError(f"{path.name}: must be SUBJECT.KIND.md, KIND one of {KINDS}")
        text = path.read_text().strip()
        if not text:
            raise ValueError(f"{path.name}: says nothing")
        entries[found["kind"]].append(_entry(text))
    yield "# Not released yet"
    for kind, texts in entries.items():
        if texts:
            yield f"\n## {kind.capitalize()}\n"
            yield from texts


def _entry(text: str) -> str:
    if text.startswith("- "):
        return text
    # Further lines belong to the entry where they are indented.
    return "- " + text.replace("\n", "\n  ")


if __name__ == "__main__":
    sys.stdout.write(page())
