"""
The control plane's binaries: found, or built once from their Go modules.

They are looked for in `KUBEBUILDER_ASSETS` (the ecosystem's convention) if that is set,
then in the user's cache directory; else they are built into it from `go/go.mod`, which
names the versions. Building takes minutes, so the terminal is told what happens.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.errors import BuildError
from tests.controlplane.processes import start_process
from tests.controlplane.toolchain import (
    Go,
    choose_go,
    find_go,
    format_go_version,
    go_environment,
    required_go,
)

GO_MODULE = Path(__file__).with_name("go")
BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")

# `go build` names a binary after the last part of its package, go.etcd.io/etcd/server/v3.
BUILT_AS = {"etcd": "server"}

# Measured with Go 1.26.8 on two cores; said on the terminal so that nobody takes the
# silence for a hang.
USUAL_COST = (
    "5 to 6 minutes on two idle cores and 4 GB in Go's caches from nothing, "
    "half a minute when those caches are warm"
)
PROGRESS_EVERY_S = 20.0
GO_STOP_GRACE_S = 10.0

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the binaries are made of. The same recipe gives the same binaries."""

    go_mod: str
    platform: str

    @property
    def kubernetes_version(self) -> str:
        return read_module_version(self.go_mod, "k8s.io/kubernetes")

    @property
    def etcd_version(self) -> str:
        return read_module_version(self.go_mod, "go.etcd.io/etcd/server/v3")

    @property
    def flags(self) -> tuple[str, ...]:
        """
        The flags of `go build`.

        Without the version the server calls itself v0.0.0 and refuses to start some
        features, since it compares each feature's first version with its own.
        """
        major, minor, _ = self.kubernetes_version.removeprefix("v").split(".", 2)
        package = "k8s.io/component-base/version"
        values = {"gitVersion": self.kubernetes_version, "gitMajor": major, "gitMinor": minor}
        settings = " ".join(f"-X {package}.{name}={value}" for name, value in values.items())
        return ("-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {settings}")

    @property
    def key(self) -> str:
        """The name of this recipe's directory in the cache: readable, and unique."""
        text = "\0".join((self.go_mod, *self.flags, self.platform))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"kubernetes-{self.kubernetes_version}-{self.platform}-{digest}"


def load_recipe() -> Recipe:
    """Read this project's recipe for the machine it runs on."""
    machine = f"{sys.platform}-{platform.machine().lower()}"
    return Recipe((GO_MODULE / "go.mod").read_text(), machine)


def read_module_version(go_mod: str, module: str) -> str:
    """
    Find the version that *go_mod* requires of *module*.

    Raises:
        BuildError: it does not require that module.
    """
    pattern = rf"^[ \t]*(?:require[ \t]+)?{re.escape(module)}[ \t]+(v\S+)"
    found = re.search(pattern, go_mod, re.MULTILINE)
    if found is None:
        raise BuildError(f"go.mod does not require {module}")
    return found[1]


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
    environ: Mapping[str, str] = os.environ, report: Report = report_to_terminal
) -> Path:
    """
    Find the directory that holds the binaries named in `BINARIES`, or build it.

    Any number of processes may call this at the same time: one builds, the others wait.

    Raises:
        BuildError: `KUBEBUILDER_ASSETS` lacks a binary, there is no Go, or the build failed.
    """
    assets = environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return _check_assets(Path(assets))

    recipe = load_recipe()
    root = cache_directory(environ) / "controlplane"
    entry = root / recipe.key
    if not missing_binaries(entry):
        return entry

    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f"{recipe.key}.lock", report):
        # Somebody else may have built it while we waited.
        if missing_binaries(entry):
            go = choose_go(find_go(environ), required_go(recipe.go_mod))
            _build_entry(entry, recipe, go, go_environment(environ), report)
    return entry


def missing_binaries(directory: Path) -> list[str]:
    """Name the binaries that *directory* lacks."""
    return [name for name in BINARIES if not os.access(directory / name, os.X_OK)]


def format_duration(seconds: float) -> str:
    """A duration for people: `1 min 05 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _check_assets(assets: Path) -> Path:
    missing = missing_binaries(assets)
    if missing:
        raise BuildError(
            f"KUBEBUILDER_ASSETS is {assets}, which lacks (as an executable file): "
            f"{', '.join(missing)}. Complete it, or unset the variable to have them built"
        )
    return assets.absolute()


@contextmanager
def _locked(path: Path, report: Report) -> Iterator[None]:
    """
    Hold the lock file *path*; wait for it if somebody else does.

    The file stays: removing it would let two processes hold two files of one name.
    """
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is building the control plane; waiting for it")
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
        f"building Kubernetes {recipe.kubernetes_version} and etcd {recipe.etcd_version} "
        f"with Go {format_go_version(go.version)} ({go.path}), "
        f"once for this machine: {entry} is not there yet"
    )
    report(f"this takes {USUAL_COST}; the output is in {log}")

    started = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix=f"{entry.name}.building-", dir=entry.parent))
    # Go leaves its own temporary directory behind when it is interrupted twice or killed.
    scratch = Path(tempfile.mkdtemp(prefix=f"{entry.name}.building-", dir=entry.parent))
    env = {**env, "GOTMPDIR": str(scratch)}
    try:
        # Lists the packages; its real use is that it fetches the modules, which is the
        # part that fails without a network.
        _run_go("{done} modules fetched", go, ["list", "-deps", "tool"], env, log, report)
        listed = [line for line in log.read_text().splitlines() if not line.startswith("go: ")]
        build = ["build", "-v", "-o", f"{directory}/", *recipe.flags, "tool"]
        progress = f"{{done}} of at most {len(listed)} packages compiled"
        _run_go(progress, go, build, env, log, report)
        for name, built_as in BUILT_AS.items():
            (directory / built_as).rename(directory / name)
        missing = missing_binaries(directory)
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
    progress: str, go: Go, args: list[str], env: Mapping[str, str], log: Path, report: Report
) -> None:
    """
    Run one `go` command to its end, and report now and then.

    *progress* is what to report; `{done}` in it stands for the lines that go has printed.
    """
    begun = time.monotonic()
    reported = begun
    lines_before = _count_lines(log)
    process = start_process("go", [str(go.path), *args], log=log, env=env, cwd=GO_MODULE)
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
