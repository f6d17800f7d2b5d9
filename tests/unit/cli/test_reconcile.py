"""`gatewright reconcile`: what is wrong with its settings is said before it begins."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from webhook.cli import main
from webhook.settings import RECONCILE_OPTIONS

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {token: x}}]
"""


@pytest.fixture(autouse=True)
def unchanged_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings from whoever runs this, and his logging as it was."""
    for option in RECONCILE_OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)
    root = logging.getLogger()
    kept = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:], root.level, logging.raiseExceptions = kept


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    return path


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


def test_a_url_that_is_none_of_a_prometheus_is_a_clear_error(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--prometheus-url=prometheus:9090", f"--kubeconfig={kubeconfig}")

    assert main(["reconcile", "--ops-listen=127.0.0.1:0", *flags]) == 2

    assert complaint(capsys) == (
        "gatewright: --prometheus-url: the URL of Prometheus is not http[s]://HOST[:PORT][/PATH]"
    )


def test_a_kubeconfig_that_is_not_there_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reconcile", "--ops-listen=127.0.0.1:0", f"--kubeconfig={tmp_path}/none"]) == 2

    assert complaint(capsys).startswith("gatewright: ")


def test_a_port_in_use_is_a_clear_error(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code = main(["reconcile", f"--ops-listen={address}", f"--kubeconfig={kubeconfig}"])

    assert code == 2
    assert complaint(capsys) == f"gatewright: cannot listen on {address}: address already in use"
