"""
The binaries of a recipe: found, or built once from their Go modules.

They are looked for in the directory that an environment variable names
(`KUBEBUILDER_ASSETS`, `PROMETHEUS_ASSETS`, …) if it is set, then in the user's cache
directory; else they are built into it from the recipe's go.mod. Building takes minutes,
so the terminal is told what happens.
"""

import fcntl
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.controlplane.errors import BuildError
from tests.controlplane.processes import start_process
from tests.controlplane.recipes import Recipe
from tests.controlplane.toolchain import (
    Go,
    choose_go,
    find_go,
    format_go_version,
    go_environment,
    required_go,
)

PROGRESS_EVERY_S = 20.0
GO_STOP_GRACE_S = 10.0

Report = Callable[[str], None]


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where this project keeps what it can make again, by the XDG base directory rules."""
    base = environ.get("XDG_CACHE_HOME", "")
    # The specification says to ignore a relative path.
    if base.startswith("/"):
        return Path(base, "gatewright")
    return Path(environ.get("HOME") or Path.home(), ".cache", "gatewright")


def report_to_terminal(line: str) -> None:
    print(f"controlplane: {line}", file=sys.stderr, flush=True)


def provide_binaries(
    recipe: Recipe,
    environ: Mapping[str, str] = os.environ,
    report: Report = report_to_terminal,
) -> Path:
    """
    Find the directory that holds the binaries of *recipe*, or build it.

    Any number of processes may call this at the same time: one builds, the others wait.

    Raises:
        BuildError: the directory that the environment names lacks a binary, there is no Go,
            or the build failed.
    """
    assets = environ.get(recipe.assets_variable)
    if assets:
        return _check_assets(recipe, Path(assets))

    root = cache_directory(environ) / "controlplane"
    entry = root / recipe.key
    if not missing_binaries(recipe, entry):
        return entry

    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f"{recipe.key}.lock", recipe, report):
        # Somebody else may have built it while we waited.
        if missing_binaries(recipe, entry):
            go = choose_go(
                find_go(environ),
                required_go(recipe.go_mod),
                what=recipe.what,
                assets_variable=recipe.assets_variable,
            )
            _build_entry(entry, recipe, go, go_environment(environ), report)
    return entry


def missing_binaries(recipe: Recipe, directory: Path) -> list[str]:
    """Name the binaries of *recipe* that *directory* lacks."""
    return [name for name in recipe.binaries if not os.access(directory / name, os.X_OK)]


def format_duration(seconds: float) -> str:
    """A duration for people: `1 min 05 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _check_assets(recipe: Recipe, assets: Path) -> Path:
    missing = missing_binaries(recipe, assets)
    if missing:
        raise BuildError(
            f"{recipe.assets_variable} is {assets}, which lacks (as an executable file): "
            f"{', '.join(missing)}. Complete it, or unset the variable to have them built"
        )
    return assets.absolute()


@contextmanager
def _locked(path: Path, recipe: Recipe, report: Report) -> Iterator[None]:
    """
    Hold the lock file *path*; wait for it if somebody else does.

    The file stays: removing it would let two processes hold two files of one name.
    """
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"another process is building {recipe.what}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_entry(
    entry: Path, recipe: Recipe, go: Go, env: Mapping[str, str], report: Report
) -> None:
    """Build beside *entry*, then rename, so that an entry is complete or absent."""
    # The lock is ours: what lies here comes from builds that were killed, and an entry
    # that lacks a binary is of no use to anybody.
    for leftover in (entry, *entry.parent.glob(f"{entry.name}.building-*")):
        shutil.rmtree(leftover, ignore_errors=True)

    log = entry.with_name(f"{entry.name}.log")
    log.write_bytes(b"")
    report(
        f"building {recipe.versions} with Go {format_go_version(go.version)} ({go.path}), "
        f"once for this machine: {entry} is not there yet"
    )
    report(f"this takes {recipe.usual_cost}; the output is in {log}")

    started = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix=f"{entry.name}.building-", dir=entry.parent))
    # Go leaves its own temporary directory behind when it is interrupted twice or killed.
    scratch = Path(tempfile.mkdtemp(prefix=f"{entry.name}.building-", dir=entry.parent))
    env = {**env, "GOTMPDIR": str(scratch)}
    try:
        # Lists the packages; its real use is that it fetches the modules, which is the
        # part that fails without a network.
        run = partial(_run_go, go, env=env, cwd=recipe.module, log=log, report=report)
        run("{done} modules fetched", ["list", "-deps", *recipe.tags, "tool"])
        listed = [line for line in log.read_text().splitlines() if not line.startswith("go: ")]
        build = ["build", "-v", "-o", f"{directory}/", *recipe.tags, *recipe.flags, "tool"]
        progress = f"{{done}} of at most {len(listed)} packages compiled"
        run(progress, build)
        for name, built_as in recipe.binaries.items():
            if built_as != name:
                (directory / built_as).rename(directory / name)
        missing = missing_binaries(recipe, directory)
        if missing:
            raise BuildError(f"go build ended well but made no {', '.join(missing)}")
        directory.chmod(0o755)  # mkdtemp makes it private
        directory.rename(entry)
    except KeyboardInterrupt:
        report("interrupted; what was half built is removed")
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
    report(f"built in {format_duration(time.monotonic() - started)}: {entry}")


def _run_go(
    go: Go,
    progress: str,
    args: list[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    log: Path,
    report: Report,
) -> None:
    """
    Run one `go` command to its end, and report now and then.

    *progress* is what to report; `{done}` in it stands for the lines that go has printed.
    """
    begun = time.monotonic()
    reported = begun
    lines_before = _count_lines(log)
    process = start_process("go", [str(go.path), *args], log=log, env=env, cwd=cwd)
    try:
        while process.running:
            time.sleep(0.1)
            now = time.monotonic()
            if now - reported >= PROGRESS_EVERY_S:
                reported = now
                done = progress.format(done=_count_lines(log) - lines_before)
                report(f"{done} after {format_duration(now - begun)}")
    finally:
        # On Ctrl-C. Go stops its compilers on an interrupt, not on SIGTERM.
        process.stop(grace_s=GO_STOP_GRACE_S, first=signal.SIGINT)
    if process.status != 0:
        tail = process.log_tail()
        last = tail.rpartition("\n")[2]
        raise BuildError(f"go {args[0]} failed: {last} (all of it is in {log})", tail)


def _count_lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")
