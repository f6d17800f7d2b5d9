"""
Credentials that a program gives out, as kubeconfigs of managed clusters name one.

Kubernetes: "Authenticating", section "client-go credential plugins". Asked once, for commands that
end before what they got does: a server has its ServiceAccount.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhook.errors import SettingsError

_GROUP = "client.authentication.k8s.io"
_AUTHORITY = "certificate-authority-data"
_API_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")

# A program that asks nobody has done so by then. Where somebody may have to sign in, it takes as
# long as that does.
TIMEOUT_S = 60.0
SIGN_IN_TIMEOUT_S = 300.0
# A token and a certificate with its key are some KiB.
MAX_OUTPUT_BYTES = 2**20
_CHUNK_BYTES = 64 * 1024


def fetch_credential(
    spec: Any,
    kubeconfig: Path,
    cluster: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    timeout_s: float | None = None,
) -> dict[str, str]:
    """
    What the program of *spec*, the `exec` of a user in *kubeconfig*, gives out for *cluster*: in
    the words of a kubeconfig's user (`token`, `client-certificate-data`, `client-key-data`).

    Blocks until the program ends; it may ask at the terminal. It has *timeout_s*, by default
    `TIMEOUT_S`, or `SIGN_IN_TIMEOUT_S` where it may ask.

    Raises:
        SettingsError: it can't be run, fails, takes too long, or gives out nothing of use. What it
            wrote is not quoted: that may be a credential.
    """
    told = _read_spec(spec, kubeconfig)
    is_interactive = told.is_interactive and sys.stdin.isatty()
    asked = {
        "apiVersion": told.api_version,
        "kind": "ExecCredential",
        "spec": {
            "interactive": is_interactive,
            **({"cluster": _described(cluster)} if told.provides_cluster_info else {}),
        },
    }
    command = _command(told.command, kubeconfig)
    where = f"{kubeconfig}: {command}"
    variables = {"KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        # A group of its own: what the program has started ends with it. But who asks at the
        # terminal has to be in ours.
        program = subprocess.Popen(
            [command, *told.arguments],
            env={**environment, **told.variables, **variables},
            stdin=None if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            process_group=None if is_interactive else 0,
        )
    except (OSError, ValueError) as error:
        # ValueError: what no program can be given, as a NUL.
        problem = error.strerror if isinstance(error, OSError) else None
        raise SettingsError(
            f"{kubeconfig}: cannot run {command}: {problem or error}"
            + (f"\n{told.hint}" if told.hint else "")
        ) from error
    if timeout_s is None:
        timeout_s = SIGN_IN_TIMEOUT_S if is_interactive else TIMEOUT_S
    with program:
        try:
            text = _output(program, timeout_s)
        except _UnusableError as error:
            raise SettingsError(f"{where} {error}") from None
        finally:
            _end(program, with_group=not is_interactive)
    if program.returncode:
        raise SettingsError(f"{where} failed with exit code {program.returncode}")
    return _read(text, told.api_version, where)


@dataclass(frozen=True, slots=True)
class _Spec:
    command: str
    api_version: str
    arguments: Sequence[str]
    variables: Mapping[str, str]
    hint: str
    is_interactive: bool
    provides_cluster_info: bool


def _read_spec(spec: Any, kubeconfig: Path) -> _Spec:
    """
    Raises:
        SettingsError: a part of it is no text, or none that a program could be given.
    """
    if not isinstance(spec, dict) or not isinstance(spec.get("command"), str):
        raise SettingsError(f"{kubeconfig}: exec names no command")
    if spec.get("apiVersion") not in _API_VERSIONS:
        raise SettingsError(f"{kubeconfig}: exec.apiVersion must be one of {_API_VERSIONS}")

    def texts(value: Any, name: str) -> list[str]:
        items = [] if value is None else value
        if not isinstance(items, list) or not all(map(_is_text, items)):
            raise SettingsError(f"{kubeconfig}: exec.{name} must be a list of texts")
        return items

    def flag(name: str) -> bool:
        value = spec.get(name)
        if value is not None and not isinstance(value, bool):
            raise SettingsError(f"{kubeconfig}: exec.{name} must be true or false")
        return value is True

    if not _is_text(spec["command"]) or not spec["command"]:
        raise SettingsError(f"{kubeconfig}: exec.command is no name of a program")
    hint = spec.get("installHint")
    return _Spec(
        spec["command"],
        spec["apiVersion"],
        texts(spec.get("args"), "args"),
        _variables(spec.get("env"), kubeconfig),
        hint if isinstance(hint, str) else "",
        spec.get("interactiveMode") != "Never",
        flag("provideClusterInfo"),
    )


def _variables(env: Any, kubeconfig: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    # One that is no list has nothing that is a name and a value either.
    for each in [] if env is None else env if isinstance(env, list) else [None]:
        name = each.get("name") if isinstance(each, dict) else None
        value = each.get("value", "") if isinstance(each, dict) else None
        value = "" if value is None else value
        if not _is_text(name) or not _is_text(value) or not name or "=" in name:
            raise SettingsError(f"{kubeconfig}: exec.env must be a list of names and values, texts")
        found[name] = value
    return found


def _is_text(value: Any) -> bool:
    """Whether it is a text that a program can be given."""
    return isinstance(value, str) and "\0" not in value


class _UnusableError(Exception):
    """Why a program is not waited for any longer."""


def _output(program: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    """
    What *program* writes until it ends.

    Raises:
        _UnusableError: it doesn't end, or writes too much.
    """
    assert program.stdout is not None
    ends_at = time.monotonic() + timeout_s
    late = _UnusableError(f"has not ended within {timeout_s:g} s")

    def left_s() -> float:
        return max(0.0, ends_at - time.monotonic())

    parts: list[bytes] = []
    size_bytes = 0
    with selectors.DefaultSelector() as selector:
        selector.register(program.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(left_s()):
                raise late
            part = os.read(program.stdout.fileno(), _CHUNK_BYTES)
            if not part:
                break
            parts.append(part)
            size_bytes += len(part)
            if size_bytes > MAX_OUTPUT_BYTES:
                raise _UnusableError(f"wrote more than {MAX_OUTPUT_BYTES} bytes")
    try:
        # It may have closed its output, and go on.
        program.wait(left_s())
    except subprocess.TimeoutExpired:
        raise late from None
    return b"".join(parts)


def _end(program: subprocess.Popen[bytes], *, with_group: bool) -> None:
    """End *program* unless it has ended; *with_group*, what it has started as well."""
    if program.poll() is not None:
        return
    if with_group:
        os.killpg(program.pid, signal.SIGKILL)
    else:
        program.kill()


def _command(command: str, kubeconfig: Path) -> str:
    """With a slash in it, it is relative to where the kubeconfig lies; else it is looked up."""
    return str(kubeconfig.parent.absolute() / command) if os.sep in command else command


def _described(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The *cluster* of a kubeconfig in the words of an ExecCredential."""
    names = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    return {name: cluster[name] for name in (*names, _AUTHORITY) if name in cluster}


def _read(text: bytes, api_version: str, where: str) -> dict[str, str]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or told.get("kind") != "ExecCredential":
        raise SettingsError(f"{where} gave no ExecCredential")
    if told.get("apiVersion") != api_version:
        raise SettingsError(f"{where} gave no ExecCredential of {api_version}")
    status = told.get("status")
    status = status if isinstance(status, dict) else {}
    found: dict[str, str] = {}
    if isinstance(status.get("token"), str):
        found["token"] = status["token"]
    for theirs, ours in (("clientCertificateData", "certificate"), ("clientKeyData", "key")):
        if isinstance(status.get(theirs), str):
            # Half a surrogate pair is no PEM, which whoever reads it will say.
            packed = base64.b64encode(status[theirs].encode(errors="replace"))
            found[f"client-{ours}-data"] = packed.decode("ascii")
    if not found:
        raise SettingsError(f"{where} gave neither a token nor a certificate")
    return found
