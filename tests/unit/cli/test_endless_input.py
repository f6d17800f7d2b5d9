"""What is read without knowing its length: a command ends all the same, and says what was wrong."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from webhook.cli import main
from webhook.model.manifests import dump_yaml

ENDLESS = "/dev/zero"


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param(["review", "-"], "stdin: is larger than 16 MiB", id="review-stdin"),
        pytest.param(["review", ENDLESS], "/dev/zero: is larger than 16 MiB", id="review-file"),
        pytest.param(["certs", "inspect", "-"], "-: File too large", id="certs-stdin"),
        pytest.param(["certs", "inspect", ENDLESS], "/dev/zero: File too large", id="certs-file"),
    ],
)
def test_an_input_without_end_is_unusable(
    command: list[str],
    want: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Path(ENDLESS).open("rb") as endless:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(endless))
        code = main(command)

    assert code == 2
    assert want in capsys.readouterr().err


def test_a_file_without_end_in_a_kubeconfig_is_unusable(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": ENDLESS}
    config = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    (tmp_path / "config").write_text(dump_yaml([config]))

    assert main(["gpu", "explain", "team-a/llm", f"--kubeconfig={tmp_path}/config"]) == 2

    assert f"cannot read {ENDLESS}: File too large" in capsys.readouterr().err


def test_a_directory_of_certificates_without_end_is_unusable(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "tls.crt").symlink_to(ENDLESS)

    assert main(["certs", "inspect", "--dir", str(tmp_path)]) == 2

    assert f"{tmp_path}/tls.crt: File too large" in capsys.readouterr().err
