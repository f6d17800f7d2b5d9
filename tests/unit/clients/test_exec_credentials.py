"""Programs that give out credentials, as kubeconfigs of managed clusters name them."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.wait import wait_until
from webhook.clients.exec_credentials import fetch_credential
from webhook.clients.kubeconfig import load_access
from webhook.errors import SettingsError

V1 = "client.authentication.k8s.io/v1"
CLUSTER = {"server": "https://api.example", "certificate-authority-data": "Y2E="}


class Program:
    """A program that keeps what it was asked, and answers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._asked = directory / "asked.json"

    def answers(self, answer: Any, code: int = 0) -> dict[str, Any]:
        """The `exec` of a user that names it."""
        text = answer if isinstance(answer, str) else json.dumps(answer)
        file = self.directory / "login"
        file.write_text(
            f"#!{sys.executable}\nimport json, os, sys\n"
            f"json.dump([sys.argv[1:], dict(os.environ)], open({str(self._asked)!r}, 'w'))\n"
            f"print({text!r})\nsys.exit({code})\n"
        )
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return {"apiVersion": V1, "command": "./login", "interactiveMode": "Never"}

    @property
    def arguments(self) -> list[str]:
        return list(json.loads(self._asked.read_text())[0])

    @property
    def environment(self) -> dict[str, str]:
        return dict(json.loads(self._asked.read_text())[1])

    def fetch(self, spec: Any) -> dict[str, str]:
        return fetch_credential(spec, self.directory / "config", CLUSTER, os.environ)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def credential(api_version: str = V1, **status: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "ExecCredential", "status": status}


def test_a_token_is_given_out_to_who_asks_as_kubectl_does(program: Program) -> None:
    spec = program.answers(credential(token="secret"))
    spec |= {"args": ["get", "token"], "env": [{"name": "PROFILE", "value": "dev"}]}

    assert program.fetch(spec) == {"token": "secret"}
    assert program.arguments == ["get", "token"]
    assert program.environment["PROFILE"] == "dev"
    assert json.loads(program.environment["KUBERNETES_EXEC_INFO"]) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


def test_a_program_that_wants_to_is_told_about_the_cluster(program: Program) -> None:
    program.fetch({**program.answers(credential(token="t")), "provideClusterInfo": True})

    asked = json.loads(program.environment["KUBERNETES_EXEC_INFO"])
    assert asked["spec"]["cluster"] == CLUSTER


def test_a_certificate_is_given_in_the_words_of_a_kubeconfig(program: Program) -> None:
    spec = program.answers(credential(clientCertificateData="CERT", clientKeyData="KEY"))

    assert program.fetch(spec) == {
        "client-certificate-data": base64.b64encode(b"CERT").decode(),
        "client-key-data": base64.b64encode(b"KEY").decode(),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        pytest.param("hunter2", 0, "gave no ExecCredential", id="nonsense"),
        pytest.param(credential(token="hunter2"), 3, "failed with exit code 3", id="it-failed"),
        pytest.param(
            credential("client.authentication.k8s.io/v1beta1", token="hunter2"),
            0,
            "no ExecCredential of client.authentication.k8s.io/v1",
            id="another-version",
        ),
        pytest.param(credential(), 0, "neither a token nor a certificate", id="empty"),
        pytest.param({**credential(), "status": "hunter2"}, 0, "neither a token", id="no-status"),
    ],
)
def test_an_answer_of_no_use_is_told_and_never_shown(
    program: Program, answer: Any, code: int, message: str
) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        program.fetch(program.answers(answer, code))

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({}, "names no command", id="no-command"),
        pytest.param("login", "names no command", id="no-object"),
        pytest.param({"command": "./login", "apiVersion": "v1"}, "must be one of", id="version"),
        pytest.param(
            {"command": "./none", "apiVersion": V1, "installHint": "get it from us"},
            "cannot run .*none: No such file or directory\nget it from us",
            id="not-there",
        ),
        pytest.param({"command": "a\0b", "apiVersion": V1}, "no name of a program", id="nul"),
        pytest.param({"command": "", "apiVersion": V1}, "no name of a program", id="empty"),
        pytest.param({"command": "./\ud800", "apiVersion": V1}, "cannot run", id="half-a-pair"),
        pytest.param({"command": "x", "apiVersion": ["v1"]}, "must be one of", id="version-list"),
        *[
            pytest.param({"command": "x", "apiVersion": V1, **wrong}, message, id=name)
            for name, wrong, message in (
                ("args-number", {"args": 5}, "args must be a list of texts"),
                ("args-text", {"args": "get token"}, "args must be a list of texts"),
                ("args-of-numbers", {"args": [5]}, "args must be a list of texts"),
                ("args-nul", {"args": ["a\0"]}, "args must be a list of texts"),
                ("env-number", {"env": 5}, "env must be a list"),
                ("env-map", {"env": {"name": "A", "value": "x"}}, "env must be a list"),
                ("env-texts", {"env": ["A=B"]}, "env must be a list"),
                ("env-name", {"env": [{"name": "A=B", "value": "x"}]}, "env must be a list"),
                ("env-no-name", {"env": [{"value": "x"}]}, "env must be a list"),
                ("env-empty-name", {"env": [{"name": ""}]}, "env must be a list"),
                ("env-nul", {"env": [{"name": "A", "value": "\0"}]}, "env must be a list"),
                ("env-value", {"env": [{"name": "A", "value": 5}]}, "env must be a list"),
                ("info", {"provideClusterInfo": "yes"}, "must be true or false"),
            )
        ],
    ],
)
def test_a_program_that_can_not_be_run_is_told(program: Program, spec: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        program.fetch(spec)


def test_a_line_break_after_a_token_is_none_of_it(program: Program) -> None:
    spec = program.answers(credential(token="secret\n"))

    assert load_access(kubeconfig(program, spec), may_run=True).token == "secret"


@pytest.mark.slow
@pytest.mark.parametrize("token", ["hunter2\nx", "hunter2 x", "hunter2\u20ac", "hunter2\ud800"])
def test_a_token_that_no_header_can_carry_is_told_and_never_shown(
    program: Program, token: str
) -> None:
    config = kubeconfig(program, program.answers(credential(token=token)))

    with pytest.raises(SettingsError, match="token is none") as caught:
        load_access(config, may_run=True)
    assert "hunter2" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("sleep 600", "has not ended within 0.3 s", id="hangs"),
        pytest.param("exec >&-; sleep 600", "has not ended within 0.3 s", id="says-nothing-more"),
        pytest.param("cat /dev/zero", "wrote more than 1048576 bytes", id="writes-without-end"),
    ],
)
def test_a_program_that_does_not_end_is_ended_with_what_it_has_started(
    tmp_path: Path, script: str, message: str
) -> None:
    note = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {note}; {script}"
    spec = {"apiVersion": V1, "command": "sh", "args": ["-c", script], "interactiveMode": "Never"}
    timeout_s = 0.3 if "ended" in message else 30.0

    with pytest.raises(SettingsError, match=message):
        fetch_credential(spec, tmp_path / "config", CLUSTER, os.environ, timeout_s=timeout_s)

    wait_until(lambda: not is_running(int(note.read_text())), 5.0, "its child to end")


def is_running(pid: int) -> bool:
    """One that has ended, and that nobody has asked for yet, does not run."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def kubeconfig(program: Program, spec: Any) -> Path:
    """One whose only user is given credentials by *spec*."""
    config = program.directory / "config"
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://api.example"}}],
        "users": [{"name": "x", "user": {"exec": spec}}],
    }
    config.write_text(yaml.safe_dump(content))
    return config


def test_a_kubeconfig_names_the_program_and_only_some_commands_run_it(program: Program) -> None:
    config = kubeconfig(program, program.answers(credential(token="secret")))

    assert load_access(config, may_run=True).token == "secret"
    with pytest.raises(SettingsError, match="exec is not supported"):
        load_access(config)
