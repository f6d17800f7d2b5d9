from __future__ import annotations

import base64
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from webhook.cli import main
from webhook.model.manifests import dump_yaml
from webhook.tls.directory import authority_life, make_certificates, read_directory
from webhook.tls.held import read_certificates
from webhook.tls.issue import certificate_hosts, make_ca, make_leaf
from webhook.tls.rotation import Lifetimes

# The command, ended the moment before it puts one of its files into place.
_KILLED = """
import os, signal, sys

def watch(event, arguments):
    if event == "os.rename" and str(arguments[1]).endswith(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
from webhook.cli import main
main(sys.argv[2:])
"""


def certs(*arguments: str | Path) -> int:
    return main(["certs", *map(str, arguments)])


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "made"
    assert certs("make", "--dir", directory, "--host", "gate.example", "--days", "30") == 0
    return directory


def test_make_makes_what_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "made"
    assert certs("make", "--dir", directory, "--host", "gate.example", "--days", "30") == 0

    leaf, ca = load(directory / "tls.crt"), load(directory / "ca.crt")

    leaf.verify_directly_issued_by(ca)
    assert certificate_hosts(leaf) == ("gate.example",)
    left = leaf.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < left < timedelta(days=30)
    assert (directory / "tls.key").stat().st_mode & 0o077 == 0
    assert str(directory / "ca.crt") in capsys.readouterr().out


def test_make_without_a_host_is_for_this_machine(tmp_path: Path) -> None:
    assert certs("make", "--dir", tmp_path) == 0

    assert certificate_hosts(load(tmp_path / "tls.crt")) == ("localhost", "127.0.0.1", "::1")


def test_make_keeps_what_is_good(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_directory(directory)

    assert certs("make", "--dir", directory, "--host", "gate.example") == 0

    assert read_directory(directory) == before
    assert "kept as it is" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("file", ["ca.key", "ca.crt", "tls.key", "tls.crt"])
def test_make_goes_on_where_it_was_ended_in_the_middle(tmp_path: Path, file: str) -> None:
    """Nobody has to know what may be deleted."""
    command = [sys.executable, "-c", _KILLED, file, "certs", "make", "--dir", str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / file).exists()

    assert certs("make", "--dir", tmp_path) == 0
    assert certs("inspect", "--dir", tmp_path) == 0


def test_rotate_replaces_the_certificate(directory: Path) -> None:
    before, ca = load(directory / "tls.crt"), load(directory / "ca.crt")

    assert certs("rotate", "--dir", directory) == 0

    after = load(directory / "tls.crt")
    assert after.serial_number != before.serial_number
    after.verify_directly_issued_by(ca)


def test_rotate_says_what_to_do_with_a_new_authority(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert certs("rotate", "--dir", directory, "--authority") == 0

    assert f"give callers {directory / 'ca.crt'}, then rotate once more" in capsys.readouterr().out
    assert len(read_certificates((directory / "ca.crt").read_bytes())) == 2
    assert certs("inspect", "--dir", directory) == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["rotate", "--dir", "/none"], "/none is no directory", id="rotate"),
        pytest.param(["inspect", "--dir", "/none"], "/none is no directory", id="inspect"),
        pytest.param(["inspect", "/none.pem"], "/none.pem: No such file", id="inspect-file"),
        pytest.param(["inspect", __file__], "neither certificates in PEM", id="no-certificate"),
        pytest.param(["inspect", "--dir", "/proc/self/fd"], "holds no certificates", id="empty"),
        pytest.param(["make", "--dir", "/proc/none"], "/proc/none: No such file", id="make"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_line(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert certs(*arguments) == 2

    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("days", ["0", "3651", "1.5", "x"])
def test_days_are_whole_numbers(
    tmp_path: Path, days: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        certs("make", "--dir", tmp_path, "--days", days)

    assert ended.value.code == 2
    assert "must be a whole number from 1 to 3650" in capsys.readouterr().err


def test_a_set_that_was_made_for_other_hosts_or_days_says_what_is_kept(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert certs("make", "--dir", directory, "--host", "gate.example", "--days", "7") == 0
    assert "note: the certificate lives for 30 days" in capsys.readouterr().out

    assert certs("make", "--dir", directory, "--host", "new.example", "--days", "7") == 0
    said = capsys.readouterr().out
    assert "note: the certificate is for gate.example as well" in said
    assert "lives for" not in said


def test_a_set_that_is_as_it_was_asked_for_needs_no_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert certs("make", "--dir", tmp_path, "--host", "A.example", "--days", "7") == 0

    assert "note:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "host", ["ö.example", "bad host", "", "-a.example", "a..example", "10.0.0.256", "a.*.example"]
)
def test_a_host_that_is_no_name_is_refused(
    tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert certs("make", "--dir", tmp_path, f"--host={host}") == 2

    assert "no certificate can be made" in capsys.readouterr().err
    assert read_directory(tmp_path) == {}


def test_inspect_shows_all_but_the_keys(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert certs("inspect", "--dir", directory) == 0

    said = capsys.readouterr().out
    leaf = load(directory / "tls.crt")
    for part in (
        "gate.example",
        f"{leaf.serial_number:x}",
        leaf.issuer.rfc4514_string(),
        f"{leaf.not_valid_before_utc:%F %T}Z",
        f"{leaf.not_valid_after_utc:%F %T}Z",
        "(in 19 d)",
        "tls.key fits tls.crt",
        "tls.crt is signed by ca.crt",
    ):
        assert part in said
    for name in ("ca.key", "tls.key"):
        key = (directory / name).read_text()
        assert [line for line in key.splitlines() if line in said] == []


def test_inspect_takes_a_directory_with_or_without_a_flag(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    codes, said = [], []
    for arguments in (["--dir", directory], [directory]):
        codes.append(certs("inspect", *arguments))
        said.append(capsys.readouterr().out)

    assert codes == [0, 0]
    assert said[0] == said[1]


def secret_of(directory: Path) -> bytes:
    data = {
        name: base64.b64encode(text).decode() for name, text in read_directory(directory).items()
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certs"}, "data": data}
    return dump_yaml([secret]).encode()


@pytest.mark.slow
def test_inspect_reads_a_secret_from_standard_input(directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "webhook", "certs", "inspect", "-"],
        input=secret_of(directory),
        capture_output=True,
        check=True,
    )

    assert b"tls.crt is signed by ca.crt" in done.stdout


def test_inspect_reads_a_secret_from_a_file(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "tls.key").unlink()
    (directory / "secret.yaml").write_bytes(secret_of(directory))

    # Without the key there is no pair to look at, and the rest is in order.
    assert certs("inspect", directory / "secret.yaml") == 0
    assert "tls.key fits" not in capsys.readouterr().out


def test_inspect_reads_a_chain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ca = make_ca()
    leaf = make_leaf(ca, ["chained.example"])
    path = tmp_path / "chain.pem"
    path.write_bytes(leaf.certificate_pem + ca.certificate_pem + leaf.key_pem)

    assert certs("inspect", path) == 0

    said = capsys.readouterr().out
    assert said.count("chain.pem:") == 2
    assert "PRIVATE" not in said


OTHER = make_leaf(make_ca(), ["gate.example"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param("tls.key", OTHER.key_pem, "tls.key does not fit tls.crt", id="other-key"),
        pytest.param("tls.key", b"x", "tls.key holds no private key in PEM format", id="no-key"),
        pytest.param("ca.crt", OTHER.certificate_pem, "that is no authority's", id="no-authority"),
        pytest.param(
            "ca.crt",
            make_ca().certificate_pem,
            "tls.crt is signed by no authority in ca.crt",
            id="other-authority",
        ),
        pytest.param("tls.crt", b"x", "tls.crt holds no certificate in PEM format", id="garbage"),
    ],
)
def test_inspect_says_what_does_not_fit(
    directory: Path, name: str, content: bytes, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / name).write_bytes(content)

    assert certs("inspect", "--dir", directory) == 1

    assert problem in capsys.readouterr().out


@pytest.mark.parametrize(
    ("age", "problems"),
    [
        pytest.param(timedelta(days=19), [], id="young"),
        pytest.param(timedelta(days=25), ["tls.crt is due to be renewed since"], id="due"),
        pytest.param(timedelta(days=70), ["ca.crt ended on", "tls.crt ended on"], id="ended"),
        pytest.param(
            -timedelta(hours=3), ["ca.crt begins on", "tls.crt begins on"], id="from-the-future"
        ),
    ],
)
def test_inspect_says_what_is_due_or_over(
    tmp_path: Path, age: timedelta, problems: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lifetimes = Lifetimes(timedelta(days=30), authority_life(timedelta(days=30)))
    make_certificates(tmp_path, ["gate.example"], lifetimes, now=datetime.now(UTC) - age)

    code = certs("inspect", "--dir", tmp_path)

    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("problem: ")]
    assert code == (1 if problems else 0)
    assert len(said) == len(problems)
    assert all(part in line for part, line in zip(problems, said, strict=True))
