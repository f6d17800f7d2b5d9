"""
A playground: the control plane, Gatewright in front of it, and a shell to try it from.

Nothing is installed and nothing is left behind, except the binaries in the cache.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import yaml

from tests.controlplane.build import cache_directory, provide_binaries
from tests.controlplane.cluster import ALICE
from tests.controlplane.documents import Document, Rule, default_rules
from tests.controlplane.errors import ControlPlaneError, ProcessError
from tests.controlplane.processes import Process, start_process
from tests.controlplane.recipes import control_plane_recipe
from tests.controlplane.run import ControlPlane, free_port
from tests.controlplane.wait import wait_until
from webhook.model.kinds import WORKLOAD_GROUP

PROJECT = Path(__file__).parents[2]
POLICIES = Path("examples/policies")
WORKLOADS = Path("examples/workloads")
CRDS = Path("examples/crds")

SERVER_TIMEOUT_S = 30.0
# Longer than the server takes to drain.
SERVER_STOP_GRACE_S = 15.0
CRD_TIMEOUT_S = 30
# How soon what happens to the policies is told. The server itself needs up to 2 s to see it.
NEWS_PERIOD_S = 0.5
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal asked for the end. Not an Exception: nothing on the way should catch it."""


@dataclass(frozen=True, slots=True)
class Server:
    """A Gatewright server that runs."""

    process: Process
    url: str
    ca_pem: str


def play(environ: Mapping[str, str] = os.environ) -> None:
    """
    Run a playground until SIGINT, SIGTERM or SIGHUP, then stop and remove all of it.

    Raises:
        ControlPlaneError: it could not start, or a part of it ended on its own. Its
            directory then stays, for the logs.
    """
    with _ending_signals():
        try:
            binaries = provide_binaries(control_plane_recipe(), environ)
        except Ended:
            return
        directory = _make_directory(environ)
        try:
            _run(directory, binaries, environ)
        except Ended:
            pass
        except ControlPlaneError as e:
            shutil.rmtree(directory / "etcd", ignore_errors=True)
            raise type(e)(f"{e.summary} (logs: {directory / 'logs'})", e.detail) from e
        shutil.rmtree(directory)


def server_command(port: int, ops_port: int, certificates: Path) -> list[str]:
    """The command line of the Gatewright server, with the example policies."""
    return [
        sys.executable,
        "-m",
        "webhook",
        "serve",
        "--policies",
        str(POLICIES),
        "--listen",
        f"127.0.0.1:{port}",
        "--ops-listen",
        f"127.0.0.1:{ops_port}",
        "--cert-dir",
        str(certificates),
    ]


def rules_for_crds(crds: Iterable[Document]) -> tuple[Rule, ...]:
    """Build rules for every kind and version that *crds* define."""
    return tuple(
        Rule(
            spec["group"],
            tuple(version["name"] for version in spec["versions"]),
            (spec["names"]["plural"],),
        )
        for spec in (crd["spec"] for crd in crds)
    )


def build_shell_line(kubeconfig: Path, *directories: Path) -> str:
    """Build the one line that makes a shell talk to the playground: *directories* for its PATH."""
    before = "".join([f"{shlex.quote(str(directory))}:" for directory in directories])
    return f'export KUBECONFIG={shlex.quote(str(kubeconfig))} PATH={before}"$PATH"'


def is_supported_skew(client: str, server: str) -> bool:
    """
    Tell whether a kubectl of version *client* may talk to *server*.

    Kubernetes' version skew policy: one minor version older or newer.
    """
    ours, theirs = _parse_minor(client), _parse_minor(server)
    if ours is None or theirs is None:
        return False
    return ours[0] == theirs[0] and abs(ours[1] - theirs[1]) <= 1


def describe_policy_event(line: str) -> str | None:
    """
    Tell what one *line* of the server's log says about policies, as a line for a terminal.

    None for every other line.
    """
    if not line.startswith("{"):
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    message = entry.get("message", "")
    if entry.get("logger") not in ("gatewright.serve", "gatewright.store"):
        return None
    if message == "policies loaded":
        documents = entry["documents"]
        noun = "document" if documents == 1 else "documents"
        return f"policies loaded, revision {entry['revision']}: {documents} {noun} in force"
    if not message.startswith("document: "):
        return None
    places = (entry.get("document", ""), entry.get("path", ""))
    problem = ": ".join([*filter(None, places), message.removeprefix("document: ")])
    # Policies are somebody's text, and a terminal obeys control characters.
    problem = "".join([c if c.isprintable() else " " for c in problem])
    if entry.get("level") == "warning":
        return f"warning about {problem}"
    stop = "" if problem.endswith((".", "?", "!")) else "."
    return f"problem in {problem}{stop} The last good version, if any, stays in force."


@dataclass(slots=True)
class PolicyNews:
    """Reads on in a server's *log*, and tells what is new about the policies."""

    log: Path
    _position: int = 0

    def read(self) -> list[str]:
        """Lines for a terminal, about what was logged since the last call."""
        with self.log.open("rb") as log:
            log.seek(self._position)
            text = log.read()
        # The rest is still being written.
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        lines = whole.decode(errors="replace").split("\n")
        return [news for line in lines if (news := describe_policy_event(line)) is not None]


def _make_directory(environ: Mapping[str, str]) -> Path:
    parent = cache_directory(environ) / "playground"
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="run-", dir=parent))


def _run(directory: Path, binaries: Path, environ: Mapping[str, str]) -> None:
    print("Starting the control plane ...", flush=True)
    with ControlPlane(binaries).start(directory) as plane:
        print("Starting Gatewright ...", flush=True)
        with _serving(directory, environ) as server:
            crds = _apply_crds(plane, environ)
            # The namespaces that the example workloads name.
            plane.kubectl_checked("apply", "-f", str(PROJECT / POLICIES / "namespaces.yaml"))
            plane.register_webhooks(
                f"{server.url}/mutate",
                f"{server.url}/validate",
                server.ca_pem,
                rules=(*default_rules(subresources=True), *rules_for_crds(crds)),
                # Strict: in a playground nothing should pass unseen.
                mutating_failure_policy="Fail",
            )
            print(_describe(plane, server, environ), end="\n\n", flush=True)
            news = PolicyNews(server.process.log)
            try:
                while True:
                    for line in news.read():
                        print(line, flush=True)
                    time.sleep(NEWS_PERIOD_S)
                    server.process.require_running()
                    plane.require_running()
            except Ended:
                print("Stopping ...", flush=True)


@contextmanager
def _ending_signals() -> Iterator[None]:
    """
    Turn the first ending signal into `Ended`, and ignore the rest.

    Stopping takes a few seconds; a second Ctrl-C must not cut it short and leave a
    directory behind.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        for each in ENDING_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Ended

    before = {number: signal.signal(number, end) for number in ENDING_SIGNALS}
    if before[signal.SIGHUP] is signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _serving(directory: Path, environ: Mapping[str, str]) -> Iterator[Server]:
    certificates = directory / "certificates"
    port, ops_port = free_port(), free_port()
    process = start_process(
        "gatewright",
        server_command(port, ops_port, certificates),
        log=directory / "logs" / "gatewright.log",
        env=environ,
        cwd=PROJECT,
    )
    try:
        wait_until(_ready(process, ops_port), SERVER_TIMEOUT_S, "Gatewright to be ready")
        ca_pem = (certificates / "ca.crt").read_text()
        yield Server(process, f"https://127.0.0.1:{port}", ca_pem)
    finally:
        process.stop(grace_s=SERVER_STOP_GRACE_S)


def _ready(process: Process, ops_port: int) -> Callable[[], bool]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ready() -> bool:
        process.require_running()
        try:
            with opener.open(f"http://127.0.0.1:{ops_port}/readyz", timeout=5):
                return True
        except OSError:
            return False

    return ready


def _apply_crds(plane: ControlPlane, environ: Mapping[str, str]) -> list[Document]:
    """
    Apply the CRDs of our workloads and of the examples; returns them when they can be used.

    Not those of policies: the server reads files here, so that what is applied would do nothing.
    """
    printed = subprocess.run(
        [sys.executable, "-m", "webhook", "crds"],
        cwd=PROJECT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if printed.returncode != 0:
        raise ProcessError(
            f"gatewright crds ended with status {printed.returncode}", printed.stderr
        )
    ours = [crd for crd in yaml.safe_load_all(printed.stdout) if crd]
    documents = [crd for crd in ours if crd["spec"]["group"] == WORKLOAD_GROUP]
    for path in sorted((PROJECT / CRDS).glob("*.yaml")):
        documents += [document for document in yaml.safe_load_all(path.read_text()) if document]
    plane.apply(*documents)
    crds = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
    names = [f"crd/{crd['metadata']['name']}" for crd in crds]
    plane.kubectl_checked(
        "wait",
        "--for=condition=Established",
        f"--timeout={CRD_TIMEOUT_S}s",
        *names,
        timeout_s=CRD_TIMEOUT_S + 10,
    )
    return crds


def _describe(plane: ControlPlane, server: Server, environ: Mapping[str, str]) -> str:
    # Where `gatewright` is, and a kubectl unless the one that is found anyway will do.
    directories = [Path(sys.executable).parent]
    if not _path_kubectl_fits(plane, environ):
        directories.append(plane.kubectl_path.parent)
    refused = _find_refused(plane, sorted((PROJECT / WORKLOADS).glob("*.yaml")))
    example = (
        f"kubectl apply -f {refused.relative_to(PROJECT)}"
        if refused
        else "(none of the examples is refused under these policies)"
    )
    return f"""
The playground is up. In another terminal, from {PROJECT}:

    {build_shell_line(plane.kubeconfig(), *directories)}

Something to try, which is refused:

    {example}

Policies are in {PROJECT / POLICIES}: edit one, wait until it is
loaded (or refused), which is said below, and try again. (They are files here:
kubectl apply knows no kinds of policies, as it does where Helm installs Gatewright.)
To be a user without rights over the cluster: --kubeconfig {plane.kubeconfig(ALICE)}
Decisions are logged in {server.process.log}
Ctrl-C ends it."""


def _parse_minor(version: str) -> tuple[int, int] | None:
    found = re.match(r"v(\d+)\.(\d+)\.", version)
    return (int(found[1]), int(found[2])) if found else None


def _path_kubectl_fits(plane: ControlPlane, environ: Mapping[str, str]) -> bool:
    found = shutil.which("kubectl", path=environ.get("PATH", os.defpath))
    if found is None:
        return False
    try:
        client = _client_version([found])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        # Somebody else's program; if it cannot say what it is, ours is put before it.
        return False
    return is_supported_skew(client, _client_version([str(plane.kubectl_path)]))


def _client_version(command: Sequence[str]) -> str:
    asked = [*command, "version", "--client", "-o", "json"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)
    return str(yaml.safe_load(done.stdout)["clientVersion"]["gitVersion"])


def _find_refused(plane: ControlPlane, workloads: Iterable[Path]) -> Path | None:
    """Find the first example that Gatewright refuses, by asking (nothing is stored)."""
    for path in workloads:
        done = plane.kubectl("apply", "--dry-run=server", "-f", str(path))
        if done.returncode != 0 and "denied the request" in done.stderr:
            return path
    return None
