from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from webhook.cli import main
from webhook.cli.certificates import own_hosts
from webhook.settings import OPTIONS, Address


@pytest.fixture(autouse=True)
def unchanged_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings from whoever runs this, and his logging as it was."""
    for option in OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)
    root = logging.getLogger()
    kept = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:], root.level, logging.raiseExceptions = kept


def serve(*arguments: str) -> int:
    return main(["serve", "--ops-listen=127.0.0.1:0", "--listen=127.0.0.1:0", *arguments])


def test_a_directory_that_is_not_there_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none"

    assert serve(f"--policies={missing}", f"--cert-dir={tmp_path}") == 2

    assert capsys.readouterr().err == (
        f"gatewright: policies: can't read {missing}: No such file or directory\n"
    )


@pytest.mark.parametrize("flag", ["--listen", "--ops-listen"])
def test_a_port_in_use_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code = serve(f"--policies={tmp_path}", f"--cert-dir={tmp_path}", f"{flag}={address}")

    assert code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"gatewright: cannot listen on {address}: address already in use"
    )


def test_an_address_of_another_machine_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # TEST-NET-1 (RFC 5737): nobody has it.
    code = serve(f"--policies={tmp_path}", f"--cert-dir={tmp_path}", "--ops-listen=192.0.2.1:0")

    assert code == 2
    said = capsys.readouterr().err
    assert "cannot listen on 192.0.2.1:0: " in said
    assert "192.0.2.1', 0" not in said


def test_a_host_that_no_certificate_can_carry_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve("--policies=.", f"--cert-dir={tmp_path}", "--listen=ö.example:1") == 2

    assert "cannot make a certificate in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param([], "--policies DIR", id="no-policies"),
        pytest.param(["--listen=nowhere"], "--listen: must be HOST:PORT", id="listen"),
        pytest.param(["--policies=.", "--tls-cert=a"], "go together", id="half-a-pair"),
        pytest.param(
            ["--policies=.", "--tls-cert=/none.crt", "--tls-key=/none.key"],
            "no usable certificate in /none.crt, /none.key: no such file",
            id="no-certificate",
        ),
        pytest.param(
            ["--policies=.", "--cert-dir=/proc/none"], "cannot make a certificate in", id="cert-dir"
        ),
    ],
)
def test_unusable_settings_are_a_clear_error(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(*arguments) == 2

    said = capsys.readouterr().err
    assert problem in said
    assert "Traceback" not in said
    assert said.startswith("gatewright: ")


@pytest.mark.parametrize(
    ("host", "want"),
    [
        ("", ()),
        ("0.0.0.0", ()),
        ("::", ()),
        ("10.0.0.5", ("10.0.0.5",)),
        ("gate.example", ("gate.example",)),
    ],
)
def test_the_certificate_is_also_for_the_host_that_is_listened_on(
    host: str, want: tuple[str, ...]
) -> None:
    assert own_hosts(Address(host, 8443)) == want
