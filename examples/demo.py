"""
The examples through the gate, as an API server would send them: no cluster is needed.

Starts the server on `examples/policies` with a development certificate, and for each document
of `examples/workloads` asks `/mutate`, applies the patch, asks `/validate` about the result, and
prints what became of it. Kinds of Kubernetes itself would arrive with the API server's own
defaults in place; here they are sent as they are written.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import jsonpatch

from webhook.model.kinds import GroupVersionKind
from webhook.model.manifests import Manifest, load_file

EXAMPLES = Path(__file__).parent

COMPLETED, REFUSED, UNTOUCHED = "completed", "refused", "untouched"

# What must come out, and the policies that must have had a part in it. The demo fails where it
# does not, so that it can't go on showing something else than it says.
EXPECTED: dict[str, tuple[str, set[str]]] = {
    "ConfigMap hyperparameters": (UNTOUCHED, set()),
    "Deployment notebook": (COMPLETED, {"deployment-baseline"}),
    "Job preprocess": (COMPLETED, {"job-baseline"}),
    "Pod peek": (REFUSED, {"pod-baseline"}),
    "PyTorchJob resnet": (COMPLETED, {"pytorch-baseline"}),
    "PyTorchJob gpt-everything": (REFUSED, {"pytorch-baseline"}),
    "Training bert": (
        COMPLETED,
        {
            "system-privileged",
            "system-termination-grace",
            "training-guardrails",
            "training-vision",
        },
    ),
    "Training hurry": (REFUSED, {"training-guardrails"}),
}

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 10.0

RED, GREEN, YELLOW, DIM, BOLD, RESET = (f"\033[{code}m" for code in (31, 32, 33, 2, 1, 0))
HAS_COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


class DemoError(Exception):
    """The demo could not be run to its end."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs. *ca* is the certificate to trust."""

    url: str
    ca: Path


@dataclass(slots=True)
class Submission:
    """One document and what became of it. *decision* is the audit annotation, decoded."""

    title: str
    namespace: str
    outcome: str = UNTOUCHED
    message: str = ""
    warnings: list[str] = field(default_factory=list)
    decision: dict[str, Any] = field(default_factory=dict)

    @property
    def policies(self) -> set[str]:
        """The policies that changed or refused something."""
        entries = [*self.decision.get("changes", []), *self.decision.get("violations", [])]
        return {entry["policy"] for entry in entries}


def main() -> int:
    started = time.monotonic()
    manifests = [
        manifest
        for file in sorted((EXAMPLES / "workloads").glob("*.yaml"))
        for manifest in load_file(file)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="gatewright-demo-") as name,
        serving(Path(name)) as server,
    ):
        say(f"{len(manifests)} submissions to {server.url}, as an API server would send them\n")
        submissions = asyncio.run(submit_all(manifests, server))
    for submission in submissions:
        show(submission)
    return summarise(submissions, time.monotonic() - started)


# --- the server ---


@contextmanager
def serving(directory: Path) -> Iterator[Server]:
    """A server on the example policies, ready, for the time of the block."""
    port, ops_port = free_ports(2)
    certificates = directory / "certificates"
    command = [sys.executable, "-m", "webhook", "serve"]
    command += ["--policies", str(EXAMPLES / "policies")]
    command += ["--listen", f"127.0.0.1:{port}", "--ops-listen", f"127.0.0.1:{ops_port}"]
    command += ["--cert-dir", str(certificates)]
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until_ready(process, ops_port, log)
        yield Server(f"https://127.0.0.1:{port}", certificates / "ca.crt")
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on. All are held until the last is found, so that they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(held.getsockname()[1]) for held in sockets]
    for held in sockets:
        held.close()
    return ports


def wait_until_ready(process: subprocess.Popen[bytes], ops_port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise DemoError(f"the server ended at once:\n{log.read_text()}")
        if is_ready(ops_port):
            return
        time.sleep(0.05)
    raise DemoError(f"the server is not ready after {START_TIMEOUT_S:g} s:\n{log.read_text()}")


def is_ready(ops_port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", ops_port), timeout=2) as connection:
            connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


# --- what an API server does ---


async def submit_all(manifests: list[Manifest], server: Server) -> list[Submission]:
    context = ssl.create_default_context(cafile=str(server.ca))
    async with aiohttp.ClientSession(
        server.url,
        connector=aiohttp.TCPConnector(ssl=context),
        timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
    ) as session:
        return [await submit(manifest, session) for manifest in manifests]


async def submit(manifest: Manifest, session: aiohttp.ClientSession) -> Submission:
    """Through both doors: `/mutate`, then `/validate` with the patched object."""
    document = manifest.value
    metadata = document["metadata"]
    submission = Submission(f"{document['kind']} {metadata['name']}", metadata["namespace"])

    answer = await ask(session, "/mutate", document)
    take(submission, answer)
    if "patch" in answer:
        patch = json.loads(base64.b64decode(answer["patch"]))
        document = jsonpatch.apply_patch(document, patch)
        submission.outcome = COMPLETED
    if answer["allowed"]:
        answer = await ask(session, "/validate", document)
        take(submission, answer)
    if not answer["allowed"]:
        submission.outcome = REFUSED
        submission.message = answer["status"]["message"]
    return submission


def take(submission: Submission, answer: dict[str, Any]) -> None:
    """Keep what an answer tells beside yes and no."""
    submission.warnings += answer.get("warnings", [])
    annotation = answer.get("auditAnnotations", {}).get("decision")
    if annotation:
        submission.decision = json.loads(annotation)


async def ask(
    session: aiohttp.ClientSession, path: str, document: dict[str, Any]
) -> dict[str, Any]:
    kind = GroupVersionKind.of(document)
    metadata = document["metadata"]
    uid = str(uuid.uuid4())
    resource = {"group": kind.group, "version": kind.version, "resource": f"{kind.kind.lower()}s"}
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "resource": resource,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
            "object": document,
            "oldObject": None,
            "dryRun": False,
        },
    }
    async with session.post(path, json=review) as response:
        if response.status != 200:
            raise DemoError(f"{path} answered {response.status}: {await response.text()}")
        answer: dict[str, Any] = (await response.json())["response"]
    if answer["uid"] != uid:
        raise DemoError(f"{path} answered another request than ours")
    return answer


# --- what is printed ---


def say(text: str = "") -> None:
    if not HAS_COLOUR:
        for code in (RED, GREEN, YELLOW, DIM, BOLD, RESET):
            text = text.replace(code, "")
    sys.stdout.write(f"{text}\n")


def show(submission: Submission) -> None:
    colour, sign = {
        COMPLETED: (GREEN, "+"),
        REFUSED: (RED, "x"),
        UNTOUCHED: (DIM, "="),
    }[submission.outcome]
    say(
        f"{colour}{sign} {submission.outcome:<9}{RESET} {BOLD}{submission.title}{RESET}"
        f" {DIM}in {submission.namespace}{RESET}"
    )
    match submission.outcome:
        case "completed":
            show_changes(submission.decision)
        case "refused":
            for line in submission.message.splitlines():
                say(f"    {line}")
        case _:
            say("    no policy asks for anything here")
    for warning in submission.warnings:
        say(f"    {YELLOW}warning:{RESET} {warning}")
    say()


def show_changes(decision: dict[str, Any]) -> None:
    """Each value that was filled in or set, by the policy that asked for it."""
    by_policy: dict[str, list[str]] = {}
    for change in decision.get("changes", []):
        policy = " ".join(filter(None, (change["policy"], change["scope"], change["unit"])))
        old = "" if change["old"] is None else f"{text_of(change['old'])} -> "
        line = f"{change['path']}: {old}{GREEN}{text_of(change['new'])}{RESET}"
        by_policy.setdefault(policy, []).append(line)
    for policy, lines in by_policy.items():
        say(f"    by policy {policy}")
        for line in lines:
            say(f"        {line}")
    left_out = decision.get("omitted", {}).get("changes", 0)
    if left_out:
        say(f"    and {left_out} more")


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def summarise(submissions: list[Submission], duration_s: float) -> int:
    """The last line; and the exit code, which is 0 only if all came out as expected."""
    counts = ", ".join(
        f"{sum(item.outcome == outcome for item in submissions)} {outcome}"
        for outcome in (COMPLETED, REFUSED, UNTOUCHED)
    )
    say(f"{BOLD}{len(submissions)} submissions: {counts}{RESET} ({duration_s:.1f} s)")
    surprises = find_surprises(submissions)
    for surprise in surprises:
        say(f"{RED}unexpected:{RESET} {surprise}")
    return 1 if surprises else 0


def find_surprises(submissions: list[Submission]) -> list[str]:
    found = {item.title: (item.outcome, item.policies) for item in submissions}
    return [
        f"{title}: {describe(found.get(title))}, expected {describe(EXPECTED.get(title))}"
        for title in sorted(EXPECTED.keys() | found.keys())
        if found.get(title) != EXPECTED.get(title)
    ]


def describe(result: tuple[str, set[str]] | None) -> str:
    if result is None:
        return "nothing"
    outcome, policies = result
    return f"{outcome} by {', '.join(sorted(policies))}" if policies else outcome


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DemoError as error:
        sys.stderr.write(f"demo: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # `make demo | head`. The interpreter would complain once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
