"""The commands of `gatewright gpu` that speak to a cluster: what they are told by their flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from webhook.cli import main
from webhook.cli.gpu_cluster import WorkloadName, parse_workload
from webhook.errors import SettingsError
from webhook.model.manifests import dump_yaml


def test_a_workload_is_named_with_its_namespace_and_perhaps_its_kind() -> None:
    assert parse_workload("team-a/llm") == WorkloadName("team-a", "", "llm")
    assert parse_workload("team-a/Deployment/llm") == WorkloadName("team-a", "Deployment", "llm")


@pytest.mark.parametrize("text", ["llm", "", "/llm", "team-a/", "a/b/c/d"])
def test_another_text_names_none(text: str) -> None:
    with pytest.raises(SettingsError, match="is not NAMESPACE/WORKLOAD"):
        parse_workload(text)


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        (["--duration=soon"], "--duration: 'soon' is no duration"),
        (["--duration=0s"], "--duration must be more than 0, and 31 days at most"),
        (["--duration=800h"], "--duration must be more than 0, and 31 days at most"),
        (["--step=-1m"], "--step must be more than 0"),
        (["--from=yesterday"], "--from: must be a time such as"),
        (["--from=2026-01-01T00:00:00"], "must be a time such as"),
        (["--prometheus-token-file=t"], "goes with --prometheus-url"),
        (["--policies=/nowhere/x.yaml"], "/nowhere/x.yaml"),
    ],
)
def test_what_can_not_be_recorded_is_said(
    flags: list[str], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gpu", "record", "team-a/llm", *flags]) == 2

    assert want in capsys.readouterr().err


@pytest.mark.parametrize("command", ["explain", "record"])
def test_a_cluster_that_is_not_there_is_a_clear_error(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["gpu", command, "team-a/llm", f"--kubeconfig={tmp_path}/none"]) == 2

    assert capsys.readouterr().err.startswith("gatewright: ")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["gpu", "explain", "team-a/llm"], id="explain"),
        pytest.param(["gpu", "record", "team-a/llm"], id="record"),
        pytest.param(["selftest", "--timeout=0"], id="selftest"),
    ],
)
def test_a_context_is_reached_with_its_credential_plugin(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As `review` does: what kubectl can use, these can."""
    mark = tmp_path / "was-run"
    answer = '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{}}'
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", f"touch {mark}; echo '{answer}'"],
        "interactiveMode": "Never",
    }
    config = {
        "current-context": "elsewhere",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    (tmp_path / "config").write_text(dump_yaml([config]))

    code = main([*command, f"--kubeconfig={tmp_path}/config", "--context=here"])

    assert code == 2
    assert mark.exists()
    assert "token" in capsys.readouterr().err
